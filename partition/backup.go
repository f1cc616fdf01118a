package partition

import (
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

const askAgain = 50 * time.Millisecond

// effects applies what the primary sent, if it follows on what this replica holds, and acknowledges all it holds.
func (r *replica) effects(from grid.MemberID, msg effectsMsg, now time.Time) {
	r.do(func() {
		if msg.Epoch < r.known || len(msg.Effects) == 0 {
			return // fenced
		}
		r.adopt(msg.Epoch)
		if r.isPrimary() || r.staging() {
			return
		}
		ok := r.follow(msg, now)
		seq, last := r.log.last()
		if ok {
			r.ackAt, r.acked = msg.Epoch, seq
		} else if now.Sub(r.askedAt) < askAgain {
			return
		} else {
			r.askedAt = now
		}
		r.env.send(from, wire.Ack, encode(ackMsg{Partition: r.id, Epoch: msg.Epoch, Seq: seq, Last: last, Missing: !ok}))
	})
}

// staging reports whether a copy is being received: what is held now will be replaced.
func (r *replica) staging() bool { return r.in != nil && r.in.store != nil }

// follow applies the effects that are new. It reports false when one does not follow: a gap, or another past.
func (r *replica) follow(msg effectsMsg, now time.Time) bool {
	prev := msg.Prev
	for _, e := range msg.Effects {
		seq, last := r.log.last()
		switch {
		case e.Seq <= seq:
			if !r.holds(e) {
				return false
			}
		case e.Seq == seq+1 && prev == last:
			if _, err := r.apply(e, e.Seq, now); err != nil {
				r.env.event("effect refused", r.id, msg.Epoch, "seq", e.Seq, "error", err)
				return false
			}
		default:
			return false
		}
		prev = e.Epoch
	}
	return true
}

// apply does an effect; the log keeps what follows pin.
func (r *replica) apply(e Effect, pin uint64, now time.Time) (woken []string, err error) {
	if len(e.Data) > 0 {
		if woken, err = r.store.Apply(e.Data, MakeVersion(e.Epoch, e.Seq), now); err != nil {
			return nil, err
		}
	}
	if e.Outcome != nil {
		r.calls.add(e.Outcome, e.Seq, now)
	}
	r.log.add(e, pin)
	return woken, nil
}

// holds reports whether an effect that was applied here before is the same one, as far as the log tells.
func (r *replica) holds(e Effect) bool {
	if e.Seq < r.log.base {
		return true
	}
	if e.Seq == r.log.base {
		return e.Epoch == r.log.baseEpoch
	}
	return r.log.list[e.Seq-r.log.base-1].Epoch == e.Epoch
}
