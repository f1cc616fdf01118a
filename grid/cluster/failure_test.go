package cluster

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"gridnode/grid"
)

// formedWorld returns a world of n members that agree, with their voters chosen.
func formedWorld(t *testing.T, seed uint64, n int) *world {
	t.Helper()
	w := newWorld(t, seed)
	hosts := hostNames[:n]
	w.startAll(hosts, func(c *Config) { c.Seeds, c.Expect = seedsOf(hosts...), n })
	w.awaitAgreed(n, 10*time.Second)
	w.await("voters", 5*time.Second, func() bool { return w.settled((n-1)/2*2 + 1) })
	return w
}

func TestJoin_Later(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 1, 1)
		for i, h := range hostNames[1:6] {
			w.start(h, func(c *Config) { c.Seeds, c.Expect = seedsOf(hostNames[:i+1]...), 3 })
			took := w.awaitAgreed(i+2, 5*time.Second)
			want := min(5, (i+1)/2*2+1)
			t.Logf("member %d joined in %s; %d voters after %s", i+2, took, want,
				w.await(fmt.Sprint(want, " voters"), 5*time.Second, func() bool { return w.voters() == want }))
		}
	})
}

func TestFollowerCrash_RemovedWhenItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	var slowest time.Duration
	for at := time.Duration(0); at < 100*time.Millisecond; at += 15 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			w := formedWorld(t, uint64(at), 3)
			time.Sleep(time.Second + at)
			w.crash(w.others(w.master())[0])
			slowest = max(slowest, w.awaitAgreed(2, 3*time.Second))
			w.await("voters", 3*time.Second, func() bool { return w.voters() == 1 })
		})
	}
	t.Logf("slowest removal: %s", slowest)
	if slowest > 700*time.Millisecond {
		t.Errorf("it took %s", slowest)
	}
}

func TestMasterCrash_AnotherTakesOver(t *testing.T) {
	t.Parallel()
	var slowest, slowestMaster time.Duration
	for at := time.Duration(0); at < 100*time.Millisecond; at += 15 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			w := formedWorld(t, uint64(at), 3)
			time.Sleep(time.Second + at)
			old := w.master()
			_, term, _ := old.Master()
			w.crash(old)
			survivor := w.live()[0]
			elected := w.await("new master", 5*time.Second, func() bool {
				id, _, ok := survivor.Master()
				return ok && id != old.Self().ID
			})
			slowestMaster = max(slowestMaster, elected)
			slowest = max(slowest, elected+w.awaitAgreed(2, 5*time.Second))
			if _, now, _ := w.master().Master(); now <= term {
				t.Errorf("term %d after term %d", now, term)
			}
			if m := w.master(); !m.rulesOnce() {
				t.Error("OnMaster does not run exactly once")
			}
		})
	}
	t.Logf("slowest election %s, slowest removal %s", slowestMaster, slowest)
	if slowest > 2500*time.Millisecond {
		t.Errorf("it took %s", slowest)
	}
}

// TestMasterSilent_TakenForDeadBeforeTheNextIsElected: whoever becomes master after gossip has noticed a death must not wait for another sign of
// it. The election is late here, so that the order of the two is sure.
func TestMasterSilent_TakenForDeadBeforeTheNextIsElected(t *testing.T) {
	t.Parallel()
	late := 0
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			hosts := hostNames[:3]
			w.startAll(hosts, func(c *Config) {
				c.Seeds, c.Expect = seedsOf(hosts...), 3
				c.RaftHeartbeat, c.RaftElection, c.SessionTimeout = 1800*time.Millisecond, 1800*time.Millisecond, 30*time.Second
			})
			w.awaitAgreed(3, 30*time.Second)
			w.await("voters", 5*time.Second, func() bool { return w.settled(3) })
			old := w.master()
			others := w.others(old)
			w.net.Isolate(old.host)
			cut := time.Now()
			w.await("a new master", 20*time.Second, func() bool {
				id, _, ok := others[0].Master()
				return ok && id != old.Self().ID
			})
			elected := time.Since(cut)
			if !others[0].gossip.Load().buried(old.Self().ID) {
				return // the election came first
			}
			late++
			took := w.await("a member less", 20*time.Second, func() bool { s, _ := others[0].View(); return len(s.Members) == 2 })
			t.Logf("seed %d: elected after %v, removed after %v more", seed, elected, took)
			if took > time.Second {
				t.Errorf("seed %d: the member that is gone was removed only %v after the election", seed, took)
			}
		})
	}
	if late == 0 {
		t.Error("no election came after gossip's word")
	}
}

