package partition

import (
	"testing"

	"gridnode/grid"
)

// Partitions of one owner share the ring's order, so it is asked for once for each owner: that must be the order of all of them.
func TestPreference_IsTheRings(t *testing.T) {
	w := benchWorld(t, 7)
	members := w.s.DataMembers()
	rank := preference(members, grid.DefaultPartitions)
	ring := newRing(members, grid.DefaultPartitions)
	for id := range grid.DefaultPartitions {
		order, err := ring.GetClosestNForPartition(id, len(members))
		if err != nil {
			t.Fatal(err)
		}
		for place, m := range order {
			if got := rank[id*len(members)+m.(ringMember).number]; got != place {
				t.Fatalf("partition %d: %s has place %d, want %d", id, m, got, place)
			}
		}
	}
}
