package imap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gridnode/grid"
)

const (
	// lockSlice bounds one wait for a lock at the primary. A caller that gives up is not there any more when the lock comes, so none is
	// left waiting for longer.
	lockSlice = time.Second
	// lockBudget is what the sending of one such wait may take beside it, a takeover included.
	lockBudget = 10 * time.Second
	// writePatience is how long a write waits for a lock if its caller says nothing.
	writePatience = 25 * time.Second
)

// patience is how long a write may wait for a lock: so that the caller still hears of it when his time is over.
func patience(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return writePatience
	}
	left := time.Until(end)
	return left - min(left/5, 200*time.Millisecond)
}

// Owner is who holds locks: a session, and one of its threads, which is any number that the caller chooses.
type Owner struct {
	Session string // empty: the member through which the map is used
	Thread  int64
	// Call is the number of a Lock, TryLock or Unlock that may be made again with the same number if its outcome is not known. It counts once
	// then. The numbers of a thread grow, and it makes one call after the other. 0: no number.
	Call int64
}

// AnyThread is the thread of an owner who does not say which of its session's threads it is. Its writes pass the locks of all of them; it locks
// and unlocks nothing.
const AnyThread int64 = math.MinInt64

// As returns the map as an owner uses it: its writes pass the locks of that owner.
func (m *Map) As(o Owner) *Map {
	n := *m
	n.owner = o
	return &n
}

// Fenced returns the map for writes that are done only while the key is under the lock with that token, and refused with
// [grid.ErrNotOwner] once that lock has ended, whoever has the key then.
func (m *Map) Fenced(token uint64) *Map {
	n := *m
	n.fence = token
	return &n
}

// Waiting returns the map for writes of one entry that wait for a lock of somebody else for at most d, which may be 0. Then they end with
// [grid.ErrBusy], and have done nothing.
func (m *Map) Waiting(d time.Duration) *Map {
	n := *m
	n.wait = &d
	return &n
}

func (m *Map) patience(ctx context.Context) time.Duration {
	if m.wait != nil {
		return *m.wait
	}
	return patience(ctx)
}

func (m *Map) who() who {
	return who{Session: m.owner.Session, Via: m.g.self, Thread: m.owner.Thread}
}

// LockInfo tells of a key's lock.
type LockInfo struct {
	Owner Owner
	Count int           // how often the owner has taken it; 0: nobody has it
	Token uint64        // fencing token: grows with each new owner
	Left  time.Duration // of the lease; 0: no end
}

func (m *Map) lockOp(ctx context.Context, k Key, l lockOp, wait time.Duration) (LockInfo, error) {
	if err := m.check(k, nil); err != nil {
		return LockInfo{}, err
	}
	if m.owner.Thread == AnyThread && (l.Do == lockTake || l.Do == lockRelease) {
		return LockInfo{}, fmt.Errorf("%w: locks belong to a thread, and %d is none", grid.ErrBadRequest, AnyThread)
	}
	o := m.op(opLock)
	if o.Key, o.Lock = k.Data, &l; o.Who.Session == "" && o.Who.Via == "" {
		return LockInfo{}, fmt.Errorf("%w: a lock without a session", grid.ErrBadRequest)
	}
	p, ok := m.g.Partition(k)
	if !ok {
		return LockInfo{}, grid.ErrNotJoined
	}
	var b []byte
	var err error
	if l.Do == lockAsk {
		b, err = m.g.inv.Read(ctx, p, o.own())
	} else {
		b, err = m.g.inv.Write(ctx, p, o.own(), wait)
	}
	if err != nil {
		return LockInfo{}, err
	}
	r, err := decode[lockReply](b)
	return LockInfo{Owner: Owner{Session: r.Who.Session, Thread: r.Who.Thread}, Count: r.Count, Token: r.Token, Left: r.Left}, err
}

// Lock takes the lock of a key, which need not have an entry, and waits for it until ctx ends. It is re-entrant: it has to be unlocked as
// often as it was locked. With lease 0 it is held until it is unlocked or the session ends.
//
// When ctx ends first, the lock is not held, unless the error is of kind Indeterminate. It may take a second until Lock returns.
func (m *Map) Lock(ctx context.Context, k Key, lease time.Duration) (LockInfo, error) {
	for {
		info, err := m.tryLock(ctx, k, lockSlice, lease)
		if !errors.Is(err, grid.ErrBusy) || ctx.Err() != nil {
			return info, err
		}
	}
}

// TryLock is Lock for at most wait, which may be 0; ok tells whether the lock was had.
func (m *Map) TryLock(ctx context.Context, k Key, wait, lease time.Duration) (info LockInfo, ok bool, err error) {
	for end := time.Now().Add(wait); ; {
		left := max(time.Until(end), 0)
		info, err = m.tryLock(ctx, k, min(left, lockSlice), lease)
		switch {
		case err == nil:
			return info, true, nil
		case !errors.Is(err, grid.ErrBusy) || ctx.Err() != nil:
			return LockInfo{}, false, err
		case left <= lockSlice:
			return LockInfo{}, false, nil
		}
	}
}

