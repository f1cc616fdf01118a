package gridtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/node"
)

// bubble runs a test of n members in fake time.
func bubble(t *testing.T, n int, f func(ctx context.Context, c *Cluster), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, n, append([]Option{few}, opts...)...)
		defer c.Stop()
		f(context.Background(), c)
	})
}

// must is for calls of which a test is not about.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func keyed(format string, n int) (keys []imap.Key, pairs []imap.Pair) {
	for i := range n {
		k := key(fmt.Sprintf(format, i))
		keys = append(keys, k)
		pairs = append(pairs, imap.Pair{Key: k, Value: imap.String(fmt.Sprint(i))})
	}
	return keys, pairs
}

// everywhere says what each member sees of map m that must have n entries, of keys whose count is named.
func (c *Cluster) everywhere(ctx context.Context, want int, absent []imap.Key) {
	c.t.Helper()
	for _, m := range c.Live() {
		im := m.Map("m")
		if n := must(im.Size(ctx)); n != want {
			c.t.Fatalf("%s: size %d, want %d", m.Host, n, want)
		}
		if empty := must(im.IsEmpty(ctx)); empty != (want == 0) {
			c.t.Fatalf("%s: empty %v", m.Host, empty)
		}
		keys, entries := 0, 0
		if err := errors.Join(
			im.ScanKeys(ctx, func(e imap.Entry) error { keys++; return nil }),
			im.Scan(ctx, func(e imap.Entry) error { entries++; return nil }),
		); err != nil || keys != want || entries != want {
			c.t.Fatalf("%s: %d keys, %d entries, want %d: %v", m.Host, keys, entries, want, err)
		}
		if got := must(im.GetAll(ctx, absent)); len(got) != 0 {
			c.t.Fatalf("%s: %d of the absent keys are there", m.Host, len(got))
		}
		for _, k := range absent[:min(len(absent), 5)] {
			if must(im.ContainsKey(ctx, k)) {
				c.t.Fatalf("%s: %s is there", m.Host, k.Data.Show())
			}
		}
	}
}

// C130: entries whose time is over are seen nowhere, also not by a member that was a backup.
func TestC130_ExpiredEntriesAreSeenNowhere(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		keys, pairs := keyed("t%d", 300)
		for i := range pairs {
			pairs[i].TTL = time.Second
		}
		_, stay := keyed("s%d", 10)
		m := c.Live()[0].Map("m")
		if err := errors.Join(m.PutAll(ctx, pairs), m.PutAll(ctx, stay)); err != nil {
			t.Fatal(err)
		}
		if n := must(m.Size(ctx)); n != 310 {
			t.Fatalf("%d entries", n)
		}
		time.Sleep(1500 * time.Millisecond)
		c.everywhere(ctx, 10, keys)
		if must(m.ContainsValue(ctx, imap.String("77"))) || !must(m.ContainsValue(ctx, imap.String("7"))) {
			t.Error("wrong values")
		}
		c.Crash(c.Live()[1])
		c.everywhere(ctx, 10, keys)
	})
}

// A key that is read more often than its max-idle lives on when its primary dies; then nobody reads it, and it goes.
func TestMaxIdle_GoesOnAfterTheCrashOfThePrimary(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		k, cold := key("hot"), key("cold")
		via := c.Live()[0]
		if via == c.PrimaryOf(k) {
			via = c.Live()[1]
		}
		m := via.Map("m")
		must(m.SetFor(ctx, k, imap.String("v"), imap.Life{MaxIdle: 2 * time.Second}))
		must(m.SetFor(ctx, cold, imap.String("v"), imap.Life{MaxIdle: 2 * time.Second}))
		for range 10 {
			time.Sleep(1800 * time.Millisecond)
			if !must(m.Get(ctx, k)).Found() {
				t.Fatal("it died although it was read")
			}
		}
		time.Sleep(1500 * time.Millisecond)
		c.Crash(c.PrimaryOf(k))
		for range 5 {
			time.Sleep(300 * time.Millisecond)
			if !must(m.Get(ctx, k)).Found() {
				t.Fatal("it died with the primary although it was read")
			}
		}
		if must(m.Get(ctx, cold)).Found() {
			t.Error("the unread one is still there")
		}
		took := c.Await(10*time.Second, "the end of the unread one", func() bool { return must(m.Size(ctx)) == 0 })
		if took > 3500*time.Millisecond {
			t.Errorf("it went after %v unread", took)
		}
	})
}

