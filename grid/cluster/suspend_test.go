package cluster

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gridnode/grid"
)

// held returns a state of active members m1, m2, ... (m1 is the master) with a partition for each of the lists.
func held(n int, replicas ...[]grid.MemberID) *grid.State {
	s := &grid.State{ClusterID: "x", Members: members(make([]string, n)...), Master: "m1", Term: 1}
	for i := range s.Members {
		s.Members[i].Roles = []string{grid.RoleData}
	}
	for _, r := range replicas {
		s.Partitions = append(s.Partitions, grid.Partition{Epoch: 1, Reign: 1, Born: 1, Replicas: r})
	}
	return s
}

// TestLedger_KeepsWhoAloneHasSomething: what becomes of members of whom nothing is heard depends on what they hold and on how sure it is that
// they are dead.
func TestLedger_KeepsWhoAloneHasSomething(t *testing.T) {
	type ids = []grid.MemberID
	const soon, late = 300 * time.Millisecond, 31 * time.Second
	for _, tc := range []struct {
		name              string
		s                 *grid.State
		silent, gone      ids // with a hint; gone without doubt
		after             time.Duration
		removed, suspends ids
	}{
		{"others have it too", held(3, ids{"m2", "m3"}, ids{"m1", "m2"}), ids{"m2"}, nil, soon, ids{"m2"}, nil},
		{"it alone", held(3, ids{"m2"}, ids{"m2", "m3"}), ids{"m2"}, nil, soon, nil, ids{"m2"}},
		{"it alone, surely dead", held(3, ids{"m2"}, ids{"m2", "m3"}), nil, ids{"m2"}, soon, ids{"m2"}, nil},
		{"it alone, for too long", held(3, ids{"m2"}, ids{"m2", "m3"}), ids{"m2"}, nil, late, ids{"m2"}, nil},
		{"two of two", held(3, ids{"m2", "m3"}), ids{"m2", "m3"}, nil, soon, nil, ids{"m2", "m3"}},
		{"two of two, one surely dead", held(3, ids{"m2", "m3"}), ids{"m3"}, ids{"m2"}, soon, ids{"m2"}, ids{"m3"}},
		{"two, one of them has nothing alone", held(4, ids{"m2"}, ids{"m3", "m4"}), ids{"m2", "m3"}, nil, soon, ids{"m3"}, ids{"m2"}},
		{"nothing is held", held(3), ids{"m2", "m3"}, nil, soon, ids{"m2", "m3"}, nil},
	} {
		start := time.Now()
		c := DefaultConfig()
		l := newLedger("m1", &c, tc.s, start)
		now := start.Add(tc.after + c.Lease)
		for _, m := range tc.s.Members {
			switch {
			case slices.Contains(tc.silent, m.ID):
				l.hint(hint{id: m.ID, why: "a test", since: start})
			case slices.Contains(tc.gone, m.ID):
				l.hint(hint{m.ID, "a test", true, start})
			default:
				l.arrived(m.ID, 0, now)
			}
		}
		if l.leased("m2", now) {
			t.Errorf("%s: still leased", tc.name)
		}
		var removed, suspends ids
		for _, cmd := range l.decide(tc.s, now) {
			if cmd.Remove != nil {
				removed = append(removed, cmd.Remove.ID)
			}
			if cmd.Suspend != nil {
				suspends = append(suspends, cmd.Suspend.IDs...)
			}
		}
		if !slices.Equal(removed, tc.removed) || !slices.Equal(suspends, tc.suspends) {
			t.Errorf("%s: removed %v, suspended %v", tc.name, removed, suspends)
		}
	}
}

