package imap

import (
	"fmt"
	"slices"
	"time"

	"gridnode/grid"
)

const (
	maxLocks = 1 << 16 // held in one partition
	// maxFreed is how many releases of a partition are remembered, so that one that is sent again is not refused.
	maxFreed = 64
	// lockLook is how often leases and sessions are looked at.
	lockLook = 100 * time.Millisecond
)

// who asks. A lock belongs to a session and one of its threads. The session of a member ends with the member; that of a client some time
// after the member through which it spoke last. No session means that of the member.
type who struct {
	Session string
	Via     grid.MemberID
	Thread  int64
}

func (w who) same(l *lock) bool { return w.Session == l.who.Session && w.Thread == l.who.Thread }

// passes reports whether the lock does not hold up a write.
func (w who) passes(l *lock) bool {
	return w.same(l) || w.Thread == AnyThread && w.Session == l.who.Session
}

// lockDo is what an operation does with a lock.
type lockDo uint8

const (
	lockTake lockDo = iota + 1
	lockRelease
	lockForce  // release, whoever has it and how often
	lockAsk    // tell who has it
	lockMove   // the session speaks through another member now: all its locks in the partition
	lockEndAll // the session has ended: all its locks in the partition
	lockUndo   // release, if the attempt was the last one to take it
	lockGuard  // take the key's guard: see [Loaders]
)

// lockOp is the part of an operation that is about a lock.
type lockOp struct {
	Do    lockDo
	Lease time.Duration // lockTake, lockGuard: it ends by itself then; 0: it does not
	Guard int64         // lockGuard: tells the member's calls apart
	Leave leave         // lockGuard: what it does not wait for
	Call  call          // of lockTake, lockRelease and lockUndo
	Quiet time.Duration // lockEndAll: locks that changed since then are left, for their session has given a sign of life
	Of    []string      // lockMove, lockEndAll: the sessions
}

// leave says which locks of its key a guard does not wait for. There is none then, and the reply is empty.
type leave uint8

const (
	leaveOthers leave = iota + 1
	leaveAll          // and those of the caller
)

// call names a call of a client on a lock. Sent again, it counts once.
type call struct {
	Ref     int64  // grows with each call of the client's thread; 0: the call is not sent again
	Attempt uint64 // to take the lock: each sending has its own, so that giving one up does not undo another
}

// lockReply answers lockTake, lockRelease, lockForce and lockAsk.
type lockReply struct {
	Who   who
	Count int    // how often the owner has it; 0: nobody has
	Token uint64 // grows with each owner of the key's lock
	Left  time.Duration
}

// lockState is a lock in effects and snapshots. Count 0: it is free.
type lockState struct {
	Map   string
	Key   []byte
	Who   who
	Count int
	Token uint64
	Lease time.Duration // what is left; 0: no end
	Call  call          // the last one that changed it
}

// lock is a lock that is held.
type lock struct {
	who    who
	count  int
	token  uint64
	call   call
	until  moment // 0: no end
	seen   moment // when its client changed it last, by this member's clock
	orphan moment // primary: since when the member is gone through which its client spoke; 0: it is not
}

func (l *lock) over(now moment) bool { return l.until != 0 && now >= l.until }

func (l *lock) left(now moment) time.Duration {
	if l.until == 0 {
		return 0
	}
	return max(l.until.since(now), 1)
}

// holder returns the lock of a key, or nil if nobody has it.
func (s *Store) holder(name, key string, now moment) *lock {
	l := s.locks[name][key]
	if l == nil || l.over(now) {
		return nil
	}
	return l
}

// locked reports whether anybody holds the key's lock.
func (s *Store) locked(name, key string, now moment) bool { return s.holder(name, key, now) != nil }

// lockedKeys returns the keys of the map's entries that are locked.
func (s *Store) lockedKeys(name string, now moment) (keys [][]byte) {
	for key := range s.locks[name] {
		if s.locked(name, key, now) && s.find(name, key) != nil {
			keys = append(keys, []byte(key))
		}
	}
	return keys
}

// lockName names what waits for a key's lock.
func lockName(name, key string) string { return name + "\x00" + key }

// barred reports whether a write of the entry has to wait for a lock of somebody else, or is refused because its fence has been passed.
func (x *execution) barred(k ref) (bool, error) {
	l := x.s.holder(k.Map, string(k.Key), x.now)
	if x.fence != 0 && (l == nil || l.token != x.fence) {
		x.seeAll()
		return true, fmt.Errorf("%w: fencing token %d is not that of the lock", grid.ErrNotOwner, x.fence)
	}
	if l == nil || x.who.passes(l) {
		return false, nil
	}
	x.wait = lockName(k.Map, string(k.Key))
	return true, nil
}

