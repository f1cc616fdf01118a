package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// rewrite changes fields of the stored state of a job behind the engine's back.
func (c *cluster) rewrite(ctx context.Context, id string, change func(map[string]any)) {
	c.t.Helper()
	c.rules.Off()
	key := engine.Key{Map: engine.MapRunningJobState, Place: id, Key: id}
	for {
		e, err := c.Store.Get(ctx, key)
		if err != nil {
			c.t.Fatal(err)
		}
		st := map[string]any{}
		if err := msgpack.Unmarshal(e.Value, &st); err != nil {
			c.t.Fatal(err)
		}
		change(st)
		b, err := msgpack.Marshal(st)
		if err != nil {
			c.t.Fatal(err)
		}
		res, err := c.Store.Txn(ctx, engine.Txn{If: []engine.Cond{{Key: key, Version: e.Version}}, Put: []engine.Put{{Key: key, Value: b}}})
		if err != nil {
			c.t.Fatal(err)
		}
		if res.Applied {
			return
		}
	}
}

// until waits until cond holds.
func (c *cluster) until(what string, limit time.Duration, cond func() bool) time.Duration {
	c.t.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if cond() {
			return time.Since(start)
		}
		if time.Since(start) > limit {
			c.t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// Tasks that still run for a job that has ended are stopped, by the cleanup where it reaches them, else by their worker itself.
// It is ZJ of zetaRows.
func TestStrayTasksAreStopped(t *testing.T) {
	for name, test := range map[string]struct {
		end    func(ctx context.Context, c *cluster)
		within time.Duration
	}{
		"of a terminal job": {func(ctx context.Context, c *cluster) {
			c.rewrite(ctx, "50", func(st map[string]any) { st["Status"] = string(engine.JobFailed) })
		}, 12 * time.Second},
		"of a job that is gone": {func(ctx context.Context, c *cluster) {
			c.remove(ctx, "50", liveMaps...)
		}, 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
				c.submit(ctx, "50", enginetest.Spec{Mode: plugin.Streaming, Parallelism: 3, Rows: 5})
				c.waitFor(ctx, "50", engine.JobRunning)
				c.until("three tasks work", time.Minute, func() bool { return c.Output.Working("50") == 3 })
				test.end(ctx, c)
				c.until("no task works", test.within, func() bool { return c.Output.Working("50") == 0 })
				c.wantEmpty(ctx, 2*time.Minute)
			})
		})
	}
}

// I17: while a cleanup fails it is listed with its stage, its failures and its next try; nothing else waits for it, and in the end all is gone.
func TestFailingCleanupIsVisible(t *testing.T) {
	onGrid(t, enginetest.Options{Tune: func(cfg *engine.Config) { cfg.StateCleanupDelay = 20 * time.Second }}, func(ctx context.Context, c *cluster) {
		cleanup := func() engine.CleanupView {
			views := try(ctx, c, func(s *engine.Service) ([]engine.CleanupView, error) { return s.Cleanups(ctx) })
			for _, v := range views {
				if v.JobID == "51" {
					return v
				}
			}
			return engine.CleanupView{}
		}
		c.Output.FailCleanups(1 << 30)
		c.submit(ctx, "51", enginetest.Spec{Rows: 5})
		c.waitFor(ctx, "51", engine.JobFinished)
		for n := 1; n <= 4; n++ {
			c.until("the cleanup has failed again", 2*time.Minute, func() bool { return cleanup().Attempts >= n })
			v := cleanup()
			if v.Stage != engine.CleanupArtefacts || v.LastError == "" || !v.NextTry.After(time.Now()) || v.Status != engine.JobFinished {
				t.Errorf("after %d failures: %+v", n, v)
			}
		}
		c.Depose() // the record owns the cleanup, not the master
		if v := cleanup(); v.Attempts < 4 {
			t.Errorf("another master has forgotten the failures: %+v", v)
		}
		c.Output.FailCleanups(0)
		c.wantEmpty(ctx, 3*time.Minute)
		if v := c.info(ctx, "51"); v.Status != engine.JobFinished {
			t.Errorf("after all, the job is %s", v.Status)
		}
	})
}
