package cluster

import (
	"cmp"
	"slices"

	"github.com/hashicorp/raft"

	"gridnode/grid"
)

// serverChange is one change of raft's servers.
type serverChange struct {
	op      serverOp
	id      grid.MemberID
	address raft.ServerAddress
}

type serverOp uint8

const (
	dropServer serverOp = iota + 1
	addNonvoter
	promote
	demote
)

// zoneAttribute is the attribute that voters are spread over.
const zoneAttribute = "zone"

// nextServerChanges compares raft's servers with the members and returns the next of the changes that make them agree; none if they do, or if
// what is left has to wait. After each, ask again. ready tells which members hold a lease and have the whole log, or nearly: nobody else is
// made a voter, for the change itself would have to wait for him.
//
// There is one change at a time, but for the step from one voter to more. With two voters the death of either stops the cluster, and raft knows
// no change of two servers at once. So that step begins only when two are ready, and both changes come together, to be made back to back. The
// leader appends both before it waits for anybody: raft counts the first one's votes by the configuration before it, which is its own vote (raft
// 1.8.0, raft.go, appendConfigurationEntry), so there is no moment at which the death of one of the two new voters would stop the cluster. The
// death of the leader does until both know of the step, as it does with one voter.
func nextServerChanges(self grid.MemberID, s *grid.State, servers []raft.Server, ready func(grid.MemberID) bool) []serverChange {
	known := make(map[grid.MemberID]raft.ServerSuffrage, len(servers))
	voters := 0
	for _, sv := range servers {
		id := grid.MemberID(sv.ID)
		known[id] = sv.Suffrage
		if _, member := s.Member(id); !member && id != self {
			return []serverChange{{op: dropServer, id: id}}
		}
		if sv.Suffrage == raft.Voter {
			voters++
		}
	}
	for _, m := range s.Members {
		if _, there := known[m.ID]; !there {
			return []serverChange{{addNonvoter, m.ID, serverAddress(m)}}
		}
	}
	want := wantVoters(self, s.Members)
	if up := promotions(self, s, voters, func(m grid.Member) bool {
		return slices.Contains(want, m.ID) && known[m.ID] != raft.Voter && ready(m.ID)
	}); len(up) > 0 {
		return up
	}
	return demotion(self, s, func(id grid.MemberID) bool { return known[id] == raft.Voter }, want, ready)
}

// demotion returns who loses the vote now, if anybody. Those who are silent come first, and nobody who is not loses it while another voter is:
// of five voters of which two have just died, the third to go would take the majority along.
func demotion(self grid.MemberID, s *grid.State, votes func(grid.MemberID) bool, want []grid.MemberID, ready func(grid.MemberID) bool) []serverChange {
	var spare []serverChange
	silent := false
	for _, m := range s.Members {
		if !votes(m.ID) || m.ID == self {
			continue
		}
		unwanted, isReady := !slices.Contains(want, m.ID), ready(m.ID)
		switch {
		case unwanted && !isReady:
			return []serverChange{{op: demote, id: m.ID}}
		case unwanted && spare == nil:
			spare = []serverChange{{op: demote, id: m.ID}}
		}
		silent = silent || !isReady
	}
	if silent {
		return nil
	}
	return spare
}

// promotions returns which of the candidates become voters now. A master that is leaving needs one heir, and at once.
func promotions(self grid.MemberID, s *grid.State, voters int, candidate func(grid.Member) bool) (up []serverChange) {
	together := 1
	if me, ok := s.Member(self); voters == 1 && !(ok && me.State == grid.Leaving) {
		together = 2
	}
	for _, m := range s.Members {
		if candidate(m) {
			up = append(up, serverChange{promote, m.ID, serverAddress(m)})
		}
		if len(up) == together {
			return up
		}
	}
	return nil
}

// wantVoters chooses the voters: an odd number, up to five; this master first, then so that they are spread over zones, in the order of
// joining. Members that only run tasks come after all others, and members that are leaving last: until they are gone, their votes may be needed. A master that is leaving always gets a second
// voter, if anybody stays, so that there is somebody to hand over to.
func wantVoters(self grid.MemberID, members []grid.Member) []grid.MemberID {
	var active, leaving []grid.Member
	out := []grid.MemberID{self}
	used := map[string]int{} // voters per zone
	atLeast := 1
	for _, m := range members {
		switch {
		case m.ID == self:
			used[m.Attributes[zoneAttribute]]++
			if m.State == grid.Leaving {
				atLeast = 2
			}
		case m.State == grid.Active:
			active = append(active, m)
		case m.State == grid.Leaving:
			leaving = append(leaving, m)
		}
	}
	slices.SortStableFunc(active, func(a, b grid.Member) int { return cmp.Compare(taskOnly(a), taskOnly(b)) })
	all := 1 + len(active) + len(leaving)
	n := min(maxVoters, all-(all+1)%2) // odd
	n = max(n, min(atLeast, all))
	for len(out) < n {
		if len(active) == 0 {
			active, leaving = leaving, nil
		}
		first := len(active) // of those who come first
		for first > 1 && taskOnly(active[first-1]) > taskOnly(active[0]) {
			first--
		}
		i := leastUsedZone(active[:first], used)
		out = append(out, active[i].ID)
		used[active[i].Attributes[zoneAttribute]]++
		active = slices.Delete(active, i, i+1)
	}
	return out
}

// taskOnly is 1 for a member that runs tasks and does nothing else.
func taskOnly(m grid.Member) int {
	if m.Has(grid.RoleWorker) && !m.Has(grid.RoleData) {
		return 1
	}
	return 0
}

// leastUsedZone returns the index of the first member whose zone has the fewest voters.
func leastUsedZone(members []grid.Member, used map[string]int) int {
	best := 0
	for i, m := range members {
		if used[m.Attributes[zoneAttribute]] < used[members[best].Attributes[zoneAttribute]] {
			best = i
		}
	}
	return best
}
