package partition

import (
	"testing"

	"gridnode/grid"
)

// TestOwed_FromTheMoment: the plan owes moves in the very state in which a member becomes active, although every partition has all its replicas;
// and it owes nothing once they are done.
func TestOwed_FromTheMoment(t *testing.T) {
	w := newPlanWorld(t, grid.DefaultPartitions, 1, Limits{Transfers: 16, PerMember: 4})
	for range 3 {
		w.add("")
	}
	w.settle(always, 10)
	if got := Owed(w.s); !got.Done() || !w.s.Complete() {
		t.Fatalf("a balanced table owes %+v", got)
	}
	w.add("")
	got := Owed(w.s)
	if !w.s.Complete() || got.Waiting == 0 || got.Done() {
		t.Errorf("with a new member it owes %+v, complete %t", got, w.s.Complete())
	}
	seen := map[string]bool{}
	for range 10_000 {
		if got = Owed(w.s); got.Done() {
			break
		}
		seen["running"] = seen["running"] || got.Running > 0
		seen["hand-overs"] = seen["hand-overs"] || got.HandOvers > 0
		seen["drops"] = seen["drops"] || got.Drops > 0
		w.round(always)
	}
	if !got.Done() || len(seen) != 3 || !seen["running"] || !seen["hand-overs"] || !seen["drops"] {
		t.Errorf("in the end it owes %+v, and it has owed %v", got, seen)
	}
	if newest := w.s.Members[len(w.s.Members)-1].ID; holdingOf(w.s, newest) == 0 {
		t.Errorf("%s has nothing", newest)
	}
	if got := Owed(&grid.State{}); !got.Done() {
		t.Errorf("nothing owes %+v", got)
	}
}

func holdingOf(s *grid.State, m grid.MemberID) (n int) {
	for _, p := range s.Partitions {
		if p.InSync(m) {
			n++
		}
	}
	return n
}
