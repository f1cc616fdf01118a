package partition

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gridnode/grid"
)

var wide = Limits{Transfers: 1 << 20, PerMember: 1 << 20}

// From any state that a history of members coming, leaving and dying can lead to, the planner's own steps end in a balanced table, whichever
// of them are taken in each round.
func TestPlan_AnyHistory_Converges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newPlanWorld(t, rapid.IntRange(1, 60).Draw(rt, "partitions"), rapid.IntRange(0, 3).Draw(rt, "backups"), Limits{
			Transfers: rapid.IntRange(1, 30).Draw(rt, "transfers"),
			PerMember: rapid.IntRange(1, 8).Draw(rt, "perMember"),
		})
		zones := []string{"", "", "x", "y", "z"}[rapid.IntRange(0, 1).Draw(rt, "zoneless")*2:]
		coin := func() bool { return rapid.IntRange(0, 3).Draw(rt, "taken") > 0 }
		for range rapid.IntRange(1, 6).Draw(rt, "members") {
			w.add(rapid.SampledFrom(zones).Draw(rt, "zone"))
		}
		for range rapid.IntRange(0, 12).Draw(rt, "events") {
			randomEvent(rt, w, zones)
			for range rapid.IntRange(0, 4).Draw(rt, "rounds") {
				w.round(coin)
			}
		}
		if len(w.s.DataMembers()) == 0 {
			w.add("")
		}
		w.lim.ReviveLost = true
		w.joins = 0
		needed := transfersLeft(w)
		for range 10 {
			w.round(coin)
		}
		w.settle(always, 40*len(w.s.Partitions)+40)
		if w.joins > needed {
			t.Fatalf("%d transfers begun, but the first target was only %d away", w.joins, needed)
		}
		if len(w.s.Members) == len(w.s.DataMembers()) && !w.s.Complete() {
			t.Fatal("settled, but not safe")
		}
		if got := Owed(w.s); !got.Done() {
			t.Fatalf("settled, and it owes %+v", got)
		}
	})
}

// transfersLeft is how many transfers the present target is away.
func transfersLeft(w *planWorld) (n int) {
	target := newTarget(w.s, w.lim)
	for id, p := range w.s.Partitions {
		for _, m := range target.absent(id) {
			if len(p.Replicas) > 0 && !p.IsJoining(target.members[m].ID) {
				n++
			}
		}
	}
	return n
}

// randomEvent changes the members, or shakes one partition as a primary's own proposals may.
func randomEvent(rt *rapid.T, w *planWorld, zones []string) {
	var members []grid.MemberID
	for _, m := range w.s.DataMembers() {
		members = append(members, m.ID)
	}
	switch event := rapid.SampledFrom([]string{"add", "leave", "remove", "drop", "promote"}).Draw(rt, "event"); {
	case event == "add" && len(w.s.Members) < 9:
		w.add(rapid.SampledFrom(zones).Draw(rt, "zone"))
	case event == "leave" && len(members) > 1:
		w.leave(rapid.SampledFrom(members).Draw(rt, "leaver"))
	case event == "remove" && len(w.s.Members) > 1:
		w.remove(rapid.SampledFrom(w.s.Members).Draw(rt, "removed").ID)
	case event == "drop" || event == "promote":
		id := rapid.IntRange(0, len(w.s.Partitions)-1).Draw(rt, "partition")
		if p := w.s.Partitions[id]; len(p.Replicas) > 1 {
			op := map[string]grid.ReplicaOp{"drop": grid.OpDrop, "promote": grid.OpPrimary}[event]
			w.apply(change(grid.ReplicaChange{Op: op, Partition: grid.PartitionID(id), Epoch: p.Epoch, Member: p.Replicas[1]}))
		}
	}
}

