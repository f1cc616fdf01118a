package grid

import (
	"fmt"
	"slices"
)

// Limits of the agreed state.
const (
	DefaultPartitions = 271
	MaxPartitions     = 4096
	MaxBackups        = 6
)

// State is what the members agree on. It is immutable: [State.Apply] returns a new one that shares what did not change.
type State struct {
	ClusterID   string
	ClusterName string
	Backups     int    // backups wanted per partition
	Expect      int    // members to wait for before partitions are first assigned
	Index       uint64 // number of entries applied
	NextJoinSeq uint64
	Master      MemberID
	Term        uint64
	Members     []Member // ordered by JoinSeq
	Partitions  []Partition
	Losses      uint64 // how often a partition lost its last replica
	Recoveries  uint64 // how often an operator made survivors go on without a majority: see [State.Recovered]
}

// Member returns the agreed member of that id.
func (s *State) Member(id MemberID) (m Member, ok bool) {
	for _, m := range s.Members {
		if m.ID == id {
			return m, true
		}
	}
	return Member{}, false
}

// DataMembers returns the members that may be given replicas: active, with the data role; ordered by JoinSeq.
func (s *State) DataMembers() []Member {
	var out []Member
	for _, m := range s.Members {
		if m.State == Active && m.Has(RoleData) {
			out = append(out, m)
		}
	}
	return out
}

// WantReplicas is how many replicas each partition should have, as far as there are members.
func (s *State) WantReplicas() int { return min(s.Backups+1, len(s.DataMembers())) }

// LeastBackups is how many in-sync backups each partition has at least; 0 if one has no replica at all.
func (s *State) LeastBackups() int {
	if len(s.Partitions) == 0 {
		return 0
	}
	least := MaxBackups
	for i := range s.Partitions {
		least = min(least, len(s.Partitions[i].Replicas)-1)
	}
	return max(least, 0)
}

// Formed reports whether the cluster exists.
func (s *State) Formed() bool { return s.ClusterID != "" }

// Complete reports whether every partition has its full set of in-sync replicas, as far as there are members, none is being brought up, and
// nobody joins or leaves. A member that has just joined may still be owed its share: that is the planner's to say.
func (s *State) Complete() bool {
	want := s.WantReplicas()
	if want == 0 {
		return false
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		if len(p.Replicas) < want || len(p.Joining) > 0 {
			return false
		}
	}
	for _, m := range s.Members {
		if m.State != Active {
			return false
		}
	}
	return true
}

// Rejected is the answer to a command that did not fit the state; the state is then as it was.
type Rejected struct{ Reason string }

func (r *Rejected) Error() string { return "rejected: " + r.Reason }

func rejectf(format string, args ...any) error { return &Rejected{fmt.Sprintf(format, args...)} }

// Apply returns the state after the command. It is a pure function: every member that applies the same commands in the same order has the
// same state. A rejected command returns the old state with only Index raised, and a [Rejected].
func (s *State) Apply(c Command) (*State, error) {
	next := *s
	next.Index++
	err := c.apply(&next)
	if err != nil {
		same := *s
		same.Index++
		return &same, err
	}
	return &next, nil
}

func (s *State) setMember(m Member) {
	s.Members = slices.Clone(s.Members)
	for i := range s.Members {
		if s.Members[i].ID == m.ID {
			s.Members[i] = m
			return
		}
	}
	s.Members = append(s.Members, m)
}
