package grid

import (
	"slices"
)

// Command is one change of the agreed state, as it stands in the log. Exactly one field is set.
type Command struct {
	Form    *Form          `msgpack:",omitempty"`
	Claim   *ClaimMaster   `msgpack:",omitempty"`
	Add     *AddMember     `msgpack:",omitempty"`
	State   *SetState      `msgpack:",omitempty"`
	Remove  *RemoveMember  `msgpack:",omitempty"`
	Suspend *Suspend       `msgpack:",omitempty"`
	Replica *ReplicaChange `msgpack:",omitempty"`
	Attrs   *SetAttributes `msgpack:",omitempty"`
	Batch   []Command      `msgpack:",omitempty"` // each applied by itself; a rejected one does not stop the others
}

// Form creates the cluster.
type Form struct {
	ClusterID, ClusterName      string
	Partitions, Backups, Expect int
}

// ClaimMaster is the first entry of a new raft leader: from it on, the member is master in that term.
type ClaimMaster struct {
	ID   MemberID
	Term uint64
}

// AddMember accepts a new member, in state joining.
type AddMember struct{ Member Member }

// SetState moves a member on: from joining or suspended to active, or from any to leaving.
type SetState struct {
	ID    MemberID
	State MemberState
}

// RemoveMember ends a membership. The same entry strips the member from every partition and makes the first in-sync backup primary
// wherever the removed one was.
type RemoveMember struct {
	ID     MemberID
	Reason string
}

// Suspend takes from active members that do not answer what others have as well: the same entry strips them from every partition with an
// in-sync replica on a member that is neither suspended nor one of the Silent, who may be suspended next. Where there is none they stay what
// they are, for theirs may be the only copies.
type Suspend struct{ IDs, Silent []MemberID }

// ReplicaOp is a kind of [ReplicaChange].
type ReplicaOp string

// The changes of one partition. All but OpJoin raise its epoch. OpUnjoin does, so that an OpAdd on its way cannot take a later, emptier join
// of the same member for the one that it was proposed for.
const (
	OpAssign  ReplicaOp = "assign"  // start the partition empty with Members as its replicas; only if it has none
	OpJoin    ReplicaOp = "join"    // Member begins to be brought up
	OpUnjoin  ReplicaOp = "unjoin"  // Member is no longer brought up
	OpAdd     ReplicaOp = "add"     // the joining Member has caught up: it is in-sync now
	OpDrop    ReplicaOp = "drop"    // the in-sync backup Member is in-sync no more
	OpPrimary ReplicaOp = "primary" // the in-sync backup Member becomes primary, the old primary a backup
)

// ReplicaChange changes one partition, if its epoch is still Epoch: of two proposals for one epoch, the later is rejected.
type ReplicaChange struct {
	Op        ReplicaOp
	Partition PartitionID
	Epoch     Epoch
	Member    MemberID   `msgpack:",omitempty"`
	Members   []MemberID `msgpack:",omitempty"`
}

func (c Command) apply(s *State) error {
	switch {
	case c.Form != nil:
		return c.Form.apply(s)
	case !s.Formed():
		return rejectf("there is no cluster yet")
	case c.Claim != nil:
		return c.Claim.apply(s)
	case c.Add != nil:
		return c.Add.apply(s)
	case c.State != nil:
		return c.State.apply(s)
	case c.Remove != nil:
		return c.Remove.apply(s)
	case c.Suspend != nil:
		return c.Suspend.apply(s)
	case c.Replica != nil:
		return c.Replica.apply(s)
	case c.Attrs != nil:
		return c.Attrs.apply(s)
	case c.Batch != nil:
		return applyBatch(s, c.Batch)
	}
	return rejectf("empty command")
}

// applyBatch applies each command by itself. The table is copied once for all of them. Only a batch of one can be rejected as a whole.
func applyBatch(s *State, batch []Command) error {
	s.Partitions = slices.Clone(s.Partitions)
	var first error
	for _, sub := range batch {
		var err error
		switch {
		case len(sub.Batch) > 0:
			err = rejectf("a batch inside a batch")
		case sub.Replica != nil:
			err = sub.Replica.applyInPlace(s)
		default:
			trial := *s // a rejected part leaves no trace: parts change copies only
			if err = sub.apply(&trial); err == nil {
				*s = trial
				s.Partitions = slices.Clone(s.Partitions)
			}
		}
		if err != nil && first == nil {
			first = err
		}
	}
	if len(batch) == 1 {
		return first
	}
	return nil
}

