package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/raft"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"gridnode/grid"
)

func TestNextStep(t *testing.T) {
	me := func(p phase, expect int) helloMsg { return helloMsg{ID: "m", Address: "m:1", Phase: p, Expect: expect} }
	seen := func(addr string, p phase) helloMsg {
		return helloMsg{ID: grid.MemberID(addr), Address: addr, Phase: p, ClusterID: map[phase]string{formed: "id of " + addr}[p]}
	}
	for _, tc := range []struct {
		name    string
		self    helloMsg
		others  []helloMsg
		mayLead bool
		want    stepKind
		target  string
	}{
		{"alone, may lead", me(alone, 1), nil, true, declare, ""},
		{"alone, must not", me(alone, 1), nil, false, wait, ""},
		{"declared and nobody else", me(forming, 1), nil, true, create, ""},
		{"a lower one is there", me(alone, 1), []helloMsg{seen("a:1", alone)}, true, wait, ""},
		{"declared, and a lower one appears", me(forming, 1), []helloMsg{seen("a:1", alone)}, true, wait, ""},
		{"declared, and a lower one has, too", me(forming, 1), []helloMsg{seen("a:1", forming)}, true, wait, ""},
		{"a higher one is there", me(alone, 1), []helloMsg{seen("z:1", alone)}, true, declare, ""},
		{"a higher one has declared", me(alone, 1), []helloMsg{seen("z:1", forming)}, true, wait, ""},
		{"declared, and a higher one has, too", me(forming, 1), []helloMsg{seen("z:1", forming)}, true, stay, ""},
		{"declared, a higher one waits", me(forming, 1), []helloMsg{seen("z:1", alone)}, true, create, ""},
		{"not enough", me(alone, 3), []helloMsg{seen("z:1", alone)}, true, wait, ""},
		{"enough", me(alone, 3), []helloMsg{seen("y:1", alone), seen("z:1", alone)}, false, declare, ""},
		{"enough, but one is lower", me(alone, 3), []helloMsg{seen("a:1", alone), seen("z:1", alone)}, false, wait, ""},
		{"a cluster is there", me(forming, 3), []helloMsg{seen("z:1", formed)}, true, join, "z:1"},
		{"two clusters are there", me(alone, 1), []helloMsg{seen("a:1", formed), seen("z:1", formed)}, true, conflict, ""},
	} {
		got := nextStep(outlook{self: tc.self, others: tc.others, mayLead: tc.mayLead})
		if got.kind != tc.want || got.target != tc.target {
			t.Errorf("%s: got %+v", tc.name, got)
		}
	}
	master := helloMsg{Address: "z:1", Phase: formed, ClusterID: "x", Master: "k:1"}
	if got := nextStep(outlook{self: me(alone, 1), others: []helloMsg{{Address: "y:1", Phase: formed, ClusterID: "x"}, master}}); got.target != "k:1" {
		t.Errorf("the master was named, and it asks %s", got.target)
	}
}

// members makes active members m1, m2, ... in zones as given.
func members(zones ...string) []grid.Member {
	out := make([]grid.Member, len(zones))
	for i, z := range zones {
		id := fmt.Sprintf("m%d", i+1)
		out[i] = grid.Member{ID: grid.MemberID(id), Address: id + ":1", State: grid.Active, JoinSeq: uint64(i + 1), Attributes: map[string]string{"zone": z}}
	}
	return out
}

