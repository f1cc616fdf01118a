package gridtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

// others are the live members that are not m.
func (c *Cluster) others(m *Member) (out []*Member) {
	for _, o := range c.Live() {
		if o != m {
			out = append(out, o)
		}
	}
	return out
}

// lateLock waits for a key's lock and says when it came.
func lateLock(ctx context.Context, m *imap.Map, k imap.Key) <-chan time.Time {
	got := make(chan time.Time, 1)
	go func() {
		if _, ok, err := m.TryLock(ctx, k, time.Minute, 0); ok && err == nil {
			got <- time.Now()
		}
		close(got)
	}()
	return got
}

// within fails the test unless the time comes, and not later than limit after start.
func awaitWithin(t *testing.T, what string, got <-chan time.Time, start time.Time, limit time.Duration) {
	t.Helper()
	at, ok := <-got
	if took := at.Sub(start); !ok || took < 0 || took > limit {
		t.Errorf("%s: had %v after %v, want at most %v", what, ok, took, limit)
	}
}

// C133: the holder dies, and with it the primary of the key: the next one gets the lock.
func TestC133_HolderAndPrimaryDieTogether(t *testing.T) {
	for _, client := range []string{"", "client-1"} {
		t.Run("session "+client, func(t *testing.T) {
			bubble(t, 3, func(ctx context.Context, c *Cluster) {
				k := key("k")
				holder := c.PrimaryOf(k)
				waiter := c.others(holder)[0].Map("m")
				must(holder.Map("m").As(imap.Owner{Session: client}).Lock(ctx, k, 0))
				got := lateLock(ctx, waiter, k)
				time.Sleep(2 * time.Second)
				start, limit := time.Now(), 3*time.Second
				if client != "" {
					limit = 9 * time.Second // it could have come back through another member
				}
				c.Crash(holder)
				awaitWithin(t, "the waiter", got, start, limit)
				if err := waiter.Unlock(ctx, k); err != nil {
					t.Error(err)
				}
				if must(waiter.IsLocked(ctx, k)) {
					t.Error("it is locked after the unlock")
				}
			})
		})
	}
}

// A client whose member died goes on through another one, and keeps its locks.
func TestLock_OfAClient_OutlivesItsMember(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		k := key("k")
		first := c.PrimaryOf(k)
		second := c.others(first)[0]
		owner := imap.Owner{Session: "client-1", Thread: 7}
		token := must(first.Map("m").As(owner).Lock(ctx, k, 0)).Token
		c.Crash(first)
		time.Sleep(3 * time.Second)
		if err := second.Node.Maps().MoveSession(ctx, owner.Session, second.ID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		m := second.Map("m").As(owner)
		if info := must(m.LockInfo(ctx, k)); info.Owner != owner || info.Token != token || info.Count != 1 {
			t.Fatalf("%+v", info)
		}
		must(m.Fenced(token).Set(ctx, k, imap.String("v"), 0))
		if err := second.Node.Maps().EndSession(ctx, owner.Session); err != nil {
			t.Fatal(err)
		}
		if err := m.Unlock(ctx, k); !errors.Is(err, grid.ErrNotOwner) {
			t.Errorf("unlock after the end of the session: %v", err)
		}
		if _, err := m.Fenced(token).Set(ctx, k, imap.String("late"), 0); !errors.Is(err, grid.ErrNotOwner) {
			t.Errorf("a write past its fence: %v", err)
		}
	})
}

// C135: a member that was cut off for long comes back as another, and cannot give back what is not its own any more.
func TestC135_RemovedHolder_IsNotTheOwner(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		var holder *Member
		k := key("k")
		for _, m := range c.Live() {
			if m != c.PrimaryOf(k) && m != c.Master() {
				holder = m
			}
		}
		waiter := c.PrimaryOf(k).Map("m")
		must(holder.Map("m").Lock(ctx, k, 0))
		got := lateLock(ctx, waiter, k)
		was := holder.ID()
		start := time.Now()
		c.Net.Isolate(holder.Host)
		awaitWithin(t, "the waiter", got, start, 10*time.Second)
		c.Net.HealAll()
		c.Await(time.Minute, "the holder's return", func() bool { return holder.ID() != was })
		c.AwaitSafe(3, time.Minute)
		if err := holder.Map("m").Unlock(ctx, k); !errors.Is(err, grid.ErrNotOwner) {
			t.Errorf("unlock by the former holder: %v", err)
		}
		if info := must(waiter.LockInfo(ctx, k)); info.Count != 1 {
			t.Errorf("the waiter's lock: %+v", info)
		}
	})
}

// C136, hz#14826, hz#15927: the key's primary dies while others wait. They wait on at the next primary, and the rightful owner's unlock works.
func TestC136_PrimaryDiesDuringTheWait(t *testing.T) {
	bubble(t, 4, func(ctx context.Context, c *Cluster) {
		k := key("k")
		rest := c.others(c.PrimaryOf(k))
		a, b := rest[0].Map("m"), rest[1].Map("m")
		must(a.Lock(ctx, k, 0))
		must(a.Lock(ctx, k, 0))
		got := lateLock(ctx, b, k)
		time.Sleep(time.Second)
		c.Crash(c.PrimaryOf(k))
		time.Sleep(5 * time.Second)
		for range 2 {
			if err := a.Unlock(ctx, k); err != nil {
				t.Fatal(err)
			}
		}
		awaitWithin(t, "the waiter", got, time.Now().Add(-time.Millisecond), 2*time.Second)
	})
}

