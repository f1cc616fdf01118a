package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
)

// TestDeposedMaster_ThatThinksItLeads cuts off a master whose raft goes on believing in its leadership for seconds, as a process does that was
// paused. Nothing but the confirmation by voters keeps it from granting leases, to itself and to a member without vote that it still reaches.
func TestDeposedMaster_ThatThinksItLeads(t *testing.T) {
	for _, n := range []int{3, 4} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, uint64(n))
			hosts := hostNames[:n]
			for _, h := range hosts {
				w.start(h, func(c *Config) {
					c.Seeds, c.Expect = seedsOf(hosts...), n
					if h == "a" { // it forms the cluster
						c.RaftHeartbeat, c.RaftElection, c.RaftLeaderLease = 8*time.Second, 8*time.Second, 8*time.Second
					}
				})
			}
			w.awaitAgreed(n, 10*time.Second)
			w.await("voters", 5*time.Second, func() bool { return w.settled(3) })
			old := w.members[0]
			if w.master() != old {
				t.Fatalf("the master is %s", w.master().host)
			}
			var side []*member // with the old master
			for _, m := range w.members {
				if m == old || !w.votes(m) {
					side = append(side, m)
				}
			}
			for _, m := range w.members {
				for _, x := range side {
					if !slices.Contains(side, m) {
						w.net.Cut(m.host, x.host)
					}
				}
			}
			w.watchLeases(4 * time.Second)
			if old.reign.Load() == nil {
				t.Error("the old master has noticed: this tests nothing")
			}
			for _, m := range side {
				if m.LeaseValid() {
					t.Errorf("%s has a lease", m.host)
				}
			}
			newMaster := slices.DeleteFunc(w.live(), func(m *member) bool { return slices.Contains(side, m) })[0]
			w.await("the others remove the old master", 5*time.Second, func() bool {
				s, _ := newMaster.View()
				_, there := s.Member(old.Self().ID)
				return !there
			})
		})
	}
}

// TestLease_IsOverBeforeTheMasterThinksSo lets a member's removal fall on the end of its lease, whose link is so slow that
// counting from the answer would be too late.
func TestLease_IsOverBeforeTheMasterThinksSo(t *testing.T) {
	t.Parallel()
	for at := time.Duration(0); at < 100*time.Millisecond; at += 30 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			hosts := hostNames[:3]
			w.net.SetLatency("c", "a", 100*time.Millisecond)
			w.net.SetLatency("c", "b", 100*time.Millisecond)
			w.config = func(c *Config) {
				c.Lease, c.SessionTimeout = 3*time.Second, 3*time.Second
				c.RaftHeartbeat, c.RaftElection, c.RaftLeaderLease = 2*time.Second, 2*time.Second, 2*time.Second
			}
			w.startAll(hosts, func(c *Config) { c.Seeds, c.Expect = seedsOf(hosts...), 3 })
			w.awaitAgreed(3, 20*time.Second)
			time.Sleep(time.Second + at)
			lost := w.members[2]
			if w.master() == lost {
				t.Fatal("the slow member is master")
			}
			w.net.CutOneWay("c", "a") // the answers that are under way still arrive
			w.net.CutOneWay("c", "b")
			time.Sleep(2500 * time.Millisecond)
			w.watchLeases(1500 * time.Millisecond)
			if s, _ := w.master().View(); slices.ContainsFunc(s.Members, func(m grid.Member) bool { return m.ID == lost.Self().ID }) {
				t.Error("it was not removed: this tests nothing")
			}
		})
	}
}
