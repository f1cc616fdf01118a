package engine_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// Z4: four pipelines on two workers with eight slots each, and one worker dies: what still fits starts again at once, the rest waits for slots without using up
// restarts, and runs when a worker comes. So it is when the master dies as well.
func TestZetaManyPipelinesWaitForSlots(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"worker", "master"} {
		t.Run(who, func(t *testing.T) {
			opts := fixed(8, engine.ScheduleWait)
			opts.Members = 2
			onGrid(t, opts, func(ctx context.Context, c *cluster) {
				spec := enginetest.Spec{Mode: plugin.Streaming, Pipelines: 4, Parallelism: 3, Rows: 40, Pause: 20 * ms, Retries: 1, RetryAfter: 20 * ms, Interval: 50 * ms}
				c.submit(ctx, "60", spec)
				c.waitFor(ctx, "60", engine.JobRunning)
				dies := c.Master()
				for _, m := range c.Workers() {
					if who == "worker" && m != c.Master() {
						dies = m
					}
				}
				c.Kill(dies)
				running := func(n int) func() bool {
					return func() bool {
						got := 0
						for _, task := range c.info(ctx, "60").Tasks {
							if task.Status == engine.TaskRunning {
								got++
							}
						}
						return got == n
					}
				}
				c.until("eight tasks run", 10*time.Second, running(8))
				time.Sleep(30 * time.Second)
				if v := c.info(ctx, "60"); v.Status != engine.JobRunning || v.Restarts > 4 || v.PendingFor == "" {
					t.Errorf("the job is %s after %d restarts, waits for %q", v.Status, v.Restarts, v.PendingFor)
				}
				c.Join()
				c.until("all tasks run", 10*time.Second, running(12))
				c.awaitRows(ctx, "60", spec.Want())
			})
		})
	}
}

// Z5: a job that waits for slots is found waiting by each new master, stays so, and runs, once, as soon as a worker has joined.
func TestZetaPendingJobThroughFailover(t *testing.T) {
	onGrid(t, fixed(2, engine.ScheduleWait), func(ctx context.Context, c *cluster) {
		c.submit(ctx, "1", holder(6))
		c.waitFor(ctx, "1", engine.JobRunning)
		c.submit(ctx, "2", holder(2))
		c.waitFor(ctx, "2", engine.JobPending)
		c.Depose()
		for range 20 {
			time.Sleep(500 * time.Millisecond)
			if v := c.info(ctx, "2"); v.Status != engine.JobPending {
				t.Fatalf("the job that waits is %s", v.Status)
			}
		}
		c.Kill(c.Master()) // with it go two slots: now both jobs want some
		c.until("the death is noticed", 10*time.Second, func() bool { return len(c.Workers()) == 2 })
		time.Sleep(10 * time.Second)
		if v := c.info(ctx, "2"); v.Status != engine.JobPending {
			t.Errorf("the job that waits is %s", v.Status)
		}
		c.Join() // for what has run before
		c.until("the first job is whole again", 10*time.Second, func() bool { return c.overview(ctx).FreeSlots == 0 })
		if v := c.info(ctx, "2"); v.Status != engine.JobPending {
			t.Errorf("the job that waits is %s", v.Status)
		}
		c.Join()
		c.waitFor(ctx, "2", engine.JobRunning)
		if o := c.overview(ctx); o.Pending != 0 || o.Running != 2 || c.Output.Attempts("2") != 2 {
			t.Errorf("%+v, %d attempts", o, c.Output.Attempts("2"))
		}
	})
}

