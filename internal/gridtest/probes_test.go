package gridtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/internal/memnet"
	"gridnode/node"
)

// probes are the traps of replication under a table of places, and the test that steps on each. A test is named with its directory.
var probes = []struct{ trap, test string }{
	{"stale read of a primary that was cut off or paused", "internal/gridtest TestNemesis"},
	{"a lease that is asked before the read and not after", "e2e TestPausedPrimary_WakesToManyReads"},
	{"a clock that jumps", "internal/arch TestC171_DecisionsIgnoreTheSystemsClock"},
	{"lease counted from the reply", "internal/gridtest TestProbe_LateGrant"},
	{"lease that a deposed master grants", "grid/cluster TestChaos"},
	{"read of what is not committed", "internal/gridtest TestNemesis"},
	{"write of unknown outcome that appears later", "internal/gridtest TestNemesis"},
	{"backups that differ after a promotion", "internal/gridtest TestProbe_DivergentBackups"},
	{"acknowledgement of a replica that is none any more", "partition TestSimulation"},
	{"acknowledgement after a timeout", "internal/gridtest TestProbe_SilentBackup_NoAckBeforeItIsDropped"},
	{"a member that acts on an old table", "internal/gridtest TestProbe_TableLag"},
	{"a partition that has lost all replicas", "internal/gridtest TestProbe_AllReplicasLost"},
	{"a set of replicas that shrinks without a majority", "internal/gridtest TestProbe_NoMajority_NoAck"},
	{"a restarted replica that counts as in-sync", "internal/gridtest TestProbe_RestartFasterThanDetection"},
	{"two primaries by an asymmetric cut", "internal/gridtest TestNemesis"},
	{"a move that breaks off half-way", "internal/gridtest TestC147_JoinerKilledWhileItJoins"},
	{"a removed entry that comes back", "internal/gridtest TestC149_RemovedEntriesStayRemoved"},
	{"a copy that races with writes", "internal/gridtest TestKnownBad"},
	{"time to live on replicas", "internal/gridtest TestThreeMembers_TimeToLive_GoesOnAfterTheCrashOfThePrimary"},
	{"reads that only the primary knows of", "internal/gridtest TestMaxIdle_GoesOnAfterTheCrashOfThePrimary"},
	{"an expiry that only the primary knows", "internal/gridtest TestProbe_ExpiredRead"},
	{"a retry that acts twice", "internal/gridtest TestNemesis"},
	{"an error that says no for a yes", "internal/gridtest TestNemesis"},
	{"an operation that backups run themselves", "internal/gridtest TestExecuteOnKey_CountsOnce_ThroughACrash"},
	{"a lock whose owner died, with its primary", "internal/gridtest TestC133_HolderAndPrimaryDieTogether"},
	{"a lock whose owner was paused", "internal/gridtest TestC135_RemovedHolder_IsNotTheOwner"},
	{"an owner who cannot unlock after a failover", "internal/gridtest TestC136_PrimaryDiesDuringTheWait"},
	{"a scan across moves", "internal/gridtest TestNemesis"},
	{"a log of the table that was cut off behind a snapshot", "grid/cluster TestJoin_BySnapshot"},
}

// TestProbes_Exist keeps the list true: every test that it names is there.
func TestProbes_Exist(t *testing.T) {
	for _, p := range probes {
		dir, name, _ := strings.Cut(p.test, " ")
		files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(b), "\nfunc "+name+"(t *testing.T)")
		}
		if !found {
			t.Errorf("%s: there is no test %s in %s", p.trap, name, dir)
		}
	}
}

// roles are the members of one key: its primary, its backups, and the rest.
type roles struct {
	key     string
	primary *Member
	backups []*Member
	rest    []*Member
}