// tryLock waits for the lock for so long. It does not give up before it knows, for then the lock might come to nobody.
func (m *Map) tryLock(ctx context.Context, k Key, wait, lease time.Duration) (LockInfo, error) {
	if lease < 0 {
		return LockInfo{}, fmt.Errorf("%w: a negative lease", grid.ErrBadRequest)
	}
	if err := ctx.Err(); err != nil {
		return LockInfo{}, fmt.Errorf("%w: %v", grid.ErrBusy, err)
	}
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, max(time.Until(end), 0))
	}
	sure, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait+lockBudget)
	defer cancel()
	take := lockOp{Do: lockTake, Lease: lease, Call: call{Ref: m.owner.Call, Attempt: rand.Uint64()}}
	info, err := m.lockOp(sure, k, take, wait)
	if err != nil || ctx.Err() == nil {
		return info, err
	}
	if _, err := m.lockOp(sure, k, lockOp{Do: lockUndo, Call: take.Call}, 0); err != nil && !errors.Is(err, grid.ErrNotOwner) {
		return LockInfo{}, fmt.Errorf("%w: the lock was taken too late, and giving it back failed: %v", grid.ErrIndeterminate, err)
	}
	return LockInfo{}, fmt.Errorf("%w: %v", grid.ErrBusy, context.Cause(ctx))
}

// Unlock gives the lock of a key back, once. Who does not hold it gets [grid.ErrNotOwner].
func (m *Map) Unlock(ctx context.Context, k Key) error {
	_, err := m.lockOp(ctx, k, lockOp{Do: lockRelease, Call: call{Ref: m.owner.Call}}, 0)
	return err
}

// ForceUnlock frees the lock of a key, whoever holds it and however often. It reports whether anybody did.
func (m *Map) ForceUnlock(ctx context.Context, k Key) (bool, error) {
	info, err := m.lockOp(ctx, k, lockOp{Do: lockForce}, 0)
	return info.Token != 0, err
}

// LockInfo tells who holds the lock of a key.
func (m *Map) LockInfo(ctx context.Context, k Key) (LockInfo, error) {
	return m.lockOp(ctx, k, lockOp{Do: lockAsk}, 0)
}

// IsLocked reports whether anybody holds the lock of a key.
func (m *Map) IsLocked(ctx context.Context, k Key) (bool, error) {
	info, err := m.LockInfo(ctx, k)
	return info.Count > 0, err
}

// EndSessions frees the locks of clients' sessions, at most MaxSessions, on all maps, but for those that changed less than quiet ago: a client that
// is thought to be gone may just have come back. It returns the sessions that have such. With quiet 0 all are freed.
func (g *Grid) EndSessions(ctx context.Context, sessions []string, quiet time.Duration) (left []string, err error) {
	return g.session(ctx, g.self, lockOp{Do: lockEndAll, Quiet: quiet, Of: sessions})
}

// EndSession frees all locks of a client's session.
func (g *Grid) EndSession(ctx context.Context, session string) error {
	_, err := g.EndSessions(ctx, []string{session}, 0)
	return err
}

// MoveSessions says through which member clients speak now, at most MaxSessions: their locks live on although the member is gone through which
// they spoke.
func (g *Grid) MoveSessions(ctx context.Context, sessions []string, via grid.MemberID) error {
	_, err := g.session(ctx, via, lockOp{Do: lockMove, Of: sessions})
	return err
}

// MoveSession is MoveSessions for one.
func (g *Grid) MoveSession(ctx context.Context, session string, via grid.MemberID) error {
	return g.MoveSessions(ctx, []string{session}, via)
}

func (g *Grid) session(ctx context.Context, via grid.MemberID, do lockOp) (left []string, err error) {
	n := g.inv.Partitions()
	if n == 0 {
		return nil, grid.ErrNotJoined
	}
	if len(do.Of) > MaxSessions {
		return nil, fmt.Errorf("%w: %d sessions, the limit is %d", grid.ErrBadRequest, len(do.Of), MaxSessions)
	}
	o := op{Kind: opLock, Who: who{Via: via}, Lock: &do}
	m := &Map{g: g}
	all := make([]*share, n)
	for p := range all {
		all[p] = &share{p: grid.PartitionID(p), list: []*op{&o}}
	}
	for {
		again := false // a partition had more locks than one effect may change
		seen := map[string]bool{}
		err := m.spread(ctx, all, false, func(_ *op, reply []byte) error {
			r, err := decode[sessionReply](reply)
			again = again || r.Changed >= expireBatch
			for _, s := range r.Left {
				seen[s] = true
			}
			return err
		})
		if err != nil || !again {
			return slices.Sorted(maps.Keys(seen)), err
		}
	}
}
