package grid

import "slices"

// What a recovery adds, so that nothing that the lost majority may have done unseen is taken for newer than what the survivors do: no epoch,
// no version and no index is used twice.
const (
	recoveryEpochs  = 1000
	recoveryEntries = 1_000_000
)

// Recovery tells what it means that some members go on without the others, and without a majority of the voters.
type Recovery struct {
	Survivors []Member
	Dropped   []Member
	Lost      []PartitionID // no in-sync replica survives: their entries are gone
	Doubtful  []PartitionID // what survives may lack the newest acknowledged writes: see [State.Recovered]
	Promoted  int           // partitions whose primary was dropped, and an in-sync backup takes over
}

// Recovered returns the state in which the survivors go on, under a new cluster id, and what that means. The others are removed as always: each
// partition keeps its in-sync replicas among the survivors, the first of them becomes primary where the primary is gone, and a partition without
// any is lost.
//
// An in-sync replica has every acknowledged write, as far as it still was one: a removal of it from the set, known to the lost majority only,
// would make it less. While a member holds a lease nobody takes it for silent. So partitions are Doubtful whose only survivors are stale:
// members whose lease had ended while others still had theirs.
func (s *State) Recovered(clusterID string, survivors []MemberID, stale func(MemberID) bool) (*State, Recovery) {
	next := *s
	next.ClusterID, next.Master = clusterID, ""
	next.Index += recoveryEntries
	next.Recoveries++
	next.Partitions = slices.Clone(s.Partitions)
	for i := range next.Partitions {
		if p := &next.Partitions[i]; p.Epoch > 0 {
			p.Epoch += recoveryEpochs
		}
	}
	var r Recovery
	for _, m := range s.Members {
		if slices.Contains(survivors, m.ID) {
			r.Survivors = append(r.Survivors, m)
			continue
		}
		r.Dropped = append(r.Dropped, m)
		_ = (&RemoveMember{ID: m.ID}).apply(&next) // it is a member
	}
	for i := range next.Partitions {
		was, is, id := s.Partitions[i], next.Partitions[i], PartitionID(i)
		switch {
		case len(was.Replicas) == 0:
		case len(is.Replicas) == 0:
			r.Lost = append(r.Lost, id)
		default:
			if is.Primary() != was.Primary() {
				r.Promoted++
			}
			if !slices.ContainsFunc(is.Replicas, func(m MemberID) bool { return !stale(m) }) {
				r.Doubtful = append(r.Doubtful, id)
			}
		}
	}
	return &next, r
}