func TestWantVoters(t *testing.T) {
	leaving := func(list []grid.Member, i int) []grid.Member { list[i].State = grid.Leaving; return list }
	tasksOnly := func(list []grid.Member, which ...int) []grid.Member {
		for _, i := range which {
			list[i].Roles = []string{grid.RoleWorker}
		}
		return list
	}
	joining := func(list []grid.Member, i int) []grid.Member { list[i].State = grid.Joining; return list }
	for _, tc := range []struct {
		name string
		list []grid.Member
		self grid.MemberID
		want []grid.MemberID
	}{
		{"one", members(""), "m1", []grid.MemberID{"m1"}},
		{"two", members("", ""), "m2", []grid.MemberID{"m2"}},
		{"three", members("", "", ""), "m2", []grid.MemberID{"m2", "m1", "m3"}},
		{"four", members("", "", "", ""), "m1", []grid.MemberID{"m1", "m2", "m3"}},
		{"six", members("", "", "", "", "", ""), "m6", []grid.MemberID{"m6", "m1", "m2", "m3", "m4"}},
		{"zones", members("x", "x", "x", "y"), "m1", []grid.MemberID{"m1", "m4", "m2"}},
		{"workers vote last", tasksOnly(members("", "", "", ""), 1), "m1", []grid.MemberID{"m1", "m3", "m4"}},
		{"workers vote last, whatever their zone", tasksOnly(members("x", "y", "x", "x"), 1), "m1", []grid.MemberID{"m1", "m3", "m4"}},
		{"workers vote if there are no others", tasksOnly(members("", "", ""), 1, 2), "m1", []grid.MemberID{"m1", "m2", "m3"}},
		{"a joining one has no vote", joining(members("", "", ""), 2), "m1", []grid.MemberID{"m1"}},
		{"a leaving one keeps it", leaving(members("", "", ""), 2), "m1", []grid.MemberID{"m1", "m2", "m3"}},
		{"a leaving one is last", leaving(members("", "", "", ""), 1), "m1", []grid.MemberID{"m1", "m3", "m4"}},
		{"a leaving master needs an heir", leaving(members("", ""), 0), "m1", []grid.MemberID{"m1", "m2"}},
	} {
		if diff := cmp.Diff(tc.want, wantVoters(tc.self, tc.list)); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// TestServerChanges_Converge applies change after change to arbitrary servers: the end is always the same set, the master keeps its vote all
// the time, and no step is repeated.
func TestServerChanges_Converge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "members")
		s := &grid.State{Members: members(make([]string, n)...)}
		self := s.Members[rapid.IntRange(0, n-1).Draw(t, "self")].ID
		servers := []raft.Server{{ID: raft.ServerID(self), Suffrage: raft.Voter}}
		for i := range 12 {
			id := raft.ServerID(fmt.Sprintf("m%d", i+1))
			if id == raft.ServerID(self) || rapid.Bool().Draw(t, "absent") {
				continue
			}
			servers = append(servers, raft.Server{ID: id, Suffrage: raft.ServerSuffrage(rapid.IntRange(0, 1).Draw(t, "suffrage"))})
		}
		for range 40 {
			changes := nextServerChanges(self, s, servers, func(grid.MemberID) bool { return true })
			if len(changes) == 0 {
				break
			}
			before := votersOf(servers)
			for _, change := range changes {
				if change.id == self {
					t.Fatalf("the master changes itself: %+v", change)
				}
				servers = applied(servers, change)
			}
			if before == 1 && votersOf(servers) == 2 {
				t.Fatalf("it stops at two voters: %+v", changes)
			}
		}
		var voters []grid.MemberID
		for _, sv := range servers {
			if sv.Suffrage == raft.Voter {
				voters = append(voters, grid.MemberID(sv.ID))
			}
		}
		want := wantVoters(self, s.Members)
		slices.Sort(voters)
		slices.Sort(want)
		if len(servers) != n || !slices.Equal(voters, want) {
			t.Fatalf("servers %v, voters %v, want %v", servers, voters, want)
		}
	})
}

func votersOf(servers []raft.Server) (n int) {
	for _, sv := range servers {
		if sv.Suffrage == raft.Voter {
			n++
		}
	}
	return n
}

func applied(servers []raft.Server, c serverChange) []raft.Server {
	i := slices.IndexFunc(servers, func(s raft.Server) bool { return s.ID == raft.ServerID(c.id) })
	switch c.op {
	case dropServer:
		return slices.Delete(servers, i, i+1)
	case addNonvoter:
		return append(servers, raft.Server{ID: raft.ServerID(c.id), Suffrage: raft.Nonvoter})
	case promote:
		servers[i].Suffrage = raft.Voter
	case demote:
		servers[i].Suffrage = raft.Nonvoter
	}
	return servers
}

// A member becomes a voter when its heartbeats say that it has the log, or nearly.
func TestLedger_Ready(t *testing.T) {
	now := time.Unix(100, 0)
	s := &grid.State{Members: members("", "", "", ""), Index: 1000}
	l := newLedger("m1", &Config{Lease: time.Second, SessionTimeout: 5 * time.Second}, s, now)
	l.arrived("m2", 1000-maxBehind, now)
	l.arrived("m3", 1000-maxBehind-1, now)
	for id, want := range map[grid.MemberID]bool{"m2": true, "m3": false, "m4": false, "m9": false} { // m4 has said nothing
		if got := l.ready(id, s, now); got != want {
			t.Errorf("%s: %v", id, got)
		}
	}
	if l.ready("m2", s, now.Add(1010*time.Millisecond)) {
		t.Error("without a lease")
	}
	l.hint(hint{id: "m2", why: "it cannot be reached", since: now})
	if l.ready("m2", s, now) {
		t.Error("although it seems dead")
	}
	l.arrived("m2", 1000, now.Add(time.Millisecond))
	if !l.ready("m2", s, now.Add(time.Millisecond)) {
		t.Error("not, although it was heard since")
	}
}

