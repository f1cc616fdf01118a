package imap

import (
	"time"

	"gridnode/grid"
)

// SessionGrace is how long a client may be connected to no member before its locks are free.
const SessionGrace = 5 * time.Second

// Where tells to which member the client of a session was connected when all members were asked, and that was not before after. known is false
// as long as they have not been asked since then, or one has not answered that may have it; then the answer is being fetched. No member and
// known: it is connected to none. It is called under a partition's lock, by several at once, and must not wait.
type Where func(session string, after time.Time) (via grid.MemberID, known bool)

// MaxSessions is how many sessions one call may move or end.
const MaxSessions = 512

// sessionReply tells how many locks an operation on sessions has changed, and of which sessions it has left some because they changed a moment ago.
type sessionReply struct {
	Changed int
	Left    []string
}

// session moves or frees the locks of sessions, as many as one effect may hold.
func (x *execution) session(o *lockOp) (r sessionReply) {
	left := make(map[string]bool, len(o.Of)) // whether some are
	for _, s := range o.Of {
		left[s] = false
	}
	x.s.eachLock(func(name, key string, l *lock) bool {
		k := ref{Map: name, Key: []byte(key)}
		switch some, asked := left[l.who.Session]; {
		case !asked || o.Do == lockMove && l.who.Via == x.who.Via:
			return true
		case o.Do == lockEndAll && o.Quiet > 0 && x.now.since(l.seen) < o.Quiet:
			if !some {
				left[l.who.Session] = true
				r.Left = append(r.Left, l.who.Session)
			}
			return true
		case o.Do == lockEndAll:
			x.release(k, l, 0, call{})
		default:
			x.release(k, l, l.count, l.call)
			x.changes[len(x.changes)-1].Lock.Who.Via = x.who.Via
		}
		r.Changed++
		return r.Changed < expireBatch
	})
	return r
}

func (s *Store) eachLock(fn func(name, key string, l *lock) bool) {
	for name, m := range s.locks {
		for key, l := range m {
			if !fn(name, key, l) {
				return
			}
		}
	}
}

// freeLocks adds the release of locks whose lease is over or whose session has ended, and what is new of where clients are. isMember nil: all
// are.
func (s *Store) freeLocks(e *effect, now moment, isMember func(grid.MemberID) bool) {
	if s.held == 0 || now.since(s.lockedAt) < lockLook {
		return
	}
	s.lockedAt = now
	s.eachLock(func(name, key string, l *lock) bool {
		st := lockState{Map: name, Key: []byte(key), Who: l.who, Token: l.token}
		verdict := locked
		if isMember != nil {
			st.Who.Via, verdict = s.judge(l, now, isMember)
		}
		switch {
		case l.over(now) || verdict == ended:
		case verdict == moved:
			st.Count, st.Lease, st.Call = l.count, l.left(now), l.call
		default:
			return true
		}
		e.Changes = append(e.Changes, change{Map: name, Kind: changeLock, Lock: &st})
		return len(e.Changes) < expireBatch
	})
}

// verdict is what becomes of a lock.
type verdict uint8

const (
	locked verdict = iota // it stays as it is
	moved                 // its session speaks through another member
	ended                 // its session has ended
)

// judge finds out whether the session of the lock lives, and through which member it speaks. That of a client ends when the member through
// which it spoke is gone for so long and no other has it.
func (s *Store) judge(l *lock, now moment, isMember func(grid.MemberID) bool) (grid.MemberID, verdict) {
	switch {
	case isMember(l.who.Via):
		l.orphan = 0
		return l.who.Via, locked
	case l.who.Session == string(l.who.Via):
		return l.who.Via, ended
	case l.orphan == 0:
		l.orphan = now
	}
	over := l.orphan.add(SessionGrace)
	if now < over {
		return l.who.Via, locked
	}
	via, known := s.home.where(l.who.Session, s.base.Add(time.Duration(over)))
	switch {
	case !known || via != "" && !isMember(via):
		return l.who.Via, locked
	case via == "":
		return l.who.Via, ended
	}
	return via, moved
}

// where is what [HomeConfig].Where says.
func (h *Home) where(session string, after time.Time) (grid.MemberID, bool) {
	if h.cfg.Where == nil {
		return "", true
	}
	return h.cfg.Where(session, after)
}
