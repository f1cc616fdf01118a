package partition

import (
	"fmt"
	"slices"
	"testing"

	"gridnode/grid"
)

// planWorld is a cluster reduced to its agreed state. Steps that real members would take on the planner's behalf are commands applied to it.
type planWorld struct {
	t     testing.TB
	s     *grid.State
	lim   Limits
	next  int
	joins int // members begun to be brought up
	hands int // primary roles handed over
}

func newPlanWorld(t testing.TB, partitions, backups int, lim Limits) *planWorld {
	w := &planWorld{t: t, s: &grid.State{}, lim: lim}
	w.apply(grid.Command{Form: &grid.Form{ClusterID: "c", ClusterName: "c", Partitions: partitions, Backups: backups}})
	return w
}

// apply applies a command that must fit, and checks what no command may ever do.
func (w *planWorld) apply(c grid.Command) {
	w.t.Helper()
	next, err := w.s.Apply(c)
	if err != nil {
		w.t.Fatalf("%+v: %v", c, err)
	}
	w.s = next
}

func (w *planWorld) add(zone string) grid.MemberID {
	w.next++
	id := grid.MemberID(fmt.Sprintf("member-%d", w.next))
	m := grid.Member{ID: id, Address: string(id), Roles: []string{grid.RoleData}}
	if zone != "" {
		m.Attributes = map[string]string{zoneAttribute: zone}
	}
	w.apply(grid.Command{Add: &grid.AddMember{Member: m}})
	w.apply(grid.Command{State: &grid.SetState{ID: id, State: grid.Active}})
	return id
}

func (w *planWorld) leave(id grid.MemberID) {
	w.apply(grid.Command{State: &grid.SetState{ID: id, State: grid.Leaving}})
}

func (w *planWorld) remove(id grid.MemberID) {
	w.apply(grid.Command{Remove: &grid.RemoveMember{ID: id}})
}

// round plans once and takes those of the planned and pending steps that pick lets through. It reports whether there was any to take.
func (w *planWorld) round(pick func() bool) bool {
	w.t.Helper()
	cmds, ins := Plan(w.s, w.lim), Instructions(w.s, w.lim)
	pending := w.pending()
	for _, c := range slices.Concat(cmds, ins2cmds(ins), pending) {
		if !pick() {
			continue
		}
		w.checkKeepsCopies(c)
		if r := c.Replica; r != nil && r.Op == grid.OpJoin {
			w.joins++
		} else if r != nil && r.Op == grid.OpPrimary {
			w.hands++
		} else if r != nil && r.Op == grid.OpAdd && !w.s.Partitions[r.Partition].IsJoining(r.Member) {
			continue // the plan of this very round gave that joiner up
		}
		w.apply(c)
	}
	w.checkLimits()
	return len(cmds)+len(ins)+len(pending) > 0
}

// pending returns the ends of the transfers that are under way.
func (w *planWorld) pending() []grid.Command {
	var out []grid.Command
	for id, p := range w.s.Partitions {
		for _, m := range p.Joining {
			out = append(out, change(grid.ReplicaChange{Op: grid.OpAdd, Partition: grid.PartitionID(id), Epoch: p.Epoch, Member: m}))
		}
	}
	return out
}

func ins2cmds(list []Instruction) []grid.Command {
	var out []grid.Command
	for _, in := range list {
		out = append(out, change(grid.ReplicaChange{Op: in.Op, Partition: in.Partition, Epoch: in.Epoch, Member: in.Member}))
	}
	return out
}

// checkKeepsCopies holds that no drop leaves a partition with fewer copies than wanted on members that stay.
func (w *planWorld) checkKeepsCopies(c grid.Command) {
	w.t.Helper()
	if c.Replica == nil || c.Replica.Op != grid.OpDrop {
		return
	}
	stay := 0
	for _, m := range w.s.Partitions[c.Replica.Partition].Replicas {
		if member, _ := w.s.Member(m); member.State == grid.Active && m != c.Replica.Member {
			stay++
		}
	}
	if stay < w.s.WantReplicas() {
		w.t.Fatalf("drop of %s leaves partition %d with %d copies", c.Replica.Member, c.Replica.Partition, stay)
	}
}

func (w *planWorld) checkLimits() {
	w.t.Helper()
	total, on := 0, map[grid.MemberID]int{}
	for _, p := range w.s.Partitions {
		for _, m := range p.Joining {
			total++
			on[m]++
			if on[m] > w.lim.PerMember {
				w.t.Fatalf("%s is brought up %d times at once, limit %d", m, on[m], w.lim.PerMember)
			}
		}
		if len(p.Joining) > 1 {
			w.t.Fatalf("partition with two joiners: %+v", p)
		}
	}
	if total > w.lim.Transfers {
		w.t.Fatalf("%d transfers at once, limit %d", total, w.lim.Transfers)
	}
}

// settle takes all steps until there is none left, and checks the fixed point.
func (w *planWorld) settle(pick func() bool, rounds int) {
	w.t.Helper()
	for n := 0; w.round(pick); n++ {
		if n == rounds {
			w.t.Fatalf("no fixed point after %d rounds; plan %d, instructions %d, %s",
				n, len(Plan(w.s, w.lim)), len(Instructions(w.s, w.lim)), w.loads())
		}
	}
	w.checkBalanced()
}

// spans returns how far apart the most and the least loaded data members are, in replicas and in primaries.
func (w *planWorld) spans() (replicas, primaries int) {
	all, first := map[grid.MemberID]int{}, map[grid.MemberID]int{}
	for _, p := range w.s.Partitions {
		for i, m := range p.Replicas {
			all[m]++
			if i == 0 {
				first[m]++
			}
		}
	}
	span := func(loads map[grid.MemberID]int) int {
		var list []int
		for _, m := range w.s.DataMembers() {
			list = append(list, loads[m.ID])
		}
		return slices.Max(list) - slices.Min(list)
	}
	return span(all), span(first)
}

func (w *planWorld) loads() string {
	r, p := w.spans()
	return fmt.Sprintf("span of replicas %d, of primaries %d", r, p)
}

func (w *planWorld) checkBalanced() {
	w.t.Helper()
	if len(w.s.DataMembers()) == 0 {
		return
	}
	if r, p := w.spans(); r > 1 || p > 1 {
		w.t.Fatalf("not balanced: %s", w.loads())
	}
	for id, p := range w.s.Partitions {
		if len(p.Joining) > 0 || !p.Lost && len(p.Replicas) != w.s.WantReplicas() {
			w.t.Fatalf("partition %d: %+v, want %d replicas", id, p, w.s.WantReplicas())
		}
		for _, m := range p.Replicas {
			if member, ok := w.s.Member(m); !ok || member.State != grid.Active {
				w.t.Fatalf("partition %d still on %s (%s)", id, m, member.State)
			}
		}
	}
}

// paired counts pairs of replicas of one partition that share a zone.
func (w *planWorld) paired() int {
	n := 0
	for _, p := range w.s.Partitions {
		for i, a := range p.Replicas {
			for _, b := range p.Replicas[:i] {
				x, _ := w.s.Member(a)
				y, _ := w.s.Member(b)
				if z := x.Attributes[zoneAttribute]; z != "" && z == y.Attributes[zoneAttribute] {
					n++
				}
			}
		}
	}
	return n
}

func always() bool { return true }