// Z8: six masters die one after the other, each as soon as it leads, and are replaced: the last one serves jobs, and those that ran have not begun anew.
func TestZetaMastersDieWithoutRest(t *testing.T) {
	onGrid(t, enginetest.Options{Members: 4}, func(ctx context.Context, c *cluster) {
		spec := flow(plugin.Streaming)
		spec.Rows, spec.Retries = 200, 20
		c.submit(ctx, "61", spec)
		c.waitFor(ctx, "61", engine.JobRunning)
		for range 6 {
			c.until("there is a master", 10*time.Second, func() bool { return c.Master() != "" })
			c.Kill(c.Master())
			c.Join()
		}
		batch := enginetest.Spec{Rows: 20}
		c.submit(ctx, "62", batch)
		c.waitFor(ctx, "62", engine.JobFinished)
		c.wantRows("62", batch.Want())
		c.awaitRows(ctx, "61", spec.Want())
	})
}

// Z10: thirty streams, and the master dies: all run again within bounded time, with a bounded number of goroutines, and only tasks of the dead member start anew.
func TestZetaManyJobsTakenOver(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		spec := enginetest.Spec{Mode: plugin.Streaming, Parallelism: 2, Rows: 30, Pause: 10 * ms, Retries: 3, RetryAfter: 20 * ms, Interval: 500 * ms}
		ids := make([]string, 30)
		for i := range ids {
			ids[i] = string(rune('1'+i/10)) + string(rune('0'+i%10))
			c.submit(ctx, ids[i], spec)
		}
		for _, id := range ids {
			c.waitFor(ctx, id, engine.JobRunning)
		}
		dead := c.Master()
		lost := map[string]int{}
		for _, id := range ids {
			for _, task := range c.info(ctx, id).Tasks {
				if task.Member == dead {
					lost[id]++
				}
			}
		}
		c.Kill(dead)
		most := 0
		c.until("all run again", 30*time.Second, func() bool {
			most = max(most, runtime.NumGoroutine())
			for _, id := range ids {
				for _, task := range c.info(ctx, id).Tasks {
					if task.Status != engine.TaskRunning || task.Member == dead {
						return false
					}
				}
			}
			return true
		})
		for _, id := range ids {
			if v := c.info(ctx, id); v.Status != engine.JobRunning || v.Restarts != min(lost[id], 1) {
				t.Errorf("job %s is %s after %d restarts, with %d tasks lost", id, v.Status, v.Restarts, lost[id])
			}
			c.awaitRows(ctx, id, spec.Want())
		}
		if most > 1000 {
			t.Errorf("%d goroutines", most)
		}
	})
}

// ZC: the same job id inside the cleanup window, plainly and with a savepoint, before and after a change of masters. Plainly it is refused for the time being;
// from the savepoint the job starts, after its cleanup, once, and a second such start meets the job that runs.
func TestZetaSameIDInsideTheWindow(t *testing.T) {
	for _, changed := range []bool{false, true} {
		onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
			spec := flow(plugin.Streaming)
			c.submit(ctx, "41", spec)
			time.Sleep(60 * time.Millisecond)
			c.savepoint(ctx, "41")
			first := c.waitFor(ctx, "41", engine.JobSavepointDone).Incarnation
			if changed {
				c.Kill(c.Master())
			}
			plain := func(when string) {
				t.Helper()
				for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
					_, err := c.Any().Submit(ctx, engine.SubmitRequest{JobID: "41", Config: spec.JSON()})
					if errors.Is(err, engine.ErrConflict) {
						return
					}
					if err == nil || !errors.Is(err, engine.ErrRetryable) && !errors.Is(err, engine.ErrIndeterminate) || time.Now().After(deadline) {
						t.Fatalf("%s a plain submit: %v", when, err)
					}
				}
			}
			plain("inside the window")
			c.resume(ctx, "41", spec)
			second := c.info(ctx, "41").Incarnation
			c.resume(ctx, "41", spec)
			if third := c.info(ctx, "41").Incarnation; second == first || third != second {
				t.Errorf("incarnations %s, %s and %s", first, second, third)
			}
			c.awaitRows(ctx, "41", spec.Want())
			c.stop(ctx, "41")
			c.waitFor(ctx, "41", engine.JobCanceled)
			c.wantEmpty(ctx, 3*time.Minute)
			plain("after the cleanup")
		})
	}
}
