package gridtest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

// sole returns the partitions of which nobody but these members has a copy, and those of which they and others have one.
func sole(s *grid.State, ids ...grid.MemberID) (alone, shared []grid.PartitionID) {
	among := map[grid.MemberID]bool{}
	for _, id := range ids {
		among[id] = true
	}
	for i, p := range s.Partitions {
		mine := 0
		for _, m := range p.Replicas {
			if among[m] {
				mine++
			}
		}
		switch {
		case mine == len(p.Replicas):
			alone = append(alone, grid.PartitionID(i))
		case mine > 0:
			shared = append(shared, grid.PartitionID(i))
		}
	}
	return alone, shared
}

// pair returns two members other than the master who together have all copies of some partition, and those partitions; and those that others have
// too.
func (c *Cluster) pair(master *Member) (two []*Member, alone, shared []grid.PartitionID) {
	c.t.Helper()
	for _, a := range c.Live() {
		for _, b := range c.Live() {
			if a == b || a == master || b == master {
				continue
			}
			alone, shared = sole(master.Node.State(), a.ID(), b.ID())
			if len(alone) > 0 && len(shared) > 0 {
				return []*Member{a, b}, alone, shared
			}
		}
	}
	c.t.Fatal("no two members have a partition to themselves")
	return nil, nil, nil
}

// takesWrites reports whether a partition takes a write now.
func takesWrites(t testing.TB, m *Member, p grid.PartitionID) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	for i := range 1000 {
		k := key(fmt.Sprint("probe ", i))
		if at, _ := m.Node.Maps().Partition(k); at == p {
			_, err := m.Map("probes").Set(ctx, k, imap.String("v"), 0)
			return err == nil
		}
	}
	t.Fatalf("no key of partition %d", p)
	return false
}

// TestSilentMembers_KeepWhatOnlyTheyHave: members fall silent who hold the last copies of something, because another one has just died or because
// both copies are on them. Nothing is lost when they come back; what others have too takes writes meanwhile.
func TestSilentMembers_KeepWhatOnlyTheyHave(t *testing.T) {
	const entries = 300
	for died, out := range []time.Duration{4 * time.Second, 20 * time.Second} { // both fall silent, or one dies and one falls silent
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 5, few)
			defer c.Stop()
			c.awaitBalance(4)
			master := c.Master()
			fill(t, master, entries, 10)
			two, alone, shared := c.pair(master)
			silent, dead := two[:2-died], two[2-died:]
			var ids []grid.MemberID
			for _, m := range silent {
				ids = append(ids, m.ID())
			}
			for _, m := range silent {
				c.Net.Isolate(m.Host)
			}
			for _, m := range dead {
				c.Crash(m)
			}
			began := time.Now()
			for _, p := range shared {
				c.Await(4*time.Second-time.Since(began), "writes to what others have too", func() bool { return takesWrites(t, master, p) })
			}
			for time.Since(began) < out {
				for _, p := range alone {
					if row := master.Node.State().Partitions[p]; row.Lost || row.Born != 1 {
						t.Fatalf("violation: partition %d was given up after %s: %+v", p, time.Since(began), row)
					}
				}
				time.Sleep(50 * time.Millisecond)
			}
			for i, m := range silent {
				if x, ok := master.Node.State().Member(ids[i]); !ok || x.State != grid.Suspended {
					t.Errorf("%s is %+v", m.Host, x)
				}
			}
			c.Net.HealAll()
			took := c.AwaitSafe(5-died, time.Minute)
			t.Logf("%d silent, %d dead: safe again %s after they came back", len(silent), died, took)
			for _, m := range c.Live() {
				full(t, m, entries, 10)
			}
			if n := master.Node.State().Losses; n != 0 {
				t.Errorf("violation: %d losses", n)
			}
		})
	}
}

// TestSilentMembers_AreGivenUpInTheEnd: who does not come back does not stop the cluster for ever.
func TestSilentMembers_AreGivenUpInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 5, few)
		defer c.Stop()
		c.awaitBalance(4)
		master := c.Master()
		two, alone, _ := c.pair(master)
		for _, m := range two {
			c.Net.Isolate(m.Host)
		}
		began := time.Now()
		for _, p := range alone {
			c.Await(40*time.Second-time.Since(began), "writes to what was lost", func() bool { return takesWrites(t, master, p) })
		}
		if took := time.Since(began); took < 25*time.Second {
			t.Errorf("given up after %s", took)
		}
		if n := master.Node.State().Losses; n != uint64(len(alone)) || n == 0 {
			t.Errorf("%d losses of %d partitions", n, len(alone))
		}
		c.Net.HealAll()
		c.AwaitSafe(5, time.Minute)
	})
}

// TestSilentMembers_WhoDiesWhileWaitedFor: once its host says that its process is gone, a suspended member is not waited for any longer.
func TestSilentMembers_WhoDiesWhileWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 5, few)
		defer c.Stop()
		c.awaitBalance(4)
		master := c.Master()
		two, alone, _ := c.pair(master)
		for _, m := range two {
			c.Net.Isolate(m.Host)
		}
		c.Await(5*time.Second, "their suspension", func() bool {
			for _, m := range two {
				if x, ok := master.Node.State().Member(m.ID()); !ok || x.State != grid.Suspended {
					return false
				}
			}
			return true
		})
		for _, m := range two {
			c.Crash(m)
		}
		c.Net.HealAll()
		began := time.Now()
		for _, p := range alone {
			c.Await(5*time.Second-time.Since(began), "writes to what was lost", func() bool { return takesWrites(t, master, p) })
		}
	})
}