// C149: what was removed or has expired does not come back when a member dies.
func TestC149_RemovedEntriesStayRemoved(t *testing.T) {
	bubble(t, 2, func(ctx context.Context, c *Cluster) {
		a, b := c.Live()[0].Map("m"), c.Live()[1].Map("m")
		keys, pairs := keyed("k%d", 1000)
		timed, timedPairs := keyed("t%d", 1000)
		for i := range timedPairs {
			timedPairs[i].TTL = 2 * time.Second
		}
		if err := errors.Join(a.PutAll(ctx, pairs[:500]), b.PutAll(ctx, pairs[500:]), b.PutAll(ctx, timedPairs)); err != nil {
			t.Fatal(err)
		}
		if n := must(b.DeleteAll(ctx, keys[:700])) + must(a.DeleteAll(ctx, keys[700:])); n != 1000 {
			t.Errorf("%d were removed", n)
		}
		c.Await(10*time.Second, "expiry", func() bool { return must(a.Size(ctx)) == 0 })
		time.Sleep(5 * time.Second)
		dead := c.Live()[1]
		if dead == c.Master() {
			dead = c.Live()[0]
		}
		c.Crash(dead)
		c.everywhere(ctx, 0, keys)
		time.Sleep(30 * time.Second)
		c.everywhere(ctx, 0, timed)
	})
}

// C151: a single client sees exactly what it did, and after the last clear nothing is left, on no replica.
func TestC151_ClearAndPut(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		m := c.Live()[0].Map("m")
		for i := range 100 {
			must(m.Set(ctx, key(fmt.Sprint(i)), imap.String("v"), 0))
			must(m.Clear(ctx))
			must(m.Set(ctx, key(fmt.Sprint(i+1)), imap.String("v"), 0))
			if n := must(m.Size(ctx)); n != 1 || !must(m.ContainsKey(ctx, key(fmt.Sprint(i+1)))) {
				t.Fatalf("round %d: %d entries", i, n)
			}
		}
		done := make(chan struct{})
		for w := range 8 {
			go func() {
				defer func() { done <- struct{}{} }()
				for i := range 200 {
					must(c.Live()[w%3].Map("m").Set(ctx, key(fmt.Sprintf("%d-%d", w, i)), imap.String("v"), 0))
				}
			}()
		}
		for left := 8; left > 0; {
			select {
			case <-done:
				left--
			case <-time.After(5 * time.Millisecond):
				must(m.Clear(ctx))
			}
		}
		must(m.Clear(ctx))
		c.everywhere(ctx, 0, nil)
		c.Crash(c.Live()[2])
		c.everywhere(ctx, 0, nil)
	})
}

// C153, C138: put-if-absent with a time to live, through members that do not hold the key.
func TestC153_PutIfAbsentWithATimeToLive(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		for i := range 90 {
			k := key(fmt.Sprint(i))
			m := c.Live()[i%3].Map("m")
			first := must(m.PutIfAbsent(ctx, k, imap.String("1"), 2*time.Second))
			second := must(c.Live()[(i+1)%3].Map("m").PutIfAbsent(ctx, k, imap.String("2"), time.Minute))
			if !first.Applied || second.Applied || textOf(t, second.Old) != "1" || second.Old.TTL > 2*time.Second {
				t.Fatalf("key %d: %+v, then %+v", i, first, second)
			}
			missing := key(fmt.Sprint("missing", i))
			if must(m.Replace(ctx, missing, imap.String("v"), time.Minute)).Applied || must(m.SetTTL(ctx, missing, time.Minute)).Applied ||
				must(m.ContainsKey(ctx, missing)) {
				t.Fatal("a missing key was made")
			}
		}
		time.Sleep(2100 * time.Millisecond)
		c.everywhere(ctx, 0, nil)
	})
}

