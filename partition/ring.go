package partition

import "gridnode/grid"

// Bounds of the recent effects that a replica keeps, to bring a backup level without a full copy.
const (
	ringEntries = 1024
	ringBytes   = 1 << 20
)

// Effect is one applied effect as it travels: its number, the epoch in which it was made, the data, and what the call that made it returned.
// Without data it only says what a call returned.
type Effect struct {
	Seq     uint64
	Epoch   grid.Epoch
	Data    []byte
	Outcome *outcome
}

func (e *Effect) size() int {
	if e.Outcome == nil {
		return len(e.Data)
	}
	return len(e.Data) + e.Outcome.size()
}

// ring holds the newest effects of a replica in order, without gaps, after a base: the effect (or the birth) before the oldest one kept.
//
// Two replicas whose effect number n was made in the same epoch have the same effects up to n: within an epoch only one member makes
// effects, and a replica takes an effect only right behind the one that its maker had before it.
type ring struct {
	base      uint64
	baseEpoch grid.Epoch
	list      []Effect
	bytes     int
}

// reset makes (seq, epoch) the last applied effect, with nothing known before it.
func (r *ring) reset(seq uint64, epoch grid.Epoch) { *r = ring{base: seq, baseEpoch: epoch} }

// last returns number and epoch of the last applied effect.
func (r *ring) last() (uint64, grid.Epoch) {
	if n := len(r.list); n > 0 {
		return r.list[n-1].Seq, r.list[n-1].Epoch
	}
	return r.base, r.baseEpoch
}

// add appends an effect and forgets the oldest beyond the bounds; those above pin are kept whatever the bounds.
func (r *ring) add(e Effect, pin uint64) {
	r.list = append(r.list, e)
	r.bytes += e.size()
	drop := 0
	for drop < len(r.list) && (len(r.list)-drop > ringEntries || r.bytes > ringBytes) && r.list[drop].Seq <= pin {
		r.bytes -= r.list[drop].size()
		r.base, r.baseEpoch = r.list[drop].Seq, r.list[drop].Epoch
		r.list[drop].Data, r.list[drop].Outcome = nil, nil
		drop++
	}
	r.list = r.list[drop:]
}

// after returns the effects that follow (seq, epoch), if that very effect is known to be in this replica's past. The slice is the ring's.
func (r *ring) after(seq uint64, epoch grid.Epoch) (tail []Effect, ok bool) {
	last, _ := r.last()
	if seq < r.base || seq > last {
		return nil, false
	}
	if seq == r.base {
		return r.list, epoch == r.baseEpoch
	}
	i := int(seq - r.base - 1)
	return r.list[i+1:], r.list[i].Epoch == epoch
}
