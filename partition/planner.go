package partition

import (
	"cmp"
	"slices"

	"gridnode/grid"
)

// Limits bound what the planner begins at a time. Zero transfers means that nothing is begun.
type Limits struct {
	Transfers  int  // members being brought up at a time, in the whole cluster
	PerMember  int  // the same, on one receiving member
	ReviveLost bool // start lost partitions again, empty
}

// Instruction is what the master asks the present primary of a partition to do, if the partition is still at that epoch: to hand its role to
// the in-sync backup Member ([grid.OpPrimary]), or to drop the in-sync backup Member ([grid.OpDrop]).
type Instruction struct {
	Partition grid.PartitionID
	Epoch     grid.Epoch
	Op        grid.ReplicaOp
	Member    grid.MemberID
}

// The planner works out where every replica should be in the end, anew for every state, and then asks only for the steps that may be taken
// now. It keeps no memory, so a new master goes on where the old one stopped. What makes that converge: of all balanced tables it aims at
// one that is the fewest transfers away (see assignment). A step towards such a table leaves it one transfer nearer, so whatever table the
// next run aims at is nearer than the last one, whichever steps were taken, in whichever order.

// Plan returns the commands that the master should put in the log: assign partitions that have no replicas, begin to bring members up, and
// stop bringing up those that leave. It is a pure function: every master plans the same for the same state.
//
// It asks for nothing on a partition that is being changed already, so calling it again before its commands are applied is harmless.
func Plan(s *grid.State, lim Limits) []grid.Command {
	t := newTarget(s, lim)
	if t == nil {
		return nil
	}
	var cmds []grid.Command
	if batch := t.assigns(); len(batch) > 0 {
		cmds = append(cmds, grid.Command{Batch: batch})
	}
	cmds = append(cmds, t.unjoins()...)
	return append(cmds, t.joins(lim)...)
}

// Instructions returns what the master should ask the present primaries to do, at most one thing for each partition. A partition is asked
// only once all replicas that it should have are in-sync, so no instruction can leave it with fewer copies than wanted.
func Instructions(s *grid.State, lim Limits) []Instruction {
	t := newTarget(s, lim)
	if t == nil {
		return nil
	}
	var out []Instruction
	primaries := t.primaries()
	for id, p := range s.Partitions {
		if !t.settled(id) {
			continue
		}
		in := Instruction{Partition: grid.PartitionID(id), Epoch: p.Epoch}
		if i := slices.IndexFunc(p.Replicas[1:], func(m grid.MemberID) bool { return !t.wants(id, m) }); i >= 0 {
			in.Op, in.Member = grid.OpDrop, p.Replicas[1+i]
		} else if next := t.members[primaries.first(id)].ID; next != p.Primary() {
			in.Op, in.Member = grid.OpPrimary, next
		} else {
			continue
		}
		out = append(out, in)
	}
	return out
}

// settled reports whether partition id lives, is not being changed, and has all replicas that it should have; perhaps some more.
func (t *target) settled(id int) bool {
	p := &t.state.Partitions[id]
	return len(p.Replicas) > 0 && len(p.Joining) == 0 && len(t.absent(id)) == 0
}

// absent returns the members that should have partition id but do not hold it in-sync.
func (t *target) absent(id int) []int {
	var out []int
	for m := range t.members {
		if t.replicas.has(id, m) && !t.state.Partitions[id].InSync(t.members[m].ID) {
			out = append(out, m)
		}
	}
	return out
}

func (t *target) assigns() []grid.Command {
	var out []grid.Command
	var primaries *assignment
	for id, p := range t.state.Partitions {
		if len(p.Replicas) > 0 || !t.planned(&p) {
			continue
		}
		if primaries == nil {
			primaries = t.primaries()
		}
		first := primaries.first(id)
		members := []grid.MemberID{t.members[first].ID}
		for _, m := range t.byRank(id) {
			if m != first && t.replicas.has(id, m) {
				members = append(members, t.members[m].ID)
			}
		}
		out = append(out, change(grid.ReplicaChange{Op: grid.OpAssign, Partition: grid.PartitionID(id), Epoch: p.Epoch, Members: members}))
	}
	return out
}

// unjoins gives up bringing members up that may hold nothing any more. Any other joiner that is not wanted is let in first and dropped then:
// given up, it might begin again at the same epoch, where a proposal to add it from the first time, still on its way, would make it in-sync
// before it holds anything.
func (t *target) unjoins() []grid.Command {
	var out []grid.Command
	for id, p := range t.state.Partitions {
		for _, m := range p.Joining {
			if _, ok := t.index[m]; !ok {
				out = append(out, change(grid.ReplicaChange{Op: grid.OpUnjoin, Partition: grid.PartitionID(id), Epoch: p.Epoch, Member: m}))
			}
		}
	}
	return out
}

// staying counts the in-sync replicas of partition id on members that may go on holding them.
func (t *target) staying(id int) (n int) {
	for _, m := range t.state.Partitions[id].Replicas {
		if _, ok := t.index[m]; ok {
			n++
		}
	}
	return n
}

// joins begins transfers as far as the limits allow: partitions with the fewest copies first, then those with the fewest copies that stay. Those whose
// primary is suspended wait for it, and what it was sending does not keep others waiting.
func (t *target) joins(lim Limits) []grid.Command {
	var out []grid.Command
	free := lim.Transfers
	receiving := make([]int, len(t.members))
	var open []int
	for id, p := range t.state.Partitions {
		if m, _ := t.state.Member(p.Primary()); m.State == grid.Suspended {
			continue
		}
		free -= len(p.Joining)
		for _, m := range p.Joining {
			if i, ok := t.index[m]; ok {
				receiving[i]++
			}
		}
		if len(p.Replicas) > 0 && len(p.Joining) == 0 && len(t.absent(id)) > 0 {
			open = append(open, id)
		}
	}
	slices.SortStableFunc(open, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(len(t.state.Partitions[a].Replicas), len(t.state.Partitions[b].Replicas)),
			cmp.Compare(t.staying(a), t.staying(b)))
	})
	for _, id := range open {
		for _, m := range t.absent(id) {
			if free <= 0 || receiving[m] >= lim.PerMember {
				continue
			}
			p := &t.state.Partitions[id]
			out = append(out, change(grid.ReplicaChange{
				Op: grid.OpJoin, Partition: grid.PartitionID(id), Epoch: p.Epoch, Member: t.members[m].ID,
			}))
			free, receiving[m] = free-1, receiving[m]+1
			break
		}
	}
	return out
}

func change(c grid.ReplicaChange) grid.Command { return grid.Command{Replica: &c} }
