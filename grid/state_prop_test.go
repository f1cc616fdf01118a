package grid

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var propertyMembers = []MemberID{"a", "b", "c", "d", "e", "f"}

// Whatever is applied in whatever order, fitting or not, the agreed state keeps its promises.
func TestState_AnyCommands_KeepInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := run(t, &State{}, Command{Form: &Form{ClusterID: "id", Partitions: 3, Backups: 2}})
		var seqs []uint64
		for range rapid.IntRange(1, 120).Draw(rt, "commands") {
			c := drawCommand(rt, s, true)
			before := deepCopy(s)
			next, err := s.Apply(c)
			if diff := cmp.Diff(before, s); diff != "" {
				t.Fatalf("%+v changed its receiver:\n%s", c, diff)
			}
			checkStep(t, s, next, c, err)
			for _, m := range next.Members {
				if _, known := s.Member(m.ID); !known {
					seqs = append(seqs, m.JoinSeq)
				}
			}
			s = next
		}
		if !slices.IsSorted(seqs) || len(slices.Compact(slices.Clone(seqs))) != len(seqs) {
			t.Fatalf("join sequences %v are not growing", seqs)
		}
	})
}

// drawCommand draws a command that often fits the state, and often does not.
func drawCommand(rt *rapid.T, s *State, batches bool) Command {
	member := rapid.SampledFrom(propertyMembers).Draw(rt, "member")
	switch rapid.IntRange(0, 13).Draw(rt, "command") {
	case 0, 1:
		m := Member{ID: member, Address: string(member)}
		if rapid.IntRange(0, 3).Draw(rt, "role") > 0 {
			m.Roles = []string{RoleData}
		}
		return Command{Add: &AddMember{m}}
	case 2, 3:
		return Command{State: &SetState{member, rapid.SampledFrom([]MemberState{Active, Active, Leaving, Joining, Suspended}).Draw(rt, "state")}}
	case 4:
		return Command{Remove: &RemoveMember{ID: member}}
	case 5:
		return Command{Claim: &ClaimMaster{member, rapid.Uint64Range(0, 5).Draw(rt, "term")}}
	case 6:
		if !batches {
			return Command{}
		}
		c := Command{Batch: []Command{}}
		for range rapid.IntRange(0, 4).Draw(rt, "parts") {
			c.Batch = append(c.Batch, drawCommand(rt, s, rapid.IntRange(0, 9).Draw(rt, "nested") == 0))
		}
		return c
	}
	if batches && rapid.IntRange(0, 9).Draw(rt, "suspend") == 0 {
		ids := rapid.SliceOfN(rapid.SampledFrom(propertyMembers), 0, 3)
		return Command{Suspend: &Suspend{ids.Draw(rt, "suspended"), ids.Draw(rt, "silent")}}
	}
	return Command{Replica: drawChange(rt, s, member)}
}

func drawChange(rt *rapid.T, s *State, member MemberID) *ReplicaChange {
	id := rapid.IntRange(0, len(s.Partitions)-1).Draw(rt, "partition")
	c := &ReplicaChange{
		Op:        rapid.SampledFrom([]ReplicaOp{OpAssign, OpJoin, OpUnjoin, OpAdd, OpAdd, OpDrop, OpPrimary, "other"}).Draw(rt, "op"),
		Partition: PartitionID(id),
		Epoch:     s.Partitions[id].Epoch,
		Member:    member,
	}
	if rapid.IntRange(0, 7).Draw(rt, "stale") == 0 {
		c.Epoch--
	}
	if c.Op == OpAssign {
		c.Members = rapid.SliceOfN(rapid.SampledFrom(propertyMembers), 0, 3).Draw(rt, "members")
	}
	return c
}

func checkStep(t *testing.T, s, next *State, c Command, err error) {
	t.Helper()
	if next.Index != s.Index+1 {
		t.Fatalf("index %d after %d", next.Index, s.Index)
	}
	if err != nil {
		if _, ok := errors.AsType[*Rejected](err); !ok {
			t.Fatalf("%+v: error %v is no rejection", c, err)
		}
		same := *s
		same.Index++
		if diff := cmp.Diff(&same, next); diff != "" {
			t.Fatalf("%+v was rejected (%v), but changed the state:\n%s", c, err, diff)
		}
	}
	if next.Term < s.Term || next.NextJoinSeq < s.NextJoinSeq {
		t.Fatalf("%+v: term or join sequence fell", c)
	}
	if !slices.IsSortedFunc(next.Members, func(x, y Member) int { return int(x.JoinSeq) - int(y.JoinSeq) }) {
		t.Fatalf("%+v: members are not in the order of joining: %+v", c, next.Members)
	}
	if c.Suspend != nil && err == nil {
		checkSuspension(t, s, next, c.Suspend.Silent)
	}
	for id := range next.Partitions {
		checkPartition(t, next, next.Partitions[id], c)
		if c.Batch == nil { // a batch may change a partition more than once
			checkChange(t, s.Partitions[id], next.Partitions[id], c)
		}
	}
}

