package cluster

import (
	"time"

	"gridnode/grid"
)

// tenure is what a master knows of one member's lease.
type tenure struct {
	until    time.Time // its lease is over then, by the master's clock; zero: it was never granted one
	heard    time.Time // its last heartbeat, or when the master began to listen for one
	index    uint64    // how far it had applied the log at its last heartbeat
	beat     bool      // it has sent a heartbeat in this term
	hinted   string    // why it may be dead; empty if nothing says so since its last heartbeat
	removing bool      // its removal was proposed: it is granted nothing any more
}

// ledger is the tenures of one master in one term. It is used by the master's loop only.
type ledger struct {
	self    grid.MemberID
	lease   time.Duration // with the allowance for drift
	session time.Duration
	members map[grid.MemberID]*tenure
}

// newLedger opens a ledger for a master elected at the given moment. Its predecessor may have granted every member a whole lease right up to
// then, and nothing after.
func newLedger(self grid.MemberID, lease, session time.Duration, s *grid.State, elected time.Time) *ledger {
	l := &ledger{self: self, lease: lease, session: session, members: map[grid.MemberID]*tenure{}}
	for _, m := range s.Members {
		l.members[m.ID] = &tenure{until: elected.Add(lease), heard: elected}
	}
	return l
}

// sync opens a tenure for members that are new in the state, and closes those of members that are gone.
func (l *ledger) sync(s *grid.State, now time.Time) {
	for _, m := range s.Members {
		if l.members[m.ID] == nil {
			l.members[m.ID] = &tenure{heard: now}
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
		t.heard, t.index, t.beat, t.hinted = now, index, true, ""
	}
}

// hint takes note of a sign that a member is dead.
func (l *ledger) hint(id grid.MemberID, why string) {
	if t := l.members[id]; t != nil {
		t.hinted = why
	}
}

// grant gives a member a lease from now on, unless it is being removed. It is called only when the master was confirmed after the member's
// heartbeat had arrived.
func (l *ledger) grant(id grid.MemberID, now time.Time) (granted bool) {
	t := l.members[id]
	if t == nil || t.removing {
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

// maxBehind is how many entries a member may be behind, by its last heartbeat, to be made a voter.
const maxBehind = 64

// ready reports whether a member can be made a voter: the change has to wait for it, so it holds a lease and is not far behind.
func (l *ledger) ready(id grid.MemberID, s *grid.State, now time.Time) bool {
	t := l.members[id]
	return t != nil && l.leased(id, now) && t.index > 0 && t.index+maxBehind >= s.Index
}

// decide says which changes of the members are due now, and marks those that it removes. It never names a member whose lease may still run.
func (l *ledger) decide(s *grid.State, now time.Time) []grid.Command {
	var out []grid.Command
	for _, m := range s.Members {
		t := l.members[m.ID]
		if t == nil {
			continue
		}
		if reason := l.removal(m.ID, t, now); reason != "" {
			t.removing = true
			out = append(out, grid.Command{Remove: &grid.RemoveMember{ID: m.ID, Reason: reason}})
			continue
		}
		if m.State == grid.Joining && t.beat {
			out = append(out, grid.Command{State: &grid.SetState{ID: m.ID, State: grid.Active}})
		}
	}
	return out
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