// C138: of many callers one wins, and with a death in between at most one is told so.
func TestC138_PutIfAbsent_OneWins(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		for round := range 6 {
			k := key(fmt.Sprint("round", round))
			dies := c.PrimaryOf(k)
			kill := round%2 == 1
			type answer struct {
				id  string
				res imap.WriteResult
				err error
			}
			answers := make(chan answer)
			for i := range 100 {
				m := c.Live()[i%3]
				if kill && m == dies {
					m = c.Live()[(i+1)%3]
				}
				go func() {
					id := fmt.Sprint("caller", i)
					res, err := m.Map("m").PutIfAbsentFor(ctx, k, imap.String(id), imap.Life{TTL: time.Hour, MaxIdle: time.Hour})
					answers <- answer{id, res, err}
				}()
			}
			if kill {
				time.Sleep(200 * time.Microsecond)
				c.Crash(dies)
			}
			var winners, seen []string
			for range 100 {
				switch a := <-answers; {
				case a.err != nil && !kill:
					t.Fatal(a.err)
				case a.err != nil:
				case a.res.Applied:
					winners = append(winners, a.id)
				default:
					seen = append(seen, bodyOf(a.res.Old))
				}
			}
			value := bodyOf(must(c.Live()[0].Map("m").Get(ctx, k)))
			if len(winners) > 1 || !kill && len(winners) != 1 || len(winners) == 1 && winners[0] != value {
				t.Fatalf("round %d: winners %v, the value is %s", round, winners, value)
			}
			for _, s := range seen {
				if s != value {
					t.Fatalf("round %d: a loser saw %s, the value is %s", round, s, value)
				}
			}
			if kill {
				c.Restart(dies)
				c.AwaitSafe(3, time.Minute)
			}
		}
	})
}

// C129, C125 through whole members: the config of the primary decides.
func TestC129_DefaultTimesOfTheMap(t *testing.T) {
	cfg := func(cfg *node.Config) {
		cfg.Maps = imap.Configs{"m": {TTL: 2 * time.Second}, "o*": {MaxIdle: 3 * time.Second}}
	}
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		m, o := c.Live()[0].Map("m"), c.Live()[1].Map("other")
		_, pairs := keyed("p%d", 20)
		if err := errors.Join(m.PutAll(ctx, pairs), o.SetAll(ctx, pairs)); err != nil {
			t.Fatal(err)
		}
		must(m.Put(ctx, key("3"), imap.String("v"), 0))
		must(m.PutIfAbsent(ctx, key("5"), imap.String("v"), 0))
		must(m.Set(ctx, key("stays"), imap.String("v"), imap.Forever))
		v := must(o.View(ctx, pairs[0].Key))
		if v.MaxIdle != 3*time.Second || v.SetTTL != 0 || v.Expires.Sub(v.Accessed) != 3*time.Second || v.Created.After(time.Now()) {
			t.Errorf("%+v", v)
		}
		time.Sleep(2500 * time.Millisecond)
		if n := must(m.Size(ctx)); n != 1 {
			t.Errorf("%d entries of m", n)
		}
		if n := len(must(o.GetAll(ctx, []imap.Key{pairs[0].Key, pairs[1].Key, pairs[1].Key, key("none")}))); n != 2 {
			t.Errorf("%d entries", n)
		}
		time.Sleep(2500 * time.Millisecond)
		if n := must(o.Size(ctx)); n != 2 {
			t.Errorf("%d entries of other that were read lately", n)
		}
		sum := must(m.Stats(ctx))
		if sum.Entries != 1 || sum.Puts != 23 || sum.Expirations != 22 || sum.Held != 2 || sum.HeldBytes != 2*sum.Bytes {
			t.Errorf("%+v", sum)
		}
		if err := m.Destroy(ctx); err != nil {
			t.Fatal(err)
		}
		if sum := must(m.Stats(ctx)); sum != (imap.Stats{Name: "m"}) {
			t.Errorf("destroyed: %+v", sum)
		}
	}, cfg)
}

