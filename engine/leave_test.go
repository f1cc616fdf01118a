package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// A member that leaves has its tasks started elsewhere before it goes. That costs no restart, so a job without retries lives through it, at
// whatever moment it comes, and whether or not the member is master.
func TestMemberLeavesAtEveryMoment(t *testing.T) {
	for _, master := range []bool{false, true} {
		sweep(t, 11*time.Millisecond, 143*time.Millisecond, plain, func(ctx context.Context, c *cluster, at time.Duration) {
			spec := sweepSpec
			spec.Retries, spec.Local = 0, false
			leaver := c.Workers()[0]
			if master {
				leaver = c.Master()
			}
			c.submit(ctx, "80", spec)
			time.Sleep(at)
			began := time.Now()
			if err := c.Leave(ctx, leaver); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("the member left after %v", took)
			}
			v := c.waitFor(ctx, "80", engine.JobFinished)
			if v.Restarts != 0 || v.FailureSum != 0 {
				t.Errorf("%d restarts, failures %+v", v.Restarts, v.Failures)
			}
			c.wantRows("80", spec.Want())
			c.wantEmpty(ctx, 2*time.Minute)
		})
	}
}

// While a task is moved there is never a second one beside it: it starts elsewhere when it has ended here.
func TestMovedTaskNeverRunsTwice(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "81", enginetest.Spec{Mode: plugin.Streaming, Parallelism: 3, Rows: 1000, Pause: 10 * ms, ClosePause: 3 * second})
		c.waitFor(ctx, "81", engine.JobRunning)
		c.until("three tasks work", time.Minute, func() bool { return c.Output.Working("81") == 3 })
		leaver := c.Workers()[0]
		var wg sync.WaitGroup
		began := time.Now()
		wg.Go(func() {
			if err := c.Leave(ctx, leaver); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took < 3*time.Second || took > 4*time.Second {
				t.Errorf("the member left after %v, its task needs 3s to end", took)
			}
		})
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if n := c.Output.Working("81"); n > 3 {
				t.Fatalf("%d tasks work", n)
			}
		}
		wg.Wait()
		v := c.info(ctx, "81")
		attempts := 0
		for _, task := range v.Tasks {
			attempts += task.Attempt
			if task.Member == leaver || task.Status != engine.TaskRunning {
				t.Errorf("task %+v", task)
			}
		}
		if attempts != 4 || v.Restarts != 0 {
			t.Errorf("%d attempts, %d restarts", attempts, v.Restarts)
		}
		c.stop(ctx, "81")
		c.waitFor(ctx, "81", engine.JobCanceled)
	})
}

// All members but a new one leave at once: it gets all tasks. If nobody stays, nobody waits.
func TestTasksWithNowhereToGo(t *testing.T) {
	onGrid(t, enginetest.Options{Members: 2}, func(ctx context.Context, c *cluster) {
		spec := enginetest.Spec{Parallelism: 2, Rows: 100, Pause: 20 * ms}
		c.submit(ctx, "82", spec)
		c.waitFor(ctx, "82", engine.JobRunning)
		c.Join() // the only one that stays
		var wg sync.WaitGroup
		for _, id := range []string{"m1", "m2"} {
			wg.Go(func() {
				if err := c.Leave(ctx, id); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if v := c.waitFor(ctx, "82", engine.JobFinished); v.Restarts != 0 {
			t.Errorf("%d restarts", v.Restarts)
		}
		c.wantRows("82", spec.Want())
	})
	onGrid(t, enginetest.Options{Members: 2}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "83", enginetest.Spec{Mode: plugin.Streaming, Parallelism: 4, Rows: 5})
		c.waitFor(ctx, "83", engine.JobRunning)
		began := time.Now()
		var wg sync.WaitGroup
		for _, id := range []string{"m1", "m2"} {
			wg.Go(func() {
				if err := c.Leave(ctx, id); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the last members left after %v", took)
		}
	})
}

// What happens to a job while its tasks are moved counts as it always does.
func TestMoveMeetsOtherEvents(t *testing.T) {
	spec := enginetest.Spec{Mode: plugin.Streaming, Parallelism: 4, Rows: 1000, Pause: 10 * ms, ClosePause: 2 * second}
	for name, test := range map[string]struct {
		meet func(ctx context.Context, c *cluster, leaver string)
		end  engine.JobStatus
	}{
		"the leaver dies":    {func(_ context.Context, c *cluster, leaver string) { c.Kill(leaver) }, engine.JobRunning},
		"the master changes": {func(_ context.Context, c *cluster, _ string) { c.Depose() }, engine.JobRunning},
		"the job is stopped": {func(ctx context.Context, c *cluster, _ string) { c.stop(ctx, "84") }, engine.JobCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			onGrid(t, enginetest.Options{Members: 4}, func(ctx context.Context, c *cluster) {
				c.submit(ctx, "84", spec)
				c.waitFor(ctx, "84", engine.JobRunning)
				leaver := c.Workers()[0]
				leaving, cancel := context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() { _ = c.Leave(leaving, leaver) })
				time.Sleep(100 * time.Millisecond)
				test.meet(ctx, c, leaver)
				if test.end == engine.JobRunning {
					c.until("all tasks run elsewhere", 10*time.Second, func() bool {
						v := c.info(ctx, "84")
						for _, task := range v.Tasks {
							if task.Status != engine.TaskRunning || task.Member == leaver {
								return false
							}
						}
						return v.Restarts == 0 && v.Status == engine.JobRunning
					})
					c.stop(ctx, "84")
				}
				c.waitFor(ctx, "84", engine.JobCanceled)
				wg.Wait()
			})
		})
	}
}

// A task that fails by itself while it is to be moved has failed: that costs a restart.
func TestFailureDuringAMoveIsAFailure(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "85", enginetest.Spec{Parallelism: 3, Rows: 20, Pause: 20 * ms, FailAt: 10, FailAttempts: 1, Retries: 3})
		c.waitFor(ctx, "85", engine.JobRunning)
		time.Sleep(100 * time.Millisecond)
		if err := c.Leave(ctx, c.Workers()[0]); err != nil {
			t.Error(err)
		}
		v := c.waitFor(ctx, "85", engine.JobFinished)
		if v.Restarts == 0 || v.FailureSum != 2 {
			t.Errorf("%d restarts, want some: two tasks failed; failures %+v", v.Restarts, v.Failures)
		}
		c.wantRows("85", 60)
	})
}
