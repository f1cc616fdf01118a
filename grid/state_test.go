package grid

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The members of the states that the tests begin with; w has no data role.
func testMembers() []Command {
	var out []Command
	for _, id := range []MemberID{"a", "b", "c", "d", "w"} {
		m := Member{ID: id, Address: string(id) + ":5701"}
		if id != "w" {
			m.Roles = []string{RoleData}
		}
		out = append(out, Command{Add: &AddMember{m}})
		if id != "d" { // d stays in state joining
			out = append(out, Command{State: &SetState{id, Active}})
		}
	}
	return out
}

// base is a formed cluster: partition 0 is on a, b and c; 1 on a, with b joining; 2 lost; 3 never assigned.
func base(t testing.TB) *State {
	s := run(t, &State{}, Command{Form: &Form{ClusterID: "id", ClusterName: "name", Partitions: 4, Backups: 2, Expect: 3}})
	s = run(t, s, testMembers()...)
	return run(t, s,
		replica(OpAssign, 0, 0, "", "a", "b", "c"),
		replica(OpAssign, 1, 0, "", "a"), replica(OpJoin, 1, 1, "b"),
		Command{Add: &AddMember{Member{ID: "x", Address: "x", Roles: []string{RoleData}}}},
		Command{State: &SetState{"x", Active}},
		replica(OpAssign, 2, 0, "", "x"),
		Command{Remove: &RemoveMember{ID: "x"}},
	)
}

func replica(op ReplicaOp, id PartitionID, e Epoch, m MemberID, members ...MemberID) Command {
	return Command{Replica: &ReplicaChange{Op: op, Partition: id, Epoch: e, Member: m, Members: members}}
}

// run applies commands that must all fit.
func run(t testing.TB, s *State, cmds ...Command) *State {
	t.Helper()
	for _, c := range cmds {
		next, err := s.Apply(c)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		s = next
	}
	return s
}