func TestTwoMembers_OnlyTheVotersDeathStopsTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 3, 2)
		other := w.others(w.master())[0]
		w.crash(w.master())
		w.await("no lease", 2*time.Second, func() bool { return !other.LeaseValid() })
		time.Sleep(10 * time.Second)
		if other.LeaseValid() {
			t.Error("it has a lease again")
		}
		if err := other.Propose(t.Context(), grid.Command{Replica: &grid.ReplicaChange{}}); grid.KindOf(err) != grid.Retryable {
			t.Errorf("a proposal without a leader: %v", err)
		}
	})
}

func TestCutFollower_IsRemovedAndLearnsSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 4, 3)
		lost := w.others(w.master())[0]
		w.net.Isolate(lost.host)
		w.watchLeases(4 * time.Second)
		w.await("two members", time.Second, func() bool { return agreed(w.others(lost), 2) })
		w.net.HealAll()
		took := w.await("the lost one's end", 5*time.Second, func() bool {
			select {
			case <-lost.done:
				return true
			default:
				return false
			}
		})
		t.Logf("it learned so after %s", took)
		if !errors.Is(lost.err, ErrRemoved) {
			t.Errorf("Run ended with %v", lost.err)
		}
		w.start(lost.host, func(c *Config) { c.Seeds = seedsOf(hostNames[:3]...) })
		w.awaitAgreed(3, 5*time.Second)
	})
}

// watchLeases checks for a while, in small steps, that nobody whom any member knows as removed has a lease.
func (w *world) watchLeases(d time.Duration) {
	w.t.Helper()
	known := map[grid.MemberID]bool{}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, m := range w.members {
			s, _ := m.View()
			for _, x := range s.Members {
				known[x.ID] = true
			}
		}
		for _, m := range w.members {
			id := m.Self().ID
			if !known[id] || !m.LeaseValid() {
				continue
			}
			for _, other := range w.live() {
				s, _ := other.View()
				if _, ok := s.Member(id); !ok && s.Index > 0 && s.Term > 0 && len(s.Members) > 0 && other.sawMember(id) {
					w.t.Fatalf("%s has a lease, and %s knows it as removed", id, other.host)
				}
			}
			if m.LeaseContext().Err() != nil && m.LeaseValid() {
				w.t.Fatalf("%s: the lease is valid and its context has ended", id)
			}
		}
		for _, m := range w.members {
			m.noteMembers()
		}
	}
}

func (m *member) noteMembers() {
	s, _ := m.View()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = map[grid.MemberID]bool{}
	}
	for _, x := range s.Members {
		m.seen[x.ID] = true
	}
}

func (m *member) sawMember(id grid.MemberID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[id]
}

func TestDeposedMaster_GrantsNothing(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 4, 5} {
		for at := time.Duration(0); at < 100*time.Millisecond; at += 50 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				w := formedWorld(t, uint64(n), n)
				old := w.master()
				time.Sleep(time.Second + at)
				// With four members, the fourth has no vote: it stays with the old master, and must not help it.
				for _, m := range w.others(old) {
					if n == 4 && !w.votes(m) {
						continue
					}
					for _, x := range w.live() {
						if x == old || n == 4 && !w.votes(x) {
							w.net.Cut(m.host, x.host)
						}
					}
				}
				w.watchLeases(4 * time.Second)
				s, _ := w.live()[1].View()
				if s.Master == old.Self().ID && n != 4 {
					t.Errorf("%s is still master", s.Master)
				}
			})
		}
	}
}

func (w *world) votes(m *member) bool {
	for _, x := range w.live() {
		r := x.raft.Load()
		if r == nil {
			continue
		}
		for _, s := range r.GetConfiguration().Configuration().Servers {
			if grid.MemberID(s.ID) == m.Self().ID {
				return s.Suffrage == raft.Voter
			}
		}
	}
	return false
}

