package partition

import (
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// Pacing of a primary. Retries are driven by tick.
const (
	resendAfter   = 150 * time.Millisecond // without an answer, a message is sent again
	dropAfter     = 2500 * time.Millisecond
	proposeAgain  = time.Second
	drainFor      = 2 * time.Second
	maxWaiters    = 1 << 16
	forgetEvery   = time.Second
	sendBatch     = 256     // effects in one message ...
	sendBytes     = 1 << 20 // ... and their bytes, at least one effect
	requireWithin = 256     // a joiner this close behind is waited for from then on
)

// execute runs an operation, if this member is the serving primary; done is called once, when the answer may leave.
func (r *replica) execute(c call, now time.Time, done func([]byte, error)) {
	r.do(func() { r.run(c, now, done) })
}

func (r *replica) run(c call, now time.Time, done func([]byte, error)) {
	if err := r.mayServe(c.req); err != nil {
		r.answer(done, nil, err)
		return
	}
	if c.req.Client != "" {
		if k, err := r.calls.find(c.req); k != nil || err != nil {
			r.repeat(k, err, done)
			return
		}
	}
	v := MakeVersion(r.row.Epoch, r.seq()+1)
	out := r.store.Execute(c.op, v, now)
	if out.Wait != "" {
		r.park(out.Wait, c, now, done)
		return
	}
	if e, ok := c.effect(out, v); ok {
		r.replicate(e, now)
		r.waiters = append(r.waiters, waiter{e.Seq, true, out.Reply, out.Err, done})
		r.advance()
		return
	}
	if out.Sees > r.committed {
		r.waiters = append(r.waiters, waiter{min(out.Sees, r.seq()), false, out.Reply, out.Err, done})
		return
	}
	// The lease is asked after the read: at that moment no other primary can have answered anything newer.
	if !r.env.leased() {
		r.answer(done, nil, grid.ErrNoLease)
		return
	}
	r.answer(done, out.Reply, out.Err)
}

// effect is what an operation makes: what it does to the data, and what it returned. A call that is sent again leaves its outcome even if it
// did nothing: the first sending may arrive yet, and must find that the call is over.
func (c call) effect(out Outcome, v Version) (Effect, bool) {
	e := Effect{Seq: v.Seq(), Epoch: v.Epoch()}
	if out.Err == nil {
		e.Data = out.Effect
	}
	if c.req.Client == "" {
		return e, e.Data != nil
	}
	if e.Data == nil && (!c.req.Again || out.Err != nil && grid.KindOf(out.Err) != grid.Definite) {
		return e, false
	}
	e.Outcome = &outcome{Client: c.req.Client, Seq: c.req.Seq, Low: c.req.Low, Reply: out.Reply}
	if out.Err != nil {
		e.Outcome.Reply, e.Outcome.Failed = nil, wire.AppendError(nil, out.Err)
	}
	return e, true
}

// repeat answers a call that has been made before as it was answered then, once that is committed.
func (r *replica) repeat(k *kept, err error, done func([]byte, error)) {
	if err != nil {
		r.answer(done, nil, err)
		return
	}
	reply, err := k.result()
	r.waiters = append(r.waiters, waiter{k.at, true, reply, err, done})
	r.advance()
}

func (r *replica) mayServe(q Request) error {
	switch {
	case r.row.Lost:
		return grid.ErrPartitionLost
	case r.row.Primary() != r.self:
		return grid.ErrNotPrimary
	case r.phase != serving || !r.isPrimary() || r.drain != nil:
		return grid.ErrNotReady
	case !r.env.leased():
		return grid.ErrNoLease
	case len(r.waiters) >= maxWaiters:
		return grid.ErrOverloaded
	case q.Client != "" && !r.env.isMember(q.Client):
		return grid.ErrNotJoined // what it called before may be forgotten
	}
	return nil
}

// replicate applies a new effect here and sends it to all who are to have it.
func (r *replica) replicate(e Effect, now time.Time) {
	_, prev := r.log.last()
	woken, err := r.apply(e, r.pin(), now)
	if err != nil {
		panic("partition: an effect that this member made does not apply: " + err.Error())
	}
	r.woken = append(r.woken, woken...)
	var body []byte
	for m, p := range r.peers {
		if p.copy != nil || p.acked+1 < e.Seq && p.joining && !p.required {
			continue // it gets this effect behind its copy
		}
		if body == nil {
			body = encode(effectsMsg{Partition: r.id, Epoch: r.row.Epoch, Prev: prev, Effects: []Effect{e}})
		}
		r.env.send(m, wire.Effects, body)
		p.sent(now)
	}
}

// pin is the newest effect that the log may forget: copies under way need all that follow them.
func (r *replica) pin() uint64 {
	pin := r.seq() + 1
	for _, p := range r.peers {
		if p.copy != nil {
			pin = min(pin, p.copy.seq)
		}
	}
	return pin
}

// sent notes that the peer owes an answer.
func (p *peer) sent(now time.Time) {
	p.sentAt = now
	if p.silent.IsZero() {
		p.silent = now
	}
}

// advance raises the commit index to what all required replicas hold, and answers whoever waited for that.
func (r *replica) advance() {
	if r.phase != serving || !r.isPrimary() {
		return
	}
	c := r.seq()
	for m, p := range r.peers {
		if (r.row.InSync(m) || p.required) && p.acked < c {
			c = p.acked
		}
	}
	if c > r.committed {
		r.committed = c
		r.tell()
	}
	n := 0
	for n < len(r.waiters) && r.waiters[n].seq <= r.committed {
		n++
	}
	// Without a lease the answers stay: it comes back, or another takes over and they end as unknown.
	if n > 0 && r.env.leased() {
		for _, w := range r.waiters[:n] {
			r.answer(w.done, w.reply, w.err)
		}
		r.waiters = append(r.waiters[:0], r.waiters[n:]...)
	}
	r.drainStep()
}

// tell lets the store know what is committed.
func (r *replica) tell() {
	if w, ok := r.store.(Watcher); ok {
		w.Committed(r.committed, r.born, r.reign)
	}
}

// ack takes a backup's acknowledgement. Only those of this reign's epochs count.
func (r *replica) ack(from grid.MemberID, msg ackMsg, now time.Time) {
	r.do(func() {
		if !r.isPrimary() || msg.Epoch < r.reign || msg.Seq > r.seq() {
			return
		}
		p := r.peers[from]
		if p == nil || p.copy != nil {
			return
		}
		if r.phase == takeover {
			if p.sealed && msg.Epoch == r.row.Epoch {
				p.holdsSeq, p.holds = msg.Seq, msg.Last
				p.sentAt = time.Time{}
				r.takeoverStep(now)
			}
			return
		}
		if msg.Missing {
			r.missing(from, p, msg, now)
			return
		}
		if msg.Seq > p.acked {
			p.acked, p.silent = msg.Seq, now
		}
		if p.acked >= r.seq() {
			p.silent = time.Time{}
		}
		r.joinStep(from, p, now)
		r.advance()
	})
}

// missing serves a backup that met a gap.
func (r *replica) missing(m grid.MemberID, p *peer, msg ackMsg, now time.Time) {
	if msg.Seq < p.acked {
		return // it has acknowledged more since
	}
	if tail, ok := r.log.after(msg.Seq, msg.Last); ok {
		r.sendEffects(m, msg.Last, tail)
		p.sent(now)
		return
	}
	r.startCopy(m, p, now)
}

// sendEffects sends a run of effects in messages of bounded size. prev is the epoch of the effect before the first.
func (r *replica) sendEffects(m grid.MemberID, prev grid.Epoch, list []Effect) {
	for sent := 0; len(list) > 0 && sent < 4; sent++ { // the rest follows when these are acknowledged
		n, bytes := 0, 0
		for n < len(list) && n < sendBatch && (n == 0 || bytes+list[n].size() <= sendBytes) {
			bytes += list[n].size()
			n++
		}
		r.env.send(m, wire.Effects, encode(effectsMsg{Partition: r.id, Epoch: r.row.Epoch, Prev: prev, Effects: list[:n]}))
		prev = list[n-1].Epoch
		list = list[n:]
	}
}

// resend sends every peer what it has not acknowledged, under the present epoch.
func (r *replica) resend(now time.Time) {
	for m, p := range r.peers {
		if p.copy != nil {
			r.pushCopy(m, p, now)
			continue
		}
		if p.joining && !p.required || p.acked >= r.seq() || now.Sub(p.sentAt) < resendAfter {
			continue
		}
		r.sendTail(m, p, now)
	}
}

// sendTail sends what follows the peer's last acknowledged effect.
func (r *replica) sendTail(m grid.MemberID, p *peer, now time.Time) {
	if p.acked < r.log.base {
		r.startCopy(m, p, now)
		return
	}
	prev := r.log.baseEpoch
	tail := r.log.list
	if p.acked > r.log.base {
		i := p.acked - r.log.base
		prev, tail = r.log.list[i-1].Epoch, r.log.list[i:]
	}
	r.sendEffects(m, prev, tail)
	p.sent(now)
}

// tick is called often; it repeats what was not answered and gives up on who stays silent.
func (r *replica) tick(now time.Time) {
	r.do(func() {
		if now.Sub(r.forgotAt) >= forgetEvery {
			r.forgotAt = now
			r.calls.forget(r.env.isMember, now)
		}
		if !r.isPrimary() {
			return
		}
		if r.phase == takeover {
			r.takeoverStep(now)
			return
		}
		r.resend(now)
		for m, p := range r.peers {
			r.joinStep(m, p, now)
			if !r.overdue(p, now) {
				continue
			}
			if p.joining {
				r.startCopy(m, p, now)
			} else {
				r.env.propose(grid.ReplicaChange{Op: grid.OpDrop, Partition: r.id, Epoch: r.row.Epoch, Member: m})
			}
		}
		r.housekeep(now)
		r.overPark(now)
		if d := r.drain; d != nil && now.After(d.until) {
			r.drain = nil
		}
		r.advance()
	})
}

// overdue reports whether the peer owes an answer for too long. It does so once a while, and only while this member is in touch itself.
func (r *replica) overdue(p *peer, now time.Time) bool {
	if p.silent.IsZero() || now.Sub(p.silent) < dropAfter || !r.env.leased() {
		return false
	}
	p.silent = now.Add(proposeAgain - dropAfter)
	return true
}

// housekeep replicates the end of what is over. Nobody waits for it.
func (r *replica) housekeep(now time.Time) {
	if r.mayServe(Request{}) != nil {
		return
	}
	if data := r.store.Over(now, r.env.isMember); data != nil {
		r.replicate(Effect{Seq: r.seq() + 1, Epoch: r.row.Epoch, Data: data}, now)
	}
}

// instruct takes the master's wish.
func (r *replica) instruct(msg instructMsg, now time.Time) {
	r.do(func() {
		if r.phase != serving || !r.isPrimary() || msg.Epoch != r.row.Epoch || r.drain != nil || !r.row.InSync(msg.Member) || msg.Member == r.self {
			return
		}
		switch msg.Op {
		case grid.OpDrop:
			r.env.propose(grid.ReplicaChange{Op: grid.OpDrop, Partition: r.id, Epoch: r.row.Epoch, Member: msg.Member})
		case grid.OpPrimary:
			r.drain = &draining{to: msg.Member, until: now.Add(drainFor)}
			r.advance()
		}
	})
}

// drainStep proposes a planned hand-over once nothing is in flight, so that it costs nobody an error.
func (r *replica) drainStep() {
	d := r.drain
	if d == nil || d.proposed || r.committed != r.seq() || len(r.waiters) > 0 {
		return
	}
	d.proposed = true
	r.env.propose(grid.ReplicaChange{Op: grid.OpPrimary, Partition: r.id, Epoch: r.row.Epoch, Member: d.to})
}