// A write that waits for a lock in vain ends in time, as one that did not run.
func TestLockedKey_WritersWaitUpToTheirDeadline(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		k := key("k")
		a, b := c.Live()[0].Map("m"), c.Live()[1].Map("m")
		must(a.Lock(ctx, k, 0))
		must(a.Set(ctx, k, imap.String("mine"), 0))
		start := time.Now()
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		_, err := b.Set(short, k, imap.String("other"), 0)
		if took := time.Since(start); grid.KindOf(err) != grid.Retryable || took < 2500*time.Millisecond || took > 3*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		start = time.Now()
		_, err = b.Lock(short, k, 0)
		if took := time.Since(start); grid.KindOf(err) != grid.Retryable || took > 250*time.Millisecond {
			t.Errorf("a lock with no time left, after %v: %v", took, err)
		}
		start = time.Now()
		if _, ok, err := b.TryLock(ctx, k, 100*time.Millisecond, 0); ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("a wait of 100 ms took %v", took)
		}
		done := make(chan error)
		go func() {
			_, err := b.Set(ctx, k, imap.String("other"), 0)
			done <- err
		}()
		time.Sleep(15 * time.Second)
		start = time.Now()
		if err := errors.Join(a.Unlock(ctx, k), <-done); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("the waiting write ran %v after the unlock", took)
		}
		if err := b.Unlock(ctx, k); !errors.Is(err, grid.ErrNotOwner) {
			t.Errorf("unlock of what is free: %v", err)
		}
		sum := must(a.Stats(ctx))
		if sum.Locks != 0 || sum.Entries != 1 {
			t.Errorf("%+v", sum)
		}
	})
}

// adder is an entry processor that adds to a counter: what runs twice shows.
func adder(p imap.Processing) (imap.Processed, error) {
	n := int64(0)
	if p.Found() {
		var err error
		if n, err = imap.DecodeValue[int64](p.Value); err != nil {
			return imap.Processed{}, err
		}
	}
	d, err := imap.EncodeValue(n + 1)
	return imap.Processed{Put: d, Reply: d}, err
}

// An entry processor counts once, through the death of the primary; and the counter's time to live goes on (C155).
func TestExecuteOnKey_CountsOnce_ThroughACrash(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		k := key("counter")
		victim := c.PrimaryOf(k)
		m := c.others(victim)[0].Map("m")
		must(m.Set(ctx, k, must(imap.EncodeValue(int64(0))), 30*time.Second))
		start := time.Now()
		done := make(chan error)
		for w := range 4 {
			go func() {
				var err error
				for range 50 {
					_, e := c.others(victim)[w%2].Map("m").ExecuteOnKey(ctx, k, "add", nil)
					err = errors.Join(err, e)
				}
				done <- err
			}()
		}
		time.Sleep(5 * time.Millisecond)
		before := must(imap.DecodeValue[int64](must(m.Get(ctx, k)).Value))
		c.Crash(victim)
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := must(imap.DecodeValue[int64](must(m.Get(ctx, k)).Value)); n != 200 || before == 0 || before == 200 {
			t.Errorf("the counter is %d after 200 calls; %d before the crash", n, before)
		}
		gone := c.Await(time.Minute, "expiry", func() bool { return !must(m.ContainsKey(ctx, k)) })
		if took := time.Since(start); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("gone after %v (%v after the calls)", took, gone)
		}
	}, func(cfg *node.Config) { cfg.Processors = map[string]imap.Processor{"add": adder} })
}