// cast returns the roles for the first of some keys that suits.
func (c *Cluster) cast(suits func(roles) bool) roles {
	c.t.Helper()
	for i := range 500 {
		r := roles{key: fmt.Sprintf("p%d", i)}
		m := c.Live()[0]
		p, _ := m.Node.Maps().Partition(key(r.key))
		row := m.Node.State().Partitions[p]
		for _, o := range c.Live() {
			switch {
			case o.ID() == row.Primary():
				r.primary = o
			case row.InSync(o.ID()):
				r.backups = append(r.backups, o)
			default:
				r.rest = append(r.rest, o)
			}
		}
		if r.primary != nil && len(r.backups) == len(row.Replicas)-1 && suits(r) {
			return r
		}
	}
	c.t.Fatal("no key has the roles that are wanted")
	return roles{}
}

// outsiders suits if neither the primary nor a backup is the master.
func (c *Cluster) outsiders(r roles) bool {
	master := c.Master()
	for _, b := range r.backups {
		if b == master {
			return false
		}
	}
	return r.primary != master && len(r.backups) > 0
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// textAt reads a key through a member, in place if that is set.
func textAt(t testing.TB, m *Member, k imap.Key) string {
	t.Helper()
	e, err := m.Map("m").Get(context.Background(), k)
	if err != nil {
		t.Fatalf("read through %s: %v", m.Host, err)
	}
	return present(e)
}

// TestProbe_ExpiredRead: the backup gets everything late, so that an entry lives longer there. Whoever was told that it is over must not be
// contradicted after the primary's death.
func TestProbe_ExpiredRead(t *testing.T) {
	// The primary looks for what is over every 25 ms; the read has to come before it does.
	for at := time.Duration(0); at < 25*time.Millisecond; at += 4 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) { probeExpiredRead(t, at) })
	}
}

func probeExpiredRead(t *testing.T, at time.Duration) {
	c := Start(t, 3, few)
	defer c.Stop()
	r := c.cast(c.outsiders)
	c.Net.SetFault(r.primary.Host, r.backups[0].Host, memnet.Fault{Delay: 1500 * time.Millisecond})
	time.Sleep(at)
	ctx, ttl, written := context.Background(), 1200*time.Millisecond, make(chan error, 1)
	go func() {
		_, err := r.primary.Map("m").Set(ctx, key(r.key), imap.String("v"), ttl)
		written <- err
	}()
	time.Sleep(ttl + time.Millisecond) // its time is over, and the primary has not yet looked for what is
	if got := textAt(t, r.primary, key(r.key)); got != "" {
		t.Fatalf("after its time it is %q", got)
	}
	noError(t, <-written)
	c.Crash(r.primary)
	if got := textAt(t, r.backups[0], key(r.key)); got != "" {
		t.Errorf("violation: %q is back after it was read as absent", got)
	}
}

// TestProbe_LateGrant: a grant of the master is on its way to a primary when that is cut off, and arrives after it was removed. It must not
// answer from what it still holds.
func TestProbe_LateGrant(t *testing.T) {
	for at := time.Duration(0); at < 100*time.Millisecond; at += 23 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few, func(cfg *node.Config) { cfg.SessionTimeout = 700 * time.Millisecond })
			defer c.Stop()
			r := c.cast(c.outsiders)
			ctx, master := context.Background(), c.Master()
			_, err := master.Map("m").Set(ctx, key(r.key), imap.String("old"), 0)
			noError(t, err)
			c.Net.SetFault(master.Host, r.primary.Host, memnet.Fault{Delay: 80 * time.Millisecond})
			time.Sleep(time.Second + at)
			c.Net.Isolate(r.primary.Host)
			was := r.primary.ID() // a write that is sent to it now would wait for longer than its connections last
			c.Await(3*time.Second, "its removal", func() bool { _, ok := master.Node.State().Member(was); return !ok })
			_, err = master.Map("m").Set(ctx, key(r.key), imap.String("new"), 0)
			noError(t, err)
			c.Net.HealAll()
			// What it sent while it was cut off arrives now, so it learns of its removal within a fraction of a millisecond.
			for healed := time.Now(); time.Since(healed) < 3*time.Millisecond; time.Sleep(10 * time.Microsecond) {
				call, cancel := context.WithTimeout(ctx, 10*time.Microsecond)
				e, err := r.primary.Map("m").Get(call, key(r.key))
				cancel()
				if err == nil && present(e) != "new" {
					t.Fatalf("violation: %v after the link was mended the removed primary shows %q", time.Since(healed), present(e))
				}
			}
			c.AwaitSafe(3, time.Minute)
		})
	}
}

