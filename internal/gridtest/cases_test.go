package gridtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

// The tests of this file retell faults that users of other grids have reported, as far as they fit into one process. Fake time makes their
// minutes cheap; their amounts of data are smaller.

// fill writes n entries, each as large as said.
func fill(t testing.TB, m *Member, n, size int) {
	t.Helper()
	for i := range n {
		_, err := m.Map("m").Set(context.Background(), key(fmt.Sprintf("k%d", i)), imap.String(fmt.Sprint(i, strings.Repeat(".", size))), 0)
		noError(t, err)
	}
}

// full checks that all n entries are there, with their values.
func full(t testing.TB, m *Member, n, size int) {
	t.Helper()
	got := map[string]string{}
	noError(t, m.Map("m").Scan(context.Background(), func(e imap.Entry) error { got[string(e.Key)] = present(e); return nil }))
	for i := range n {
		if want := fmt.Sprint(i, strings.Repeat(".", size)); got[string(imap.String(fmt.Sprintf("k%d", i)))] != want {
			t.Fatalf("violation: entry %d is lost or wrong through %s", i, m.Host)
		}
	}
	if len(got) != n {
		t.Fatalf("violation: %d entries, want %d", len(got), n)
	}
}

// TestC147_JoinerKilledWhileItJoins sweeps the instant at which a member is killed that is joining, while data moves to it.
func TestC147_JoinerKilledWhileItJoins(t *testing.T) {
	const entries, size = 300, 1000
	for after := 50 * time.Millisecond; after < 900*time.Millisecond; after += 90 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 1, few)
			defer c.Stop()
			first := c.Live()[0]
			fill(t, first, entries, size)
			second := c.Add()
			time.Sleep(after)
			c.Crash(second)
			full(t, first, entries, size)
			c.AwaitSafe(1, time.Minute)
			c.Restart(second)
			c.AwaitSafe(2, time.Minute)
			third := c.Add()
			time.Sleep(after)
			c.Crash(third)
			full(t, first, entries, size)
			c.AwaitSafe(2, time.Minute)
			full(t, c.Live()[1], entries, size)
		})
	}
}

// TestC148_AMemberDiesRightAfterTheLastAcknowledgement, round after round; puts go on meanwhile.
func TestC148_AMemberDiesRightAfterTheLastAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		rnd := rand.New(rand.NewPCG(148, 1))
		for round := range 20 {
			fill(t, c.Live()[round%3], 100, 10)
			victim := c.Live()[rnd.IntN(3)]
			c.Crash(victim)
			w := &tally{acked: map[string]string{}}
			ctx, cancel := context.WithCancel(context.Background())
			wg := w.run(ctx, c.Live(), 2, 20)
			c.Restart(victim)
			c.AwaitSafe(3, time.Minute)
			cancel()
			wg.Wait()
			full(t, c.Live()[0], 100, 10)
			for k, v := range w.acked {
				if e, err := c.Live()[1].Map("sets").Get(context.Background(), key(k)); err != nil || present(e) != v {
					t.Fatalf("violation: round %d: acknowledged put of %s is %q, %v", round, k, present(e), err)
				}
			}
		}
	})
}

// TestC152_AKeyThatIsWrittenOftenIsScannedOnce, with its newest value, during and after.
func TestC152_AKeyThatIsWrittenOftenIsScannedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		ctx := context.Background()
		fill(t, c.Live()[0], 100, 10)
		last := -1
		look := func() {
			seen := 0
			noError(t, c.Live()[1].Map("m").Scan(ctx, func(e imap.Entry) error {
				if string(e.Key) == string(imap.String("hot")) {
					seen++
					if want := fmt.Sprint(last, " "); !strings.HasPrefix(present(e), want) {
						t.Fatalf("violation: it is %.10q, want %q", present(e), want)
					}
				}
				return nil
			}))
			if n, err := c.Live()[2].Map("m").Size(ctx); err != nil || n != 101 || seen != 1 {
				t.Fatalf("violation: size %d, the key is there %d times, %v", n, seen, err)
			}
		}
		for i := range 2000 {
			_, err := c.Live()[0].Map("m").Set(ctx, key("hot"), imap.String(fmt.Sprint(i, " ", strings.Repeat("x", 10_000))), 0)
			noError(t, err)
			if last = i; i%100 == 0 {
				look()
			}
		}
		look()
	})
}

// TestC163_TheMasterStartsAgainAtOnce at its address: the others go on, there is one master, and it joins as a new member.
func TestC163_TheMasterStartsAgainAtOnce(t *testing.T) {
	for after := time.Duration(0); after <= 500*time.Millisecond; after += 100 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few)
			defer c.Stop()
			fill(t, c.Live()[0], 100, 10)
			old := c.Master()
			was := old.ID()
			c.Crash(old)
			time.Sleep(after)
			fresh := c.Restart(old)
			start := time.Now()
			for _, m := range c.Live() {
				if m != fresh {
					full(t, m, 100, 10)
				}
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("the others answered after %v", took)
			}
			c.AwaitSafe(3, 15*time.Second)
			if fresh.ID() == was {
				t.Error("the restarted member has its old id")
			}
			c.oneMaster()
		})
	}
}

// oneMaster checks that all live members know the same master.
func (c *Cluster) oneMaster() {
	c.t.Helper()
	known := map[grid.MemberID]bool{}
	for _, m := range c.Live() {
		known[m.Node.State().Master] = true
	}
	if len(known) != 1 {
		c.t.Errorf("violation: the members know %d masters", len(known))
	}
}

// TestC166_ARestartBeforeTheRemovalOfTheOldSelf waits, joins, and does not give up.
func TestC166_ARestartBeforeTheRemovalOfTheOldSelf(t *testing.T) {
	for after := time.Duration(0); after <= 400*time.Millisecond; after += 50 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few)
			defer c.Stop()
			victim := c.Live()[2]
			c.Crash(victim)
			time.Sleep(after)
			fresh := c.Restart(victim)
			if took := c.AwaitSafe(3, 15*time.Second); took > 5*time.Second {
				t.Errorf("it joined after %v", took)
			}
			select {
			case err := <-fresh.done:
				t.Errorf("it gave up: %v", err)
			default:
			}
		})
	}
}

// TestC167_KilledAndStarted_TwentyTimes: a member comes back every time, and the other does not grow.
func TestC167_KilledAndStarted_TwentyTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 2, few)
		defer c.Stop()
		stays := c.Master()
		before := 0
		for round := range 20 {
			victim := c.Live()[1-slices.Index(c.Live(), stays)]
			c.Crash(victim)
			c.Await(20*time.Second, "the removal", func() bool { return len(stays.Node.State().Members) == 1 })
			c.Restart(victim)
			c.AwaitSafe(2, 20*time.Second)
			if round != 2 && round != 19 {
				continue
			}
			time.Sleep(memberlistRest) // what the dead have left behind ends
			if n := runtime.NumGoroutine(); round == 2 {
				before = n
			} else if round == 19 && n > before+before/10 {
				t.Errorf("%d goroutines after round 20, %d after round 3", n, before)
			}
		}
	})
}
