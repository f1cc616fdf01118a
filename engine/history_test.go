package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// The view of a job tells of each attempt that failed: when, which, where and why. It does so also from the history.
// It is Z19 of zetaRows.
func TestFailuresAreKept(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "70", enginetest.Spec{Rows: 10, FailAt: 5, FailAttempts: 9, Retries: 2, RetryAfter: second})
		v := c.waitFor(ctx, "70", engine.JobFailed)
		check := func(v engine.JobView) {
			t.Helper()
			if v.FailureSum != 3 || len(v.Failures) != 3 || !strings.Contains(v.ErrorMsg, "row 5 cannot be read") || !strings.Contains(v.ErrorMsg, "attempt 3") {
				t.Fatalf("failures = %+v, cause %q", v.Failures, v.ErrorMsg)
			}
			for i, f := range v.Failures {
				if f.Attempt != i+1 || f.Member == "" || f.Pipeline != 1 || f.Source != 1 || !strings.Contains(f.Error, "row 5 cannot be read") {
					t.Errorf("failure %d = %+v", i, f)
				}
				if i > 0 && f.Time.Sub(v.Failures[i-1].Time) < time.Second {
					t.Errorf("failure %d came %v after the one before", i, f.Time.Sub(v.Failures[i-1].Time))
				}
			}
		}
		check(v)
		c.wantEmpty(ctx, 2*time.Minute)
		check(c.info(ctx, "70"))
		list := try(ctx, c, func(s *engine.Service) ([]engine.JobView, error) { return s.Finished(ctx, "") })
		if len(list) != 1 || list[0].FailureSum != 3 || list[0].Failures != nil || list[0].Times.Job != nil {
			t.Errorf("listed: %+v", list)
		}
	})
}

// When task groups entered their states is kept, in the history too.
func TestTimesAreKept(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "71", enginetest.Spec{Pipelines: 2, Parallelism: 2, Rows: 10, Pause: 20 * ms})
		c.waitFor(ctx, "71", engine.JobFinished)
		c.wantEmpty(ctx, 2*time.Minute)
		v := c.info(ctx, "71")
		at := v.Times.Job
		if !at[engine.JobCreated].Before(at[engine.JobRunning]) || !at[engine.JobRunning].Before(at[engine.JobFinished]) || !at[engine.JobFailed].IsZero() {
			t.Errorf("job: %v", at)
		}
		if !v.FinishTime.Equal(at[engine.JobFinished]) || len(v.Times.Pipelines) != 2 || len(v.Times.Tasks) != 4 {
			t.Errorf("finished at %v, %+v", v.FinishTime, v.Times)
		}
		for _, task := range v.Times.Tasks {
			s := task.States
			if s[engine.TaskDeploying].IsZero() || s[engine.TaskRunning].Before(s[engine.TaskDeploying]) ||
				s[engine.TaskFinished].Sub(s[engine.TaskRunning]) < 150*time.Millisecond || task.Attempt != 1 || task.Member == "" {
				t.Errorf("task %+v", task)
			}
		}
	})
}

// The wait before a restart is the job's, not the master's: another master waits for the rest of it only.
func TestRestartWaitSurvivesTheMaster(t *testing.T) {
	for name, change := range map[string]func(*cluster){
		"deposed":       (*cluster).Depose,
		"killed":        func(c *cluster) { c.Kill(c.Master()) },
		"killed twice":  func(c *cluster) { c.Kill(c.Master()); time.Sleep(2 * time.Second); c.Kill(c.Master()) },
		"not disturbed": func(*cluster) {},
	} {
		t.Run(name, func(t *testing.T) {
			onGrid(t, enginetest.Options{Members: 4}, func(ctx context.Context, c *cluster) {
				c.submit(ctx, "72", enginetest.Spec{Rows: 10, FailAt: 5, FailAttempts: 1, Retries: 1, RetryAfter: 30 * second})
				restarts72 := func() bool { return c.info(ctx, "72").Restarts == 1 }
				c.until("a restart waits", time.Minute, restarts72)
				time.Sleep(20 * time.Second)
				change(c)
				v := c.waitFor(ctx, "72", engine.JobFinished)
				if len(v.Failures) != 1 {
					t.Fatalf("failures = %+v", v.Failures)
				}
				if d := v.FinishTime.Sub(v.Failures[0].Time); d < 30*time.Second || d > 34*time.Second {
					t.Errorf("it ended %v after its failure, the wait is 30s", d)
				}
			})
		})
	}
}

// C051, I10: at each moment, each job that was accepted is in exactly one count, whatever becomes of it and of the masters.
// It is ZG of zetaRows.
func TestCountsAddUpAtEachMoment(t *testing.T) {
	opts := enginetest.Options{Members: 5, Tune: func(cfg *engine.Config) {
		cfg.StateCleanupDelay, cfg.DynamicSlot, cfg.SlotNum = 300*time.Millisecond, false, 3
	}}
	onGrid(t, opts, func(ctx context.Context, c *cluster) {
		var begun, accepted atomic.Int64
		var wg sync.WaitGroup
		const jobs = 60
		wg.Go(func() {
			for i := range jobs {
				spec := enginetest.Spec{Parallelism: 1 + i%4, Rows: 5, Pause: 10 * ms, Retries: 3, RetryAfter: 20 * ms}
				switch i % 5 {
				case 1:
					spec.FailAt, spec.FailAttempts = 2, 99
				case 2:
					spec.Mode = plugin.Streaming
				case 3:
					spec.FailAt, spec.FailAttempts = 2, 1
				}
				id := fmt.Sprint(1000 + i)
				begun.Add(1)
				c.submit(ctx, id, spec)
				accepted.Add(1)
				if i%5 == 2 {
					time.Sleep(30 * time.Millisecond)
					c.stop(ctx, id)
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
		wg.Go(func() {
			for range 3 {
				time.Sleep(400 * time.Millisecond)
				c.Depose()
			}
			c.Kill(c.Master())
		})
		for polls := 0; ; polls++ {
			low := accepted.Load()
			o, err := c.Any().Overview(ctx)
			high := begun.Load()
			if err != nil {
				if !errors.Is(err, engine.ErrRetryable) {
					t.Fatal(err)
				}
				continue
			}
			sum := o.Running + o.Pending + o.Finished + o.Failed + o.Canceled + o.SavepointDone
			if int64(sum) < low || int64(sum) > high || sum != o.Accepted() {
				t.Fatalf("poll %d: between %d and %d jobs were accepted, counted are %d: %+v", polls, low, high, sum, o)
			}
			if low == jobs && o.Running+o.Pending == 0 {
				if o.Finished != 36 || o.Failed != 12 || o.Canceled != 12 {
					t.Errorf("in the end: %+v", o)
				}
				break
			}
			time.Sleep(3 * time.Millisecond)
		}
		wg.Wait()
		c.wantEmpty(ctx, 2*time.Minute)
	})
}