// TestProbe_DivergentBackups: two backups get different tails. What one of them shows after the primary's death, the other shows after its.
func TestProbe_DivergentBackups(t *testing.T) {
	for at := range 6 {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 5, few, func(cfg *node.Config) { cfg.BackupCount = 2 })
			defer c.Stop()
			r := c.cast(func(r roles) bool { return len(r.backups) == 2 })
			ctx := context.Background()
			_, err := r.primary.Map("m").Set(ctx, key(r.key), imap.String("old"), 0)
			noError(t, err)
			c.Net.CutOneWay(r.primary.Host, r.backups[at%2].Host)
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			_, err = r.primary.Map("m").Set(short, key(r.key), imap.String("new"), 0)
			cancel()
			if err == nil {
				t.Errorf("violation: a write that one backup lacks was acknowledged")
			}
			c.Crash(r.primary)
			shown := textAt(t, r.rest[0], key(r.key))
			c.AwaitSafe(4, time.Minute)
			c.Crash(c.PrimaryOf(key(r.key)))
			if got := textAt(t, c.Live()[0], key(r.key)); got != shown {
				t.Errorf("violation: it was %q after one death and is %q after two", shown, got)
			}
		})
	}
}

// TestProbe_SilentBackup_NoAckBeforeItIsDropped: a backup does not hear the primary. The write returns only when the table says that the
// backup is none any more.
func TestProbe_SilentBackup_NoAckBeforeItIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		r := c.cast(c.outsiders)
		c.Net.CutOneWay(r.primary.Host, r.backups[0].Host)
		silent := r.backups[0].ID()
		start := time.Now()
		_, err := r.primary.Map("m").Set(context.Background(), key(r.key), imap.String("v"), 0)
		noError(t, err)
		p, _ := r.primary.Node.Maps().Partition(key(r.key))
		if row := r.primary.Node.State().Partitions[p]; row.InSync(silent) {
			t.Errorf("violation: acknowledged after %v, and the backup that lacks it is in-sync: %+v", time.Since(start), row)
		}
		c.Net.HealAll()
		c.AwaitSafe(3, time.Minute)
	})
}

// TestProbe_TableLag: the primary hears nothing of the table's changes, although it is in touch with the master and holds a lease. Its
// successor serves; the old one must not answer with what was there before.
func TestProbe_TableLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		r := c.cast(c.outsiders)
		ctx := context.Background()
		old, err := r.primary.Map("m").Set(ctx, key(r.key), imap.String("old"), 0)
		noError(t, err)
		for _, o := range c.Live() {
			if o != r.primary {
				c.Net.SetFault(o.Host, r.primary.Host, memnet.Fault{Hold: true, Only: "GR1"})
			}
		}
		stale := time.Duration(0)
		fresh := c.Add() // its share comes from everybody, the lagging primary included
		var news uint64
		for start := time.Now(); time.Since(start) < 8*time.Second; time.Sleep(20 * time.Millisecond) {
			call, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
			if res, err := c.Master().Map("m").Set(call, key(r.key), imap.String("new"), 0); err == nil {
				news = res.Version
			}
			e, err := r.primary.Map("m").Get(call, key(r.key))
			cancel()
			if err == nil && news > 0 && e.Version < news {
				stale = time.Since(start)
			}
		}
		if stale > 0 {
			t.Errorf("violation: after %v the lagging primary answers with a version older than %d", stale, news)
		}
		if news <= old.Version {
			t.Error("no write succeeded: the probe shows nothing")
		}
		c.Net.HealAll()
		c.AwaitSafe(4, time.Minute)
		if got := textAt(t, fresh, key(r.key)); got != "new" {
			t.Errorf("in the end it is %q", got)
		}
	})
}