func TestOneWayCut_EndsInOneSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 5, 3)
		old := w.master()
		for _, m := range w.others(old) {
			w.net.CutOneWay(old.host, m.host) // the master hears, but is not heard
		}
		w.watchLeases(4 * time.Second)
		if s, _ := w.others(old)[0].View(); s.Master == old.Self().ID {
			t.Errorf("%s is still master", s.Master)
		}
		w.net.HealAll()
		w.await("the old master's end", 5*time.Second, func() bool { return len(w.live()) == 2 })
		if !errors.Is(old.err, ErrRemoved) {
			t.Errorf("Run ended with %v", old.err)
		}
	})
}

func TestRestartAtTheSameAddress(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{0, 50 * time.Millisecond, 300 * time.Millisecond} {
		for _, who := range []string{"follower", "master"} {
			synctest.Test(t, func(t *testing.T) {
				w := formedWorld(t, 6, 3)
				m := w.master()
				if who == "follower" {
					m = w.others(m)[0]
				}
				w.crash(m)
				time.Sleep(pause)
				again := w.start(m.host, func(c *Config) { c.Seeds, c.Expect = seedsOf(hostNames[:3]...), 3 })
				took := w.awaitAgreed(3, 10*time.Second)
				t.Logf("%s back after %s: %s", who, pause, took)
				w.await("voters", 5*time.Second, func() bool { return w.voters() == 3 })
				s, _ := again.View()
				if _, ok := s.Member(m.Self().ID); ok {
					t.Error("the old member is still there")
				}
			})
		}
	}
}

func TestLeave(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 5} {
		for _, who := range []string{"follower", "master"} {
			if n == 1 && who == "follower" {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				w := formedWorld(t, 7, n)
				m := w.master()
				if who == "follower" {
					m = w.others(m)[0]
				}
				start := time.Now()
				if err := m.Leave(t.Context()); err != nil {
					t.Fatalf("%s of %d: %v", who, n, err)
				}
				took := time.Since(start)
				if n > 1 && m.LeaseValid() {
					t.Error("it has left with a lease")
				}
				m.cancel()
				<-m.done
				if m.err != nil {
					t.Errorf("Run ended with %v", m.err)
				}
				if n == 1 {
					return
				}
				rest := w.awaitAgreed(n-1, 3*time.Second)
				t.Logf("%s of %d left in %s, the others agree after %s", who, n, took, rest)
				w.await("voters", 3*time.Second, func() bool { return w.voters() == (n-2)/2*2+1 })
				w.watchLeases(2 * time.Second)
			})
		}
	}
}

func TestStartAtOnce_OneClusterForms(t *testing.T) {
	t.Parallel()
	for offset := time.Duration(0); offset < 800*time.Millisecond; offset += 25 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, uint64(offset))
			discover := func(c *Config) { c.Discover, c.Seeds = true, seedsOf(hostNames...) }
			hosts := []string{"b", "a", "c"} // the higher first: that is the dangerous order
			w.start(hosts[0], discover)
			time.Sleep(offset)
			w.start(hosts[1], discover)
			time.Sleep(offset / 3)
			w.start(hosts[2], discover)
			w.awaitAgreed(3, 10*time.Second)
		})
	}
}

func TestSeeds_OnlyTheFirstFormsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		seeds := func(c *Config) { c.Seeds = seedsOf("a", "b") }
		b := w.start("b", seeds)
		time.Sleep(10 * time.Second)
		if s, _ := b.View(); s.Formed() {
			t.Fatal("the second of the seeds formed a cluster")
		}
		w.start("a", seeds)
		w.awaitAgreed(2, 5*time.Second)
	})
}

func TestTwoFormedClusters_RefuseEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		a, b := w.start("a", nil), w.start("b", nil)
		w.await("two clusters", 5*time.Second, func() bool { return a.LeaseValid() && b.LeaseValid() })
		c := w.start("c", func(c *Config) { c.Seeds = seedsOf("a", "b") })
		time.Sleep(5 * time.Second)
		if s, _ := c.View(); s.Formed() {
			t.Error("it joined one of two clusters")
		}
		_, err := call[helloMsg, helloMsg](t.Context(), a.Cluster, "", "b:5701", 3, a.hello())
		sa, _ := a.View()
		sb, _ := b.View()
		if !errors.Is(err, grid.ErrRefused) {
			t.Errorf("got %v", err)
		}
		t.Log(err, sa.ClusterID, sb.ClusterID)
	})
}