// TestLedger_NeverRemovesALeasedMember plays any order of heartbeats, grants, hints and time against the ledger.
func TestLedger_NeverRemovesALeasedMember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const lease, session = 100, 500 // milliseconds
		timings := &Config{Lease: lease * time.Millisecond, SessionTimeout: session * time.Millisecond}
		s := &grid.State{Members: members("", "", "")}
		start := time.Unix(0, 0)
		at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
		now := 0
		l := newLedger("m1", timings, s, at(0))
		until := map[grid.MemberID]int{"m2": lease, "m3": lease} // what the members may believe
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.SampledFrom([]grid.MemberID{"m2", "m3"}).Draw(t, "member")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				now += rapid.IntRange(0, 150).Draw(t, "ms")
			case 1:
				l.arrived(id, 1, at(now))
				if m, _ := s.Member(id); l.grant(m, 1, at(now)) {
					until[id] = now + lease
				}
			case 2:
				l.hint(hint{id, "a test", rapid.Bool().Draw(t, "gone"), at(now)})
			case 3:
				for _, c := range l.decide(s, at(now)) {
					if c.Remove == nil {
						continue
					}
					if now < until[c.Remove.ID] {
						t.Fatalf("%s is removed at %d, its lease runs to %d", c.Remove.ID, now, until[c.Remove.ID])
					}
					until[c.Remove.ID] = 0
					if m, _ := s.Member(c.Remove.ID); l.grant(m, 1, at(now)) || l.leased(c.Remove.ID, at(now)) {
						t.Fatalf("%s is being removed and was granted a lease", c.Remove.ID)
					}
				}
			}
		}
		for _, c := range l.decide(s, at(now+10_000)) {
			if c.Remove != nil && c.Remove.ID == "m1" {
				t.Fatal("the master removes itself")
			}
		}
	})
}

func TestLedger_HintShortensTheWait(t *testing.T) {
	start := time.Now()
	timings := &Config{Lease: 100 * time.Millisecond, SessionTimeout: 500 * time.Millisecond}
	s := &grid.State{Members: members("", "", "")}
	for _, tc := range []struct {
		hint, heartbeatAfter bool
		at                   time.Duration
		removed              bool
	}{
		{false, false, 200 * time.Millisecond, false},
		{false, false, 499 * time.Millisecond, false},
		{false, false, 500 * time.Millisecond, true},
		{true, false, 100 * time.Millisecond, false}, // 1 ms for the drift of clocks
		{true, false, 101 * time.Millisecond, true},
		{true, true, 200 * time.Millisecond, false},
	} {
		l := newLedger("m1", timings, s, start)
		if tc.hint {
			l.hint(hint{id: "m2", why: "a test", since: start})
		}
		if tc.heartbeatAfter {
			l.arrived("m2", 1, start)
		}
		got := slices.ContainsFunc(l.decide(s, start.Add(tc.at)), func(c grid.Command) bool { return c.Remove != nil && c.Remove.ID == "m2" })
		if got != tc.removed {
			t.Errorf("%+v: removed %v", tc, got)
		}
	}
}

func TestProposable(t *testing.T) {
	for _, tc := range []struct {
		cmd grid.Command
		ok  bool
	}{
		{grid.Command{Form: &grid.Form{}}, false},
		{grid.Command{Claim: &grid.ClaimMaster{}}, false},
		{grid.Command{Add: &grid.AddMember{}}, false},
		{grid.Command{Remove: &grid.RemoveMember{ID: "x"}}, false},
		{grid.Command{Remove: &grid.RemoveMember{ID: "me"}}, true},
		{grid.Command{State: &grid.SetState{ID: "me", State: grid.Leaving}}, true},
		{grid.Command{State: &grid.SetState{ID: "me", State: grid.Active}}, false},
		{grid.Command{Replica: &grid.ReplicaChange{}}, true},
		{grid.Command{Batch: []grid.Command{{Replica: &grid.ReplicaChange{}}, {Remove: &grid.RemoveMember{ID: "x"}}}}, false},
	} {
		if err := proposable("me", tc.cmd); (err == nil) != tc.ok || err != nil && !errors.Is(err, grid.ErrRefused) {
			t.Errorf("%+v: %v", tc.cmd, err)
		}
	}
}