func TestPlan_MemberComes_MovesLeast(t *testing.T) {
	for backups := range 3 {
		w := newPlanWorld(t, grid.DefaultPartitions, backups, Limits{Transfers: 64, PerMember: 64})
		for range backups + 1 {
			w.add("")
		}
		w.settle(always, 10)
		for n := backups + 2; n <= 6; n++ {
			w.add("")
			w.joins, w.hands = 0, 0
			w.settle(always, 500)
			replicas := grid.DefaultPartitions * (backups + 1)
			if most := (replicas + n - 1) / n; w.joins > most {
				t.Errorf("backups %d, member %d came: %d transfers, want at most %d", backups, n, w.joins, most)
			}
			if most := grid.DefaultPartitions; w.hands > most {
				t.Errorf("backups %d, member %d came: %d primaries handed over", backups, n, w.hands)
			}
			t.Logf("backups %d, %d -> %d members: %d transfers, %d primaries handed over", backups, n-1, n, w.joins, w.hands)
		}
	}
}

func TestPlan_MemberGoes_MovesLeast(t *testing.T) {
	for _, how := range []string{"dies", "leaves"} {
		w := newPlanWorld(t, grid.DefaultPartitions, 1, Limits{Transfers: 64, PerMember: 16})
		var ids []grid.MemberID
		for range 6 {
			ids = append(ids, w.add(""))
		}
		w.settle(always, 10)
		for n, id := range ids[:3] {
			held := 0
			for _, p := range w.s.Partitions {
				if p.InSync(id) {
					held++
				}
			}
			if how == "dies" {
				w.remove(id)
			} else {
				w.leave(id)
			}
			w.joins, w.hands = 0, 0
			w.settle(always, 500)
			if w.joins > held+2 {
				t.Errorf("member %s of %d %s with %d replicas: %d transfers", id, 6-n, how, held, w.joins)
			}
			t.Logf("%d -> %d members (%s): held %d, %d transfers, %d primaries handed over", 6-n, 5-n, how, held, w.joins, w.hands)
		}
	}
}

func TestPlan_InitialAssignment(t *testing.T) {
	w := newPlanWorld(t, grid.DefaultPartitions, 1, Limits{})
	w.s.Expect = 3
	w.add("")
	w.add("")
	if cmds := Plan(w.s, w.lim); cmds != nil {
		t.Fatalf("planned %d commands with 2 of 3 expected members", len(cmds))
	}
	w.add("")
	cmds := Plan(w.s, w.lim)
	if len(cmds) != 1 || len(cmds[0].Batch) != grid.DefaultPartitions {
		t.Fatalf("planned %d commands, want one batch of all partitions", len(cmds))
	}
	w.settle(always, 1)
	if !w.s.Complete() {
		t.Error("not safe after the assignment")
	}
}

// A new cluster waits for members, not for members with data: masters and workers that are started together form one.
func TestPlan_ExpectedMembers_CountWhateverTheirRole(t *testing.T) {
	w := newPlanWorld(t, 10, 1, wide)
	w.s.Expect = 3
	w.add("")
	w.add("")
	worker := grid.Member{ID: "worker", Address: "worker", Roles: []string{grid.RoleWorker}}
	w.apply(grid.Command{Add: &grid.AddMember{Member: worker}})
	if cmds := Plan(w.s, w.lim); cmds != nil {
		t.Fatalf("planned %d commands before the third member is active", len(cmds))
	}
	w.apply(grid.Command{State: &grid.SetState{ID: worker.ID, State: grid.Active}})
	w.settle(always, 5)
	if !w.s.Complete() {
		t.Error("not safe with three members of which two hold data")
	}
}

func TestPlan_WitnessGetsNothing(t *testing.T) {
	w := newPlanWorld(t, 10, 1, wide)
	w.add("")
	w.add("")
	w.apply(grid.Command{Add: &grid.AddMember{Member: grid.Member{ID: "witness", Address: "witness"}}})
	w.apply(grid.Command{State: &grid.SetState{ID: "witness", State: grid.Active}})
	w.settle(always, 5)
	for id, p := range w.s.Partitions {
		if p.InSync("witness") {
			t.Errorf("partition %d is on the witness", id)
		}
	}
}

