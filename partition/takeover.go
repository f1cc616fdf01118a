package partition

import (
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// startTakeover begins a new reign: nothing is served before all former and present replicas have adopted the epoch (so that no older
// primary can answer any more) and all present replicas hold exactly what this one holds (so that the next takeover finds the same).
func (r *replica) startTakeover(now time.Time) {
	r.phase, r.reign, r.startedAt = takeover, r.row.Reign, now
	r.peers, r.need = map[grid.MemberID]*peer{}, map[grid.MemberID]bool{}
	r.in = nil
	r.addNeed()
	r.takeoverStep(now)
}

// addNeed adds everybody who may still act on an older epoch. What a former epoch of this reign asked for stays asked for.
func (r *replica) addNeed() {
	for _, list := range [][]grid.MemberID{r.row.Prev, r.row.Replicas} {
		for _, m := range list {
			if m == r.self {
				continue
			}
			r.need[m] = true
			if r.peers[m] == nil {
				r.peers[m] = &peer{}
			}
		}
	}
}

// takeoverStep does what the takeover can do next; it is called after every event that may let it go on.
func (r *replica) takeoverStep(now time.Time) {
	if r.phase != takeover || !r.isPrimary() {
		return
	}
	waiting := false
	for m := range r.need {
		p := r.peers[m]
		if p.sealed || !r.env.mayAct(m) {
			continue
		}
		waiting = true
		if now.Sub(p.sentAt) >= resendAfter {
			p.sentAt = now
			r.env.send(m, wire.Seal, encode(sealMsg{Partition: r.id, Epoch: r.row.Epoch}))
		}
	}
	if waiting || !r.levelAll(now) {
		return
	}
	r.phase = serving
	r.committed = r.seq()
	r.tell()
	r.need = nil
	for m, p := range r.peers {
		if !r.row.InSync(m) {
			delete(r.peers, m)
			continue
		}
		p.acked, p.copy, p.silent = r.committed, nil, time.Time{}
	}
	r.joiners(true)
	r.env.event("partition taken over", r.id, r.row.Epoch, "took", now.Sub(r.startedAt))
}

// levelAll makes the present replicas equal to this one and reports whether they are.
func (r *replica) levelAll(now time.Time) bool {
	all := true
	seq, last := r.log.last()
	for _, m := range r.row.Replicas {
		p := r.peers[m]
		if m == r.self || p.level {
			continue
		}
		if p.holdsSeq == seq && p.holds == last && p.born == r.born {
			p.level = true
			continue
		}
		all = false
		r.levelOne(m, p, now)
	}
	return all
}

// levelOne sends a replica that lags the effects that it lacks. One that is ahead, or of another past, gets a full copy.
func (r *replica) levelOne(m grid.MemberID, p *peer, now time.Time) {
	tail, ok := r.log.after(p.holdsSeq, p.holds)
	switch {
	case p.copy != nil:
		r.pushCopy(m, p, now)
	case !ok || p.born != r.born:
		r.startCopy(m, p, now)
	case now.Sub(p.sentAt) >= resendAfter:
		p.sent(now)
		r.sendEffects(m, p.holds, tail)
	}
	// It has answered the seal, so it can be dropped; one that has not answered could still be read from.
	if r.overdue(p, now) {
		r.env.propose(grid.ReplicaChange{Op: grid.OpDrop, Partition: r.id, Epoch: r.row.Epoch, Member: m})
	}
}

// sealed takes a replica's answer to a seal.
func (r *replica) sealed(from grid.MemberID, msg sealedMsg, now time.Time) {
	r.do(func() {
		if r.phase != takeover || !r.isPrimary() || msg.Epoch < r.reign {
			return
		}
		p := r.peers[from]
		if p == nil || p.sealed && p.copy != nil {
			return
		}
		if !p.sealed || msg.Epoch == r.row.Epoch {
			p.sealed, p.holdsSeq, p.holds, p.born = true, msg.Seq, msg.Last, msg.Born
			p.sentAt, p.silent = time.Time{}, time.Time{}
		}
		r.takeoverStep(now)
	})
}

// seal answers another member's takeover.
func (r *replica) seal(from grid.MemberID, msg sealMsg) {
	r.do(func() {
		if msg.Epoch < r.known {
			return
		}
		r.adopt(msg.Epoch)
		r.in = nil
		seq, last := r.log.last()
		r.env.send(from, wire.Sealed, encode(sealedMsg{Partition: r.id, Epoch: msg.Epoch, Born: r.born, Seq: seq, Last: last}))
	})
}
