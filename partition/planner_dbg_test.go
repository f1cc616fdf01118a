package partition

import "testing"

func TestDbg(t *testing.T) {
	for _, lim := range []Limits{{1, 1, false}, {16, 4, false}} {
		w := newPlanWorld(t, 271, 2, lim)
		for _, zone := range []string{"x", "x", "y", "y", "z", "z"} {
			w.add(zone)
			w.joins = 0
			n := 0
			for ; w.round(always) && n < 6000; n++ {
				if n%100 == 0 {
					tt := newTarget(w.s, lim)
					t.Log(n, w.joins, w.paired(), w.loads(), tt.replicas.load)
				}
			}
			t.Log("rounds", n, "joins", w.joins, "paired", w.paired(), w.loads())
		}
	}
}