func TestState_Form(t *testing.T) {
	s := run(t, &State{}, Command{Form: &Form{ClusterID: "id", ClusterName: "name", Partitions: 2, Backups: 1}})
	want := &State{ClusterID: "id", ClusterName: "name", Backups: 1, Expect: 1, Index: 1, Partitions: make([]Partition, 2)}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestState_Members(t *testing.T) {
	s := base(t)
	var got []string
	for i, m := range s.Members {
		got = append(got, string(m.ID)+" "+string(m.State))
		if m.JoinSeq != uint64(i+1) {
			t.Errorf("member %s has join sequence %d, want %d", m.ID, m.JoinSeq, i+1)
		}
	}
	if diff := cmp.Diff([]string{"a active", "b active", "c active", "d joining", "w active"}, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if got := len(s.DataMembers()); got != 3 {
		t.Errorf("%d data members, want 3: neither one that joins nor one without the role", got)
	}
	s = run(t, s, Command{Add: &AddMember{Member{ID: "y", Address: "y", State: Active, JoinSeq: 1}}})
	if m, _ := s.Member("y"); m.State != Joining || m.JoinSeq != 7 {
		t.Errorf("new member %+v, want state joining and join sequence 7 (6 was x)", m)
	}
}

func TestState_Claim(t *testing.T) {
	s := run(t, base(t), Command{Claim: &ClaimMaster{"a", 3}}, Command{Claim: &ClaimMaster{"b", 7}})
	if s.Master != "b" || s.Term != 7 {
		t.Errorf("master %s in term %d, want b in 7", s.Master, s.Term)
	}
}

// Each change of a partition, in full.
func TestState_ReplicaChanges(t *testing.T) {
	for _, test := range []struct {
		name string
		cmd  Command
		id   PartitionID
		want Partition
	}{
		{"assign", replica(OpAssign, 3, 0, "", "b", "c"), 3,
			Partition{Epoch: 1, Replicas: []MemberID{"b", "c"}, Reign: 1, Born: 1}},
		{"assign after loss", replica(OpAssign, 2, 2, "", "c"), 2,
			Partition{Epoch: 3, Replicas: []MemberID{"c"}, Reign: 3, Born: 3}},
		{"join", replica(OpJoin, 1, 1, "c"), 1,
			Partition{Epoch: 1, Replicas: []MemberID{"a"}, Joining: []MemberID{"b", "c"}, Reign: 1, Born: 1}},
		{"unjoin", replica(OpUnjoin, 1, 1, "b"), 1,
			Partition{Epoch: 2, Replicas: []MemberID{"a"}, Joining: []MemberID{}, Reign: 1, Born: 1}},
		{"add", replica(OpAdd, 1, 1, "b"), 1,
			Partition{Epoch: 2, Replicas: []MemberID{"a", "b"}, Joining: []MemberID{}, Reign: 1, Born: 1}},
		{"drop", replica(OpDrop, 0, 1, "b"), 0,
			Partition{Epoch: 2, Replicas: []MemberID{"a", "c"}, Reign: 1, Born: 1}},
		{"primary", replica(OpPrimary, 0, 1, "c"), 0,
			Partition{Epoch: 2, Replicas: []MemberID{"c", "a", "b"}, Reign: 2, Prev: []MemberID{"a", "b", "c"}, Born: 1}},
		{"removal of the primary", Command{Remove: &RemoveMember{ID: "a"}}, 0,
			Partition{Epoch: 2, Replicas: []MemberID{"b", "c"}, Reign: 2, Prev: []MemberID{"a", "b", "c"}, Born: 1}},
		{"removal of a backup", Command{Remove: &RemoveMember{ID: "c"}}, 0,
			Partition{Epoch: 2, Replicas: []MemberID{"a", "b"}, Reign: 1, Born: 1}},
		{"removal of a joiner", Command{Remove: &RemoveMember{ID: "b"}}, 1,
			Partition{Epoch: 1, Replicas: []MemberID{"a"}, Joining: []MemberID{}, Reign: 1, Born: 1}},
		{"removal of the last", Command{Remove: &RemoveMember{ID: "a"}}, 1,
			Partition{Epoch: 2, Replicas: []MemberID{}, Reign: 2, Born: 1, Lost: true}},
		{"removal of a stranger", Command{Remove: &RemoveMember{ID: "w"}}, 0,
			Partition{Epoch: 1, Replicas: []MemberID{"a", "b", "c"}, Reign: 1, Born: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := run(t, base(t), test.cmd)
			if diff := cmp.Diff(test.want, s.Partitions[test.id]); diff != "" {
				t.Errorf("partition %d (-want +got):\n%s", test.id, diff)
			}
		})
	}
}

func TestState_Rejections(t *testing.T) {
	nested := []Command{{Batch: []Command{{Claim: &ClaimMaster{"a", 99}}}}}
	for _, test := range []struct {
		name string
		cmd  Command
		want string // part of the reason
	}{
		{"empty", Command{}, "empty command"},
		{"form again", Command{Form: &Form{ClusterID: "other", Partitions: 1}}, "formed already, as id"},
		{"claim of an old term", Command{Claim: &ClaimMaster{"b", 0}}, "term 0 is not above 0"},
		{"member without id", Command{Add: &AddMember{Member{Address: "y"}}}, "without id or address"},
		{"member without address", Command{Add: &AddMember{Member{ID: "y"}}}, "without id or address"},
		{"member twice", Command{Add: &AddMember{Member{ID: "a", Address: "y"}}}, "member a is here already"},
		{"address taken", Command{Add: &AddMember{Member{ID: "y", Address: "a:5701"}}}, "still belongs to member a"},
		{"state of a stranger", Command{State: &SetState{"y", Active}}, "no member y"},
		{"state backwards", Command{State: &SetState{"a", Joining}}, "cannot go from active to joining"},
		{"state again", Command{State: &SetState{"a", Active}}, "cannot go from active to active"},
		{"state unknown", Command{State: &SetState{"a", "gone"}}, "cannot go from active to gone"},
		{"removal of a stranger", Command{Remove: &RemoveMember{ID: "y"}}, "no member y"},
		{"batch inside a batch", Command{Batch: nested}, "a batch inside a batch"},
		{"batch of one that does not fit", Command{Batch: []Command{{Remove: &RemoveMember{ID: "y"}}}}, "no member y"},
		{"partition below range", replica(OpDrop, -1, 1, "b"), "no partition -1"},
		{"partition above range", replica(OpDrop, 4, 1, "b"), "no partition 4"},
		{"older epoch", replica(OpDrop, 0, 0, "b"), "is at epoch 1, not 0"},
		{"newer epoch", replica(OpDrop, 0, 2, "b"), "is at epoch 1, not 2"},
		{"unknown change", replica("swap", 0, 1, "b"), `unknown change "swap"`},
		{"assign of an assigned", replica(OpAssign, 0, 1, "", "a"), "cannot be assigned"},
		{"assign to nobody", replica(OpAssign, 3, 0, ""), "cannot be assigned"},
		{"assign to a stranger", replica(OpAssign, 3, 0, "", "a", "y"), "cannot be assigned to y"},
		{"assign twice to one", replica(OpAssign, 3, 0, "", "a", "a"), "cannot be assigned to a"},
		{"join of a stranger", replica(OpJoin, 0, 1, "y"), "y cannot begin to join"},
		{"join without the role", replica(OpJoin, 0, 1, "w"), "w cannot begin to join"},
		{"join of a replica", replica(OpJoin, 0, 1, "b"), "b cannot begin to join"},
		{"join twice", replica(OpJoin, 1, 1, "b"), "b cannot begin to join"},
		{"join of a lost partition", replica(OpJoin, 2, 2, "b"), "b cannot begin to join"},
		{"join of an unassigned partition", replica(OpJoin, 3, 0, "b"), "b cannot begin to join"},
		{"unjoin of a replica", replica(OpUnjoin, 0, 1, "b"), "b is not joining"},
		{"unjoin of another", replica(OpUnjoin, 1, 1, "c"), "c is not joining"},
		{"add of a replica", replica(OpAdd, 0, 1, "b"), "b is not joining"},
		{"add of one that does not join", replica(OpAdd, 1, 1, "c"), "c is not joining"},
		{"drop of the primary", replica(OpDrop, 0, 1, "a"), "a is not an in-sync backup"},
		{"drop of a joiner", replica(OpDrop, 1, 1, "b"), "b is not an in-sync backup"},
		{"promotion of the primary", replica(OpPrimary, 0, 1, "a"), "a is not an in-sync backup"},
		{"promotion of a joiner", replica(OpPrimary, 1, 1, "b"), "b is not an in-sync backup"},
		{"promotion of a stranger", replica(OpPrimary, 0, 1, "y"), "y is not an in-sync backup"},
	} {
		t.Run(test.name, func(t *testing.T) { wantRejected(t, base(t), test.cmd, test.want) })
	}
}

func TestState_Rejections_AfterLeaving(t *testing.T) {
	s := run(t, base(t), Command{State: &SetState{"c", Leaving}})
	wantRejected(t, s, replica(OpJoin, 1, 1, "c"), "c cannot begin to join")
	wantRejected(t, s, Command{State: &SetState{"c", Active}}, "cannot go from leaving to active")
	wantRejected(t, s, Command{State: &SetState{"c", Leaving}}, "cannot go from leaving to leaving")
	run(t, s, Command{State: &SetState{"d", Leaving}}) // from joining
}

func TestState_Rejections_BeforeForm(t *testing.T) {
	for _, test := range []struct {
		cmd  Command
		want string
	}{
		{Command{Form: &Form{Partitions: 1}}, "no cluster id"},
		{Command{Form: &Form{ClusterID: "id"}}, "0 partitions"},
		{Command{Form: &Form{ClusterID: "id", Partitions: MaxPartitions + 1}}, "4097 partitions"},
		{Command{Form: &Form{ClusterID: "id", Partitions: 1, Backups: -1}}, "-1 backups"},
		{Command{Form: &Form{ClusterID: "id", Partitions: 1, Backups: MaxBackups + 1}}, "7 backups"},
		{Command{Claim: &ClaimMaster{"a", 1}}, "no cluster yet"},
		{Command{Add: &AddMember{Member{ID: "a", Address: "a"}}}, "no cluster yet"},
		{Command{Batch: []Command{{Form: &Form{ClusterID: "id", Partitions: 1}}}}, "no cluster yet"},
	} {
		wantRejected(t, &State{}, test.cmd, test.want)
	}
}

func wantRejected(t *testing.T, s *State, c Command, want string) {
	t.Helper()
	next, err := s.Apply(c)
	rejected, ok := errors.AsType[*Rejected](err)
	if !ok || !strings.Contains(err.Error(), want) {
		t.Fatalf("%+v: error %v, want a rejection with %q", c, err, want)
	}
	if rejected.Reason == "" {
		t.Error("a rejection without a reason")
	}
	same := *s
	same.Index++
	if diff := cmp.Diff(&same, next); diff != "" {
		t.Errorf("rejected, but (-before +after):\n%s", diff)
	}
}

func TestState_Batch_PartsStandAlone(t *testing.T) {
	s := run(t, base(t), Command{Batch: []Command{
		replica(OpDrop, 0, 1, "b"),
		replica(OpDrop, 0, 1, "c"), // the epoch is 2 by now
		replica(OpAdd, 1, 1, "b"),
	}})
	if got := s.Partitions[0]; got.Epoch != 2 || !got.InSync("c") || got.InSync("b") {
		t.Errorf("partition 0: %+v, want b dropped and c kept", got)
	}
	if got := s.Partitions[1]; !got.InSync("b") {
		t.Errorf("partition 1: %+v, want b added although the part before was rejected", got)
	}
	if before := base(t); s.Index != before.Index+1 {
		t.Errorf("index %d, want %d: a batch is one entry", s.Index, before.Index+1)
	}
}

// Two states that come from one share memory, but none that either writes: what one does never shows in the other.
func TestState_TwoSuccessors_AreApart(t *testing.T) {
	s := run(t, base(t), Command{State: &SetState{"d", Active}}, replica(OpDrop, 0, 1, "b"),
		replica(OpJoin, 0, 2, "b"), replica(OpJoin, 0, 2, "d"), replica(OpUnjoin, 1, 1, "b"))
	for _, test := range []struct {
		id          PartitionID
		one, other  Command
		first, next MemberID
	}{
		{0, replica(OpAdd, 0, 2, "b"), replica(OpAdd, 0, 2, "d"), "b", "d"},
		{1, replica(OpJoin, 1, 2, "b"), replica(OpJoin, 1, 2, "c"), "b", "c"},
	} {
		one := run(t, s, test.one)
		other := run(t, s, test.other)
		p, q := one.Partitions[test.id], other.Partitions[test.id]
		if !p.InSync(test.first) && !p.IsJoining(test.first) || !q.InSync(test.next) && !q.IsJoining(test.next) {
			t.Errorf("%s of %s gave %+v, of %s %+v", test.one.Replica.Op, test.first, p, test.next, q)
		}
	}
}

func TestState_Safe(t *testing.T) {
	form := Command{Form: &Form{ClusterID: "id", Partitions: 1, Backups: 1}}
	add := func(id MemberID) []Command {
		return []Command{
			{Add: &AddMember{Member{ID: id, Address: string(id), Roles: []string{RoleData}}}},
			{State: &SetState{id, Active}},
		}
	}
	s := run(t, &State{}, form)
	for _, step := range []struct {
		name string
		cmds []Command
		want bool
	}{
		{"no members", nil, false},
		{"not assigned", add("a"), false},
		{"as many replicas as members", []Command{replica(OpAssign, 0, 0, "", "a")}, true},
		{"a second member", add("b"), false},
		{"it joins", []Command{replica(OpJoin, 0, 1, "b")}, false},
		{"it is in-sync", []Command{replica(OpAdd, 0, 1, "b")}, true},
		{"one more than wanted is on its way", append(add("c"), replica(OpJoin, 0, 2, "c")), false},
		{"one more than wanted", []Command{replica(OpAdd, 0, 2, "c")}, true},
		{"a member leaves", []Command{{State: &SetState{"c", Leaving}}}, false},
		{"it has left", []Command{{Remove: &RemoveMember{ID: "c"}}}, true},
		{"all are lost", []Command{{Remove: &RemoveMember{ID: "a"}}, {Remove: &RemoveMember{ID: "b"}}}, false},
	} {
		if s = run(t, s, step.cmds...); s.Complete() != step.want {
			t.Errorf("%s: safe is %t, want %t", step.name, s.Complete(), step.want)
		}
	}
}

func TestPartition_Primary(t *testing.T) {
	s := base(t)
	if got := s.Partitions[0].Primary(); got != "a" {
		t.Errorf("primary %q, want a", got)
	}
	if got := s.Partitions[3].Primary(); got != "" {
		t.Errorf("primary %q of a partition that was never assigned", got)
	}
}

// Every loss counts, once: the removal of members that a partition is not lost by does not, nor does a second one while it is lost.
func TestState_Losses(t *testing.T) {
	s := base(t)
	if s.Losses != 1 || !s.Partitions[2].Lost { // partition 2, with x
		t.Fatalf("%d losses: %+v", s.Losses, s.Partitions)
	}
	s = run(t, s, Command{Remove: &RemoveMember{ID: "w"}}, Command{Remove: &RemoveMember{ID: "c"}})
	if s.Losses != 1 {
		t.Errorf("%d losses after removals that lose nothing", s.Losses)
	}
	s = run(t, s, Command{Batch: []Command{{Remove: &RemoveMember{ID: "a"}}, {Remove: &RemoveMember{ID: "b"}}}}) // 0 and 1
	if s.Losses != 3 {
		t.Errorf("%d losses, want 3", s.Losses)
	}
	s = run(t, s, Command{State: &SetState{"d", Active}}, replica(OpAssign, 2, s.Partitions[2].Epoch, "", "d"), Command{Remove: &RemoveMember{ID: "d"}})
	if s.Losses != 4 {
		t.Errorf("%d losses after the partition was lost again, want 4", s.Losses)
	}
}

func TestState_LeastBackups(t *testing.T) {
	of := func(replicas ...int) *State {
		s := &State{Partitions: make([]Partition, len(replicas))}
		for i, n := range replicas {
			s.Partitions[i].Replicas = make([]MemberID, n)
		}
		return s
	}
	for _, tt := range []struct {
		s    *State
		want int
	}{{of(), 0}, {of(3, 3), 2}, {of(3, 2, 3), 1}, {of(1), 0}, {of(2, 0), 0}, {of(7, 7), 6}} {
		if got := tt.s.LeastBackups(); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.s.Partitions, got, tt.want)
		}
	}
}

