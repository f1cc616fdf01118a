package gridtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine"
	"gridnode/grid"
	"gridnode/imap"
	"gridnode/node"
)

// lostWith returns the partitions whose replicas are all among the members.
func lostWith(s *grid.State, gone []grid.MemberID) (out []grid.PartitionID) {
	for i, p := range s.Partitions {
		if !slices.ContainsFunc(p.Replicas, func(id grid.MemberID) bool { return !slices.Contains(gone, id) }) {
			out = append(out, grid.PartitionID(i))
		}
	}
	return out
}

// TestThreeOfFiveCrashAtOnce_RecoverBringsBackWhatSurvives: without a majority every call ends in bounded time and says why; after the recovery
// all that has a surviving in-sync replica is there, what was said to be lost is exactly what is lost, and the cluster works. The crash comes
// at different moments of a run of writes.
func TestThreeOfFiveCrashAtOnce_RecoverBringsBackWhatSurvives(t *testing.T) {
	for i := range 6 {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 5, func(cfg *node.Config) {
				cfg.Partitions, cfg.BackupCount = 31, 1+i%2
				cfg.Join = append(cfg.Join, "m4:5701", "m5:5701")
			})
			defer c.Stop()
			ctx := context.Background()
			w := &tally{acked: map[string]string{}}
			through := c.Live()[3:]
			load, stop := context.WithCancel(ctx)
			wg := w.run(load, through, 4, 100000)
			time.Sleep(40*time.Millisecond + time.Duration(i)*330*time.Microsecond)
			before, victims := through[0].Node.State(), c.Live()[:3]
			var gone []grid.MemberID
			for _, m := range victims {
				gone = append(gone, m.ID())
			}
			for _, m := range victims {
				c.Crash(m)
			}
			stop()
			lost := lostWith(before, gone)
			m := through[i%2]
			wg.Wait()

			bounded(t, m) // and once more when the lease has been over for long: then the answer comes at once
			time.Sleep(10 * time.Second)
			if took := bounded(t, m); took > 200*time.Millisecond {
				t.Errorf("long without a majority, a call still takes %v", took)
			}
			c.askAll(m, 6*time.Second, false)

			dry, err := m.Node.Recover(ctx, false)
			if err != nil {
				t.Fatal(err)
			}
			report, err := m.Node.Recover(ctx, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []grid.Recovery{dry, report} {
				if !slices.Equal(r.Lost, lost) || len(r.Doubtful) > 0 || len(r.Survivors) != 2 || len(r.Dropped) != 3 {
					t.Errorf("the report says %+v, lost are %v", r, lost)
				}
			}
			c.AwaitSafe(2, time.Minute)
			there, missing := c.checkSurvivors(w, m, lost)
			t.Logf("%d backups: %d keys are there, %d were in the %d lost partitions", 1+i%2, there, missing, len(lost))
			if there == 0 {
				t.Error("no key was left to check")
			}
			again := &tally{acked: map[string]string{}}
			again.run(ctx, through, 4, 20).Wait()
			if len(again.acked) != 80 || again.refused+again.unknown > 0 {
				t.Errorf("after the recovery: %d of 80 writes, %d unknown, %d refused", len(again.acked), again.unknown, again.refused)
			}
			c.Add()
			c.Add()
			c.AwaitSafe(4, time.Minute) // three voters again, and any of them may die
			c.Crash(c.Master())
			c.AwaitSafe(3, time.Minute)
			if s := c.Live()[0].Node.State(); s.Recoveries != 1 || s.Losses != uint64(len(lost)) {
				t.Errorf("%d recoveries, %d losses", s.Recoveries, s.Losses)
			}
		})
	}
}

// bounded makes a read and a write, which must both end in bounded time with ErrNoQuorum, and returns how long the slower took.
func bounded(t *testing.T, m *Member) (slower time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for name, call := range map[string]func() error{
		"get":  func() error { _, err := m.Map("m").Get(ctx, key("k")); return err },
		"set":  func() error { _, err := m.Map("m").Set(ctx, key("k"), imap.String("v"), 0); return err },
		"size": func() error { _, err := m.Map("m").Size(ctx); return err },
		"jobs": func() error { _, err := m.Jobs().Overview(ctx); return err },
	} {
		wg.Go(func() {
			begin := time.Now()
			err := call()
			took := time.Since(begin)
			mu.Lock()
			defer mu.Unlock()
			slower = max(slower, took)
			unknown := name == "set" && grid.KindOf(err) == grid.Indeterminate // it was on its way when they died
			told := errors.Is(err, grid.ErrNoQuorum) || name == "jobs" && errors.Is(err, engine.ErrRetryable)
			if !told && !unknown || took > 6500*time.Millisecond {
				t.Errorf("%s ends after %v with %v", name, took, err)
			}
		})
	}
	wg.Wait()
	return slower
}

