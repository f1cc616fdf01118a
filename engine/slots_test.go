package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

func fixed(n int, strategy engine.ScheduleStrategy) enginetest.Options {
	return enginetest.Options{Tune: func(cfg *engine.Config) {
		cfg.DynamicSlot, cfg.SlotNum, cfg.ScheduleStrategy = false, n, strategy
	}}
}

func holder(parallelism int) enginetest.Spec {
	return enginetest.Spec{Mode: plugin.Streaming, Parallelism: parallelism, Rows: 1, Retries: 9}
}

// C016 and head-of-line blocking: jobs wait for slots, one that cannot fit holds nobody up, and a waiting job can be stopped.
// It is Z6 of zetaRows.
func TestSlotsWait(t *testing.T) {
	onGrid(t, fixed(1, engine.ScheduleWait), func(ctx context.Context, c *cluster) {
		c.submit(ctx, "1", holder(2))
		c.waitFor(ctx, "1", engine.JobRunning)
		c.submit(ctx, "2", holder(3)) // does not fit as long as job 1 runs
		c.submit(ctx, "3", holder(2)) // does not fit now
		v := c.waitFor(ctx, "2", engine.JobPending)
		if !strings.Contains(v.PendingFor, "3 task groups") {
			t.Errorf("PendingFor = %q", v.PendingFor)
		}
		c.submit(ctx, "4", holder(1))
		c.waitFor(ctx, "4", engine.JobRunning)
		if o := c.overview(ctx); o.TotalSlots != 3 || o.FreeSlots != 0 || o.Pending != 2 || o.Running != 2 || o.Workers != 3 {
			t.Errorf("overview = %+v", o)
		}
		c.stop(ctx, "2")
		c.waitFor(ctx, "2", engine.JobCanceled)
		c.waitFor(ctx, "3", engine.JobPending)
		c.stop(ctx, "1")
		c.waitFor(ctx, "3", engine.JobRunning)
		if n := c.Output.Attempts("2"); n != 0 {
			t.Errorf("the job that was stopped while it waited had %d attempts", n)
		}
		spec := holder(4) // never fits
		_, err := c.Any().Submit(ctx, engine.SubmitRequest{JobID: "5", Config: spec.JSON()})
		if !errors.Is(err, engine.ErrConflict) || !strings.Contains(err.Error(), "4 task groups") || !strings.Contains(err.Error(), "3 slots in all") {
			t.Errorf("submit of a job that can never fit = %v", err)
		}
	})
}

// Slots are derived from the states, so that a new master neither leaks nor overbooks them.
func TestSlotsAfterFailover(t *testing.T) {
	onGrid(t, fixed(2, engine.ScheduleWait), func(ctx context.Context, c *cluster) {
		c.submit(ctx, "1", holder(4))
		c.waitFor(ctx, "1", engine.JobRunning)
		c.submit(ctx, "2", holder(3))
		c.waitFor(ctx, "2", engine.JobPending)
		for range 3 {
			c.Depose()
			time.Sleep(time.Second)
			if o := c.overview(ctx); o.TotalSlots != 6 || o.FreeSlots != 2 {
				t.Errorf("overview = %+v", o)
			}
			c.waitFor(ctx, "2", engine.JobPending)
		}
		c.stop(ctx, "1")
		c.waitFor(ctx, "2", engine.JobRunning)
		if o := c.overview(ctx); o.FreeSlots != 3 {
			t.Errorf("overview = %+v", o)
		}
	})
}

// With REJECT a job that does not fit fails, and the next one runs. It is Z17 of zetaRows.
func TestSlotsReject(t *testing.T) {
	onGrid(t, fixed(1, engine.ScheduleReject), func(ctx context.Context, c *cluster) {
		c.submit(ctx, "1", holder(4))
		if v := c.waitFor(ctx, "1", engine.JobFailed); !strings.Contains(v.ErrorMsg, "not enough free slots") {
			t.Errorf("cause = %q", v.ErrorMsg)
		}
		c.submit(ctx, "2", holder(3))
		c.waitFor(ctx, "2", engine.JobRunning)
	})
}

func TestWorkersShareTheLoad(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "1", holder(6))
		v := c.waitFor(ctx, "1", engine.JobRunning)
		load := map[string]int{}
		for _, task := range v.Tasks {
			load[task.Member]++
		}
		if len(load) != 3 || load["m1"] != 2 || load["m2"] != 2 {
			t.Errorf("load = %v", load)
		}
	})
}