// checkSuspension: nothing is lost, nobody suspended holds what another one has too, and no suspended member knows less than it has to.
func checkSuspension(t *testing.T, s, next *State, silent []MemberID) {
	t.Helper()
	suspended := func(m MemberID) bool { x, _ := next.Member(m); return x.State == Suspended }
	for id, p := range next.Partitions {
		if len(p.Replicas) == 0 && len(s.Partitions[id].Replicas) > 0 {
			t.Fatalf("partition %d was lost: %+v", id, s.Partitions[id])
		}
		if some := slices.ContainsFunc(p.Replicas, suspended); some && slices.ContainsFunc(p.Replicas, func(m MemberID) bool { return !suspended(m) && !slices.Contains(silent, m) }) {
			t.Fatalf("partition %d is held by suspended members and by others: %+v", id, p)
		}
		if slices.ContainsFunc(p.Joining, suspended) {
			t.Fatalf("partition %d is being brought up on a suspended member: %+v", id, p)
		}
	}
	for _, m := range next.Members {
		if was, _ := s.Member(m.ID); m.State == Suspended && was.State == Active && m.Fence != next.Index {
			t.Fatalf("member %s was suspended at %d with the fence %d", m.ID, next.Index, m.Fence)
		}
	}
}

// checkPartition holds what is true of one row at any time.
func checkPartition(t *testing.T, s *State, p Partition, c Command) {
	t.Helper()
	seen := map[MemberID]bool{}
	for _, m := range slices.Concat(p.Replicas, p.Joining) {
		if _, ok := s.Member(m); !ok || seen[m] {
			t.Fatalf("%+v: %s is in %+v, but no member or there twice", c, m, p)
		}
		seen[m] = true
	}
	switch {
	case p.Lost != (p.Epoch > 0 && len(p.Replicas) == 0):
		t.Fatalf("%+v: %+v is marked wrongly as lost or not", c, p)
	case len(p.Replicas) == 0 && len(p.Joining) > 0:
		t.Fatalf("%+v: %+v has joiners but nobody to bring them up", c, p)
	case p.Reign > p.Epoch || p.Born > p.Reign:
		t.Fatalf("%+v: %+v has a reign out of order", c, p)
	}
}

// checkChange holds what is true of any single change of a row.
func checkChange(t *testing.T, p, next Partition, c Command) {
	t.Helper()
	born := c.Replica != nil && c.Replica.Op == OpAssign && len(p.Replicas) == 0 && len(next.Replicas) > 0
	added := c.Replica != nil && c.Replica.Op == OpAdd
	switch {
	case slices.Equal(p.Replicas, next.Replicas):
		epoch := p.Epoch
		if c.Replica != nil && c.Replica.Op == OpUnjoin && len(next.Joining) < len(p.Joining) {
			epoch++
		}
		if c.Suspend != nil && len(next.Joining) < len(p.Joining) {
			epoch++
		}
		if next.Epoch != epoch || next.Reign != p.Reign || next.Born != p.Born || !reflect.DeepEqual(next.Prev, p.Prev) {
			t.Fatalf("%+v: same replicas, but %+v became %+v", c, p, next)
		}
		return
	case next.Epoch != p.Epoch+1:
		t.Fatalf("%+v: replicas changed, but the epoch went from %d to %d", c, p.Epoch, next.Epoch)
	case born:
		if next.Born != next.Epoch || next.Reign != next.Epoch || next.Prev != nil {
			t.Fatalf("%+v: started empty as %+v", c, next)
		}
		return
	case next.Born != p.Born:
		t.Fatalf("%+v: birth changed from %+v to %+v", c, p, next)
	}
	for _, m := range next.Replicas {
		if !p.InSync(m) && !(added && m == c.Replica.Member && p.IsJoining(m)) {
			t.Fatalf("%+v: %s became in-sync without joining: %+v, %+v", c, m, p, next)
		}
	}
	checkReign(t, p, next, c)
}

func checkReign(t *testing.T, p, next Partition, c Command) {
	t.Helper()
	switch {
	case next.Primary() == p.Primary():
		if next.Reign != p.Reign || !reflect.DeepEqual(next.Prev, p.Prev) {
			t.Fatalf("%+v: same primary, but %+v became %+v", c, p, next)
		}
	case next.Lost:
		if next.Reign != next.Epoch || next.Prev != nil {
			t.Fatalf("%+v: lost as %+v", c, next)
		}
	case !p.InSync(next.Primary()):
		t.Fatalf("%+v: promoted %s, which was not in-sync in %+v", c, next.Primary(), p)
	case next.Reign != next.Epoch || !slices.Equal(next.Prev, p.Replicas):
		t.Fatalf("%+v: new primary, but %+v became %+v", c, p, next)
	}
}

// deepCopy copies all that a state refers to, so that a change of the original shows.
func deepCopy(s *State) *State {
	c := *s
	c.Members = slices.Clone(s.Members)
	for i := range c.Members {
		c.Members[i].Roles = slices.Clone(s.Members[i].Roles)
	}
	c.Partitions = slices.Clone(s.Partitions)
	for i := range c.Partitions {
		p := &c.Partitions[i]
		p.Replicas, p.Joining, p.Prev = slices.Clone(p.Replicas), slices.Clone(p.Joining), slices.Clone(p.Prev)
	}
	return &c
}
