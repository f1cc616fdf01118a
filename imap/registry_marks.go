package imap

import (
	"fmt"
	"math"
	"sync"

	"gridnode/grid"
)

// marks are how far the partitions have come whose primary this member is, or was.
type marks struct {
	mu    sync.Mutex // guards what follows; taken alone, or while a partition's lock is held
	list  map[grid.PartitionID]attendReply
	moved map[grid.PartitionID]bool
}

func (m *marks) set(p grid.PartitionID, born, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.list == nil {
		m.list, m.moved = map[grid.PartitionID]attendReply{}, map[grid.PartitionID]bool{}
	}
	m.list[p], m.moved[p] = attendReply{born, seq}, true
}

func (m *marks) at(p grid.PartitionID) (born, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list[p].Born, m.list[p].Seq
}

// takeMoved returns those that have moved since the last call.
func (m *marks) takeMoved() map[grid.PartitionID]attendReply {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[grid.PartitionID]attendReply, len(m.moved))
	for p := range m.moved {
		out[p] = m.list[p]
	}
	clear(m.moved)
	return out
}

// progress lets all listeners that have nothing waiting know how far partitions have come, and the members that want to be told marks how far they
// had come the last time: what happened until then has reached the listeners meanwhile.
func (r *Registry) progress() {
	r.tellMarks()
	moved := r.marks.takeMoved()
	r.before = moved
	for _, reg := range r.now.Load().regs {
		for p, at := range moved {
			reg.out.progress(p, at.Born, at.Seq)
		}
	}
}

// mark is how far a partition has come at its primary. Listeners to a member's own partitions alone are told changes by their member; when it becomes
// primary, a mark keeps it from telling again what the primary before has told its own listeners.
type mark struct {
	Partition grid.PartitionID
	Born, Seq uint64
}

func (r *Registry) tellMarks() {
	if len(r.before) == 0 {
		return
	}
	r.mu.Lock()
	var to []grid.MemberID
	for id, o := range r.owners {
		if o.heeds {
			to = append(to, id)
		}
	}
	r.mu.Unlock()
	if len(to) == 0 {
		return
	}
	list := make([]mark, 0, len(r.before))
	for p, at := range r.before {
		list = append(list, mark{p, at.Born, at.Seq})
	}
	body := encode(registryMsg{Marks: list})
	for _, id := range to {
		r.members.Ask(id, body, func([]byte, error) {}) // if it is lost, changes are told twice at worst
	}
}

// heed takes another member's marks.
func (r *Registry) heed(list []mark) error {
	if len(list) > grid.MaxPartitions {
		return fmt.Errorf("%w: %d marks", grid.ErrTooLarge, len(list))
	}
	r.mu.Lock()
	var to []*inbox
	for _, in := range r.inboxes {
		if in.reg.heeds {
			to = append(to, in)
		}
	}
	r.mu.Unlock()
	for _, in := range to {
		in.heed(list)
	}
	return nil
}

// heed goes behind what another member has told its own listeners.
func (in *inbox) heed(list []mark) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, m := range list {
		if m.Partition >= 0 && m.Partition < grid.MaxPartitions {
			in.passTo(m)
		}
	}
}

func (in *inbox) passTo(m mark) {
	c := in.at(m.Partition)
	if !c.known || m.Born > c.born || m.Born == c.born && m.Seq >= c.seq {
		*c = cursor{born: m.Born, seq: m.Seq, index: math.MaxInt, known: true}
	}
}
