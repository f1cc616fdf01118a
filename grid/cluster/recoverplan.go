package cluster

import (
	"fmt"
	"slices"
	"time"

	"gridnode/grid"
)

// A recovery re-forms the raft group from members that lost the majority of its voters for good. It is an operator's decision: nobody here can
// tell members that are dead from members that are cut off and go on without this side.
//
// Every survivor starts raft anew, under its own id, from one and the same snapshot: the newest agreed state that any of them has, without the
// others, in a configuration of the survivors. Its term, its index, the epochs and the cluster id are above, or other than, all that the old
// group can have used. So a member of the old group that comes back finds itself removed, and comes back as new, and a majority of it that was
// only cut off finds another cluster, which it cannot join.

// survey is what a member answers who is asked about a recovery.
type survey struct {
	Member    grid.Member
	State     *grid.State // with all that its log holds, committed or not
	LastTerm  uint64      // of the last entry of its log
	LastIndex uint64
	RaftTerm  uint64          // the latest that it knows
	Voters    []grid.MemberID // of the latest configuration that it knows
	Leased    bool
	Renewed   time.Duration // how long ago it asked for the lease that it was granted last; negative: never
}

// recoveryPlan is what every survivor starts raft anew from.
type recoveryPlan struct {
	Ballot  string
	State   *grid.State
	Servers []plannedServer
	Index   uint64 // of the snapshot
	Term    uint64 // of the snapshot, and the latest that raft knows
}

type plannedServer struct {
	ID      grid.MemberID
	Address string
	Voter   bool
}

// What a recovery adds to raft's numbers: the lost majority may have used some that no survivor has seen.
const (
	recoveryTerms   = 1000
	recoveryIndexes = 1_000_000
)

// newest returns the survey of the longest log, by raft's own rule: it has every committed entry that any of the surveyed has. Entries that are
// not known to be committed count as if they were. None does harm: each proposes what is true whether or not it gets through, and takes effect
// by compare-and-set.
func newest(surveys []survey) survey {
	return slices.MaxFunc(surveys, func(a, b survey) int {
		switch {
		case a.LastTerm != b.LastTerm:
			return compare(a.LastTerm, b.LastTerm)
		default:
			return compare(a.LastIndex, b.LastIndex)
		}
	})
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// refusal is the reason not to recover: the cluster can still decide by itself, or will as soon as it has elected. It is nil if it cannot.
func refusal(surveys []survey) error {
	for _, s := range surveys {
		if s.Leased {
			return fmt.Errorf("%w: %s holds a lease, so there is a master that leads a majority: nothing is to be recovered", grid.ErrRefused, s.Member.Name)
		}
	}
	voters := newest(surveys).Voters
	here := 0
	for _, v := range voters {
		if slices.ContainsFunc(surveys, func(s survey) bool { return s.Member.ID == v }) {
			here++
		}
	}
	if here > len(voters)/2 {
		return fmt.Errorf("%w: %d of %d voters answer, which is a majority: they elect a master by themselves", grid.ErrRefused, here, len(voters))
	}
	return nil
}

// planRecovery makes the plan of the member self, and says what it means. lease is the length of a lease.
func planRecovery(self grid.MemberID, surveys []survey, ballot, clusterID string, lease time.Duration) (recoveryPlan, grid.Recovery) {
	base := newest(surveys).State
	var ids []grid.MemberID
	latest := time.Duration(-1) // the last renewal of any
	p := recoveryPlan{Ballot: ballot}
	for _, s := range surveys {
		if s.Renewed >= 0 && (latest < 0 || s.Renewed < latest) {
			latest = s.Renewed
		}
		p.Index, p.Term = max(p.Index, s.LastIndex), max(p.Term, s.RaftTerm, s.LastTerm)
		if _, ok := base.Member(s.Member.ID); ok {
			ids = append(ids, s.Member.ID)
		}
	}
	stale := func(id grid.MemberID) bool {
		i := slices.IndexFunc(surveys, func(s survey) bool { return s.Member.ID == id })
		return i < 0 || surveys[i].Renewed < 0 || surveys[i].Renewed > latest+lease
	}
	var r grid.Recovery
	p.State, r = base.Recovered(clusterID, ids, stale)
	p.Index += recoveryIndexes
	p.Term = max(p.Term, base.Term) + recoveryTerms
	voters := wantVoters(self, p.State.Members)
	for _, m := range p.State.Members {
		p.Servers = append(p.Servers, plannedServer{m.ID, string(serverAddress(m)), slices.Contains(voters, m.ID)})
	}
	return p, r
}
