package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"gridnode/grid"
)

// votersSeen is the number of voters in the newest configuration that any live member knows, committed or not; 0 before there is one.
func (w *world) votersSeen() int {
	voters, newest := 0, uint64(0)
	for _, m := range w.live() {
		r := m.raft.Load()
		if r == nil {
			continue
		}
		conf := r.GetConfiguration()
		if conf.Error() != nil || conf.Index() < newest {
			continue
		}
		newest, voters = conf.Index(), 0
		for _, s := range conf.Configuration().Servers {
			if s.Suffrage == raft.Voter {
				voters++
			}
		}
	}
	return voters
}

// TestFromOneVoterToThree_NoStopAtTwo: on the way from one voter to three there are never two for any time that can be seen, whether the
// members come together or one after the other, and also if one of them is slow.
func TestFromOneVoterToThree_NoStopAtTwo(t *testing.T) {
	all := func(c *Config) { c.Seeds = seedsOf(hostNames[:3]...) }
	for _, tc := range []struct {
		name  string
		start func(*world) // does not wait for the third
	}{
		{"together", func(w *world) { w.startAll(hostNames[:3], func(c *Config) { all(c); c.Expect = 3 }) }},
		{"one after the other", func(w *world) {
			w.start("a", all)
			w.start("b", all)
			w.awaitAgreed(2, 10*time.Second)
			w.start("c", all)
		}},
		{"the second is slow", func(w *world) {
			w.net.SetLatency("a", "b", 40*time.Millisecond)
			w.startAll(hostNames[:3], all)
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			tc.start(w)
			for end := time.Now().Add(10 * time.Second); w.votersSeen() < 3; time.Sleep(20 * time.Microsecond) {
				if w.votersSeen() == 2 {
					t.Errorf("%s: two voters", tc.name)
				}
				if time.Now().After(end) {
					t.Fatalf("%s: %d voters after 10 s", tc.name, w.votersSeen())
				}
			}
			w.awaitAgreed(3, 10*time.Second)
		})
	}
}

// TestFromOneVoterToThree_FollowerCrashSweep: the death of one of the two new voters, at any moment of the step, costs the others nothing.
func TestFromOneVoterToThree_FollowerCrashSweep(t *testing.T) {
	for at := time.Duration(0); at <= 600*time.Microsecond; at += 50 * time.Microsecond {
		for i := range 2 {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, uint64(at))
				w.startAll(hostNames[:3], func(c *Config) { c.Seeds, c.Expect = seedsOf(hostNames[:3]...), 3 })
				for w.votersSeen() < 2 {
					time.Sleep(20 * time.Microsecond)
				}
				time.Sleep(at)
				master := w.master()
				w.crash(w.others(master)[i])
				w.await("the others agree", 10*time.Second, func() bool { return agreed(w.live(), 2) })
				if w.master() != master {
					t.Errorf("crash at %v: there is another master", at)
				}
			})
		}
	}
}

// TestTwoVoters_OneNotThereKeepsOne: as long as one of the two that would become voters does not answer, none does, and the death of the other
// costs nothing.
func TestTwoVoters_OneNotThereKeepsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.start("a", nil)
		w.awaitAgreed(1, 5*time.Second)
		b := w.start("b", func(c *Config) { c.Seeds = seedsOf("a") })
		w.awaitAgreed(2, 5*time.Second)
		w.net.SetLatency("a", "c", 40*time.Millisecond) // so that it can be cut off before its first heartbeat arrives
		c := w.start("c", func(c *Config) { c.Seeds = seedsOf("a") })
		w.await("c to be accepted", 5*time.Second, func() bool { s, _ := w.members[0].View(); return len(s.Members) == 3 })
		w.net.Isolate("c")
		for end := time.Now().Add(400 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if n := w.votersSeen(); n == 2 {
				t.Fatal("two voters")
			}
		}
		w.crash(b)
		w.await("one member", 10*time.Second, func() bool { return agreed(w.members[:1], 1) })
		c.cancel()
	})
}

