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
	ring := make([]consistent.Member, len(members))
	for i, m := range members {
		ring[i] = ringMember{m.ID, i}
	}
	c := consistent.New(ring, consistent.Config{
		Hasher: ringHasher{}, PartitionCount: partitions, ReplicationFactor: ringPoints, Load: ringLoad,
	})
	rank := make([]int, partitions*len(members))
	for id := range partitions {
		order, err := c.GetClosestNForPartition(id, len(members))
		if err != nil {
			continue // neither too many members nor a partition out of range: the ring was made for both
		}
		for place, m := range order {
			rank[id*len(members)+m.(ringMember).number] = place
		}
	}
	return rank
}
