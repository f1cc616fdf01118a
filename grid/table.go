package grid

import "slices"

// PartitionID numbers the partitions from 0.
type PartitionID int

// Epoch is the version of one partition's configuration. The first is 1; 0 means never assigned.
type Epoch uint64

// Partition says where one partition lives.
type Partition struct {
	Epoch    Epoch
	Replicas []MemberID // in-sync; index 0 is the primary; empty: never assigned, or lost
	Joining  []MemberID // being brought up; a new one does not raise the epoch

	// Reign is the epoch at which the present primary became primary, and Prev the replicas of the epoch before it: those whom a
	// takeover has to seal, besides the present ones.
	Reign Epoch
	Prev  []MemberID

	// Born is the epoch at which the partition was last started empty. A copy of an older birth is worthless.
	Born Epoch
	// Lost is set when the last in-sync replica was removed and nobody may be promoted.
	Lost bool
}

// Primary returns the primary, or "" if there is none.
func (p Partition) Primary() MemberID {
	if len(p.Replicas) == 0 {
		return ""
	}
	return p.Replicas[0]
}

// InSync reports whether the member is an in-sync replica.
func (p Partition) InSync(m MemberID) bool { return slices.Contains(p.Replicas, m) }

// IsJoining reports whether the member is being brought up.
func (p Partition) IsJoining(m MemberID) bool { return slices.Contains(p.Joining, m) }

// without returns list without m, never sharing the backing array.
func without(list []MemberID, m MemberID) []MemberID {
	out := make([]MemberID, 0, len(list))
	for _, x := range list {
		if x != m {
			out = append(out, x)
		}
	}
	return out
}
