package gridtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/imap/query"
	"gridnode/node"
)

// database is a map store in memory, which all members share.
type database struct {
	mu    sync.Mutex
	rows  map[string]string // by map and key
	loads int
	slow  time.Duration // of each call
	fail  error
}

func (d *database) do(ctx context.Context, fn func()) error {
	d.mu.Lock()
	slow, fail := d.slow, d.fail
	d.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fail != nil {
		return fail
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	fn()
	return nil
}

func row(mapName string, key imap.Data) string { return mapName + "/" + string(key) }

func (d *database) Load(ctx context.Context, mapName string, key imap.Data) (v imap.Data, err error) {
	return v, d.do(ctx, func() {
		d.loads++
		if s, ok := d.rows[row(mapName, key)]; ok {
			v = imap.Data(s)
		}
	})
}

func (d *database) Keys(_ context.Context, mapName string, each func(imap.Data) error) error {
	d.mu.Lock()
	rows := maps.Clone(d.rows)
	d.mu.Unlock()
	for k := range rows {
		if key, ok := strings.CutPrefix(k, mapName+"/"); ok {
			if err := each(imap.Data(key)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *database) Store(ctx context.Context, mapName string, key, value imap.Data) error {
	return d.do(ctx, func() { d.rows[row(mapName, key)] = string(value) })
}

func (d *database) Delete(ctx context.Context, mapName string, key imap.Data) error {
	return d.do(ctx, func() { delete(d.rows, row(mapName, key)) })
}

func (d *database) set(slow time.Duration, fail error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow, d.fail = slow, fail
}

// has returns what the database has of a key of map m.
func (d *database) has(k imap.Key) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rows[row("m", k.Data)]
}

func withStore(t *testing.T, f func(ctx context.Context, c *Cluster, d *database)) {
	d := &database{rows: map[string]string{}}
	bubble(t, 3, func(ctx context.Context, c *Cluster) { f(ctx, c, d) }, func(cfg *node.Config) {
		cfg.Loaders = imap.Loaders{"m": d}
		cfg.Interceptors = map[string]imap.NewInterceptor{"say": func(arg imap.Data) (imap.Interceptor, error) {
			return imap.Interceptor{Get: func(imap.Data) (imap.Data, error) { return arg, nil }}, nil
		}}
	})
}

// What is written goes to the store; what is not in the grid comes from it; what only the grid does, the store never learns.
func TestStore_ThroughAndThrough(t *testing.T) {
	withStore(t, func(ctx context.Context, c *Cluster, d *database) {
		m := c.Live()[0].Map("m")
		one, two := imap.String("1"), imap.String("2")
		value := func(k string) string { return string(must(c.Live()[1].Map("m").Get(ctx, key(k))).Value) }
		must(m.Set(ctx, key("a"), one, 0))
		must(m.Transient().Set(ctx, key("t"), one, 0))
		if err := m.PutAll(ctx, []imap.Pair{{Key: key("b"), Value: one}, {Key: key("c"), Value: one}}); err != nil {
			t.Fatal(err)
		}
		if d.has(key("a")) != string(one) || d.has(key("c")) != string(one) || d.has(key("t")) != "" {
			t.Errorf("the store has %q", d.rows)
		}
		must(m.EvictAll(ctx))
		if n := must(m.Size(ctx)); n != 0 {
			t.Errorf("%d entries after all were evicted", n)
		}
		if value("a") != string(one) || value("t") != "" || !must(m.ContainsKey(ctx, key("b"))) {
			t.Error("what the store has is not read")
		}
		if res := must(m.PutIfAbsent(ctx, key("c"), two, 0)); res.Applied || string(res.Old.Value) != string(one) || d.has(key("c")) != string(one) {
			t.Errorf("put if absent of what the store has: %+v", res)
		}
		if res := must(m.ReplaceIfSame(ctx, key("c"), one, two, 0)); !res.Applied || d.has(key("c")) != string(two) || value("c") != string(two) {
			t.Errorf("replaced: %+v", res)
		}
		must(m.EvictAll(ctx))
		if res := must(m.Remove(ctx, key("a"))); string(res.Old.Value) != string(one) || d.has(key("a")) != "" || value("a") != "" {
			t.Errorf("removed: %+v", res)
		}
		must(m.Transient().Set(ctx, key("b"), two, 0))
		if n := must(m.LoadKeys(ctx, []imap.Key{key("b"), key("c"), key("none")}, false)); n != 1 || value("b") != string(two) {
			t.Errorf("%d loaded, b is %q", n, value("b"))
		}
		if n := must(m.LoadAll(ctx, true)); n != 2 || value("b") != string(one) {
			t.Errorf("%d loaded, b is %q", n, value("b"))
		}
		if list := must(m.GetAll(ctx, []imap.Key{key("b"), key("c"), key("none")})); len(list) != 2 {
			t.Errorf("%d of 2 entries: %+v", len(list), list)
		}
		if n := must(m.Clear(ctx)); n != 2 || d.has(key("b")) != "" {
			t.Errorf("cleared %d: %q", n, d.rows)
		}
	})
}

func TestStore_Refusals(t *testing.T) {
	withStore(t, func(ctx context.Context, c *Cluster, d *database) {
		m := c.Live()[0].Map("m")
		must(m.Set(ctx, key("k"), imap.String("old"), 0))
		d.set(0, errors.New("disk full"))
		if _, err := m.Set(ctx, key("k"), imap.String("new"), 0); !errors.Is(err, grid.ErrRefused) || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("the store failed: %v", err)
		}
		if _, err := m.Get(ctx, key("absent")); !errors.Is(err, grid.ErrRefused) {
			t.Errorf("the store failed to load: %v", err)
		}
		d.set(0, nil)
		if v := must(m.Get(ctx, key("k"))).Value; string(v) != string(imap.String("old")) {
			t.Errorf("the grid has %q, which the store refused", v)
		}
		put := imap.Txn{Place: key("k").Data, Put: []imap.Put{{Ref: imap.Ref{Map: "m", Key: key("k").Data}, Value: imap.String("x")}}}
		if _, err := c.Live()[0].Node.Maps().Txn(ctx, put); !errors.Is(err, grid.ErrRefused) {
			t.Errorf("a transaction on a map with a store: %v", err)
		}
		if _, err := c.Live()[0].Map("other").LoadAll(ctx, true); !errors.Is(err, grid.ErrRefused) {
			t.Errorf("load of a map without a loader: %v", err)
		}
		d.set(time.Hour, nil)
		start := time.Now()
		if _, err := m.Set(ctx, key("k"), imap.String("new"), 0); grid.KindOf(err) != grid.Indeterminate {
			t.Errorf("the store did not answer: %v", err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("a store that does not answer is waited for %v", took)
		}
		d.set(0, nil)
		must(m.Set(ctx, key("k"), imap.String("newer"), 0)) // the guard has ended
	})
}

// However many write a key at once through all members, while it is locked and unlocked, read through and evicted, and while a member crashes: in
// the end the store has what the grid has.
func TestStore_HasWhatTheGridHas(t *testing.T) {
	withStore(t, func(ctx context.Context, c *Cluster, d *database) {
		d.set(3*time.Millisecond, nil)
		keys := []imap.Key{key("a"), key("b"), key("c")}
		victim := c.PrimaryOf(keys[0])
		var wg sync.WaitGroup
		alive, crash := context.WithCancel(ctx)
		for i, member := range c.Live() {
			ctx := ctx
			if member == victim {
				ctx = alive
			}
			for w := range 3 {
				m := member.Map("m").As(imap.Owner{Session: fmt.Sprint("s", i), Thread: int64(w)})
				wg.Go(func() {
					for n := range 40 {
						k := keys[(n+w)%len(keys)]
						switch n % 8 {
						case 3:
							_, _ = m.Evict(ctx, k)
						case 5:
							_, _ = m.Remove(ctx, k)
						case 6:
							if _, ok, err := m.TryLock(ctx, k, time.Second, time.Minute); ok && err == nil {
								_, _ = m.Get(ctx, k)
								_, _ = m.Set(ctx, k, imap.String(fmt.Sprint(i, w, n)), 0)
								_ = m.Unlock(ctx, k)
							}
						default:
							_, _ = m.Set(ctx, k, imap.String(fmt.Sprint(i, w, n)), 0)
						}
					}
				})
			}
		}
		time.Sleep(100 * time.Millisecond)
		c.Crash(victim)
		crash()
		wg.Wait()
		m := c.others(victim)[0].Map("m")
		for _, k := range keys { // the crashed member's last write may have reached the store alone; this one comes behind it
			must(m.Get(ctx, k))
		}
		for _, k := range keys {
			e := must(m.Get(ctx, k))
			if e.Found() && string(e.Value) != d.has(k) && !c.crashedWrites(victim, d.has(k)) {
				t.Errorf("%s: the grid has %q, the store %q", k.Data.Show(), e.Value, d.has(k))
			}
		}
	})
}

// crashedWrites reports whether a value is one that the crashed member wrote.
func (c *Cluster) crashedWrites(victim *Member, value string) bool {
	for i, member := range c.members {
		if member == victim {
			return strings.Contains(value, string(imap.String(fmt.Sprint(i))[8:]))
		}
	}
	return false
}

// An interceptor works on all members until it is removed, also where it was never added by hand: after a crash.
func TestIntercept_OutlivesMembers(t *testing.T) {
	withStore(t, func(ctx context.Context, c *Cluster, _ *database) {
		id := must(c.Live()[0].Map("i").AddInterceptor(ctx, "say", imap.String("hello")))
		c.Crash(c.Live()[2])
		c.AwaitSafe(2, time.Minute)
		c.Add()
		c.AwaitSafe(3, time.Minute)
		keys, _ := keyed("k%d", 50)
		for _, member := range c.Live() {
			for _, k := range keys {
				if e := must(member.Map("i").Get(ctx, k)); string(e.Value) != string(imap.String("hello")) {
					t.Fatalf("%s reads %q", member.Host, e.Value)
				}
			}
		}
		if !must(c.Live()[1].Map("i").RemoveInterceptor(ctx, id)) || must(c.Live()[0].Map("i").RemoveInterceptor(ctx, id)) {
			t.Error("it is removed once")
		}
		for _, k := range keys {
			if e := must(c.Live()[0].Map("i").Get(ctx, k)); e.Value != nil {
				t.Fatalf("read %q after its end", e.Value)
			}
		}
	})
}

// Entries that somebody has locked stay, in the store as in the grid, and nobody waits for them: a map with a store was cleared after the lock's
// end only, or not within a minute. And what does not fit a predicate any more when its turn comes, stays, too.
func TestStore_RemovalsLeaveWhatIsLocked(t *testing.T) {
	withStore(t, func(ctx context.Context, c *Cluster, d *database) {
		m := c.Live()[1].Map("m")
		owner := c.Live()[0].Map("m").As(imap.Owner{Session: "s", Thread: 1})
		fill := func() {
			for _, k := range []string{"a", "b", "c"} {
				must(m.As(imap.Owner{Session: "s", Thread: imap.AnyThread}).Set(ctx, key(k), imap.String(k), 0))
			}
		}
		fill()
		must(owner.Lock(ctx, key("a"), 0))
		all := query.True()
		for name, remove := range map[string]func() (int, error){
			"clear":              func() (int, error) { return m.Clear(ctx) },
			"clear by the owner": func() (int, error) { return owner.Clear(ctx) },
			"remove where":       func() (int, error) { return m.RemoveWhere(ctx, all) },
		} {
			fill()
			start := time.Now()
			n, err := remove()
			if took := time.Since(start); n != 2 || err != nil || took > time.Second {
				t.Errorf("%s: %d removed, %v, after %v", name, n, err, took)
			}
			if d.has(key("a")) == "" || !must(m.ContainsKey(ctx, key("a"))) || d.has(key("b")) != "" || must(m.Size(ctx)) != 1 {
				t.Errorf("%s: the store has %q", name, d.rows)
			}
		}
		fill()
		if n, err := owner.RemoveWhere(ctx, all); n != 3 || err != nil || len(d.rows) != 0 {
			t.Errorf("remove where, by the owner: %d removed, %v; the store has %q", n, err, d.rows)
		}
		must(owner.ForceUnlock(ctx, key("a")))

		fill()
		d.set(time.Second, nil)
		var g sync.WaitGroup
		g.Go(func() { must(m.Set(ctx, key("a"), imap.String("z"), 0)) })
		time.Sleep(500 * time.Millisecond) // the write is in the store, and not in the grid yet
		if n, err := owner.RemoveWhere(ctx, query.LessEqual("this", query.TextOf("c"))); n != 2 || err != nil {
			t.Errorf("remove where, with a change meanwhile: %d removed, %v", n, err)
		}
		g.Wait()
		if v := must(m.Get(ctx, key("a"))); string(v.Value) != string(imap.String("z")) || d.has(key("a")) != string(imap.String("z")) {
			t.Errorf("an entry that did not fit any more: %q, in the store %q", v.Value, d.has(key("a")))
		}
	})
}