func (f *Form) apply(s *State) error {
	switch {
	case s.Formed():
		return rejectf("the cluster is formed already, as %s", s.ClusterID)
	case f.ClusterID == "":
		return rejectf("no cluster id")
	case f.Partitions < 1 || f.Partitions > MaxPartitions:
		return rejectf("%d partitions", f.Partitions)
	case f.Backups < 0 || f.Backups > MaxBackups:
		return rejectf("%d backups", f.Backups)
	}
	s.ClusterID, s.ClusterName = f.ClusterID, f.ClusterName
	s.Backups, s.Expect = f.Backups, max(f.Expect, 1)
	s.Partitions = make([]Partition, f.Partitions)
	return nil
}

func (c *ClaimMaster) apply(s *State) error {
	if c.Term <= s.Term {
		return rejectf("term %d is not above %d", c.Term, s.Term)
	}
	s.Master, s.Term = c.ID, c.Term
	return nil
}

func (a *AddMember) apply(s *State) error {
	m := a.Member
	if m.ID == "" || m.Address == "" {
		return rejectf("a member without id or address")
	}
	for _, x := range s.Members {
		if x.ID == m.ID {
			return rejectf("member %s is here already", m.ID)
		}
		if x.Address == m.Address {
			return rejectf("address %s still belongs to member %s", m.Address, x.ID)
		}
	}
	s.NextJoinSeq++
	m.JoinSeq, m.State = s.NextJoinSeq, Joining
	s.setMember(m)
	return nil
}

func (c *SetState) apply(s *State) error {
	m, ok := s.Member(c.ID)
	switch {
	case !ok:
		return rejectf("no member %s", c.ID)
	case c.State == Active && (m.State == Joining || m.State == Suspended), c.State == Leaving && m.State != Leaving:
		m.State = c.State
		s.setMember(m)
		return nil
	}
	return rejectf("member %s cannot go from %s to %s", c.ID, m.State, c.State)
}

func (c *RemoveMember) apply(s *State) error {
	if _, ok := s.Member(c.ID); !ok {
		return rejectf("no member %s", c.ID)
	}
	members := make([]Member, 0, len(s.Members))
	for _, m := range s.Members {
		if m.ID != c.ID {
			members = append(members, m)
		}
	}
	s.Members = members
	table := slices.Clone(s.Partitions)
	for i := range table {
		was := table[i].Lost
		if table[i] = table[i].stripped(c.ID); table[i].Lost && !was {
			s.Losses++
		}
	}
	s.Partitions = table
	return nil
}

func (c *Suspend) apply(s *State) error {
	members := slices.Clone(s.Members)
	suspended, silent := map[MemberID]bool{}, map[MemberID]bool{}
	for i := range members {
		m := &members[i]
		if slices.Contains(c.IDs, m.ID) && (m.State == Active || m.State == Suspended) {
			m.State, m.Fence = Suspended, s.Index
		}
		suspended[m.ID] = m.State == Suspended
		silent[m.ID] = suspended[m.ID] || slices.Contains(c.Silent, m.ID)
	}
	for _, id := range c.IDs {
		if !suspended[id] {
			return rejectf("member %s cannot be suspended", id)
		}
	}
	s.Members = members
	table := slices.Clone(s.Partitions)
	for i := range table {
		table[i] = table[i].suspended(suspended, silent)
	}
	s.Partitions = table
	return nil
}

// suspended returns the partition without its replicas on suspended members, if any is on one that is not silent, and without joiners on them.
func (p Partition) suspended(suspended, silent map[MemberID]bool) Partition {
	replicas, joining := p.Replicas, p.Joining
	for _, m := range p.Joining {
		if suspended[m] {
			joining = without(joining, m)
		}
	}
	if slices.ContainsFunc(p.Replicas, func(m MemberID) bool { return !silent[m] }) {
		for _, m := range p.Replicas {
			if suspended[m] {
				replicas = without(replicas, m)
			}
		}
	}
	if len(replicas) == len(p.Replicas) && len(joining) == len(p.Joining) {
		return p
	}
	next := p
	next.Epoch++ // for a joiner too, as in OpUnjoin
	next.Replicas, next.Joining = replicas, joining
	if next.Primary() != p.Primary() {
		next.Reign, next.Prev = next.Epoch, p.Replicas
	}
	return next
}

