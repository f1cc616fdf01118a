package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// flow is a job with checkpoints whose source ends; a streaming job goes on after that.
func flow(mode plugin.Mode) enginetest.Spec {
	return enginetest.Spec{Mode: mode, Parallelism: 3, Rows: 30, Pause: 5 * ms, Retries: 9, RetryAfter: 20 * ms, Interval: 20 * ms}
}

// awaitRows waits until a job has put out that many rows, each once.
func (c *cluster) awaitRows(ctx context.Context, id string, want int) {
	c.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if n, twice := c.Output.Rows(id); n >= want || twice {
			break
		}
		if v := c.info(ctx, id); v.Status == engine.JobFailed {
			c.t.Fatalf("job %s failed: %s", id, v.ErrorMsg)
		}
	}
	c.wantRows(id, want)
}

func TestCheckpoint_StreamingPutsOutAsItGoes(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		spec := flow(plugin.Streaming)
		spec.Pipelines = 2
		c.submit(ctx, "40", spec)
		early := 0
		for early == 0 {
			time.Sleep(time.Millisecond)
			early, _ = c.Output.Rows("40")
		}
		if early == spec.Want() {
			t.Error("nothing was visible before everything was")
		}
		c.awaitRows(ctx, "40", spec.Want())
		if v := c.info(ctx, "40"); v.Status != engine.JobRunning || v.Restarts != 0 || v.Metrics.SinkRows > int64(spec.Want()) {
			t.Errorf("the job is %s after %d restarts with %d rows", v.Status, v.Restarts, v.Metrics.SinkRows)
		}
		time.Sleep(10 * time.Second)
		if n := c.Output.Marks("40"); n > 12 {
			t.Errorf("%d commits are remembered after hundreds of checkpoints", n)
		}
		if n, _ := c.Store.Size(ctx, engine.MapCheckpointData); n > 2*3 {
			t.Errorf("%d checkpoints are stored", n)
		}
		c.stop(ctx, "40")
		c.waitFor(ctx, "40", engine.JobCanceled)
		c.wantEmpty(ctx, 2*time.Minute)
		c.wantNoCheckpoints(ctx)
	})
}

// wantNoCheckpoints checks that no checkpoint of any job is left.
func (c *cluster) wantNoCheckpoints(ctx context.Context) {
	c.t.Helper()
	for _, m := range []string{engine.MapCheckpointData, engine.MapCheckpointID} {
		if n, _ := c.Store.Size(ctx, m); n > 0 {
			c.t.Errorf("%s has %d entries", m, n)
		}
	}
	if n := c.Output.Leftovers("40") + c.Output.Leftovers("41"); n > 0 {
		c.t.Errorf("%d prepared outputs are left", n)
	}
}

// C001, C003: whoever dies or leaves and whenever, each row is put out once, and no task begins from zero.
// It is Z14 of zetaRows.
func TestCheckpoint_DeathAtEveryMoment(t *testing.T) {
	t.Parallel()
	four := func() enginetest.Options { return enginetest.Options{Members: 4} }
	for _, mode := range []plugin.Mode{plugin.Streaming, plugin.Batch} {
		for _, who := range []string{"master", "worker", "both", "deposed", "leaver"} {
			t.Run(string(mode)+"/"+who, func(t *testing.T) {
				sweep(t, 13*time.Millisecond, 190*time.Millisecond, four, func(ctx context.Context, c *cluster, at time.Duration) {
					c.deathOf(ctx, who, at, flow(mode))
				})
			})
		}
	}
}

func (c *cluster) deathOf(ctx context.Context, who string, at time.Duration, spec enginetest.Spec) {
	master, worker := c.Master(), c.Workers()[0]
	time.AfterFunc(at, func() {
		if who == "master" || who == "both" {
			c.Kill(master)
		}
		if who == "worker" || who == "both" {
			c.Kill(worker)
		}
		if who == "deposed" {
			c.Depose()
		}
	})
	left := make(chan error, 1)
	if who == "leaver" {
		time.AfterFunc(at, func() { left <- c.Leave(ctx, worker) })
	} else {
		left <- nil
	}
	c.submit(ctx, "41", spec)
	c.awaitRows(ctx, "41", spec.Want())
	if spec.Mode == plugin.Batch {
		c.waitFor(ctx, "41", engine.JobFinished)
	} else {
		if v := c.info(ctx, "41"); v.Status.Final() || (who == "deposed" || who == "leaver") && v.Restarts > 0 {
			c.t.Errorf("the job is %s after %d restarts", v.Status, v.Restarts)
		}
		c.stop(ctx, "41")
		c.waitFor(ctx, "41", engine.JobCanceled)
	}
	if err := <-left; err != nil {
		c.t.Error(err)
	}
	c.wantRows("41", spec.Want())
	c.wantEmpty(ctx, 2*time.Minute)
	c.wantNoCheckpoints(ctx)
}

// A task that does not answer is stopped and starts again from the last checkpoint; without retries that fails the job.
func TestCheckpoint_TaskThatDoesNotAnswer(t *testing.T) {
	for _, retries := range []int{0, 3} {
		t.Run(fmt.Sprint(retries), func(t *testing.T) {
			onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
				spec := flow(plugin.Streaming)
				spec.DeafAt, spec.Timeout, spec.Retries = 12, 300*ms, retries
				c.submit(ctx, "41", spec)
				if retries > 0 {
					c.awaitRows(ctx, "41", spec.Want())
					if v := c.info(ctx, "41"); v.Restarts < 1 || v.Restarts > 3 {
						t.Errorf("%d restarts", v.Restarts)
					}
					return
				}
				v := c.waitFor(ctx, "41", engine.JobFailed)
				for _, want := range []string{"checkpoint.timeout", "task 1/1/", "job.retry.times is 0"} {
					if !strings.Contains(v.ErrorMsg, want) {
						t.Errorf("cause = %q, want %q in it", v.ErrorMsg, want)
					}
				}
			})
		})
	}
}