func TestPlan_LostPartition_OnlyRevivedWhenAsked(t *testing.T) {
	w := newPlanWorld(t, 20, 0, wide)
	gone := w.add("")
	w.add("")
	w.settle(always, 5)
	w.remove(gone)
	w.settle(always, 5)
	lost := func() (n int) {
		for _, p := range w.s.Partitions {
			if p.Lost {
				n++
			}
		}
		return n
	}
	if lost() != 10 {
		t.Fatalf("%d partitions lost, want 10 and none revived", lost())
	}
	w.lim.ReviveLost = true
	w.settle(always, 5)
	if lost() != 0 || !w.s.Complete() {
		t.Errorf("%d partitions still lost", lost())
	}
}

func TestPlan_JoinerLeaves_IsGivenUp(t *testing.T) {
	w := newPlanWorld(t, 4, 0, wide)
	w.add("")
	w.settle(always, 5)
	second := w.add("")
	for _, c := range Plan(w.s, w.lim) {
		w.apply(c)
	}
	w.leave(second)
	cmds := Plan(w.s, w.lim)
	if len(cmds) != 2 {
		t.Fatalf("planned %d commands, want one for each of 2 joiners", len(cmds))
	}
	for _, c := range cmds {
		if c.Replica == nil || c.Replica.Op != grid.OpUnjoin || c.Replica.Member != second {
			t.Errorf("planned %+v, want %s of %s", c.Replica, grid.OpUnjoin, second)
		}
	}
}

// A leaving member keeps its role until the replacement is in, then hands it over, then is dropped.
// A joiner that stays is never given up, even if it is not wanted any more: see unjoins.
func TestPlan_UnwantedJoiner_IsLetInThenDropped(t *testing.T) {
	w := newPlanWorld(t, 1, 0, wide)
	first, second := w.add(""), w.add("")
	w.settle(always, 5)
	if w.s.Partitions[0].Primary() != first {
		first, second = second, first
	}
	w.apply(change(grid.ReplicaChange{Op: grid.OpJoin, Epoch: w.s.Partitions[0].Epoch, Member: second}))
	if cmds, ins := Plan(w.s, w.lim), Instructions(w.s, w.lim); len(cmds)+len(ins) > 0 {
		t.Fatalf("planned %+v and %+v while a joiner is brought up", cmds, ins)
	}
	w.settle(always, 5)
	if got := w.s.Partitions[0].Replicas; len(got) != 1 {
		t.Errorf("replicas %v, want one", got)
	}
}

func TestPlan_LeavingPrimary_StepByStep(t *testing.T) {
	w := newPlanWorld(t, 1, 1, wide)
	a := w.add("")
	w.settle(always, 5)
	b := w.add("")
	w.settle(always, 5)
	c := w.add("")
	w.settle(always, 5)
	p := w.s.Partitions[0]
	if !slices.Equal(p.Replicas, []grid.MemberID{a, b}) {
		t.Fatalf("replicas %v, want %v", p.Replicas, []grid.MemberID{a, b})
	}
	w.leave(a)
	var steps []string
	for range 10 {
		cmds := slices.Concat(Plan(w.s, w.lim), ins2cmds(Instructions(w.s, w.lim)), w.pending())
		if len(cmds) == 0 {
			break
		}
		for _, cmd := range cmds {
			steps = append(steps, fmt.Sprintf("%s %s", cmd.Replica.Op, cmd.Replica.Member))
			w.apply(cmd)
		}
	}
	next := w.s.Partitions[0].Primary()
	want := []string{"join " + string(c), "add " + string(c), "primary " + string(next), "drop " + string(a)}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	w.checkBalanced()
}

