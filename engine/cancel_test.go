package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

const second = enginetest.Duration(time.Second)

// wantCanceled waits for the end and checks that it is CANCELED for good: nothing works any more, nothing was put out, nothing is left.
func (c *cluster) wantCanceled(ctx context.Context, id string, within time.Duration) engine.JobView {
	c.t.Helper()
	began := time.Now()
	v := c.waitFor(ctx, id, engine.JobCanceled)
	if took := time.Since(began); took > within {
		c.t.Errorf("job %s was canceled after %v, want within %v", id, took, within)
	}
	c.until("no task works", time.Second, func() bool { return c.Output.Working(id) == 0 })
	attempts := c.Output.Attempts(id)
	c.wantRows(id, 0)
	c.wantEmpty(ctx, 2*time.Minute)
	if v := c.info(ctx, id); v.Status != engine.JobCanceled || v.ErrorMsg != "" {
		c.t.Errorf("in the history job %s is %s (%q)", id, v.Status, v.ErrorMsg)
	}
	if n := c.Output.Attempts(id); n != attempts || c.Output.Leftovers(id) > 0 {
		c.t.Errorf("after the end: %d attempts more, %d leftovers", n-attempts, c.Output.Leftovers(id))
	}
	if o := c.overview(ctx); o.Canceled != 1 || o.Failed != 0 || o.TotalSlots-o.FreeSlots != 0 {
		c.t.Errorf("overview = %+v", o)
	}
	return v
}

// I25, C008, C012, C016: a stop is an intent that is kept, whatever the job is doing when it comes, and whether or not the master dies with it.
func TestCancelInEveryState(t *testing.T) {
	stream := enginetest.Spec{Mode: plugin.Streaming, Parallelism: 3, Rows: 5}
	change := func(f func(*enginetest.Spec)) enginetest.Spec { s := stream; f(&s); return s }
	for name, test := range map[string]struct {
		opts  enginetest.Options
		spec  enginetest.Spec
		until func(ctx context.Context, c *cluster) // what the job is to have come to
		limit time.Duration
	}{
		"created":   {enginetest.Options{}, stream, func(context.Context, *cluster) {}, 2 * time.Second},
		"opening":   {enginetest.Options{}, change(func(s *enginetest.Spec) { s.OpenPause = 60 * second }), working(3), 2 * time.Second},
		"running":   {enginetest.Options{}, stream, status(engine.JobRunning), 2 * time.Second},
		"restarted": {enginetest.Options{}, change(func(s *enginetest.Spec) { s.FailAt, s.FailAttempts, s.Retries = 2, 1, 3 }), restarts(1), 2 * time.Second},
		"between retries": {enginetest.Options{}, change(func(s *enginetest.Spec) {
			s.FailAt, s.FailAttempts, s.Retries, s.RetryAfter = 2, 9, 3, 600*second
		}), restarts(1), 2 * time.Second},
		"failing": {enginetest.Options{}, change(func(s *enginetest.Spec) {
			s.Pipelines, s.FailAt, s.FailAttempts, s.FailPipeline, s.ClosePause = 2, 2, 9, 1, second
		}), status(engine.JobFailing), 3 * time.Second},
		"all retries used up": {enginetest.Options{}, change(func(s *enginetest.Spec) {
			s.Pipelines, s.FailAt, s.FailAttempts, s.FailPipeline, s.ClosePause, s.Retries = 2, 2, 9, 1, second, 1
		}), status(engine.JobFailing), 3 * time.Second},
	} {
		for _, kill := range []bool{false, true} {
			how := map[bool]string{false: "", true: ", and the master dies"}[kill]
			t.Run(name+how, func(t *testing.T) {
				onGrid(t, test.opts, func(ctx context.Context, c *cluster) {
					c.submit(ctx, "60", test.spec)
					test.until(ctx, c)
					limit := test.limit
					c.stop(ctx, "60")
					if kill {
						c.Kill(c.Master())
						limit += 2 * time.Second
					}
					c.wantCanceled(ctx, "60", limit)
					c.stop(ctx, "60") // what is asked for is so
				})
			})
		}
	}
}

func status(s engine.JobStatus) func(context.Context, *cluster) {
	return func(ctx context.Context, c *cluster) { c.waitFor(ctx, "60", s) }
}

func working(n int) func(context.Context, *cluster) {
	return func(_ context.Context, c *cluster) {
		c.until("tasks work", time.Minute, func() bool { return c.Output.Working("60") == n })
	}
}

func restarts(n int) func(context.Context, *cluster) {
	return func(ctx context.Context, c *cluster) {
		c.until("the job was restarted", time.Minute, func() bool { return c.info(ctx, "60").Restarts >= n })
	}
}

