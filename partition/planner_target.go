package partition

import (
	"cmp"
	"slices"

	"gridnode/grid"
)

// target is where the replicas of every partition should be in the end, and the state that it was worked out for. Members are numbers here:
// their places in members.
type target struct {
	state    *grid.State
	revive   bool
	started  bool // partitions without replicas may be assigned
	members  []grid.Member
	index    map[grid.MemberID]int
	rank     []int // rank[id*len(members)+m] is the place of m in the order of preference for partition id; lower is better
	zones    *zones
	replicas *assignment
}

// newTarget works the target out. It depends on the members and on which of them hold or receive which partition, not on who is primary:
// so a change of primaries never changes it. It is nil if there is nobody to hold anything.
func newTarget(s *grid.State, lim Limits) *target {
	t := &target{state: s, revive: lim.ReviveLost, members: s.DataMembers()}
	if len(t.members) == 0 || len(s.Partitions) == 0 {
		return nil
	}
	t.started = len(t.members) >= s.Expect || slices.ContainsFunc(s.Partitions, func(p grid.Partition) bool { return p.Epoch > 0 })
	t.index = make(map[grid.MemberID]int, len(t.members))
	for i, m := range t.members {
		t.index[m.ID] = i
	}
	t.rank = preference(t.members, len(s.Partitions))
	t.replicas = newAssignment(len(s.Partitions), len(t.members), t.worse)
	t.zones = newZones(t.members, t.replicas)
	t.hold()
	t.trim()
	t.fill()
	t.replicas.balance()
	t.zones.spread()
	return t
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

// hold begins with the replicas that are there or on their way, where they may stay. Any other place costs a transfer.
func (t *target) hold() {
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
					t.replicas.choose(id, m)
				}
			}
		}
	}
}

// trim takes surplus replicas away, from the members with the most first.
func (t *target) trim() {
	want := t.state.WantReplicas()
	for id := range t.state.Partitions {
		for t.replicas.size(id) > want {
			t.replicas.discard(id, t.pick(id, true, func(a, b int) int {
				return cmp.Or(
					cmp.Compare(t.replicas.load[b], t.replicas.load[a]),
					cmp.Compare(t.zones.mates(id, b), t.zones.mates(id, a)),
					cmp.Compare(t.rankOf(id, b), t.rankOf(id, a)))
			}))
		}
	}
}

// fill adds the replicas that are missing, in other zones first, then on the members with the fewest.
func (t *target) fill() {
	want := t.state.WantReplicas()
	for id := range t.state.Partitions {
		for t.planned(&t.state.Partitions[id]) && t.replicas.size(id) < want {
			t.replicas.choose(id, t.pick(id, false, func(a, b int) int {
				return cmp.Or(
					cmp.Compare(t.zones.mates(id, a), t.zones.mates(id, b)),
					cmp.Compare(t.replicas.load[a], t.replicas.load[b]),
					cmp.Compare(t.rankOf(id, a), t.rankOf(id, b)))
			}))
		}
	}
}

// pick returns the least member, by the order, of those that have partition id in the target, or of those that have not.
func (t *target) pick(id int, having bool, order func(a, b int) int) int {
	best := -1
	for m := range t.members {
		if t.replicas.has(id, m) == having && (best < 0 || order(m, best) < 0) {
			best = m
		}
	}
	return best
}

// primaries chooses one of the target's replicas of each partition as its primary: balanced, with the fewest changes.
func (t *target) primaries() *assignment {
	a := newAssignment(len(t.state.Partitions), len(t.members), func(id, _, to int) int { return t.rankOf(id, to) })
	for id := range t.state.Partitions {
		present := t.state.Partitions[id].Primary()
		for m := range t.members {
			if !t.replicas.has(id, m) {
				continue
			}
			if t.members[m].ID == present {
				a.allow(id, m, 0)
				a.choose(id, m)
			} else {
				a.allow(id, m, 1)
			}
		}
	}
	for id := range t.state.Partitions {
		if t.replicas.size(id) > 0 && a.size(id) == 0 {
			a.choose(id, t.pick(id, true, func(x, y int) int {
				return cmp.Or(cmp.Compare(a.load[x], a.load[y]), cmp.Compare(t.rankOf(id, x), t.rankOf(id, y)))
			}))
		}
	}
	a.balance()
	return a
}

// worse rates moving a replica of partition id from one member to another, among moves that are equal in balance and transfers.
func (t *target) worse(id, from, to int) int {
	return 2*len(t.members)*t.zones.delta(id, from, to) + t.rankOf(id, to) - t.rankOf(id, from)
}

func (t *target) rankOf(id, m int) int { return t.rank[id*len(t.members)+m] }

// byRank returns all members in the order of preference for partition id.
func (t *target) byRank(id int) []int {
	out := make([]int, len(t.members))
	for m := range t.members {
		out[t.rankOf(id, m)] = m
	}
	return out
}
