package clients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/nearcache"
)

// nearMap returns a map of a client that keeps a near cache for it, or none.
func nearMap(t *testing.T, members []*Process, name string, near bool) *hazelcast.Map {
	t.Helper()
	cfg := hazelcast.Config{}
	cfg.Cluster.Name = "clients"
	for _, m := range members {
		cfg.Cluster.Network.Addresses = append(cfg.Cluster.Network.Addresses, m.Address())
	}
	if near {
		nc := nearcache.Config{Name: name}
		nc.SetInvalidateOnChange(true)
		cfg.AddNearCache(nc)
	}
	c, err := hazelcast.StartNewClientWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Shutdown(context.Background()) })
	m, err := c.GetMap(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A near cache is told of every change, also of those that were on their way when a member died: soon after, no key is answered from it with a
// value that is not the newest.
func TestNearCache_HasNothingStaleAfterAKill(t *testing.T) { nothingStale(t, (*Process).Kill) }

// The same when a member leaves.
func TestNearCache_HasNothingStaleAfterALeave(t *testing.T) { nothingStale(t, (*Process).Leave) }

// nothingStale lets a client fill its near cache while another one writes, until one of three members ends.
func nothingStale(t *testing.T, end func(*Process)) {
	t.Parallel()
	members := startMembers(t, 3)
	safe(t, members)
	const keys = 300
	near, far := nearMap(t, members, "near", true), nearMap(t, members, "near", false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	writing, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for w := range int64(2) {
		wg.Go(func() {
			for n := int64(0); writing.Err() == nil; n++ {
				call, done := context.WithTimeout(ctx, unsent)
				if err := far.Set(call, (n*2+w)%keys, n); err != nil && writing.Err() == nil {
					t.Logf("a write: %v", err) // of unknown outcome
				}
				done()
			}
		})
		wg.Go(func() {
			for n := w; writing.Err() == nil; n++ {
				call, done := context.WithTimeout(ctx, unsent)
				_, _ = near.Get(call, n%keys)
				done()
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	wg.Go(func() { end(members[2]) })
	time.Sleep(rand.N(200 * time.Millisecond))
	stop() // later writes would hide what has been missed
	wg.Wait()
	wrong := ""
	for deadline := time.Now().Add(3*time.Second + unsent); ; time.Sleep(100 * time.Millisecond) {
		if wrong = unlike(ctx, near, far, keys); wrong == "" || time.Now().After(deadline) {
			break
		}
	}
	if wrong != "" {
		t.Errorf("the near cache is not the map:\n%s", wrong)
	}
	if s := near.LocalMapStats().NearCacheStats; s.Hits == 0 || s.Invalidations == 0 {
		t.Errorf("the near cache was not used: %+v", s)
	}
}

// unlike lists the keys from 0 that have different values in two views of a map, or that one of them does not answer.
func unlike(ctx context.Context, near, far *hazelcast.Map, keys int64) (wrong string) {
	get := func(m *hazelcast.Map, k int64) (any, error) {
		call, done := context.WithTimeout(ctx, unsent)
		defer done()
		return m.Get(call, k)
	}
	for k := range keys {
		got, err1 := get(near, k)
		want, err2 := get(far, k)
		if err1 != nil || err2 != nil || got != want {
			wrong += fmt.Sprintf("%d: %v, %v; %v, %v\n", k, got, err1, want, err2)
		}
	}
	return wrong
}
