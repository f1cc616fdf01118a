package partition

import (
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

const (
	pieceBytes = 128 << 10
	copyWindow = 4 // pieces on their way
	copyTurn   = 2 // pieces that are encoded at a time
)

// joiners brings the peers in line with the row's joining members. With restart set, joiners begin anew: what they hold may have been
// dropped between two rows that this member did not see apart.
func (r *replica) joiners(restart bool) {
	for m, p := range r.peers {
		if p.joining && (restart || !r.row.IsJoining(m)) {
			delete(r.peers, m)
		}
	}
	for _, m := range r.row.Joining {
		if r.peers[m] == nil {
			p := &peer{joining: true}
			r.peers[m] = p
			r.startCopy(m, p, time.Now())
		}
	}
}

// joinStep moves a joiner on: close enough behind, its acks are waited for; once it then holds all that is committed, it is proposed.
func (r *replica) joinStep(m grid.MemberID, p *peer, now time.Time) {
	if !p.joining || p.copy != nil || r.phase != serving {
		return
	}
	if !p.required {
		if p.acked+requireWithin < r.seq() {
			return
		}
		p.required = true
		if p.acked < r.seq() {
			r.sendTail(m, p, now)
		}
	}
	// A proposal may be lost, with a master for example, so it is made again; twice in the log, it counts once.
	if p.acked >= r.committed && (!p.proposed || now.Sub(p.proposedAt) >= proposeAgain) {
		p.proposed, p.proposedAt = true, now
		r.env.propose(grid.ReplicaChange{Op: grid.OpAdd, Partition: r.id, Epoch: r.row.Epoch, Member: m})
	}
}

// startCopy begins to send a peer the whole content as it is now. Effects made from now on follow behind it.
func (r *replica) startCopy(m grid.MemberID, p *peer, now time.Time) {
	if p.joining && p.proposed {
		return // it counts from the moment that the proposal is in the log
	}
	seq, last := r.log.last()
	r.copies++
	p.copy = &outCopy{id: r.copies, seq: seq, last: last, calls: r.calls.snapshot(pieceBytes)}
	p.copy.content, p.copy.piece = r.store.Snapshot(pieceBytes, now)
	p.silent, p.sentAt = time.Time{}, time.Time{}
	r.pushCopy(m, p, now)
}

// pushCopy sends the pieces that the window allows, a few at a time, for they are encoded under the lock; without an answer for a while, the
// unacknowledged ones again.
func (r *replica) pushCopy(m grid.MemberID, p *peer, now time.Time) {
	c := p.copy
	if c.sent > c.next && now.Sub(p.sentAt) >= resendAfter {
		c.sent = c.next
	}
	for n := 0; n < copyTurn && c.sent < c.of() && c.sent < c.next+copyWindow; n++ {
		r.env.send(m, wire.Snapshot, encode(copyMsg{
			Partition: r.id, Epoch: r.row.Epoch, Born: r.born, ID: c.id, Seq: c.seq, Last: c.last,
			Piece: c.sent, Of: c.of(), Calls: c.sent >= c.content && len(c.calls) > 0, Data: c.encoded(c.sent, now),
		}))
		c.sent++
		p.sent(now)
	}
}

// copied takes the receiver's acknowledgement of pieces; with the last one, the peer holds the copy.
func (r *replica) copied(from grid.MemberID, msg copiedMsg, now time.Time) {
	r.do(func() {
		p := r.peers[from]
		if !r.isPrimary() || msg.Epoch != r.row.Epoch || p == nil || p.copy == nil || p.copy.id != msg.ID || msg.Next <= p.copy.next || msg.Next > len(p.copy.sizes) {
			return
		}
		c := p.copy
		r.copiedBytes += c.arrived(msg.Next)
		p.silent = now
		if c.next < c.of() {
			c.sent = max(c.sent, c.next)
			r.pushCopy(from, p, now)
			return
		}
		p.copy, p.acked, p.silent, p.sentAt = nil, max(p.acked, c.seq), time.Time{}, time.Time{}
		p.holdsSeq, p.holds, p.born = c.seq, c.last, r.born
		if r.phase == takeover {
			r.takeoverStep(now)
			return
		}
		r.joinStep(from, p, now)
		r.resend(now)
		r.advance()
	})
}

// takePiece stages a piece of a full copy and, with the last one, swaps the copy in. Until then the old data stays.
func (r *replica) takePiece(from grid.MemberID, msg copyMsg, now time.Time) {
	r.do(func() {
		if msg.Epoch < r.known || msg.Of < 1 || msg.Piece < 0 || msg.Piece >= msg.Of {
			return
		}
		r.adopt(msg.Epoch)
		if r.isPrimary() || r.ackAt == msg.Epoch && msg.Seq < r.acked {
			return // a late piece: more than this copy has been acknowledged at this epoch
		}
		in := r.in
		if in == nil || in.from != from || in.id != msg.ID {
			if msg.Piece != 0 || in != nil && in.from == from && in.id > msg.ID {
				return
			}
			in = &inCopy{from: from, id: msg.ID, store: r.env.newStore(), calls: newOutcomes()}
			r.in = in
		}
		if msg.Piece == in.next && in.store != nil {
			if err := in.take(msg, now); err != nil {
				r.in = nil
				r.env.event("copy refused", r.id, msg.Epoch, "error", err)
				return
			}
			in.next++
		}
		if in.next == msg.Of && in.store != nil {
			r.store, r.calls, r.born = in.store, in.calls, msg.Born
			r.log.reset(msg.Seq, msg.Last)
			r.ackAt, r.acked = msg.Epoch, msg.Seq
			in.store, in.calls = nil, nil // what is left of it answers pieces that come again
		}
		r.env.send(from, wire.Copied, encode(copiedMsg{Partition: r.id, Epoch: msg.Epoch, ID: msg.ID, Next: in.next}))
	})
}

func (in *inCopy) take(msg copyMsg, now time.Time) error {
	if msg.Calls {
		return in.calls.restore(msg.Data, now)
	}
	return in.store.Restore(msg.Data, now)
}