// C016: a job that waits for slots is canceled at once, and the slots that it waited for go to the next.
func TestCancelPending(t *testing.T) {
	onGrid(t, fixed(1, engine.ScheduleWait), func(ctx context.Context, c *cluster) {
		c.submit(ctx, "1", holder(2))
		c.waitFor(ctx, "1", engine.JobRunning)
		c.submit(ctx, "60", holder(3))
		c.waitFor(ctx, "60", engine.JobPending)
		c.Depose()
		c.stop(ctx, "60")
		c.waitFor(ctx, "60", engine.JobCanceled)
		c.stop(ctx, "1")
		c.waitFor(ctx, "1", engine.JobCanceled)
		if n := c.Output.Attempts("60"); n != 0 {
			t.Errorf("%d attempts of a job that was canceled while it waited", n)
		}
		if o := c.overview(ctx); o.Canceled != 2 || o.TotalSlots != 3 || o.FreeSlots != 3 {
			t.Errorf("overview = %+v", o)
		}
		c.wantEmpty(ctx, 2*time.Minute)
	})
}

// A stop that meets an accepted job without a state has it repaired, and then canceled, whether or not the master dies.
func TestCancelWithoutAState(t *testing.T) {
	for _, kill := range []bool{false, true} {
		onGrid(t, fixed(1, engine.ScheduleWait), func(ctx context.Context, c *cluster) {
			c.submit(ctx, "1", holder(2))
			c.waitFor(ctx, "1", engine.JobRunning)
			c.submit(ctx, "60", holder(2))
			c.waitFor(ctx, "60", engine.JobPending)
			c.remove(ctx, "60", engine.MapRunningJobState, engine.MapStateTimestamps)
			began := time.Now()
			c.stop(ctx, "60")
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the stop was accepted after %v", took)
			}
			if kill {
				c.Kill(c.Master())
			}
			c.waitFor(ctx, "60", engine.JobCanceled)
			if n := c.Output.Attempts("60"); n != 0 {
				t.Errorf("%d attempts", n)
			}
			c.stop(ctx, "1")
			c.waitFor(ctx, "1", engine.JobCanceled)
			c.wantEmpty(ctx, 2*time.Minute)
		})
	}
}

// C006: the stop was accepted, and the master dies before any worker heard of it. The tasks that go on meanwhile are stopped by the next master.
func TestCancelIsCarriedOutByTheNextMaster(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
		onGrid(t, enginetest.Options{Members: 4}, func(ctx context.Context, c *cluster) {
			c.submit(ctx, "60", enginetest.Spec{Mode: plugin.Streaming, Parallelism: 4, Rows: 1000, Pause: 5 * ms})
			c.waitFor(ctx, "60", engine.JobRunning)
			master := c.Master()
			c.stop(ctx, "60")
			time.Sleep(delay)
			c.Kill(master)
			c.wantCanceled(ctx, "60", 5*time.Second)
		})
	}
}

// C007: a worker dies after the stop, before it has said that its task is canceled. The job is CANCELED, not FAILED.
// It is ZI of zetaRows.
func TestCancelAndTheWorkerDies(t *testing.T) {
	for _, both := range []bool{false, true} {
		onGrid(t, enginetest.Options{Members: 4}, func(ctx context.Context, c *cluster) {
			c.submit(ctx, "60", enginetest.Spec{Mode: plugin.Streaming, Parallelism: 4, Rows: 5, ClosePause: 10 * second})
			c.waitFor(ctx, "60", engine.JobRunning)
			c.stop(ctx, "60")
			if v := c.info(ctx, "60"); v.Status != engine.JobCanceling {
				t.Errorf("after the stop the job is %s", v.Status)
			}
			time.Sleep(100 * time.Millisecond)
			c.Kill(c.Workers()[0])
			if both {
				c.Kill(c.Master())
			}
			v := c.waitFor(ctx, "60", engine.JobCanceled)
			if took := v.FinishTime.Sub(v.StartTime); took > 15*time.Second {
				t.Errorf("the end took %v", took)
			}
			if o := c.overview(ctx); o.Canceled != 1 || o.Failed != 0 {
				t.Errorf("overview = %+v", o)
			}
			c.wantEmpty(ctx, 2*time.Minute)
		})
	}
}

// A stop whose answer was lost may be repeated, and finds its own work done.
func TestStopWhoseAnswerWasLost(t *testing.T) {
	var lost atomic.Int32
	opts := enginetest.Options{Call: func(from, to string) enginetest.Fault {
		if from == "m3" && lost.Add(-1) >= 0 {
			return enginetest.LostAfter
		}
		return enginetest.NoFault
	}}
	onGrid(t, opts, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "60", enginetest.Spec{Mode: plugin.Streaming, Parallelism: 2, Rows: 5})
		c.waitFor(ctx, "60", engine.JobRunning)
		lost.Store(2)
		if err := c.Service("m3").Stop(ctx, engine.StopRequest{JobID: "60"}); err != nil {
			t.Errorf("Stop = %v", err)
		}
		c.waitFor(ctx, "60", engine.JobCanceled)
		c.submit(ctx, "61", enginetest.Spec{Rows: 1})
		c.waitFor(ctx, "61", engine.JobFinished)
		if err := c.Service("m3").Stop(ctx, engine.StopRequest{JobID: "61"}); !errors.Is(err, engine.ErrConflict) || !strings.Contains(err.Error(), "FINISHED") {
			t.Errorf("Stop of a finished job = %v", err)
		}
	})
}
