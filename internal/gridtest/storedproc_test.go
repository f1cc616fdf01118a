package gridtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/imap/query"
	"gridnode/node"
)

func withStoreAndProcessors(t *testing.T, f func(ctx context.Context, c *Cluster, d *database)) {
	d := &database{rows: map[string]string{}}
	bubble(t, 3, func(ctx context.Context, c *Cluster) { f(ctx, c, d) }, func(cfg *node.Config) {
		cfg.Loaders = imap.Loaders{"m": d}
		cfg.Processors = map[string]imap.Processor{
			"add":    adder,
			"remove": func(imap.Processing) (imap.Processed, error) { return imap.Processed{Remove: true}, nil },
			"look":   func(p imap.Processing) (imap.Processed, error) { return imap.Processed{Reply: p.Value}, nil },
			"fail":   func(imap.Processing) (imap.Processed, error) { return imap.Processed{}, errors.New("not today") },
			"live": func(p imap.Processing) (imap.Processed, error) {
				return imap.Processed{Put: p.Value, Life: &imap.Life{TTL: 10 * time.Second}}, nil
			},
		}
	})
}

// What a processor makes of an entry goes to the store as a put does, what the store has is what it sees, and what the store refuses is not done.
func TestStoredProcessors(t *testing.T) {
	withStoreAndProcessors(t, func(ctx context.Context, c *Cluster, d *database) {
		m := c.Live()[0].Map("m")
		count := func(n int64) string { return string(must(imap.EncodeValue(n))) }
		expect := func(what string, k imap.Key, want string) {
			t.Helper()
			if got := string(must(c.Live()[1].Map("m").View(ctx, k)).Value); got != want || d.has(k) != want {
				t.Errorf("%s: the grid has %q, the store %q, want %q", what, got, d.has(k), want)
			}
		}
		k := key("k")
		if reply := must(m.ExecuteOnKey(ctx, k, "add", nil)); string(reply) != count(1) {
			t.Errorf("the first call returned %q", reply)
		}
		expect("made by a processor", k, count(1))
		must(m.Evict(ctx, k))
		must(m.ExecuteOnKey(ctx, k, "add", nil))
		expect("loaded for a processor", k, count(2))
		if reply := must(m.ExecuteOnKey(ctx, k, "look", nil)); string(reply) != count(2) {
			t.Errorf("a look: %q", reply)
		}
		must(m.SetTTL(ctx, k, time.Hour))
		must(m.ExecuteOnKey(ctx, k, "add", nil))
		if v := must(m.View(ctx, k)); v.SetTTL != time.Hour {
			t.Errorf("the time to live is %v after a processor", v.SetTTL)
		}
		must(m.ExecuteOnKey(ctx, k, "live", nil))
		if v := must(m.View(ctx, k)); v.SetTTL != 10*time.Second {
			t.Errorf("the processor's own time to live: %v", v.SetTTL)
		}
		d.set(0, errors.New("disk full"))
		for _, name := range []string{"add", "remove"} {
			if _, err := m.ExecuteOnKey(ctx, k, name, nil); !errors.Is(err, grid.ErrRefused) {
				t.Errorf("%s, which the store refuses: %v", name, err)
			}
		}
		d.set(0, nil)
		expect("refused by the store", k, count(3))
		for _, name := range []string{"fail", "unknown"} {
			if _, err := m.ExecuteOnKey(ctx, k, name, nil); !errors.Is(err, grid.ErrRefused) {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(m.ExecuteOnKey(ctx, k, "remove", nil))
		expect("removed by a processor", k, "")
		if _, err := m.ExecuteOnKeys(ctx, []imap.Key{k, key("l"), k}, "add", nil); !errors.Is(err, grid.ErrBadRequest) {
			t.Errorf("a key twice: %v", err)
		}
		if reply := must(m.Transient().ExecuteOnKey(ctx, key("t"), "add", nil)); string(reply) != count(1) || d.has(key("t")) != "" {
			t.Errorf("a transient call: %q, the store has %q", reply, d.has(key("t")))
		}
		keys, _ := keyed("many%d", 50)
		for _, e := range must(m.ExecuteOnKeys(ctx, keys, "add", nil)) {
			if string(e.Value) != count(1) {
				t.Errorf("%s: %q", e.Key.Show(), e.Value)
			}
		}
		for _, k := range keys {
			expect("one of many", k, count(1))
		}
		owner := m.As(imap.Owner{Session: "s"})
		must(owner.Lock(ctx, keys[0], 0))
		if _, err := m.Waiting(0).ExecuteOnKey(ctx, keys[0], "add", nil); !errors.Is(err, grid.ErrBusy) {
			t.Errorf("a key that another has locked: %v", err)
		}
		start := time.Now()
		if _, err := m.Waiting(0).Put(ctx, keys[0], imap.String("x"), 0); !errors.Is(err, grid.ErrBusy) || time.Since(start) > time.Second {
			t.Errorf("a put that does not wait, of a key that another has locked: %v after %v", err, time.Since(start))
		}
		must(owner.ExecuteOnKey(ctx, keys[0], "add", nil))
		expect("under one's own lock", keys[0], count(2))
	})
}

// Through the death of the primary of the key, and of a member that calls, a counter has no less than what was acknowledged, and no more than what
// was tried; the store has the same.
func TestStoredProcessors_CountThroughACrash(t *testing.T) {
	withStoreAndProcessors(t, func(ctx context.Context, c *Cluster, d *database) {
		d.set(2*time.Millisecond, nil)
		k := key("counter")
		victim := c.PrimaryOf(k)
		var acked, unknown, refused atomic.Int64
		var wg sync.WaitGroup
		alive, crash := context.WithCancel(ctx)
		for _, member := range c.Live() {
			ctx := ctx
			if member == victim {
				ctx = alive
			}
			m := member.Map("m")
			for range 2 {
				wg.Go(func() {
					for range 40 {
						switch _, err := m.ExecuteOnKey(ctx, k, "add", nil); {
						case err == nil:
							acked.Add(1)
						case grid.KindOf(err) == grid.Indeterminate:
							unknown.Add(1)
						default:
							refused.Add(1)
						}
					}
				})
			}
		}
		time.Sleep(200 * time.Millisecond)
		c.Crash(victim)
		crash()
		wg.Wait()
		m := c.others(victim)[0].Map("m")
		must(m.ExecuteOnKey(ctx, k, "add", nil)) // the crashed member's last write may have reached the store alone; this one comes behind it
		e := must(m.Get(ctx, k))
		n := must(imap.DecodeValue[int64](e.Value)) - 1
		if n < acked.Load() || n > acked.Load()+unknown.Load() || acked.Load() < 100 {
			t.Errorf("the counter is %d after %d acknowledged calls, %d of which nobody knows, %d refused", n, acked.Load(), unknown.Load(), refused.Load())
		}
		if d.has(k) != string(e.Value) {
			t.Errorf("the grid has %q, the store %q", e.Value, d.has(k))
		}
		t.Log(fmt.Sprint("acknowledged ", acked.Load(), ", unknown ", unknown.Load(), ", refused ", refused.Load()))
	})
}

// A processor that is to run where a predicate holds leaves alone what does not fit any more when its turn comes, and what has been removed: it made
// removed entries anew.
func TestProcessors_WhereAPredicateStillHolds(t *testing.T) {
	withStoreAndProcessors(t, func(ctx context.Context, c *Cluster, _ *database) {
		for _, name := range []string{"m", "plain"} {
			m, owner := c.Live()[1].Map(name), c.Live()[0].Map(name).As(imap.Owner{Session: "s", Thread: 1})
			count := func(n int64) imap.Data { return must(imap.EncodeValue(n)) }
			for _, k := range []string{"changed", "removed", "left"} {
				must(m.Set(ctx, key(k), count(1), 0))
			}
			must(owner.Lock(ctx, key("changed"), 0))
			must(owner.Lock(ctx, key("removed"), 0))
			var replies []imap.Entry
			var g sync.WaitGroup
			g.Go(func() { replies = must(m.ExecuteWhere(ctx, query.Less("this", query.IntOf(5)), "add", nil)) })
			time.Sleep(time.Second) // it has found all three
			must(owner.Set(ctx, key("changed"), count(7), 0))
			must(owner.Remove(ctx, key("removed")))
			for _, k := range []string{"changed", "removed"} {
				if err := owner.Unlock(ctx, key(k)); err != nil {
					t.Fatal(err)
				}
			}
			g.Wait()
			for k, want := range map[string]imap.Data{"changed": count(7), "removed": nil, "left": count(2)} {
				if got := must(m.Get(ctx, key(k))).Value; string(got) != string(want) {
					t.Errorf("map %s: %s is %q", name, k, got)
				}
			}
			if len(replies) != 3 {
				t.Errorf("map %s: %d replies", name, len(replies))
			}
			for _, e := range replies {
				if want := map[bool]imap.Data{true: count(2)}[string(e.Key) == string(key("left").Data)]; string(e.Value) != string(want) {
					t.Errorf("map %s: %s replied %q", name, e.Key.Show(), e.Value)
				}
			}
		}
	})
}
