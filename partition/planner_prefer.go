package partition

import (
	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"

	"gridnode/grid"
)

// The ring's settings are fixed: every member has to get the same order of preference. Its load bound plays no part in ours.
const (
	ringPoints = 20
	ringLoad   = 1.25
)

type ringHasher struct{}

func (ringHasher) Sum64(b []byte) uint64 { return xxhash.Sum64(b) }

type ringMember struct {
	id     grid.MemberID
	number int
}

func (m ringMember) String() string { return string(m.id) }

// preference returns rank[id*len(members)+m], the place of member m in the order of preference for partition id. The order is that of a
// consistent hashing ring, so it depends on nothing but the members' ids, and hardly changes when a member comes or goes.
func preference(members []grid.Member, partitions int) []int {
	c := newRing(members, partitions)
	// The ring orders members from a partition's owner on, so partitions of one owner share an order; working it out is the slow part.
	orders := make(map[int][]consistent.Member, len(members))
	rank := make([]int, partitions*len(members))
	for id := range partitions {
		owner := c.GetPartitionOwner(id).(ringMember).number
		order, ok := orders[owner]
		if !ok {
			// The error means more members than there are, or a partition out of range: neither, the ring was made for both.
			order, _ = c.GetClosestNForPartition(id, len(members))
			orders[owner] = order
		}
		for place, m := range order {
			rank[id*len(members)+m.(ringMember).number] = place
		}
	}
	return rank
}

func newRing(members []grid.Member, partitions int) *consistent.Consistent {
	ring := make([]consistent.Member, len(members))
	for i, m := range members {
		ring[i] = ringMember{m.ID, i}
	}
	return consistent.New(ring, consistent.Config{
		Hasher: ringHasher{}, PartitionCount: partitions, ReplicationFactor: ringPoints, Load: ringLoad,
	})
}
