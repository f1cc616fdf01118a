package imap

import (
	"gridnode/grid"
)

// Bounds of the changes that a replica keeps for listeners until they are committed. A backup never learns what is: it keeps the newest ones,
// so that it can tell of them when it becomes primary.
const (
	keepEffects  = 1024
	keepBytes    = 1 << 20
	primaryTimes = 16 // as much as that in a store that has been a primary's
)

// capture is what a store notes of changes for listeners. Each replica does so; only a primary tells of them, once they are committed.
type capture struct {
	partition grid.PartitionID
	born      uint64 // newest birth and reign that this store heard of as primary's
	reign     uint64
	seen      *announced       // the newest registrations that were looked at
	since     map[regID]uint64 // the effect behind which changes are noted for each of them
	told      map[regID]bool   // those that were told that this primary begins
	last      uint64           // newest effect
	base      uint64           // all that was noted behind it is pending
	started   bool             // last and base are set
	pending   []noted          // in order
	bytes     int
}

// noted is a change of an entry, or several entries that went at once.
type noted struct {
	seq   uint64
	index int    // within the effect
	event *Event // its slices are the store's
}

func (n *noted) cost() int { return len(n.event.Key) + len(n.event.Value) + len(n.event.Old) + 128 }

// Attach connects a new store with the member's registry: from then on its changes reach listeners, and its maps have indexes.
func (s *Store) Attach(p grid.PartitionID, r *Registry) {
	s.registry = r
	s.capture.partition = p
}

// look takes note of registrations that are new. Changes are noted for them behind the effect last.
func (c *capture) look(a *announced, last uint64) {
	if a == c.seen {
		return
	}
	since := make(map[regID]uint64, len(a.regs))
	for id := range a.regs {
		since[id] = last
		if at, ok := c.since[id]; ok {
			since[id] = at
		}
	}
	for id := range c.told {
		if a.regs[id] == nil {
			delete(c.told, id)
		}
	}
	c.seen, c.since = a, since
}

// begin is called before an effect is applied.
func (c *capture) begin(r *Registry, seq uint64) {
	a := r.announced()
	if a == nil || len(a.regs) == 0 && c.seen == nil {
		return
	}
	if !c.started {
		c.started, c.base = true, seq-1
	}
	c.look(a, seq-1)
	c.last = seq
}

// note is called for each change of an effect before it is applied. Only those of values are events.
func (s *Store) note(i int, ch *change, version uint64) {
	if s.registry == nil || s.capture.seen == nil || s.capture.seen.byMap[ch.Map] == nil {
		return
	}
	switch ch.Kind {
	case changeEntry, changeValue:
		s.noteEntry(i, ch, version)
	case changeSweep:
		s.noteSweep(i, ch, version)
	}
}

func (s *Store) noteEntry(i int, ch *change, version uint64) {
	e := Event{Type: Added, Map: ch.Map, Key: ch.Key, Value: ch.Value, Version: version, Partition: s.capture.partition}
	if m := s.maps[ch.Map]; m != nil {
		if old := m.records[string(ch.Key)]; old != nil {
			e.Type, e.Old = Updated, old.value
		}
	}
	existed := e.Type == Updated
	switch {
	case !existed && (ch.Remove || ch.Kind == changeValue):
		return
	case ch.Remove:
		e.Type, e.Value = map[cause]EventType{causeRemoved: Removed, causeExpired: Expired, causeEvicted: Evicted}[ch.Cause], nil
	case existed && ch.Cause == causeExpired:
		gone := e
		gone.Type, gone.Value = Expired, nil
		s.capture.keep(noted{seq: s.seqOf(version), index: 2 * i, event: &gone})
		e.Type, e.Old = Added, nil
	}
	s.capture.keep(noted{seq: s.seqOf(version), index: 2*i + 1, event: &e})
}

// noteSweep notes entries of a map that go at once, as one event.
func (s *Store) noteSweep(i int, ch *change, version uint64) {
	m := s.maps[ch.Map]
	if m == nil {
		return
	}
	e := Event{Type: Cleared, Map: ch.Map, Version: version, Partition: s.capture.partition, Count: len(m.records)}
	for _, k := range ch.Keep {
		if m.records[string(k)] != nil {
			e.Count--
		}
	}
	if e.Count == 0 {
		return
	}
	if ch.Cause == causeEvicted {
		e.Type = Evicted
	}
	s.capture.keep(noted{seq: s.seqOf(version), index: 2*i + 1, event: &e})
}

// keep adds a change and forgets the oldest beyond the bounds.
func (c *capture) keep(n noted) {
	c.pending = append(c.pending, n)
	c.bytes += n.cost()
	effects, bytes := keepEffects, keepBytes
	if c.reign != 0 {
		effects, bytes = effects*primaryTimes, bytes*primaryTimes
	}
	drop := 0
	for len(c.pending)-drop > effects || c.bytes > bytes && drop < len(c.pending)-1 {
		c.base = c.pending[drop].seq
		c.bytes -= c.pending[drop].cost()
		drop++
	}
	if drop > 0 {
		c.told = nil // a primary tells anew from where on it knows everything, which listeners see as a gap
	}
	c.forget(drop)
}

// forget drops the first n pending changes.
func (c *capture) forget(n int) {
	clear(c.pending[:n])
	if c.pending = c.pending[n:]; len(c.pending) == 0 {
		c.pending = nil
	}
}

// Committed is called on the primary alone, under the partition's lock: when it begins to serve, with all that it holds, and whenever more has
// been committed. born and reign are those of the partition.
func (s *Store) Committed(upTo, born, reign uint64) {
	c := &s.capture
	if c.reign != reign {
		c.told = nil
	}
	c.born, c.reign = born, reign
	a := s.registry.announced()
	if a == nil || len(a.regs) == 0 && c.seen == nil {
		return
	}
	if !c.started {
		c.started, c.base, c.last = true, upTo, upTo
	}
	c.last = max(c.last, upTo)
	c.look(a, c.last)
	some := c.introduce(s.registry)
	n := 0
	for n < len(c.pending) && c.pending[n].seq <= upTo {
		p := &c.pending[n]
		for _, reg := range c.seen.byMap[p.event.Map] {
			if p.seq > c.since[reg.id] {
				it := item{Kind: itemChange, Partition: c.partition, Born: c.born, Seq: p.seq, Index: p.index, event: p.event}
				some = reg.out.publish(it) || some
			}
		}
		c.bytes -= p.cost()
		n++
	}
	c.forget(n)
	c.base = max(c.base, upTo)
	s.registry.marks.set(c.partition, c.born, upTo)
	if some {
		s.registry.signal()
	}
}

// introduce tells those who do not know it yet that this primary tells of the partition's changes, and behind which effect.
func (c *capture) introduce(r *Registry) (some bool) {
	if len(c.told) == len(c.seen.regs) {
		return false
	}
	if c.told == nil {
		c.told = make(map[regID]bool, len(c.seen.regs))
	}
	for id, reg := range c.seen.regs {
		if !c.told[id] {
			c.told[id] = true
			reg.out.start(r, item{Kind: itemStart, Partition: c.partition, Born: c.born, Seq: max(c.base, c.since[id])})
		}
	}
	return true
}

// attendReply says where a partition stands.
type attendReply struct{ Born, Seq uint64 }

func (x *execution) attend() attendReply {
	x.seeAll()
	return attendReply{Born: x.s.capture.born, Seq: x.sees}
}
