package engine_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

var endurance = flag.Duration("endurance", 80*time.Second, "how long TestCheckpoint_ThousandsLeaveNothing lets its streams run, in fake time; the case has 30m, which takes minutes")

// C190: ten streams of 10 rows a second, with a checkpoint every 100 ms, each of which puts rows out. Nothing grows with the number of checkpoints: neither
// entries of the maps, nor their bytes, nor heap, nor goroutines; and each row comes once. With real processes and files it is e2e's TestC190.
func TestCheckpoint_ThousandsLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.rules.Off() // they remember what was stored
		var ids []string
		for i := range 10 {
			id := fmt.Sprint(41 + i)
			ids = append(ids, id)
			c.submit(ctx, id, enginetest.Spec{Mode: plugin.Streaming, Rows: 1 << 40, RowsPerSec: 10, Interval: 100 * ms, Scrap: true})
		}
		warm := max(*endurance/6, 40*time.Second) // until all rings are full
		time.Sleep(warm)
		before, n := heldBy(ctx, c), completed(ctx, c, ids)
		time.Sleep(*endurance - warm)
		after, more := heldBy(ctx, c), completed(ctx, c, ids)-n
		t.Logf("after %d checkpoints %+v, after %d more %+v", n, before, more, after)
		if want := int((*endurance - warm).Seconds()) * len(ids) * 8; more < want {
			t.Errorf("only %d checkpoints, want %d: the test shows little", more, want)
		}
		if after.entries != before.entries || after.bytes > before.bytes+before.bytes/10 {
			t.Errorf("the maps grew from %d entries with %d bytes to %d with %d", before.entries, before.bytes, after.entries, after.bytes)
		}
		if after.goroutines > before.goroutines+5 || after.heap > before.heap+before.heap/10+1<<18 {
			t.Errorf("%d goroutines and %d bytes of heap, then %d and %d", before.goroutines, before.heap, after.goroutines, after.heap)
		}
		for _, id := range ids {
			if rows := c.Output.Scrapped(id); rows < int(endurance.Seconds())*8 {
				t.Errorf("job %s has put out %d rows", id, rows)
			}
		}
	})
}

// usage is what a grid holds.
type usage struct{ entries, bytes, heap, goroutines int }

func heldBy(ctx context.Context, c *cluster) (use usage) {
	c.t.Helper()
	for _, m := range engine.MapNames() {
		err := c.Store.Scan(ctx, m, func(e engine.Entry) error {
			use.entries++
			use.bytes += len(e.Value)
			return nil
		})
		if err != nil {
			c.t.Fatal(err)
		}
	}
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	use.heap, use.goroutines = int(s.HeapAlloc), runtime.NumGoroutine()
	return use
}

// completed counts the checkpoints of these jobs.
func completed(ctx context.Context, c *cluster, ids []string) (n int) {
	c.t.Helper()
	for _, id := range ids {
		m := try(ctx, c, func(s *engine.Service) (engine.JobCheckpoints, error) { return s.Checkpoints(ctx, id) })
		n += m.Pipelines[0].Completed
	}
	return n
}