// TestLedger_SuspensionFences: a member that is being suspended gets no lease, nor does it afterwards before it knows of it; then it gets one and is
// active again.
func TestLedger_SuspensionFences(t *testing.T) {
	s := held(3, []grid.MemberID{"m2"}, []grid.MemberID{"m2", "m3"})
	s.Index = 41
	start := time.Now()
	c := DefaultConfig()
	l := newLedger("m1", &c, s, start)
	member := func(id grid.MemberID) grid.Member { m, _ := s.Member(id); return m }
	now := start.Add(time.Second)
	l.arrived("m3", 41, now)
	l.hint(hint{id: "m2", why: "a test", since: now})
	cmds := l.decide(s, now)
	if len(cmds) != 1 || cmds[0].Suspend == nil {
		t.Fatalf("decided %+v", cmds)
	}
	l.arrived("m2", 41, now)
	if l.grant(member("m2"), 41, now) {
		t.Fatal("a lease while it is being suspended")
	}
	s, err := s.Apply(cmds[0])
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Partitions; p[0].Primary() != "m2" || p[1].Primary() != "m3" || p[1].InSync("m2") {
		t.Fatalf("suspended: %+v", p)
	}
	for range 2 { // the second time as a new master sees it
		l.sync(s, now)
		l.arrived("m2", 41, now)
		if l.grant(member("m2"), 41, now) || len(l.decide(s, now)) > 0 {
			t.Fatal("violation: a lease, or active, before it has learned what it lost")
		}
		if !l.grant(member("m3"), 41, now) {
			t.Fatal("no lease for another one")
		}
		l = newLedger("m1", &c, s, now)
	}
	l.arrived("m2", 42, now)
	if !l.grant(member("m2"), 42, now) {
		t.Fatal("no lease for a member that has learned of its suspension")
	}
	if cmds = l.decide(s, now); len(cmds) != 1 || cmds[0].State == nil || cmds[0].State.State != grid.Active || cmds[0].State.ID != "m2" {
		t.Fatalf("back again: %+v", cmds)
	}
}

// TestLedger_LosesNothingThatMayLive plays any order of heartbeats, hints and time, and applies what is decided: as long as the patience lasts, no
// partition loses its last replica of which it is not sure that it is dead.
func TestLedger_LosesNothingThatMayLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := []grid.MemberID{"m1", "m2", "m3", "m4"}
		var lists [][]grid.MemberID
		for range 4 {
			lists = append(lists, rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, 3, rapid.ID).Draw(t, "replicas"))
		}
		s := held(4, lists...)
		now := time.Unix(0, 0)
		c := DefaultConfig()
		l := newLedger("m1", &c, s, now)
		heard := map[grid.MemberID]time.Time{"m2": now, "m3": now, "m4": now}
		gone := map[grid.MemberID]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.SampledFrom(ids[1:]).Draw(t, "member")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			case 1:
				if m, ok := s.Member(id); ok && !gone[id] {
					index := rapid.Uint64Range(0, s.Index).Draw(t, "index")
					l.arrived(id, index, now)
					l.grant(m, index, now)
					heard[id] = now
				}
			case 2:
				l.hint(hint{id: id, why: "a test", since: now})
			case 3:
				if rapid.IntRange(0, 3).Draw(t, "sure") == 0 {
					gone[id] = true
					l.hint(hint{id, "a test", true, now})
				}
			default:
				l.sync(s, now)
				before := s
				if cmds := l.decide(s, now); len(cmds) > 0 {
					next, err := s.Apply(grid.Command{Batch: cmds})
					if err != nil {
						t.Fatalf("%+v: %v", cmds, err)
					}
					s = next
				}
				for i, p := range s.Partitions {
					if len(p.Replicas) > 0 {
						continue
					}
					for _, m := range before.Partitions[i].Replicas {
						if !gone[m] && now.Sub(heard[m]) < c.LossPatience {
							t.Fatalf("partition %d was lost though %s may live, heard of %v ago", i, m, now.Sub(heard[m]))
						}
					}
				}
			}
		}
	})
}

// TestLedger_SuspendedMembersAreServedWhenHeard: raft sends its log to suspended members only while they are heard.
func TestLedger_SuspendedMembersAreServedWhenHeard(t *testing.T) {
	s := held(3)
	start := time.Now()
	c := DefaultConfig()
	l := newLedger("m1", &c, s, start)
	served := func(after time.Duration) (out []grid.MemberID) {
		for _, m := range l.served(s, start.Add(after)).Members {
			out = append(out, m.ID)
		}
		return out
	}
	all, rest := []grid.MemberID{"m1", "m2", "m3"}, []grid.MemberID{"m1", "m3"}
	if got := served(time.Hour); !slices.Equal(got, all) {
		t.Errorf("without any that is suspended: %v", got)
	}
	s.Members[0].State, s.Members[1].State = grid.Suspended, grid.Suspended // the first is the master
	if got := served(time.Second); !slices.Equal(got, rest) {
		t.Errorf("not heard: %v", got)
	}
	l.arrived("m2", 0, start.Add(2*time.Second))
	if got := served(2 * time.Second); !slices.Equal(got, all) {
		t.Errorf("heard: %v", got)
	}
	if got := served(3 * time.Second); !slices.Equal(got, rest) {
		t.Errorf("silent again: %v", got)
	}
	if len(s.Members) != 3 {
		t.Error("the state was changed")
	}
}
