package gridtest

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/imap"
	"gridnode/node"
)

var sweepStep = flag.Duration("sweep.step", 500*time.Microsecond, "distance of the crash instants in sweeps")

// few keeps clusters of sweeps small: what is swept is time, not the number of partitions.
func few(cfg *node.Config) { cfg.Partitions = 17 }

func TestThreeMembers_MapOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3)
		defer c.Stop()
		ctx := context.Background()
		for i, m := range c.Live() {
			im := m.Map("m")
			k := key(fmt.Sprintf("k%d", i))
			if res, err := im.PutIfAbsent(ctx, k, imap.String("1"), 0); err != nil || !res.Applied {
				t.Fatalf("put if absent: %+v, %v", res, err)
			}
			res, err := im.Put(ctx, k, imap.String("2"), 0)
			if err != nil || textOf(t, res.Old) != "1" {
				t.Fatalf("put: %+v, %v", res, err)
			}
			for _, other := range c.Live() {
				e, err := other.Map("m").Get(ctx, k)
				if err != nil || textOf(t, e) != "2" || e.Version != res.Version {
					t.Fatalf("get: %+v, %v", e, err)
				}
			}
		}
		for i := range 1000 {
			if _, err := c.Live()[i%3].Map("big").Set(ctx, key(fmt.Sprint(i)), imap.Bytes(make([]byte, 2000)), 0); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[string]int{}
		if err := c.Live()[1].Map("big").Scan(ctx, func(e imap.Entry) error { seen[e.Key.Show()]++; return nil }); err != nil {
			t.Fatal(err)
		}
		size, err := c.Live()[2].Map("big").Size(ctx)
		if err != nil || size != 1000 || len(seen) != 1000 {
			t.Fatalf("size %d, %d keys scanned, %v", size, len(seen), err)
		}
	})
}

func TestThreeMembers_TimeToLive_GoesOnAfterTheCrashOfThePrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3)
		defer c.Stop()
		ctx := context.Background()
		k := key("k")
		if _, err := c.Live()[0].Map("m").Set(ctx, k, imap.String("v"), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.Sleep(5 * time.Second)
		c.Crash(c.PrimaryOf(k))
		m := c.Live()[0]
		if e, err := m.Map("m").Get(ctx, k); err != nil || !e.Found() {
			t.Fatalf("after the crash: %+v, %v", e, err)
		}
		gone := c.Await(time.Minute, "expiry", func() bool {
			e, err := m.Map("m").Get(ctx, k)
			return err == nil && !e.Found()
		})
		if took := time.Since(start); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("an entry that lives 10 s was gone after %v (%v after the crash)", took, gone)
		}
	})
}

// TestThreeMembers_CrashSweep kills the primary of a busy counter at every step of a run of increments and sets.
func TestThreeMembers_CrashSweep(t *testing.T) {
	limit := 30 * time.Millisecond
	if testing.Short() {
		limit = 5 * time.Millisecond
	}
	acked := 0
	for at := time.Duration(0); at < limit; at += *sweepStep {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few)
			defer c.Stop()
			victim := c.PrimaryOf(key("c0"))
			var through []*Member
			for _, m := range c.Live() {
				if m != victim {
					through = append(through, m)
				}
			}
			w := &tally{acked: map[string]string{}}
			wg := w.run(context.Background(), through, 6, 25)
			time.Sleep(at)
			c.Crash(victim)
			wg.Wait()
			c.AwaitSafe(2, 30*time.Second)
			w.check(t, through[0])
			acked += w.added
			if w.refused > 0 {
				t.Errorf("crash at %v: %d calls were given up although two members live", at, w.refused)
			}
		})
		if t.Failed() {
			t.Fatalf("crash at %v", at)
		}
	}
	t.Logf("%d increments acknowledged", acked)
}

func TestMembersComeAndGo_NothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 2)
		defer c.Stop()
		first := c.Live()[0]
		w := &tally{acked: map[string]string{}}
		ctx, cancel := context.WithCancel(context.Background())
		wg := w.run(ctx, c.Live()[:1], 4, 100000)
		c.Add()
		c.AwaitSafe(3, time.Minute)
		c.Add()
		c.AwaitSafe(4, time.Minute)
		crashed := c.Live()[1]
		c.Crash(crashed)
		c.AwaitSafe(3, time.Minute)
		c.Restart(crashed)
		c.AwaitSafe(4, time.Minute)
		if err := c.Leave(c.Live()[2]); err != nil {
			t.Errorf("leave: %v", err)
		}
		c.AwaitSafe(3, time.Minute)
		cancel()
		wg.Wait()
		w.check(t, first)
		t.Logf("%d increments, %d unknown, %d sets", w.added, w.unknown, len(w.acked))
	})
}

func TestFiveMembers_TwoDeaths_MastersOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 5, func(cfg *node.Config) { cfg.BackupCount = 2 })
		defer c.Stop()
		w := &tally{acked: map[string]string{}}
		ctx, cancel := context.WithCancel(context.Background())
		var through []*Member
		for _, m := range c.Live() {
			if m != c.Master() {
				through = append(through, m)
			}
		}
		wg := w.run(ctx, through[len(through)-1:], 4, 100000)
		for n := 4; n >= 3; n-- {
			old := c.Master()
			if old == through[len(through)-1] {
				break // the caller's own member
			}
			c.Crash(old)
			took := c.Await(10*time.Second, "a new master", func() bool { return c.Master() != nil && c.Master() != old })
			t.Logf("new master after %v", took)
			c.AwaitSafe(n, time.Minute)
		}
		cancel()
		wg.Wait()
		w.check(t, c.Live()[0])
	})
}
