package cluster

import (
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
)

// standStill pauses a member of n, the master or another one, and returns how long it takes until nobody else knows it.
func standStill(t *testing.T, seed, n int, master bool) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, uint64(seed), n)
		time.Sleep(time.Second + time.Duration(seed)*17*time.Millisecond)
		m := w.master()
		if !master {
			m = w.others(m)[0]
		}
		id, rest := m.Self().ID, w.others(m)
		w.net.Pause(m.host)
		took = w.await("its removal", 10*time.Second, func() bool {
			return !slices.ContainsFunc(rest, func(x *member) bool { s, _ := x.View(); _, ok := s.Member(id); return ok })
		})
	})
	return took
}

// TestStandStill_RemovedInTime: whenever it stops, a member that stands still is removed within 2.6 s: its partitions have another primary in
// less than 3. Gossip alone needs up to 4.3 s.
func TestStandStill_RemovedInTime(t *testing.T) {
	t.Parallel()
	var all []time.Duration
	for seed := range 16 {
		all = append(all, standStill(t, seed, 3+seed/8*2, seed%2 == 0))
	}
	t.Logf("removed after %s", spread(all))
	if slices.Max(all) > 2600*time.Millisecond {
		t.Errorf("%s", all)
	}
}

// TestStandStill_ShortIsNoDeath: a member that stands still for no more than 1.8 s stays.
func TestStandStill_ShortIsNoDeath(t *testing.T) {
	t.Parallel()
	for seed := range 6 {
		synctest.Test(t, func(t *testing.T) {
			w := formedWorld(t, uint64(seed), 3)
			time.Sleep(time.Second + time.Duration(seed)*31*time.Millisecond)
			m := w.others(w.master())[0]
			w.net.Pause(m.host)
			time.Sleep(1800 * time.Millisecond)
			w.net.Resume(m.host)
			time.Sleep(3 * time.Second)
			w.awaitAgreed(3, time.Second)
			if s, _ := w.master().View(); s.NextJoinSeq != 3 {
				t.Errorf("it was replaced: %+v", s.Members)
			}
		})
	}
}

// TestLedger_AsksTheSilent: who has not been heard for three leases is asked, and again when the question is over.
func TestLedger_AsksTheSilent(t *testing.T) {
	start := time.Unix(100, 0)
	s := &grid.State{Members: members("", "", "", "")}
	l := newLedger("m1", &Config{SessionTimeout: 5 * time.Second}, s, start)
	l.lease = 500 * time.Millisecond
	l.predecessor("m2", start.Add(-400*time.Millisecond))
	l.predecessor("m3", start.Add(-time.Hour)) // it must not be taken for dead at once
	ask := func(ms int, want ...grid.MemberID) {
		t.Helper()
		if got := l.unheard(s, start.Add(time.Duration(ms)*time.Millisecond)); !slices.Equal(got, want) {
			t.Errorf("after %d ms it asks %v, not %v", ms, got, want)
		}
	}
	ask(499)
	ask(500, "m3")
	ask(1100, "m2")
	l.arrived("m3", 1, start.Add(1300*time.Millisecond))
	ask(1500, "m4")
	ask(2100, "m2") // and not m3, which was heard since
	l.hint(hint{id: "m4", why: "a test", since: start.Add(2100 * time.Millisecond)})
	ask(2600)
	ask(2800, "m3")
	l.predecessor("m1", start.Add(-time.Hour))
	l.predecessor("m9", start)
	ask(60_000, "m2", "m3")
	s.Members[3].State = grid.Suspended
	ask(70_000, "m2", "m3", "m4") // it is waited for, and may be found to be dead
	l.hint(hint{"m4", "a test", true, start.Add(70 * time.Second)})
	ask(80_000, "m2", "m3")
}

// TestMeasurePause prints how long it takes until a member that stands still is removed, in fake time. It is run by hand, with
// GRIDNODE_MEASURE=1: the master's patience was chosen by it.
func TestMeasurePause(t *testing.T) {
	if os.Getenv("GRIDNODE_MEASURE") == "" {
		t.Skip("GRIDNODE_MEASURE is not set")
	}
	for _, n := range []int{3, 5} {
		for _, master := range []bool{false, true} {
			var removed []time.Duration
			for i := range 100 {
				removed = append(removed, standStill(t, i, n, master))
			}
			t.Logf("n=%d: one that stands still (the master: %v) is removed after %s", n, master, spread(removed))
		}
	}
}
