package gridtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"gridnode/imap"
	"gridnode/imap/query"
	"gridnode/node"
)

// TestQuery_TypedMapWithConfiguredIndexes: structs by the names of their fields, locked ones kept by RemoveWhere, and what a listener hears of
// operations on the whole map.
func TestQuery_TypedMapWithConfiguredIndexes(t *testing.T) {
	type person struct {
		Name string
		Age  int
	}
	cfg := func(cfg *node.Config) {
		cfg.Maps = imap.Configs{"p*": {Indexes: []imap.IndexConfig{{Type: query.Sorted, Attributes: []string{"Age"}}}}}
		cfg.Processors = map[string]imap.Processor{"same": func(p imap.Processing) (imap.Processed, error) {
			return imap.Processed{Put: p.Value}, nil
		}}
	}
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		m := c.Live()[0].Map("people")
		people := imap.NewTyped[string, person](m)
		const n = 60
		put := func() {
			all := map[string]person{}
			for i := range n {
				name := fmt.Sprint("n", i)
				all[name] = person{name, i}
			}
			if err := people.PutAll(ctx, all); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		heard := map[imap.EventType]int{}
		l := must(c.Live()[1].Map("people").Listen(ctx, imap.ListenerConfig{}, func(e imap.Event) {
			mu.Lock()
			defer mu.Unlock()
			heard[e.Type] += max(e.Count, 1)
		}))
		defer l.Close()
		await := func(typ imap.EventType, n int) {
			t.Helper()
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				mu.Lock()
				got := heard[typ]
				mu.Unlock()
				if got == n {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("%v: %d entries, want %d", typ, got, n)
				}
			}
		}
		put()
		await(imap.Added, n)
		for _, mem := range c.Live() {
			for range 2 { // the first makes the index
				list, _, err := mem.Map("people").EntriesWhere(ctx, where(t, "Age >= 50 AND Name <> 'n55'"), imap.Page{})
				if err != nil || len(list) != 9 {
					t.Errorf("%d found, %v", len(list), err)
				}
			}
		}
		must(m.ExecuteOnKey(ctx, imap.Key{Data: imap.String("n1")}, "same", nil))
		await(imap.Updated, 1)

		locked := imap.Key{Data: imap.String("n59")}
		must(m.As(imap.Owner{Session: "s"}).Lock(ctx, locked, 0))
		if got, err := m.RemoveWhere(ctx, where(t, "Age >= 50")); err != nil || got != 9 {
			t.Errorf("%d removed, %v", got, err)
		}
		if got := must(m.Clear(ctx)); got != n-10 {
			t.Errorf("%d cleared", got)
		}
		if err := m.As(imap.Owner{Session: "s"}).Unlock(ctx, locked); err != nil {
			t.Fatal(err)
		}
		must(m.Evict(ctx, locked))
		await(imap.Removed, 9)
		await(imap.Cleared, n-10)
		await(imap.Evicted, 1)
		put()
		if got := must(m.EvictAll(ctx)); got != n {
			t.Errorf("%d evicted", got)
		}
		await(imap.Evicted, 1+n)
		await(imap.Added, 2*n)
		await(imap.Lost, 0)
	}, cfg)
}

// Destroy ends the indexes that were added, on all members and for those that come later; a new one of the same name works.
func TestDestroy_EndsIndexes(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		cfg := imap.IndexConfig{Type: query.Hash, Attributes: []string{"a"}}
		m := c.Live()[0].Map("m")
		has := func(want int) {
			t.Helper()
			for _, member := range c.Live() {
				if got := len(member.Node.Maps().Indexes("m")); got != want {
					t.Errorf("%s: %d indexes, want %d", member.Host, got, want)
				}
			}
		}
		for i := range 40 { // of one map there may be 32 at a time
			if err := c.Live()[i%3].Node.Maps().AddIndex(ctx, "m", imap.IndexConfig{Type: query.Hash, Attributes: []string{fmt.Sprint("a", i)}}); err != nil {
				t.Fatal(err)
			}
			has(1)
			if err := c.Live()[(i+1)%3].Map("m").Destroy(ctx); err != nil {
				t.Fatal(err)
			}
			has(0)
		}
		if err := c.Live()[1].Node.Maps().AddIndex(ctx, "m", cfg); err != nil {
			t.Fatal(err)
		}
		must(m.Set(ctx, key("k"), imap.JSON([]byte(`{"a":1}`)), 0))
		c.Add()
		c.AwaitSafe(4, time.Minute)
		c.Await(time.Minute, "the newcomer's index", func() bool { return len(c.Live()[3].Node.Maps().Indexes("m")) == 1 })
		has(1)
		list, _, err := m.KeysWhere(ctx, query.EqualTo("a", query.IntOf(1)), imap.Page{})
		if err != nil || len(list) != 1 {
			t.Errorf("%d keys, %v", len(list), err)
		}
	})
}
