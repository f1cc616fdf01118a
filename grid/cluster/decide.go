package cluster

import (
	"maps"
	"slices"
	"time"

	"gridnode/grid"
)

// tenure is what a master knows of one member's lease.
type tenure struct {
	until    time.Time // its lease is over then, by the master's clock; zero: it was never granted one
	heard    time.Time // its last heartbeat, or when the master began to listen for one
	asked    time.Time // when the master asked last whether it is there
	index    uint64    // how far it had applied the log at its last heartbeat
	beat     bool      // it has sent a heartbeat in this term
	hinted   string    // why it may be dead; empty if nothing says so since its last heartbeat
	gone     bool      // and no doubt about it
	removing bool      // its removal was proposed: it is granted nothing any more

	suspending bool   // its suspension was proposed and is not in the state yet: it is granted nothing until then
	fence      uint64 // the newest that was in the state before
}

// ledger is the tenures of one master in one term. It is used by the master's loop only.
type ledger struct {
	self     grid.MemberID
	lease    time.Duration // with the allowance for drift
	session  time.Duration
	patience time.Duration
	members  map[grid.MemberID]*tenure
}

// newLedger opens a ledger for a master elected at the given moment. Its predecessor may have granted every member a whole lease right up to
// then, and nothing after.
func newLedger(self grid.MemberID, c *Config, s *grid.State, elected time.Time) *ledger {
	l := &ledger{
		self: self, lease: c.Lease + c.drift(), session: c.SessionTimeout, patience: c.LossPatience, members: map[grid.MemberID]*tenure{},
	}
	for _, m := range s.Members {
		l.members[m.ID] = &tenure{until: elected.Add(l.lease), heard: elected, fence: m.Fence}
	}
	return l
}

