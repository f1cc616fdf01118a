package clientproto

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"gridnode/grid"
)

// moveEvery is how often clients are told of primaries that change places while all of them live: old ones take requests, too, so a
// rebalancing need not send each of its steps to everybody.
const moveEvery = 100 * time.Millisecond

func addClusterViewListener(_ context.Context, q *call) ([]byte, error) {
	c := q.c
	b, err := q.empty()
	c.send(b)
	c.mu.Lock()
	c.views = registeredViews{id: q.m.correlation()}
	c.mu.Unlock()
	s, _ := c.s.cfg.View.View()
	c.sendViews(views{version: s.Index, members: membersView(s), partitions: partitionsView(s)})
	return nil, err
}

// views are events of one agreed state, encoded once for all connections. Either may be nil.
type views struct {
	version             uint64
	members, partitions []byte
}

// registeredViews is what a connection that wants views has been sent.
type registeredViews struct {
	id                  uint64 // of the registration; 0: there is none
	members, partitions uint64 // versions that it has been sent
}

// sendViews sends what the connection wants and does not have: versions never go back.
func (c *conn) sendViews(v views) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.views
	if r.id == 0 {
		return
	}
	if v.members != nil && (r.members == 0 || v.version > r.members) {
		r.members = v.version
		c.enqueue(asEventOf(r.id, v.members)...)
	}
	if v.partitions != nil && (r.partitions == 0 || v.version > r.partitions) {
		r.partitions = v.version
		c.enqueue(asEventOf(r.id, v.partitions)...)
	}
}

// asEventOf is an encoded event with the id of a registration, without copying it.
func asEventOf(id uint64, event []byte) [][]byte {
	const headed = frameHead + correlation + 8
	head := slices.Clone(event[:headed])
	binary.LittleEndian.PutUint64(head[frameHead+correlation:], id)
	return [][]byte{head, event[headed:]}
}

// pushViews sends every registered client what has changed of the agreed state.
func (s *Server) pushViews(ctx context.Context) error {
	told := &grid.State{} // of the members
	var places placesTold
	for {
		state, changed := s.cfg.View.View()
		v := views{version: state.Index}
		if !sameMembers(told, state) {
			told, v.members = state, membersView(state)
		}
		var later <-chan time.Time
		switch wait := places.wait(state, time.Now()); {
		case wait > 0:
			later = time.After(wait)
		case wait == 0:
			v.partitions = partitionsView(state)
		}
		s.push(v)
		select {
		case <-changed:
		case <-later:
		case <-ctx.Done():
			return nil
		}
	}
}

// placesTold is what clients were told of where primaries are.
type placesTold struct {
	state *grid.State // nil: nothing
	at    time.Time
	owed  bool // it has been different since: who connected meanwhile may have heard that
}

// wait is how long clients are left with what they know; 0: they are to be told now, which it then takes as done. Negative: nothing is new to
// them. They hear at once when a primary is gone.
func (p *placesTold) wait(now *grid.State, at time.Time) time.Duration {
	urgent := p.state == nil || len(p.state.Partitions) != len(now.Partitions) || lostPrimary(p.state, now)
	p.owed = p.owed || urgent || !samePrimaries(p.state, now)
	switch left := p.at.Add(moveEvery).Sub(at); {
	case !p.owed:
		return -1
	case left > 0 && !urgent:
		return left
	}
	*p = placesTold{state: now, at: at}
	return 0
}

// lostPrimary reports whether a primary in old is no member any more and has a successor, or a partition that had no primary has one.
func lostPrimary(old, now *grid.State) bool {
	for i := range old.Partitions {
		was := old.Partitions[i].Primary()
		if _, ok := now.Member(was); !ok && now.Partitions[i].Primary() != was {
			return true
		}
	}
	return false
}

// push sends views to all connections that are registered.
func (s *Server) push(v views) {
	if v.members == nil && v.partitions == nil {
		return
	}
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		c.sendViews(v)
	}
}

// shown reports whether clients are told of the member.
func shown(m grid.Member) bool { return m.State != grid.Joining }

func sameMembers(a, b *grid.State) bool {
	same := func(x, y grid.Member) bool { return x.ID == y.ID && shown(x) == shown(y) }
	return slices.EqualFunc(a.Members, b.Members, same)
}

func samePrimaries(a, b *grid.State) bool {
	same := func(x, y grid.Partition) bool { return x.Primary() == y.Primary() }
	return slices.EqualFunc(a.Partitions, b.Partitions, same)
}

// membersView tells a client who the members are. Its version is the number of agreed changes, which is the same on all members.
func membersView(s *grid.State) []byte {
	e := newEvent(0x000302, 0, -1)
	e.int32(int32(s.Index))
	members(e, s)
	return e.bytes()
}

// members writes the list of members.
func members(e *encoder, s *grid.State) {
	e.open()
	for _, m := range s.Members {
		if !shown(m) {
			continue
		}
		e.open()
		e.begin(0)
		e.uuid(uuidOf(string(m.ID)))
		e.bool(!m.Has(grid.RoleData))
		address(e, m.Address)
		e.open() // attributes
		for _, k := range slices.Sorted(maps.Keys(m.Attributes)) {
			e.string(k)
			e.string(m.Attributes[k])
		}
		e.close()
		e.open() // version
		e.begin(0)
		e.byte(5)
		e.byte(5)
		e.byte(0)
		e.close()
		e.open() // addresses of other kinds: none
		e.close()
		e.close()
	}
	e.close()
}

// partitionsView tells a client which member is primary of which partitions.
func partitionsView(s *grid.State) []byte {
	e := newEvent(0x000303, 0, -1)
	e.int32(int32(s.Index))
	partitions(e, s)
	return e.bytes()
}

// partitions writes the partitions that have a primary, by their primaries.
func partitions(e *encoder, s *grid.State) {
	owned := map[grid.MemberID][]int32{}
	var owners []grid.MemberID
	for i := range s.Partitions {
		m := s.Partitions[i].Primary()
		if m == "" {
			continue
		}
		if owned[m] == nil {
			owners = append(owners, m)
		}
		owned[m] = append(owned[m], int32(i))
	}
	e.open()
	for _, m := range owners {
		e.begin(0)
		for _, p := range owned[m] {
			e.int32(p)
		}
	}
	e.close()
	e.begin(0)
	for _, m := range owners {
		e.uuid(uuidOf(string(m)))
	}
}
