package gridtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

// guards is the workload of locks: who gets one writes under its fencing token, and gives it back. Tokens only grow, no two owners get the same,
// and nobody's fenced write comes after one of a later owner. A member that was never removed keeps its locks.
type guards struct {
	mu     sync.Mutex
	owners map[string]string // key and token to the owner that was told of it
	newest map[string]uint64 // key to the highest token that was told of
	kept   []grid.MemberID   // members whose callers found that they had lost a lock without a lease
}

// guardKeys: the first is locked until it is unlocked, the second with a lease.
var guardKeys = []string{"l0", "l1"}

const (
	guardWait  = 200 * time.Millisecond
	guardLease = 3 * time.Second
)

func newGuards() *guards { return &guards{owners: map[string]string{}, newest: map[string]uint64{}} }

func (w *guards) name() string                                { return "locks" }
func (w *guards) prepare(context.Context, *findings, *Member) {}

func (w *guards) step(ctx context.Context, f *findings, cl *client) {
	k, lease := guardKeys[0], time.Duration(0)
	if cl.rnd.IntN(2) == 0 {
		k, lease = guardKeys[1], guardLease
	}
	member := cl.m.ID()
	m := cl.m.Map("locks").As(imap.Owner{Thread: int64(cl.id)})
	w.mu.Lock()
	low := w.newest[k]
	w.mu.Unlock()
	info, ok, err := m.TryLock(ctx, key(k), guardWait, lease)
	if ran, _ := f.called("lock through "+cl.m.Host, err); !ran || !ok {
		return
	}
	w.granted(f, cl, k, info, low)
	w.write(ctx, f, cl, m, k, info.Token)
	for range info.Count {
		err := m.Unlock(context.WithoutCancel(ctx), key(k))
		if errors.Is(err, grid.ErrNotOwner) && lease == 0 {
			w.mu.Lock()
			w.kept = append(w.kept, member)
			w.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// granted checks a token. low is the highest that anybody had been told of when the call began. A call that ended unknown may have got the lock, so
// that its owner gets it again, with the same token.
func (w *guards) granted(f *findings, cl *client, k string, info imap.LockInfo, low uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, me := fmt.Sprint(k, "/", info.Token), fmt.Sprint(cl.m.ID(), "/", cl.id)
	switch who, known := w.owners[id]; {
	case known && who != me:
		f.violate("lock %s: token %d was given to %s and to %s", k, info.Token, who, me)
	case !known && info.Token <= low && info.Count == 1:
		f.violate("lock %s: token %d was given after %d had been", k, info.Token, low)
	}
	w.owners[id] = me
	w.newest[k] = max(w.newest[k], info.Token)
}

// write puts the token into the entry, on the condition that the lock is still this one.
func (w *guards) write(ctx context.Context, f *findings, cl *client, m *imap.Map, k string, token uint64) {
	res, err := m.Fenced(token).Put(ctx, key(k), imap.String(strconv.FormatUint(token, 10)), 0)
	if errors.Is(err, grid.ErrNotOwner) {
		return
	}
	if ran, _ := f.called("fenced write through "+cl.m.Host, err); !ran || !res.Old.Found() {
		return
	}
	if before, _ := strconv.ParseUint(bodyOf(res.Old), 10, 64); before > token {
		f.violate("lock %s: a write with token %d came after one with token %d", k, token, before)
	}
}

func (w *guards) final(ctx context.Context, f *findings, cl *client) {
	w.mu.Lock()
	kept := w.kept
	w.mu.Unlock()
	for _, m := range cl.m.Node.State().Members {
		if slices.Contains(kept, m.ID) {
			f.violate("a caller of member %s, which was never removed, lost a lock that had no lease", m.ID)
		}
	}
	m := cl.m.Map("locks").As(imap.Owner{Thread: int64(cl.id)})
	_, ok, err := m.TryLock(ctx, key(guardKeys[1]), 3*guardLease, guardLease)
	if err != nil || !ok {
		f.violate("a lock with a lease is not to be had through %s after all was mended: %v", cl.m.Host, err)
		return
	}
	if err := m.Unlock(ctx, key(guardKeys[1])); err != nil {
		f.violate("unlock through %s after all was mended: %v", cl.m.Host, err)
	}
}

func (w *guards) check(*findings) {}
