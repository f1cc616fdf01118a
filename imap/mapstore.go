package imap

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"gridnode/grid"
)

// Loader fetches the entries of maps from where they are kept for good, a database say. Its methods may be called at once and may block until
// ctx ends, which is after half a minute at most.
type Loader interface {
	// Load returns the value of a key, or nil if it has none.
	Load(ctx context.Context, mapName string, key Data) (Data, error)
	// Keys calls each with every key, and stops at its error.
	Keys(ctx context.Context, mapName string, each func(key Data) error) error
}

// MapStore is a [Loader] that is written to as well, before the grid is. Both methods must be able to run again for the same write.
type MapStore interface {
	Loader
	Store(ctx context.Context, mapName string, key, value Data) error
	Delete(ctx context.Context, mapName string, key Data) error
}

// Loaders are the loaders and stores of maps, by name or pattern as in [Configs]. All members must have the same.
//
// The member that a caller asks calls them, not the primary, so a slow one holds up nobody but its caller. It does so under the key's guard,
// of which there is one in the cluster: nobody else reads through, writes or locks that key meanwhile.
//
//   - A read of an absent entry loads it: Get, GetAll, ContainsKey, and writes that look at what is there. So do LoadAll and LoadKeys.
//   - A write, and a removal, is done in the store first. If the store fails, the grid is not changed. If it worked and the grid fails, the
//     error is of kind Indeterminate.
//   - Nothing else touches the store: a [Map.Transient] write, expiry, eviction, Destroy. Queries, Scan and Size see what is in the grid.
//   - What an entry processor makes of an entry is done in the store before the grid: the primary plans, the member that is asked tells the
//     store, and the primary does it if the entry is still the same.
//   - Transactions are refused, for they run at the primary in one step.
type Loaders map[string]Loader

// Validate returns the first thing that is wrong, naming the map, or nil.
func (l Loaders) Validate() error {
	for name, loader := range l {
		if loader == nil {
			return fmt.Errorf("%s: the loader is nil", name)
		}
		if err := checkPattern(name); err != nil {
			return err
		}
	}
	return nil
}

// Loads reports whether any map has a loader.
func (g *Grid) Loads() bool { return g.loaders != nil }

// WithLoaders gives maps loaders. It returns g, and must be called before g is used. The loaders must be valid.
func (g *Grid) WithLoaders(l Loaders) *Grid {
	if len(l) > 0 {
		t := newTable(l, nil)
		g.loaders = &t
	}
	return g
}

// loader returns the map's loader, or nil.
func (m *Map) loader() Loader {
	if m.g.loaders == nil {
		return nil
	}
	if l := m.g.loaders.find(m.name); l != nil {
		return *l
	}
	return nil
}

// store returns the map's store for a write that is to reach it, or nil.
func (m *Map) store() MapStore {
	if m.transient {
		return nil
	}
	s, _ := m.loader().(MapStore)
	return s
}

const (
	storeBudget = 30 * time.Second // of one call of a loader
	guardBudget = 90 * time.Second // of what is done under a guard
	guardLease  = 2 * time.Minute  // after which it ends by itself, if its end was lost
	guardPrefix = "\x00guard\x00"  // of the names under which guards lie among the locks; no map has such a name
	loadsAtOnce = 32               // of one call
)

// guarding takes the guard of a key: at most one call in the cluster has it. It waits for the locks of others as a write does, and whoever locks
// the key waits for it.
func (x *execution) guarding(k ref, l *lockOp) (any, error) {
	barred, err := x.barred(k)
	switch held := x.s.locked(k.Map, string(k.Key), x.now); {
	case err != nil:
		return nil, err
	case barred && l.Leave == leaveOthers, held && l.Leave == leaveAll:
		x.wait = ""
		return lockReply{}, nil
	case barred:
		return nil, nil
	}
	g := ref{Map: guardPrefix + k.Map, Key: k.Key}
	owner := who{Session: string(x.who.Via), Via: x.who.Via, Thread: l.Guard}
	if held := x.s.holder(g.Map, string(g.Key), x.now); held != nil && !owner.same(held) {
		x.wait = lockName(g.Map, string(g.Key))
		return nil, nil
	}
	st := lockState{Map: g.Map, Key: g.Key, Who: owner, Count: 1, Token: x.version, Lease: l.Lease}
	x.changes = append(x.changes, change{Map: g.Map, Kind: changeLock, Lock: &st})
	return lockReply{Who: owner, Count: 1, Token: x.version}, nil
}