// lock runs an operation on locks.
func (x *execution) lock(o op) (any, error) {
	if o.Lock == nil || o.Lock.Lease < 0 {
		return nil, fmt.Errorf("%w: an operation on a lock without its part", grid.ErrBadMessage)
	}
	x.seeAll()
	k := ref{Map: o.Map, Key: o.Key}
	l := x.s.holder(k.Map, string(k.Key), x.now)
	switch o.Lock.Do {
	case lockTake:
		return x.take(k, l, o.Lock)
	case lockGuard:
		return x.guarding(k, o.Lock)
	case lockRelease:
		return x.give(k, l, o.Lock.Call)
	case lockUndo:
		if l == nil || !x.who.same(l) || l.call.Attempt != o.Lock.Call.Attempt {
			return lockReply{}, nil
		}
		return x.release(k, l, l.count-1, call{Ref: max(l.call.Ref-1, 0)}), nil // the call may be sent again, and counts then
	case lockForce:
		if l == nil {
			return lockReply{}, nil
		}
		return x.release(k, l, 0, call{}), nil
	case lockAsk:
		if l == nil {
			return lockReply{}, nil
		}
		return lockReply{Who: l.who, Count: l.count, Token: l.token, Left: l.left(x.now)}, nil
	case lockMove, lockEndAll:
		return x.session(o.Lock), nil
	}
	return nil, fmt.Errorf("%w: lock operation %d", grid.ErrBadMessage, o.Lock.Do)
}

func (x *execution) take(k ref, l *lock, o *lockOp) (any, error) {
	if System(k.Map) {
		return nil, fmt.Errorf("%w: the entries of %s belong to the job engine and cannot be locked", grid.ErrRefused, k.Map)
	}
	st := lockState{Map: k.Map, Key: k.Key, Who: x.who, Count: 1, Token: x.version, Lease: o.Lease, Call: o.Call}
	switch {
	case l == nil:
		if x.guarded(k) {
			return nil, nil
		}
		if x.s.held >= maxLocks {
			return nil, fmt.Errorf("%w: %d locks are held in the partition", grid.ErrOverloaded, x.s.held)
		}
	case x.who.same(l):
		late := o.Call.Ref != 0 && o.Call.Ref < l.call.Ref // its thread has made other calls since
		if late {
			return lockReply{Who: l.who, Count: l.count, Token: l.token, Left: l.left(x.now)}, nil
		}
		st.Count, st.Token = l.count+1, l.token
		if o.Call.Ref != 0 && o.Call.Ref == l.call.Ref {
			st.Count = l.count
		}
		st.Call.Ref = max(o.Call.Ref, l.call.Ref)
	default:
		x.wait = lockName(k.Map, string(k.Key))
		return nil, nil
	}
	x.changes = append(x.changes, change{Map: k.Map, Kind: changeLock, Lock: &st})
	return lockReply{Who: st.Who, Count: st.Count, Token: st.Token, Left: o.Lease}, nil
}

// give releases the lock once.
func (x *execution) give(k ref, l *lock, by call) (any, error) {
	switch {
	case by.Ref != 0 && (l == nil || !x.who.same(l)) && slices.Contains(x.s.freed, release{k.Map, string(k.Key), x.who.Session, x.who.Thread, by.Ref}):
		return lockReply{}, nil
	case l == nil || !x.who.same(l):
		return nil, fmt.Errorf("%w: map %s, key %s", grid.ErrNotOwner, k.Map, Data(k.Key).Show())
	case by.Ref != 0 && by.Ref <= l.call.Ref: // sent again, or late
		return lockReply{Who: l.who, Count: l.count, Token: l.token}, nil
	}
	return x.release(k, l, l.count-1, call{Ref: max(by.Ref, l.call.Ref)}), nil
}

// release is a call that freed a lock.
type release struct {
	m, key, session string
	thread, ref     int64
}

// remember keeps a release in the place of the oldest.
func (s *Store) remember(r release) {
	if len(s.freed) == maxFreed {
		s.freed = slices.Delete(s.freed, 0, 1)
	}
	s.freed = append(s.freed, r)
}

func (x *execution) release(k ref, l *lock, count int, by call) lockReply {
	st := lockState{Map: k.Map, Key: k.Key, Who: l.who, Count: count, Token: l.token, Lease: l.left(x.now), Call: by}
	x.changes = append(x.changes, change{Map: k.Map, Kind: changeLock, Lock: &st})
	return lockReply{Who: l.who, Count: count, Token: l.token}
}

// setLock takes over what an effect or a snapshot says of a lock.
func (s *Store) setLock(st *lockState, now moment) {
	if st == nil {
		return
	}
	key := string(st.Key)
	if st.Count == 0 {
		s.free(st.Map, key)
		if st.Call.Ref != 0 {
			s.remember(release{st.Map, key, st.Who.Session, st.Who.Thread, st.Call.Ref})
		}
		return
	}
	m := s.locks[st.Map]
	if m == nil {
		if s.locks == nil {
			s.locks = map[string]map[string]*lock{}
		}
		m = map[string]*lock{}
		s.locks[st.Map] = m
	}
	if m[key] == nil {
		s.held++
	}
	l := &lock{who: st.Who, count: st.Count, token: st.Token, call: st.Call, seen: now}
	if old := m[key]; old != nil && old.token == l.token && old.count == l.count && old.call == l.call { // moved: not by its client
		l.seen = old.seen
	}
	if st.Lease > 0 {
		l.until = max(now.add(st.Lease), 1)
	}
	m[key] = l
}

// free drops a lock and wakes who waits for it.
func (s *Store) free(name, key string) {
	m := s.locks[name]
	if m[key] == nil {
		return
	}
	delete(m, key)
	s.held--
	if len(m) == 0 {
		delete(s.locks, name)
	}
	if len(s.locks) == 0 {
		s.locks = nil
	}
	s.woken = append(s.woken, lockName(name, key))
}

// freeAll drops all locks of a map.
func (s *Store) freeAll(name string) {
	for key := range s.locks[name] {
		s.free(name, key)
	}
}