// Members whose memory for entries is full refuse writes with a reason, and serve all else.
func TestMemoryLimit_RefusesWrites(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		m := c.Live()[0].Map("m")
		value := imap.Bytes(make([]byte, 100<<10))
		var err error
		stored := 0
		for ; err == nil && stored < 1000; stored++ {
			_, err = m.Set(ctx, key(fmt.Sprint(stored)), value, 0)
		}
		if !errors.Is(err, grid.ErrMemory) || stored < 9 {
			t.Fatalf("after %d writes: %v", stored, err)
		}
		if must(m.Size(ctx)) != stored-1 {
			t.Errorf("%d entries after %d writes", must(m.Size(ctx)), stored)
		}
		must(m.Clear(ctx))
		must(m.Set(ctx, key("again"), value, 0))
	}, func(cfg *node.Config) { cfg.MapMemoryLimitMB = 1 })
}

// What the members count each for themselves adds up to what the cluster holds.
func TestMapStats_OfMembersAddUp(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		m := c.Live()[1].Map("m")
		keys, pairs := keyed("k%d", 100)
		if err := m.PutAll(ctx, pairs); err != nil {
			t.Fatal(err)
		}
		must(m.GetAll(ctx, append(keys[:30], key("none"))))
		must(m.DeleteAll(ctx, keys[:10]))
		must(m.Evict(ctx, key("k50")))
		must(m.Lock(ctx, key("k51"), 0))
		want := must(m.Stats(ctx))
		var got imap.Stats
		for _, member := range c.Live() {
			for _, s := range member.Node.MapStats() {
				if s.Name == "m" {
					got.Entries, got.Locks, got.Bytes = got.Entries+s.Owned, got.Locks+s.Locks, got.Bytes+s.OwnedBytes
					got.Gets, got.Hits, got.Puts = got.Gets+s.Gets, got.Hits+s.Hits, got.Puts+s.Puts
					if s.Held != int64(s.Owned+s.Backups) || s.HeldBytes != s.OwnedBytes+s.BackupBytes || s.Backups == 0 {
						t.Errorf("%s: %+v", member.Host, s)
					}
				}
			}
		}
		if want.Entries != 89 || want.Gets != 31 || want.Hits != 30 || want.Misses != 1 || want.Puts != 100 || want.Removes != 10 || want.Evictions != 1 ||
			want.Locks != 1 || want.Held != 178 {
			t.Errorf("%+v", want)
		}
		if got.Entries != want.Entries || got.Locks != want.Locks || got.Bytes != want.Bytes || got.Gets != want.Gets || got.Hits != want.Hits || got.Puts != want.Puts {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// hz#913, hz#2859: through a chain of deaths and copies a time to live neither begins anew nor is cut short.
func TestTimeToLive_GoesOnThroughManyMoves(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		k := key("k")
		start := time.Now()
		must(c.Live()[0].Map("m").SetFor(ctx, k, imap.String("v"), imap.Life{TTL: 60 * time.Second, MaxIdle: time.Hour}))
		for range 3 {
			dies := c.PrimaryOf(k)
			c.Crash(dies)
			c.Restart(dies)
			c.AwaitSafe(3, time.Minute)
			if e := must(c.Live()[0].Map("m").Get(ctx, k)); !e.Found() || (e.TTL+time.Since(start)-60*time.Second).Abs() > time.Second {
				t.Fatalf("after %v: %+v", time.Since(start), e)
			}
		}
		c.Await(time.Minute, "expiry", func() bool { return !must(c.Live()[0].Map("m").Get(ctx, k)).Found() })
		if took := time.Since(start); took < 60*time.Second || took > 61*time.Second {
			t.Errorf("an entry that lives 60 s was gone after %v", took)
		}
	})
}