// predecessor takes note of when the master of the term before last showed that it was there: others have listened to it until then. It is not
// held to be silent for long before this master could hear anybody.
func (l *ledger) predecessor(id grid.MemberID, heard time.Time) {
	if t := l.members[id]; t != nil && id != l.self && heard.Before(t.heard) {
		t.heard = later(heard, t.heard.Add(-2*l.lease))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Silence of three leases makes the master ask a member whether it is there, for gossip needs 2 to 4 s to find out; no answer is a hint.
const silentLeases = 3

// unheard returns whom to ask, and takes note that they are asked: each once while a question is under way.
func (l *ledger) unheard(s *grid.State, now time.Time) []grid.MemberID {
	var out []grid.MemberID
	for _, m := range s.Members {
		t := l.members[m.ID]
		if t == nil || m.ID == l.self || t.removing || now.Sub(t.heard) < silentLeases*l.lease || now.Sub(t.asked) < callTimeout {
			continue
		}
		if t.gone || t.hinted != "" && m.State != grid.Suspended { // who is waited for may be found to be dead
			continue
		}
		t.asked = now
		out = append(out, m.ID)
	}
	return out
}

// sync opens a tenure for members that are new in the state, and closes those of members that are gone.
func (l *ledger) sync(s *grid.State, now time.Time) {
	for _, m := range s.Members {
		t := l.members[m.ID]
		if t == nil {
			t = &tenure{heard: now}
			l.members[m.ID] = t
		}
		if t.fence != m.Fence || m.State != grid.Active && m.State != grid.Suspended {
			t.suspending, t.fence = false, m.Fence
		}
	}
	for id := range l.members {
		if _, ok := s.Member(id); !ok {
			delete(l.members, id)
		}
	}
}

// arrived takes note of a heartbeat.
func (l *ledger) arrived(id grid.MemberID, index uint64, now time.Time) {
	if t := l.members[id]; t != nil && !t.removing {
		t.heard, t.index, t.beat, t.hinted, t.gone = now, index, true, "", false
	}
}

// hint takes note of a sign that a member is dead, unless the member was heard since.
func (l *ledger) hint(h hint) {
	if t := l.members[h.id]; t != nil && !t.gone && !t.heard.After(h.since) {
		t.hinted, t.gone = h.why, h.gone
	}
}

// grant gives a member whose parts have learned the log up to index a lease from now on, unless it is being removed or suspended, or does not know yet
// that it was. It is called only when the master was confirmed after the member's heartbeat had arrived.
func (l *ledger) grant(m grid.Member, index uint64, now time.Time) (granted bool) {
	t := l.members[m.ID]
	if t == nil || t.removing || t.suspending || index < m.Fence {
		return false
	}
	t.until = now.Add(l.lease)
	return true
}

// leased reports whether a member may hold a lease.
func (l *ledger) leased(id grid.MemberID, now time.Time) bool {
	if id == l.self {
		return true
	}
	t := l.members[id]
	return t != nil && !t.removing && now.Before(t.until)
}

// doubt reports whether a member that may hold replicas does not seem to be there. The state says that it is, until its lease is over.
func (l *ledger) doubt(s *grid.State, now time.Time) bool {
	return slices.ContainsFunc(s.Members, func(m grid.Member) bool {
		t := l.members[m.ID]
		return m.ID != l.self && m.Has(grid.RoleData) && (t == nil || t.hinted != "" || now.Sub(t.heard) > l.lease)
	})
}

// maxBehind is how many entries a member may be behind, by its last heartbeat, to be made a voter.
const maxBehind = 64

// ready reports whether a member can be made a voter: the change has to wait for it, so it holds a lease, is not far behind, and nothing says that
// it is dead. Who has just died has a lease still; with its vote and that of the one in its place there would be three, and the next death of
// that one would stop the cluster.
func (l *ledger) ready(id grid.MemberID, s *grid.State, now time.Time) bool {
	t := l.members[id]
	return t != nil && t.hinted == "" && l.leased(id, now) && t.index > 0 && t.index+maxBehind >= s.Index
}

// served returns the state without suspended members that are not heard: they are no servers of raft's. To a server that does not answer raft waits up
// to 10 s between attempts; one that is new gets the log at once.
func (l *ledger) served(s *grid.State, now time.Time) *grid.State {
	away := func(m grid.Member) bool {
		t := l.members[m.ID]
		return m.State == grid.Suspended && m.ID != l.self && (t == nil || !t.beat || now.Sub(t.heard) > l.lease)
	}
	if !slices.ContainsFunc(s.Members, away) {
		return s
	}
	there := *s
	there.Members = slices.DeleteFunc(slices.Clone(s.Members), away)
	return &there
}

// decide says which changes of the members are due now, and marks those that it removes or suspends. It never names a member whose lease may
// still run.
func (l *ledger) decide(s *grid.State, now time.Time) []grid.Command {
	due := map[grid.MemberID]string{} // with the reason
	for _, m := range s.Members {
		if t := l.members[m.ID]; t != nil {
			if reason := l.removal(m.ID, t, now); reason != "" {
				due[m.ID] = reason
			}
		}
	}
	silent := l.silent(s, due, now)
	kept := l.kept(s, due, silent, now)
	var out []grid.Command
	var suspend []grid.MemberID
	for _, m := range s.Members {
		t := l.members[m.ID]
		switch reason, isDue := due[m.ID]; {
		case t == nil:
		case isDue && kept[m.ID]:
			if m.State == grid.Active || m.State == grid.Suspended && holdsMore(s, m.ID, silent) {
				t.suspending = true
				suspend = append(suspend, m.ID)
			}
		case isDue:
			t.removing = true
			out = append(out, grid.Command{Remove: &grid.RemoveMember{ID: m.ID, Reason: reason}})
		case m.State == grid.Joining && t.beat, m.State == grid.Suspended && t.beat && t.index >= m.Fence && l.leased(m.ID, now):
			out = append(out, grid.Command{State: &grid.SetState{ID: m.ID, State: grid.Active}})
		}
	}
	if len(suspend) > 0 {
		out = append(out, grid.Command{Suspend: &grid.Suspend{IDs: suspend, Silent: slices.Sorted(maps.Keys(silent))}})
	}
	return out
}

// silent returns whom the master does not hear, if anybody is due to be removed: whoever is due, and whoever may be soon. Members that fall silent
// at once are due one after the other, and none must be taken for one who has what the others have.
func (l *ledger) silent(s *grid.State, due map[grid.MemberID]string, now time.Time) map[grid.MemberID]bool {
	silent := map[grid.MemberID]bool{}
	if len(due) == 0 {
		return silent
	}
	for _, m := range s.Members {
		t := l.members[m.ID]
		if m.ID != l.self && (t == nil || due[m.ID] != "" || m.State == grid.Suspended && !t.beat || now.Sub(t.heard) > l.lease/2) {
			silent[m.ID] = true
		}
	}
	return silent
}

// kept returns whom of those that are due to be removed the cluster waits for: members that may come back, within the patience for them, that
// hold a partition which nobody else holds who is heard. To remove them would lose what they may still have.
func (l *ledger) kept(s *grid.State, due map[grid.MemberID]string, silent map[grid.MemberID]bool, now time.Time) map[grid.MemberID]bool {
	kept := map[grid.MemberID]bool{}
	for i := 0; len(due) > 0 && i < len(s.Partitions); i++ {
		replicas := s.Partitions[i].Replicas
		if slices.ContainsFunc(replicas, func(id grid.MemberID) bool { return !silent[id] }) {
			continue
		}
		for _, id := range replicas {
			if t := l.members[id]; t != nil && due[id] != "" && !t.gone && !t.removing && now.Sub(t.heard) < l.patience {
				kept[id] = true
			}
		}
	}
	return kept
}

// holdsMore reports whether a member has something that a suspension would take from it.
func holdsMore(s *grid.State, id grid.MemberID, silent map[grid.MemberID]bool) bool {
	return slices.ContainsFunc(s.Partitions, func(p grid.Partition) bool {
		return p.IsJoining(id) || p.InSync(id) && slices.ContainsFunc(p.Replicas, func(x grid.MemberID) bool { return !silent[x] })
	})
}

// removal is the reason to remove a member now, or empty.
func (l *ledger) removal(id grid.MemberID, t *tenure, now time.Time) string {
	switch {
	case id == l.self:
		return ""
	case t.removing: // proposed before, but it is still there
		return "its removal was proposed before"
	case now.Before(t.until):
		return ""
	case t.hinted != "":
		return t.hinted
	case now.Sub(t.heard) >= l.session:
		return "it was silent for too long"
	}
	return ""
}