func TestApplyError(t *testing.T) {
	for err, want := range map[error]grid.Kind{
		raft.ErrNotLeader: grid.Retryable, raft.ErrLeadershipTransferInProgress: grid.Retryable, raft.ErrEnqueueTimeout: grid.Retryable,
		raft.ErrLeadershipLost: grid.Indeterminate, raft.ErrRaftShutdown: grid.Indeterminate, errors.New("x"): grid.Indeterminate,
	} {
		if got := grid.KindOf(applyError(err)); got != want {
			t.Errorf("%v is %v", err, got)
		}
	}
}

func TestFSM_BadEntriesChangeNothing(t *testing.T) {
	f := newFSM()
	f.snaps = raft.NewInmemSnapshotStore()
	entry := func(term uint64, c grid.Command) *raft.Log {
		data, err := msgpack.Marshal(&c)
		if err != nil {
			t.Fatal(err)
		}
		return &raft.Log{Type: raft.LogCommand, Term: term, Data: data}
	}
	if err := f.Apply(entry(1, grid.Command{Form: &grid.Form{ClusterID: "c", Partitions: 3}})); err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]*raft.Log{
		"garbage":               {Type: raft.LogCommand, Data: []byte{0xff, 0x01}},
		"empty":                 entry(1, grid.Command{}),
		"claim of another term": entry(7, grid.Command{Claim: &grid.ClaimMaster{ID: "m", Term: 6}}),
	} {
		before := f.view.Load().state
		if _, ok := f.Apply(e).(error); !ok {
			t.Errorf("%s: no error", name)
		}
		want := *before
		want.Index++
		if diff := cmp.Diff(&want, f.view.Load().state, cmpopts.IgnoreUnexported(grid.State{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if err := f.Apply(entry(7, grid.Command{Claim: &grid.ClaimMaster{ID: "m", Term: 7}})); err != nil {
		t.Error(err)
	}
}

type sink struct{ bytes.Buffer }

func (*sink) ID() string    { return "" }
func (*sink) Cancel() error { return nil }
func (*sink) Close() error  { return nil }

func TestFSM_SnapshotAndRestore(t *testing.T) {
	f := newFSM()
	f.snaps = raft.NewInmemSnapshotStore()
	f.publish(&grid.State{
		ClusterID: "c", ClusterName: "n", Backups: 1, Expect: 3, Index: 9, NextJoinSeq: 2, Master: "m1", Term: 4, Members: members("x", "y"),
		Partitions: []grid.Partition{{Epoch: 3, Replicas: []grid.MemberID{"m1", "m2"}, Joining: []grid.MemberID{"m2"}, Reign: 2, Prev: []grid.MemberID{"m2"}, Born: 1}, {Lost: true}},
	}, 0)
	snap, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var out sink
	if err := snap.Persist(&out); err != nil {
		t.Fatal(err)
	}
	g := newFSM()
	g.snaps = raft.NewInmemSnapshotStore()
	if err := g.Restore(io.NopCloser(bytes.NewReader(out.Bytes()))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.view.Load().state, g.view.Load().state, cmpopts.IgnoreUnexported(grid.State{})); diff != "" {
		t.Error(diff)
	}
	if err := g.Restore(io.NopCloser(bytes.NewReader([]byte{0xc1}))); err == nil {
		t.Error("garbage was restored")
	}
}

func TestBeater(t *testing.T) {
	s := &grid.State{Members: members("", "", ""), Master: "m2"}
	b := beater{self: "m1"}
	if got := b.targets(s, false); !slices.Equal(got, []grid.MemberID{"m2"}) {
		t.Errorf("with a master: %v", got)
	}
	b.hint = "m3"
	asked := map[grid.MemberID]bool{}
	for range 3 {
		for _, id := range b.targets(s, true) {
			asked[id] = true
		}
	}
	if len(asked) != 3 {
		t.Errorf("without a lease it asked %v", asked)
	}
	b.self = "gone"
	if got := b.targets(s, true); got != nil {
		t.Errorf("a member that is not in the state asks %v", got)
	}
}

func TestConfig_Validate(t *testing.T) {
	c := DefaultConfig()
	if err := c.Validate(); err == nil {
		t.Error("a config without a transport is fine")
	}
}