// From one voter it goes to three or not at all; only a master that is leaving, which needs an heir, does with one more. Otherwise a member
// that is not ready keeps nobody else from becoming a voter.
func TestNextServerChanges_WaitsForASilentMember(t *testing.T) {
	voter, rest := raft.Voter, raft.Nonvoter
	for _, tc := range []struct {
		name    string
		leaving bool
		of      []raft.ServerSuffrage // m1, the master, and so on
		silent  grid.MemberID
		want    []grid.MemberID
	}{
		{"both are ready", false, []raft.ServerSuffrage{voter, rest, rest}, "", []grid.MemberID{"m2", "m3"}},
		{"one is not", false, []raft.ServerSuffrage{voter, rest, rest}, "m2", nil},
		{"the other is not", false, []raft.ServerSuffrage{voter, rest, rest}, "m3", nil},
		{"the master leaves", true, []raft.ServerSuffrage{voter, rest, rest}, "m2", []grid.MemberID{"m3"}},
		{"one of three is missing", false, []raft.ServerSuffrage{voter, voter, rest}, "", []grid.MemberID{"m3"}},
		{"from three to five", false, []raft.ServerSuffrage{voter, voter, voter, rest, rest}, "m4", []grid.MemberID{"m5"}},
	} {
		s := &grid.State{Members: members(make([]string, len(tc.of))...)}
		if tc.leaving {
			s.Members[0].State = grid.Leaving
		}
		var servers []raft.Server
		for i, m := range s.Members {
			servers = append(servers, raft.Server{ID: raft.ServerID(m.ID), Suffrage: tc.of[i]})
		}
		var got []grid.MemberID
		for _, change := range nextServerChanges("m1", s, servers, func(id grid.MemberID) bool { return id != tc.silent }) {
			if change.op != promote {
				t.Errorf("%s: %+v", tc.name, change)
			}
			got = append(got, change.id)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v become voters, want %v", tc.name, got, tc.want)
		}
	}
}

// TestServerChanges_KeepAMajority: members fall silent, and are removed, suspended or not noticed yet. As long as a majority of the voters is
// heard, no change takes that away.
func TestServerChanges_KeepAMajority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{5, 3, 4, 6, 7}).Draw(t, "members")
		s := &grid.State{Members: members(make([]string, n)...)}
		silent := map[grid.MemberID]bool{}
		var servers []raft.Server
		var list []grid.Member
		for i, m := range s.Members {
			vote := raft.Voter
			if i > 0 && rapid.IntRange(0, 5).Draw(t, "no vote") == 5 {
				vote = raft.Nonvoter
			}
			servers = append(servers, raft.Server{ID: raft.ServerID(m.ID), Suffrage: vote})
			silent[m.ID] = i > 0 && rapid.Bool().Draw(t, "silent")
			switch fate := rapid.IntRange(0, 2).Draw(t, "fate"); {
			case silent[m.ID] && fate == 1:
				continue // removed
			case silent[m.ID] && fate == 2:
				m.State = grid.Suspended
			}
			list = append(list, m)
		}
		s.Members = list
		heard := func(id grid.MemberID) bool { return !silent[id] }
		majority := func() bool {
			n := 0
			for _, sv := range servers {
				if sv.Suffrage == raft.Voter && heard(grid.MemberID(sv.ID)) {
					n++
				}
			}
			return n > votersOf(servers)/2
		}
		if !majority() {
			t.Skip("the majority is gone already")
		}
		for range 40 {
			changes := nextServerChanges("m1", s, servers, heard)
			for _, change := range changes {
				if servers = applied(servers, change); !majority() {
					t.Fatalf("%+v of %+v leaves no majority: %v, silent %v", change, changes, servers, silent)
				}
			}
			if len(changes) == 0 {
				return
			}
		}
		t.Fatal("it does not end")
	})
}