// checkSurvivors holds what was acknowledged against what is there: all of it but what is in a lost partition, of which there must be nothing.
func (c *Cluster) checkSurvivors(w *tally, m *Member, lost []grid.PartitionID) (there, missing int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for k, v := range w.acked {
		e, err := m.Map("sets").Get(ctx, key(k))
		if err != nil {
			c.t.Fatalf("read %s: %v", k, err)
		}
		p, _ := m.Node.Maps().Partition(key(k))
		switch isLost := slices.Contains(lost, p); {
		case isLost && e.Found():
			c.t.Errorf("partition %d was lost, and %s is there", p, k)
		case isLost:
			missing++
		case bodyOf(e) != v:
			c.t.Errorf("partition %d survives, and the acknowledged %s is %q, not %q", p, k, bodyOf(e), v)
		default:
			there++
		}
	}
	return there, missing
}

// TestRecover_WithOnPartitionLossBlock: lost partitions stay lost, and say so; the others work.
func TestRecover_WithOnPartitionLossBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, func(cfg *node.Config) { cfg.OnPartitionLoss = node.LossBlock })
		defer c.Stop()
		before := c.Live()[2].Node.State()
		gone := []grid.MemberID{c.Live()[0].ID(), c.Live()[1].ID()}
		lost := lostWith(before, gone)
		c.Crash(c.Live()[0])
		c.Crash(c.Live()[0])
		m := c.Live()[0]
		c.Await(10*time.Second, "the end of its lease", func() bool { _, err := m.Node.Recover(context.Background(), false); return err == nil })
		if _, err := m.Node.Recover(context.Background(), true); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			k := key(fmt.Sprint(i))
			p, _ := m.Node.Maps().Partition(k)
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			_, err := m.Map("m").Set(ctx, k, imap.String("v"), 0)
			cancel()
			if isLost := slices.Contains(lost, p); isLost != errors.Is(err, grid.ErrPartitionLost) || !isLost && err != nil {
				t.Errorf("partition %d, lost %v: %v", p, isLost, err)
			}
		}
		if v := c.view(m); v.LostPartitions != len(lost) || len(lost) == 0 {
			t.Errorf("%d partitions are lost, want %d", v.LostPartitions, len(lost))
		}
	})
}

// TestRecover_StaleSurvivorIsDoubtful: a member that had lost touch before the others died may have been dropped from a set unseen; it says so.
func TestRecover_StaleSurvivorIsDoubtful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 5, few)
		defer c.Stop()
		fresh, stale := c.Live()[3], c.Live()[4]
		s := fresh.Node.State()
		var doubtful []grid.PartitionID
		for i, p := range s.Partitions {
			if p.InSync(stale.ID()) && !p.InSync(fresh.ID()) {
				doubtful = append(doubtful, grid.PartitionID(i))
			}
		}
		c.Net.Isolate(stale.Host)
		time.Sleep(900 * time.Millisecond) // more than a lease, less than its removal takes
		for range 3 {
			c.Crash(c.Live()[0])
		}
		c.Net.HealAll()
		time.Sleep(time.Second)
		report, err := stale.Node.Recover(context.Background(), true)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(report.Doubtful, doubtful) || len(doubtful) == 0 {
			t.Errorf("doubtful are %v, want %v", report.Doubtful, doubtful)
		}
		c.AwaitSafe(2, time.Minute)
	})
}

// TestMajorityComesBack_StateIsBackByItself: nobody has to do anything when the majority was only cut off.
func TestMajorityComesBack_StateIsBackByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		ctx := context.Background()
		if _, err := c.Live()[0].Map("m").Set(ctx, key("k"), imap.String("v"), 0); err != nil {
			t.Fatal(err)
		}
		ids := map[grid.MemberID]bool{}
		for _, m := range c.Live() {
			ids[m.ID()] = true
			for _, x := range c.Live() {
				if x != m {
					c.Net.Cut(m.Host, x.Host)
				}
			}
		}
		time.Sleep(20 * time.Second)
		for _, m := range c.Live() {
			bounded(t, m)
		}
		c.Net.HealAll()
		start := time.Now()
		for _, m := range c.Live() {
			c.Await(10*time.Second, m.Host+" to answer", func() bool {
				e, err := m.Map("m").Get(ctx, key("k"))
				return err == nil && textOf(t, e) == "v"
			})
		}
		t.Logf("all answer after %v", time.Since(start))
		c.AwaitSafe(3, time.Minute)
		for _, m := range c.Live() {
			if !ids[m.ID()] {
				t.Errorf("%s has a new id: nobody could have removed it", m.Host)
			}
		}
	})
}
