package engine_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// C190: thousands of checkpoints leave nothing behind: neither entries of the maps, nor their bytes, nor heap, nor goroutines grow with their number. What a
// checkpoint of a stream without rows puts out is nothing, so there is nothing else that could grow.
func TestCheckpoint_ThousandsLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.rules.Off() // they remember what was stored
		ids := []string{"41", "42", "43"}
		for _, id := range ids {
			spec := flow(plugin.Streaming)
			spec.Parallelism, spec.Interval = 2, 100*ms
			c.submit(ctx, id, spec)
		}
		held := func() (use usage) {
			for _, m := range engine.MapNames() {
				err := c.Store.Scan(ctx, m, func(e engine.Entry) error {
					use.entries++
					use.bytes += len(e.Value)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			runtime.GC()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			use.heap, use.goroutines = int(s.HeapAlloc), runtime.NumGoroutine()
			return use
		}
		completed := func() (n int) {
			for _, id := range ids {
				m := try(ctx, c, func(s *engine.Service) (engine.JobCheckpoints, error) { return s.Checkpoints(ctx, id) })
				n += m.Pipelines[0].Completed
			}
			return n
		}
		time.Sleep(time.Minute) // the rows are out and all rings are full
		before, n := held(), completed()
		time.Sleep(110 * time.Second)
		after, more := held(), completed()-n
		t.Logf("after %d checkpoints %+v, after %d more %+v", n, before, more, after)
		if more < 3000 {
			t.Errorf("only %d checkpoints, the test shows nothing", more)
		}
		if after.entries != before.entries || after.bytes > before.bytes+before.bytes/10 {
			t.Errorf("the maps grew from %d entries with %d bytes to %d with %d", before.entries, before.bytes, after.entries, after.bytes)
		}
		if after.goroutines > before.goroutines+5 || after.heap > before.heap+before.heap/10+1<<20 {
			t.Errorf("%d goroutines and %d bytes of heap, then %d and %d", before.goroutines, before.heap, after.goroutines, after.heap)
		}
	})
}

// usage is what a grid holds.
type usage struct{ entries, bytes, heap, goroutines int }