// guarded reports whether a lock of the key has to wait for the end of its guard.
func (x *execution) guarded(k ref) bool {
	if x.s.held == 0 || !x.s.locked(guardPrefix+k.Map, string(k.Key), x.now) {
		return false
	}
	x.wait = lockName(guardPrefix+k.Map, string(k.Key))
	return true
}

// isGuard reports whether a name among those of locks is that of guards.
func isGuard(name string) bool { return strings.HasPrefix(name, guardPrefix) }

// underGuard runs fn while nobody else reads through or writes the key.
func (m *Map) underGuard(ctx context.Context, k Key, fn func(ctx context.Context) error) error {
	return m.unlessLocked(ctx, k, 0, fn)
}

// unlessLocked is underGuard, but does nothing if the key is under a lock that is to be left alone.
func (m *Map) unlessLocked(ctx context.Context, k Key, l leave, fn func(ctx context.Context) error) error {
	p, ok := m.g.Partition(k)
	if !ok {
		return grid.ErrNotJoined
	}
	ctx, cancel := context.WithTimeout(ctx, guardBudget)
	defer cancel()
	o := m.op(opLock)
	o.Key, o.Lock = k.Data, &lockOp{Do: lockGuard, Guard: m.g.guards.Add(1), Lease: guardLease, Leave: l}
	reply, err := m.g.inv.Write(ctx, p, o.own(), m.patience(ctx))
	if err != nil && grid.KindOf(err) != grid.Indeterminate {
		return err
	}
	if err == nil {
		r, bad := decode[lockReply](reply)
		if bad == nil && r.Count == 0 {
			return nil
		}
		if err = bad; err == nil {
			err = fn(ctx)
		}
	}
	end, cancelEnd := context.WithTimeout(context.WithoutCancel(ctx), lockBudget)
	defer cancelEnd()
	self := who{Session: string(m.g.self), Via: m.g.self, Thread: o.Lock.Guard}
	over := op{Kind: opLock, Map: guardPrefix + m.name, Key: k.Data, Who: self, Lock: &lockOp{Do: lockRelease}}
	_, _ = m.g.inv.Write(end, p, over.own(), 0) // if it fails, the lease ends it
	return err
}

// storing calls a loader, within its budget.
func (m *Map) storing(ctx context.Context, what string, call func(ctx context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, storeBudget)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: the loader of map %s panicked: %s: %v", grid.ErrInternal, m.name, what, r)
		}
	}()
	err = call(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: the loader of map %s: %s: %v", grid.ErrIndeterminate, m.name, what, err)
	}
	return fmt.Errorf("%w: the loader of map %s: %s: %v", grid.ErrRefused, m.name, what, err)
}

// forEach calls fn for 0 to n-1, several at once, and returns the error that says most of the whole. After the first no call begins.
func forEach(n int, fn func(i int) error) error {
	var mu sync.Mutex // guards worst and done
	var worst error
	done := 0
	stopped := errors.New("stopped")
	var g errgroup.Group
	g.SetLimit(loadsAtOnce)
	for i := range n {
		g.Go(func() error {
			mu.Lock()
			over := worst != nil
			mu.Unlock()
			if over {
				return stopped
			}
			err := fn(i)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
			} else if worst == nil || rank(err) > rank(worst) {
				worst = err
			}
			return err
		})
	}
	if g.Wait() != nil && done > 0 && grid.KindOf(worst) == grid.Retryable {
		return fmt.Errorf("%w: a part of the operation was done, then: %v", grid.ErrIndeterminate, worst)
	}
	return worst
}
