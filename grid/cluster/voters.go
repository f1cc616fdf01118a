package cluster

import (
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

// nextServerChange compares raft's servers with the members and returns the next of the changes that make them agree; ok is false if they do.
// One at a time: after each, ask again. reachable tells which members hold a lease: nobody else is made a voter, for the change itself would
// have to wait for him.
func nextServerChange(self grid.MemberID, s *grid.State, servers []raft.Server, reachable func(grid.MemberID) bool) (change serverChange, ok bool) {
	known := make(map[grid.MemberID]raft.ServerSuffrage, len(servers))
	for _, sv := range servers {
		id := grid.MemberID(sv.ID)
		known[id] = sv.Suffrage
		if _, member := s.Member(id); !member && id != self {
			return serverChange{op: dropServer, id: id}, true
		}
	}
	for _, m := range s.Members {
		if _, there := known[m.ID]; !there {
			return serverChange{addNonvoter, m.ID, serverAddress(m)}, true
		}
	}
	want := wantVoters(self, s.Members)
	for _, m := range s.Members {
		if slices.Contains(want, m.ID) && known[m.ID] != raft.Voter && reachable(m.ID) {
			return serverChange{promote, m.ID, serverAddress(m)}, true
		}
	}
	for _, m := range s.Members {
		if !slices.Contains(want, m.ID) && known[m.ID] == raft.Voter && m.ID != self {
			return serverChange{op: demote, id: m.ID}, true
		}
	}
	return serverChange{}, false
}

// wantVoters chooses the voters: an odd number, up to five; this master first, then so that they are spread over zones, in the order of
// joining. Members that are leaving come last: until they are gone, their votes may be needed. A master that is leaving always gets a second
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
	all := 1 + len(active) + len(leaving)
	n := min(maxVoters, all-(all+1)%2) // odd
	n = max(n, min(atLeast, all))
	for len(out) < n {
		if len(active) == 0 {
			active, leaving = leaving, nil
		}
		i := leastUsedZone(active, used)
		out = append(out, active[i].ID)
		used[active[i].Attributes[zoneAttribute]]++
		active = slices.Delete(active, i, i+1)
	}
	return out
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