// TestProbe_AllReplicasLost: primary and backup die together. With on-partition-loss=block the partition refuses for good, and others serve;
// by default it starts again, empty. Old data is never shown.
func TestProbe_AllReplicasLost(t *testing.T) {
	for _, policy := range []node.LossPolicy{node.LossBlock, node.LossEmpty} {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 5, few, func(cfg *node.Config) { cfg.OnPartitionLoss = policy })
			defer c.Stop()
			r := c.cast(func(r roles) bool { return len(r.backups) == 1 })
			ctx := context.Background()
			_, err := r.primary.Map("m").Set(ctx, key(r.key), imap.String("v"), 0)
			noError(t, err)
			c.Crash(r.primary)
			c.Crash(r.backups[0])
			c.Restart(r.primary)
			c.Restart(r.backups[0])
			m := r.rest[0]
			p, _ := m.Node.Maps().Partition(key(r.key))
			c.Await(time.Minute, "five members", func() bool { return len(m.Node.State().Members) == 5 })
			if policy == node.LossEmpty {
				c.AwaitSafe(5, time.Minute)
				if got := textAt(t, m, key(r.key)); got != "" {
					t.Errorf("violation: a partition that was lost shows %q", got)
				}
				return
			}
			time.Sleep(10 * time.Second) // in which nothing is to happen
			call, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if e, err := m.Map("m").Get(call, key(r.key)); grid.KindOf(err) != grid.Retryable || err == nil {
				t.Errorf("violation: a lost partition answers %+v, %v", e, err)
			}
			if !m.Node.State().Partitions[p].Lost {
				t.Error("the table does not say that the partition is lost")
			}
		})
	}
}

// TestProbe_NoMajority_NoAck: the backup and a majority of voters are gone. The primary alone acknowledges nothing.
func TestProbe_NoMajority_NoAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		r := c.cast(func(r roles) bool { return len(r.backups) == 1 })
		c.Net.Pause(r.backups[0].Host)
		c.Net.Pause(r.rest[0].Host)
		for range 10 {
			call, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			_, err := r.primary.Map("m").Set(call, key(r.key), imap.String("v"), 0)
			cancel()
			if err == nil {
				t.Fatal("violation: acknowledged by the primary alone")
			}
		}
		c.Net.Resume(r.backups[0].Host)
		c.Net.Resume(r.rest[0].Host)
		c.AwaitSafe(3, time.Minute)
	})
}

// TestProbe_RestartFasterThanDetection kills a backup and starts it at once at the same address, again and again, then kills the primary: a
// restarted member is a new and empty one, and nothing that was acknowledged is missing.
func TestProbe_RestartFasterThanDetection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		ctx := context.Background()
		for i := range 12 {
			r := c.cast(func(r roles) bool { return len(r.backups) == 1 })
			for j := range 5 {
				_, err := r.primary.Map("m").Set(ctx, key(fmt.Sprintf("%d-%d", i, j)), imap.String("v"), 0)
				noError(t, err)
			}
			was := r.backups[0].ID()
			c.Crash(r.backups[0])
			time.Sleep(time.Duration(i*10) * time.Millisecond)
			fresh := c.Restart(r.backups[0])
			c.AwaitSafe(3, 30*time.Second)
			if fresh.ID() == was {
				t.Fatal("a restart kept its id")
			}
			c.Crash(r.primary)
			c.Restart(r.primary)
			c.AwaitSafe(3, 30*time.Second)
			if n, err := fresh.Map("m").Size(ctx); err != nil || n != 5*(i+1) {
				t.Fatalf("violation: %d of %d acknowledged entries are left, %v", n, 5*(i+1), err)
			}
		}
	})
}