// First come partitions with few copies, then those that a leaving member still holds, then those that only balance the members.
func TestPlan_MostUrgentFirst(t *testing.T) {
	w := newPlanWorld(t, 30, 2, wide)
	first := w.add("")
	for range 5 {
		w.add("")
	}
	w.settle(always, 10)
	for range 3 {
		w.add("") // more than take the leaving one's place, so that there is something to balance
	}
	w.leave(first)
	poor := grid.PartitionID(29)
	for w.s.Partitions[poor].InSync(first) {
		poor--
	}
	p := w.s.Partitions[poor]
	w.apply(change(grid.ReplicaChange{Op: grid.OpDrop, Partition: poor, Epoch: p.Epoch, Member: p.Replicas[1]}))
	urgency := func(id grid.PartitionID) int {
		switch p := w.s.Partitions[id]; {
		case len(p.Replicas) < 3:
			return 0
		case p.InSync(first):
			return 1
		}
		return 2
	}
	var got []int
	for _, c := range Plan(w.s, wide) {
		got = append(got, urgency(c.Replica.Partition))
	}
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 3 {
		t.Errorf("urgency of the transfers, in their order: %v", got)
	}
}

func TestPlan_Zones(t *testing.T) {
	for _, test := range []struct {
		name    string
		backups int
		zones   []string // of the members, in the order of joining
		want    int      // pairs of replicas in one zone
	}{
		{"two zones of two", 1, []string{"x", "x", "y", "y"}, 0},
		{"second zone comes late", 1, []string{"x", "x", "x", "y", "y", "y"}, 0},
		{"three zones, three copies", 2, []string{"x", "y", "z", "x", "y", "z"}, 0},
		{"three zones late, three copies", 2, []string{"x", "x", "y", "y", "z", "z"}, 0},
		{"three zones, two copies", 1, []string{"x", "x", "y", "y", "z", "z"}, 0},
		{"balance before zones", 1, []string{"x", "x", "y"}, 20},
		{"one zone", 1, []string{"x", "x", "x"}, 61},
		{"no zones", 1, []string{"", "", ""}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, lim := range []Limits{wide, {Transfers: 1, PerMember: 1}} {
				w := newPlanWorld(t, 61, test.backups, lim)
				for _, zone := range test.zones {
					w.add(zone)
					w.settle(always, 800)
				}
				if got := w.paired(); got != test.want {
					t.Errorf("limits %+v: %d pairs of replicas share a zone, want %d", lim, got, test.want)
				}
			}
		})
	}
}

func TestPlan_Deterministic(t *testing.T) {
	w := benchWorld(t, 7)
	plan, ins := Plan(w.s, w.lim), Instructions(w.s, w.lim)
	if len(plan) == 0 {
		t.Fatal("nothing planned")
	}
	for range 5 {
		if diff := cmp.Diff(plan, Plan(w.s, w.lim)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(ins, Instructions(w.s, w.lim)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestPlan_SuspendedPrimary_HoldsNothingUp: partitions that wait for a suspended primary begin no transfers, and what it was sending when it fell
// silent does not count, so the copies of the others are made at once.
func TestPlan_SuspendedPrimary_HoldsNothingUp(t *testing.T) {
	w := newPlanWorld(t, 40, 1, Limits{Transfers: 2, PerMember: 2})
	a, b := w.add(""), w.add("")
	w.add("")
	w.add("")
	w.settle(always, 2000)
	w.apply(grid.Command{Suspend: &grid.Suspend{IDs: []grid.MemberID{a, b}}})
	alone := func(p grid.Partition) bool { return p.Primary() == a || p.Primary() == b }
	copied := func(p grid.Partition) bool { return len(p.Replicas) == 1 && !alone(p) }
	if !slices.ContainsFunc(w.s.Partitions, alone) || !slices.ContainsFunc(w.s.Partitions, copied) {
		t.Fatal("no partition waits, or none has lost a copy")
	}
	for i := range w.s.Partitions {
		if p := &w.s.Partitions[i]; alone(*p) { // as if it had begun before
			p.Joining = []grid.MemberID{w.s.Members[3].ID}
		}
	}
	joins := 0
	for _, c := range Plan(w.s, w.lim) {
		if c.Replica == nil || c.Replica.Op != grid.OpJoin {
			continue
		}
		joins++
		if alone(w.s.Partitions[c.Replica.Partition]) {
			t.Errorf("a transfer begins from a suspended primary: %+v", c.Replica)
		}
	}
	if joins != w.lim.Transfers {
		t.Errorf("%d transfers begin, want %d", joins, w.lim.Transfers)
	}
}
