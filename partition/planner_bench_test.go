package partition

import (
	"fmt"
	"testing"

	"gridnode/grid"
)

// benchWorld is a balanced cluster to which one more member has just come.
func benchWorld(t testing.TB, members int) *planWorld {
	w := newPlanWorld(t, grid.DefaultPartitions, 1, Limits{Transfers: 16, PerMember: 4})
	for range members - 1 {
		w.add("")
	}
	w.settle(always, 10)
	w.add("")
	return w
}

func BenchmarkPlan(b *testing.B) {
	for _, members := range []int{3, 10, 30} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			w := benchWorld(b, members)
			for b.Loop() {
				Plan(w.s, w.lim)
			}
		})
	}
}

func BenchmarkInstructions(b *testing.B) {
	w := benchWorld(b, 10)
	for b.Loop() {
		Instructions(w.s, w.lim)
	}
}
