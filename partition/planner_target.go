package partition

import (
	"slices"

	"gridnode/grid"
)

// zoneAttribute is the member attribute that names what fails together.
const zoneAttribute = "zone"

// target is where the replicas of every partition should be in the end, and the state that it was worked out for. Members are numbers here:
// their places in members.
type target struct {
	state    *grid.State
	revive   bool
	started  bool // partitions without replicas may be assigned
	members  []grid.Member
	index    map[grid.MemberID]int
	rank     []int // rank[id*len(members)+m] is the place of m in the order of preference for partition id; lower is better
	zone     []int // the zone of each member
	replicas *assignment
}

// newTarget works the target out. It depends on the members and on which of them hold or receive which partition, not on who is primary:
// so a change of primaries never changes it. It is nil if there is nobody to hold anything.
func newTarget(s *grid.State, lim Limits) *target {
	t := &target{state: s, revive: lim.ReviveLost, members: s.DataMembers()}
	if len(t.members) == 0 || len(s.Partitions) == 0 {
		return nil
	}
	t.started = present(s) >= s.Expect || slices.ContainsFunc(s.Partitions, func(p grid.Partition) bool { return p.Epoch > 0 })
	t.index = make(map[grid.MemberID]int, len(t.members))
	for i, m := range t.members {
		t.index[m.ID] = i
	}
	t.rank, t.zone = preference(t.members, len(s.Partitions)), zonesOf(t.members)
	t.replicas = newAssignment(len(s.Partitions), s.WantReplicas(), t.zone, t.rank)
	t.place()
	return t
}

// present counts the members that have arrived, whatever their roles: those are what a new cluster waits for.
func present(s *grid.State) int {
	n := 0
	for _, m := range s.Members {
		if m.State != grid.Joining {
			n++
		}
	}
	return n
}

// planned reports whether the planner cares for the partition: it has replicas, or may be assigned some.
func (t *target) planned(p *grid.Partition) bool {
	return len(p.Replicas) > 0 || t.started && (!p.Lost || t.revive)
}

// wants reports whether the member should have partition id in the end.
func (t *target) wants(id int, m grid.MemberID) bool {
	i, ok := t.index[m]
	return ok && t.replicas.has(id, i)
}

// place chooses the replicas. A place that the partition has already, or is about to have, costs nothing; any other costs a transfer.
func (t *target) place() {
	want := t.state.WantReplicas()
	for id := range t.state.Partitions {
		p := &t.state.Partitions[id]
		if !t.planned(p) {
			continue
		}
		for m := range t.members {
			t.replicas.allow(id, m, 1)
		}
		for _, list := range [][]grid.MemberID{p.Replicas, p.Joining} {
			for _, member := range list {
				if m, ok := t.index[member]; ok {
					t.replicas.allow(id, m, 0)
				}
			}
		}
		for range want {
			t.replicas.add(id)
		}
	}
}

// primaries chooses one of the target's replicas of each partition as its primary: balanced, with the fewest changes.
func (t *target) primaries() *assignment {
	a := newAssignment(len(t.state.Partitions), 1, t.zone, t.rank)
	for id := range t.state.Partitions {
		present := t.state.Partitions[id].Primary()
		for m := range t.members {
			switch {
			case !t.replicas.has(id, m):
			case t.members[m].ID == present:
				a.allow(id, m, 0)
			default:
				a.allow(id, m, 1)
			}
		}
		a.add(id)
	}
	return a
}

// byRank returns all members in the order of preference for partition id.
func (t *target) byRank(id int) []int {
	out := make([]int, len(t.members))
	for m := range t.members {
		out[t.rank[id*len(t.members)+m]] = m
	}
	return out
}

// zonesOf numbers the members' zones. A member that names none has one of its own.
func zonesOf(members []grid.Member) []int {
	out := make([]int, len(members))
	known := make(map[string]int)
	next := 0
	for i, m := range members {
		name := m.Attributes[zoneAttribute]
		zone, ok := known[name]
		if !ok || name == "" {
			zone = next
			next++
			known[name] = zone
		}
		out[i] = zone
	}
	return out
}