// C160: entries written under locks, before a member joins and after.
func TestC160_LockPutUnlock_AroundAJoin(t *testing.T) {
	bubble(t, 2, func(ctx context.Context, c *Cluster) {
		write := func(m *imap.Map, value string) {
			for i := range 10 {
				k := key(fmt.Sprint(i))
				must(m.Lock(ctx, k, 0))
				must(m.Put(ctx, k, imap.String(value), 0))
				if err := m.Unlock(ctx, k); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(c.Live()[0].Map("m"), "1")
		third := c.Add()
		c.AwaitSafe(3, time.Minute)
		write(third.Map("m"), "2")
		if err := c.Leave(c.Live()[0]); err != nil {
			t.Fatal(err)
		}
		for _, m := range c.Live() {
			seen := 0
			if err := m.Map("m").Scan(ctx, func(e imap.Entry) error {
				if bodyOf(e) == "2" {
					seen++
				}
				return nil
			}); err != nil || seen != 10 {
				t.Errorf("%s: %d entries of the second round, %v", m.Host, seen, err)
			}
		}
	})
}

// Nobody else is in while somebody holds the lock, whatever dies: a counter that is read and then written counts every round.
func TestLock_ExcludesThroughCrashes(t *testing.T) {
	bubble(t, 4, func(ctx context.Context, c *Cluster) {
		k := key("counter")
		victim := c.PrimaryOf(k)
		var mu sync.Mutex // guards counted and inside
		counted, inside := 0, 0
		var wg sync.WaitGroup
		for w, m := range c.others(victim) {
			for thread := range 2 {
				im := m.Map("m").As(imap.Owner{Thread: int64(thread)})
				wg.Go(func() {
					for round := range 20 {
						info, err := im.Lock(ctx, k, 0)
						if err != nil {
							t.Errorf("worker %d: lock: %v", w, err)
							return
						}
						mu.Lock()
						if inside++; inside > 1 {
							t.Errorf("worker %d, round %d: %d hold the lock", w, round, inside)
						}
						mu.Unlock()
						n, _ := strconv.Atoi(bodyOf(must(im.Get(ctx, k))))
						must(im.Fenced(info.Token).Set(ctx, k, imap.String(strconv.Itoa(n+1)), 0))
						mu.Lock()
						inside--
						counted++
						mu.Unlock()
						if err := im.Unlock(ctx, k); err != nil {
							t.Errorf("worker %d: unlock: %v", w, err)
							return
						}
					}
				})
			}
		}
		time.Sleep(10 * time.Millisecond)
		mu.Lock()
		before := counted
		mu.Unlock()
		c.Crash(victim)
		wg.Wait()
		if before == 0 || before == counted {
			t.Errorf("the crash came after %d of %d rounds", before, counted)
		}
		if got := bodyOf(must(c.Live()[0].Map("m").Get(ctx, k))); got != strconv.Itoa(counted) || counted != 120 {
			t.Errorf("the counter is %s after %d rounds", got, counted)
		}
		if must(c.Live()[0].Map("m").Stats(ctx)).Locks != 0 {
			t.Error("locks are left")
		}
	})
}

// A caller who gives up while he waits leaves no lock behind.
func TestLock_CallerGivesUp(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		k := key("k")
		a, b := c.Live()[0].Map("m"), c.Live()[1].Map("m")
		for _, free := range []time.Duration{900 * time.Millisecond, 1100 * time.Millisecond} {
			must(a.Lock(ctx, k, 0))
			giving, cancel := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() {
				_, err := b.Lock(giving, k, 0)
				done <- err
			}()
			time.Sleep(300 * time.Millisecond)
			cancel()
			time.Sleep(free - 300*time.Millisecond)
			if err := a.Unlock(ctx, k); err != nil {
				t.Fatal(err)
			}
			if err := <-done; grid.KindOf(err) != grid.Retryable {
				t.Errorf("%v", err)
			}
			time.Sleep(time.Second)
			if must(b.IsLocked(ctx, k)) {
				t.Errorf("freed after %v: the lock is held by nobody", free)
			}
		}
	})
}

// A write that says how long it waits for a lock waits so long, has done nothing then, and leaves no lock of its own.
func TestLock_WritesWaitAsLongAsTheySay(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		k := key("k")
		holder, other := c.Live()[0].Map("m"), c.Live()[1].Map("m")
		must(holder.Lock(ctx, k, 0))
		for _, d := range []time.Duration{0, 2 * time.Second} {
			began := time.Now()
			_, err := other.Waiting(d).Put(ctx, k, imap.String("theirs"), 0)
			if took := time.Since(began); !errors.Is(err, grid.ErrBusy) || took < d || took > d+time.Second {
				t.Errorf("a wait of %v ended after %v: %v", d, took, err)
			}
		}
		if e := must(other.Get(ctx, k)); e.Found() {
			t.Errorf("what gave up has done something: %v", e)
		}
		must(holder.Waiting(0).Put(ctx, k, imap.String("mine"), 0))
		if err := holder.Unlock(ctx, k); err != nil {
			t.Fatal(err)
		}
		must(other.Waiting(0).Put(ctx, k, imap.String("theirs"), 0))
		if must(other.IsLocked(ctx, k)) {
			t.Error("a lock was left behind")
		}
		must(holder.Lock(ctx, k, 0))
		go func() { // ends before the wait below
			time.Sleep(time.Second)
			_ = holder.Unlock(ctx, k)
		}()
		must(other.Waiting(5*time.Second).Put(ctx, k, imap.String("late"), 0))
	})
}
