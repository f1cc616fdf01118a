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
		for range 10 {
			w.round(coin)
		}
		w.settle(always, 40*len(w.s.Partitions)+40)
		if len(w.s.Members) == len(w.s.DataMembers()) && !w.s.Safe() {
			t.Fatal("settled, but not safe")
		}
	})
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
		w := newPlanWorld(t, grid.DefaultPartitions, backups, Limits{Transfers: 16, PerMember: 4})
		for range backups + 1 {
			w.add("")
		}
		w.settle(always, 10)
		for n := backups + 2; n <= 8; n++ {
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
		w := newPlanWorld(t, grid.DefaultPartitions, 1, Limits{Transfers: 16, PerMember: 4})
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
	if !w.s.Safe() {
		t.Error("not safe after the assignment")
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
	if lost() != 0 || !w.s.Safe() {
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

func TestPlan_FewestCopiesFirst(t *testing.T) {
	w := newPlanWorld(t, 30, 2, wide)
	ids := []grid.MemberID{w.add(""), w.add(""), w.add(""), w.add("")}
	w.settle(always, 10)
	p := w.s.Partitions[17]
	for _, m := range p.Replicas[1:] {
		w.apply(change(grid.ReplicaChange{Op: grid.OpDrop, Partition: 17, Epoch: w.s.Partitions[17].Epoch, Member: m}))
	}
	for _, id := range ids {
		if id != p.Primary() {
			w.remove(id)
			break
		}
	}
	cmds := Plan(w.s, Limits{Transfers: 1, PerMember: 1})
	if len(cmds) != 1 || cmds[0].Replica.Partition != 17 || cmds[0].Replica.Op != grid.OpJoin {
		t.Errorf("planned %+v, want a join of partition 17, which has one copy", cmds)
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
		{"balance before zones", 1, []string{"x", "x", "y"}, 91},
		{"one zone", 1, []string{"x", "x", "x"}, 271},
		{"no zones", 1, []string{"", "", ""}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, lim := range []Limits{wide, {Transfers: 1, PerMember: 1}} {
				w := newPlanWorld(t, grid.DefaultPartitions, test.backups, lim)
				for _, zone := range test.zones {
					w.add(zone)
					w.settle(always, 3000)
				}
				if got := w.paired(); got > test.want {
					t.Errorf("limits %+v: %d pairs of replicas share a zone, want at most %d", lim, got, test.want)
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

// The balance is exact: of all ways to even the loads, none costs less than the one found.
func TestAssignment_Balance_IsOptimal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		partitions, members := rapid.IntRange(1, 5).Draw(rt, "partitions"), rapid.IntRange(2, 4).Draw(rt, "members")
		a := newAssignment(partitions, members, func(int, int, int) int { return 0 })
		free := make([][]int, partitions)
		for id := range free {
			stay := rapid.IntRange(0, members-1).Draw(rt, "stay")
			for m := range members {
				if m == stay {
					a.allow(id, m, 0)
					a.choose(id, m)
				} else if rapid.Bool().Draw(rt, "allowed") {
					a.allow(id, m, 1)
				} else {
					continue
				}
				free[id] = append(free[id], m)
			}
		}
		a.balance()
		got := [2]int{}
		for id := range free {
			got[1] += int(a.cost[id*members+a.only(id)])
		}
		for _, l := range a.load {
			got[0] += l * l
		}
		if best := bestAssignment(a, free, 0, make([]int, members), 0); got != best {
			t.Fatalf("(unevenness, cost) is %v, but %v can be had", got, best)
		}
	})
}

// bestAssignment tries all choices of one member each for the partitions from id on.
func bestAssignment(a *assignment, free [][]int, id int, load []int, cost int) [2]int {
	if id == len(free) {
		uneven := 0
		for _, l := range load {
			uneven += l * l
		}
		return [2]int{uneven, cost}
	}
	best := [2]int{1 << 30, 0}
	for _, m := range free[id] {
		load[m]++
		x := bestAssignment(a, free, id+1, load, cost+int(a.cost[id*a.n+m]))
		load[m]--
		if x[0] < best[0] || x[0] == best[0] && x[1] < best[1] {
			best = x
		}
	}
	return best
}

// benchWorld is a balanced cluster to which one more member has just come.
func benchWorld(t testing.TB, members int) *planWorld {
	w := newPlanWorld(t, grid.DefaultPartitions, 1, Limits{Transfers: 16, PerMember: 4})
	for range members - 1 {
		w.add("")
	}
	w.settle(always, 10)
	w.add("")
	return w
}

func BenchmarkPlan(b *testing.B) {
	for _, members := range []int{3, 10, 30} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			w := benchWorld(b, members)
			for b.Loop() {
				Plan(w.s, w.lim)
			}
		})
	}
}

func BenchmarkInstructions(b *testing.B) {
	w := benchWorld(b, 10)
	for b.Loop() {
		Instructions(w.s, w.lim)
	}
}