func TestState_Recovered(t *testing.T) {
	s := run(t, base(t), replica(OpAdd, 1, 1, "b"), replica(OpAssign, 3, 0, "", "c"))
	stale := MemberID("")
	recovered := func(survivors ...MemberID) (*State, Recovery) {
		return s.Recovered("new", survivors, func(m MemberID) bool { return m == stale })
	}
	next, r := recovered("b", "w")
	if next.ClusterID != "new" || next.Master != "" || next.Recoveries != 1 || next.Index <= s.Index || len(next.Members) != 2 {
		t.Errorf("%+v", next)
	}
	if diff := cmp.Diff([]PartitionID{3}, r.Lost); diff != "" { // it was on c alone; 2 was lost before
		t.Errorf("lost: %s", diff)
	}
	if r.Promoted != 2 || len(r.Doubtful) != 0 || len(r.Survivors) != 2 || len(r.Dropped) != 3 {
		t.Errorf("%+v", r)
	}
	for i, want := range [][]MemberID{{"b"}, {"b"}, {}, {}} {
		p := next.Partitions[i]
		if !cmp.Equal(want, append([]MemberID{}, p.Replicas...)) || p.Epoch <= s.Partitions[i].Epoch || p.Lost != (i >= 2) {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	if next.Losses != s.Losses+1 {
		t.Errorf("%d losses after %d", next.Losses, s.Losses)
	}
	stale = "b"
	if _, r := recovered("b", "w"); !cmp.Equal(r.Doubtful, []PartitionID{0, 1}) {
		t.Errorf("with a stale survivor: %+v", r)
	}
	if _, r := recovered("a", "b"); len(r.Doubtful) != 0 || r.Promoted != 0 {
		t.Errorf("with a fresh survivor beside it: %+v", r)
	}
	if s.ClusterID != "id" || len(s.Members) != 5 {
		t.Error("the old state was changed")
	}
}