// stripped returns the partition after the removal of member m from the cluster.
func (p Partition) stripped(m MemberID) Partition {
	if p.IsJoining(m) {
		p.Joining = without(p.Joining, m)
	}
	if !p.InSync(m) {
		return p
	}
	old, wasPrimary := p.Replicas, p.Primary() == m
	p.Epoch++
	p.Replicas = without(p.Replicas, m)
	switch {
	case len(p.Replicas) == 0:
		p.Lost, p.Joining, p.Reign, p.Prev = true, nil, p.Epoch, nil
	case wasPrimary:
		p.Reign, p.Prev = p.Epoch, old
	}
	return p
}

func (c *ReplicaChange) apply(s *State) error {
	s.Partitions = slices.Clone(s.Partitions)
	return c.applyInPlace(s)
}

// applyInPlace changes a table that belongs to s alone.
func (c *ReplicaChange) applyInPlace(s *State) error {
	if c.Partition < 0 || int(c.Partition) >= len(s.Partitions) {
		return rejectf("no partition %d", c.Partition)
	}
	p := s.Partitions[c.Partition]
	if p.Epoch != c.Epoch {
		return rejectf("partition %d is at epoch %d, not %d", c.Partition, p.Epoch, c.Epoch)
	}
	next, err := c.changed(s, p)
	if err != nil {
		return err
	}
	s.Partitions[c.Partition] = next
	return nil
}

func (c *ReplicaChange) changed(s *State, p Partition) (Partition, error) {
	m, isMember := s.Member(c.Member)
	switch c.Op {
	case OpAssign:
		return c.assigned(s, p)
	case OpJoin:
		if !isMember || m.State != Active || !m.Has(RoleData) || p.InSync(c.Member) || p.IsJoining(c.Member) || len(p.Replicas) == 0 {
			return p, rejectf("%s cannot begin to join partition %d", c.Member, c.Partition)
		}
		p.Joining = append(slices.Clone(p.Joining), c.Member)
		return p, nil
	case OpUnjoin:
		if !p.IsJoining(c.Member) {
			return p, rejectf("%s is not joining partition %d", c.Member, c.Partition)
		}
		p.Joining = without(p.Joining, c.Member)
		p.Epoch++
		return p, nil
	case OpAdd:
		if !isMember || !p.IsJoining(c.Member) {
			return p, rejectf("%s is not joining partition %d", c.Member, c.Partition)
		}
		p.Joining = without(p.Joining, c.Member)
		p.Replicas = append(slices.Clone(p.Replicas), c.Member)
		p.Epoch++
		return p, nil
	case OpDrop, OpPrimary:
		if !p.InSync(c.Member) || p.Primary() == c.Member {
			return p, rejectf("%s is not an in-sync backup of partition %d", c.Member, c.Partition)
		}
		p.Epoch++
		if c.Op == OpDrop {
			p.Replicas = without(p.Replicas, c.Member)
			return p, nil
		}
		p.Reign, p.Prev = p.Epoch, p.Replicas
		p.Replicas = append([]MemberID{c.Member}, without(p.Replicas, c.Member)...)
		return p, nil
	}
	return p, rejectf("unknown change %q", c.Op)
}

func (c *ReplicaChange) assigned(s *State, p Partition) (Partition, error) {
	if len(p.Replicas) > 0 || len(c.Members) == 0 {
		return p, rejectf("partition %d cannot be assigned", c.Partition)
	}
	for i, id := range c.Members {
		m, ok := s.Member(id)
		if !ok || m.State != Active || !m.Has(RoleData) || slices.Contains(c.Members[:i], id) {
			return p, rejectf("partition %d cannot be assigned to %s", c.Partition, id)
		}
	}
	e := p.Epoch + 1
	return Partition{Epoch: e, Replicas: slices.Clone(c.Members), Reign: e, Born: e}, nil
}
