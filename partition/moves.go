package partition

import (
	"sync/atomic"

	"gridnode/grid"
)

// Owed returns what is between the table and what the master aims at. It is a pure function of the state, as [Plan] is, so every member knows
// it, and knows it in the moment in which a member is there that is to get a share.
func Owed(s *grid.State) (m grid.Moves) {
	for i := range s.Partitions {
		m.Running += len(s.Partitions[i].Joining)
	}
	t := newTarget(s, Limits{})
	if t == nil {
		return m
	}
	for id := range s.Partitions {
		p := &s.Partitions[id]
		if len(p.Replicas) == 0 {
			continue // it is lost, or not assigned yet: no transfer helps
		}
		for _, absent := range t.absent(id) {
			if !p.IsJoining(t.members[absent].ID) {
				m.Waiting++
			}
		}
	}
	for _, in := range Instructions(s, Limits{}) {
		if in.Op == grid.OpPrimary {
			m.HandOvers++
		} else {
			m.Drops++
		}
	}
	return m
}

// owed keeps the answer of [Owed] for one state.
type owed struct {
	newest atomic.Pointer[owedBy]
}

type owedBy struct {
	state *grid.State
	moves grid.Moves
}

func (o *owed) of(s *grid.State) grid.Moves {
	if known := o.newest.Load(); known != nil && known.state == s {
		return known.moves
	}
	m := Owed(s)
	o.newest.Store(&owedBy{s, m})
	return m
}

// Moves is [Owed], worked out once for each state.
func (h *Host) Moves(s *grid.State) grid.Moves { return h.owed.of(s) }

// Sending returns what this member sends of whole partitions.
func (h *Host) Sending() (out grid.Sending) {
	for _, r := range h.state.Load().replicas {
		r.do(func() {
			out.Sent += r.copiedBytes
			for _, p := range r.peers {
				if p.copy != nil {
					out.Copies++
					out.Left += int64(p.copy.of()-p.copy.next) * pieceBytes
				}
			}
		})
	}
	return out
}
