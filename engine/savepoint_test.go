package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// savepoint stops a job with a savepoint, as soon as it lets itself be.
func (c *cluster) savepoint(ctx context.Context, id string) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err := c.Any().Stop(ctx, engine.StopRequest{JobID: id, Savepoint: true})
		if err == nil || errors.Is(err, engine.ErrConflict) && c.info(ctx, id).Status == engine.JobSavepointDone { // an earlier try was done
			return
		}
		if _, later := errors.AsType[*engine.RetryAfterError](err); !later && !errors.Is(err, engine.ErrRetryable) && !errors.Is(err, engine.ErrIndeterminate) || time.Now().After(deadline) {
			c.t.Fatalf("stop with savepoint: %v", err)
		}
	}
}

// resume starts an ended job again from its savepoint.
func (c *cluster) resume(ctx context.Context, id string, s enginetest.Spec) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := c.Any().Submit(ctx, engine.SubmitRequest{JobID: id, Config: s.JSON(), StartWithSavepoint: true})
		if err == nil {
			return
		}
		if _, later := errors.AsType[*engine.RetryAfterError](err); !later && !errors.Is(err, engine.ErrRetryable) && !errors.Is(err, engine.ErrIndeterminate) || time.Now().After(deadline) {
			c.t.Fatalf("start with savepoint: %v", err)
		}
	}
}

// A job is stopped with a savepoint and started again, several times, with whatever parallelism: each row comes once.
// It is Z15 of zetaRows.
func TestSavepoint_StopAndStart(t *testing.T) {
	for _, mode := range []plugin.Mode{plugin.Streaming, plugin.Batch} {
		for _, interval := range []enginetest.Duration{0, 20 * ms} {
			for name, parallelism := range map[string][]int{"same": {3, 3, 3}, "up": {2, 3, 5}, "down": {4, 3, 1}} {
				t.Run(fmt.Sprintf("%s/%v/%s", mode, time.Duration(interval), name), func(t *testing.T) {
					onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
						spec := flow(mode)
						spec.Interval, spec.Pipelines = interval, 2
						spec.Parallelism = parallelism[0]
						want := spec.Want()
						c.submit(ctx, "41", spec)
						before := ""
						for i := range 2 {
							time.Sleep(60 * time.Millisecond)
							c.savepoint(ctx, "41")
							v := c.waitFor(ctx, "41", engine.JobSavepointDone)
							if o := c.overview(ctx); o.SavepointDone != 1 || o.Running+o.Pending > 0 {
								t.Errorf("overview = %+v", o)
							}
							if v.Incarnation == before {
								t.Error("the incarnation is the old one")
							}
							before = v.Incarnation
							if n, twice := c.Output.Rows("41"); n == 0 || n >= want || twice {
								t.Errorf("at savepoint %d %d rows of %d are visible, twice %v", i, n, want, twice)
							}
							spec.Parallelism = parallelism[i+1]
							c.resume(ctx, "41", spec)
						}
						if mode == plugin.Batch {
							c.waitFor(ctx, "41", engine.JobFinished)
						} else if interval > 0 {
							c.awaitRows(ctx, "41", want)
							c.stop(ctx, "41")
							c.waitFor(ctx, "41", engine.JobCanceled)
						} else {
							time.Sleep(time.Minute)
							c.savepoint(ctx, "41")
							c.waitFor(ctx, "41", engine.JobSavepointDone)
						}
						c.wantRows("41", want)
						c.wantEmpty(ctx, 2*time.Minute)
						if v := c.info(ctx, "41"); v.Status != engine.JobSavepointDone {
							c.wantNoCheckpoints(ctx)
						}
					})
				})
			}
		}
	}
}

// Whoever dies while a job is being stopped with a savepoint: it comes to SAVEPOINT_DONE, and no row is lost or doubled by the start after it.
func TestSavepoint_DeathAtEveryMoment(t *testing.T) {
	t.Parallel()
	four := func() enginetest.Options { return enginetest.Options{Members: 4} }
	for _, who := range []string{"master", "worker", "both"} {
		t.Run(who, func(t *testing.T) {
			sweep(t, 2*time.Millisecond, 30*time.Millisecond, four, func(ctx context.Context, c *cluster, at time.Duration) {
				spec := flow(plugin.Streaming)
				c.submit(ctx, "41", spec)
				c.waitFor(ctx, "41", engine.JobRunning)
				time.Sleep(60 * time.Millisecond)
				master, worker := c.Master(), c.Workers()[0]
				time.AfterFunc(at, func() {
					if who != "worker" {
						c.Kill(master)
					}
					if who != "master" {
						c.Kill(worker)
					}
				})
				c.savepoint(ctx, "41")
				v := c.waitFor(ctx, "41", engine.JobSavepointDone)
				if v.Restarts > 1 {
					t.Errorf("%d restarts", v.Restarts)
				}
				c.resume(ctx, "41", spec)
				c.awaitRows(ctx, "41", spec.Want())
			})
		})
	}
}

// A job that failed goes on from its last checkpoint when it is started again.
func TestSavepoint_StartAfterFailure(t *testing.T) {
	onGrid(t, enginetest.Options{Tune: func(cfg *engine.Config) { cfg.Checkpoint.MaxRetained = 2 }}, func(ctx context.Context, c *cluster) {
		spec := flow(plugin.Streaming)
		spec.FailAt, spec.FailAttempts, spec.Permanent = 25, 1, true
		c.submit(ctx, "41", spec)
		c.waitFor(ctx, "41", engine.JobFailed)
		c.wantEmpty(ctx, 2*time.Minute)
		if n, _ := c.Store.Size(ctx, engine.MapCheckpointData); n < 1 || n > 2 {
			t.Errorf("%d checkpoints are kept of a failed job, want at most 2", n)
		}
		if n, _ := c.Output.Rows("41"); n == 0 {
			t.Error("nothing had been committed, so the test shows nothing")
		}
		spec.FailAt = 0
		c.resume(ctx, "41", spec)
		c.awaitRows(ctx, "41", spec.Want())
	})
}

// C033, and what else cannot be: refused, with the option named.
func TestSavepoint_Refusals(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		spec := flow(plugin.Streaming)
		refused := func(what string, err error, kind error, words ...string) {
			t.Helper()
			if !errors.Is(err, kind) {
				t.Errorf("%s: %v, want %v", what, err, kind)
				return
			}
			for _, w := range words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%s: %q has no %q", what, err, w)
				}
			}
		}
		submit := func(id string, s enginetest.Spec) error {
			_, err := c.Any().Submit(ctx, engine.SubmitRequest{JobID: id, Config: s.JSON(), StartWithSavepoint: true})
			return err
		}
		refused("no id", submit("", spec), engine.ErrInvalid, "jobId")
		refused("no such job", submit("7", spec), engine.ErrInvalid, "savepoint of job 7", "isStartWithSavePoint")
		refused("stop of no job", c.Any().Stop(ctx, engine.StopRequest{JobID: "7", Savepoint: true}), engine.ErrNotFound)

		c.submit(ctx, "8", enginetest.Spec{Rows: 3})
		c.waitFor(ctx, "8", engine.JobFinished)
		refused("stop of an ended job", c.Any().Stop(ctx, engine.StopRequest{JobID: "8", Savepoint: true}), engine.ErrConflict, "FINISHED")
		refused("start of a finished job", submit("8", spec), engine.ErrInvalid, "savepoint of job 8")

		c.submit(ctx, "41", spec)
		time.Sleep(50 * time.Millisecond)
		c.savepoint(ctx, "41")
		c.waitFor(ctx, "41", engine.JobSavepointDone)
		_, err := c.Any().Submit(ctx, engine.SubmitRequest{JobID: "41", Config: spec.JSON()})
		refused("plain start of the same id", err, engine.ErrConflict)
		if err := c.Any().Stop(ctx, engine.StopRequest{JobID: "41", Savepoint: true}); err != nil {
			t.Errorf("the same stop once more: %v", err)
		}
		refused("another stop", c.Any().Stop(ctx, engine.StopRequest{JobID: "41"}), engine.ErrConflict, "SAVEPOINT_DONE")
		other := spec
		other.Kind = "Other"
		refused("other source", submit("41", other), engine.ErrInvalid, "source 0", "Sequence")
		other = spec
		other.Rows = -1
		refused("bad config", submit("41", other), engine.ErrInvalid, "rows")
		if got := try(ctx, c, func(s *engine.Service) (engine.JobSavepoints, error) { return s.Savepoints(ctx, "8") }); got.Status != engine.JobFinished || len(got.Savepoints) > 0 {
			t.Errorf("savepoints of a finished job: %+v", got)
		}
		c.resume(ctx, "41", spec)
		c.waitFor(ctx, "41", engine.JobRunning)
		c.stop(ctx, "41")
		err = c.Any().Stop(ctx, engine.StopRequest{JobID: "41", Savepoint: true})
		refused("savepoint of a job that is being canceled", err, engine.ErrConflict, "41")
		c.waitFor(ctx, "41", engine.JobCanceled)
	})
}

// A pipeline that the config has got since the savepoint begins at its start, and that is said. One that it has no more is an error.
func TestSavepoint_OtherPipelines(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		spec := flow(plugin.Streaming)
		c.submit(ctx, "41", spec)
		time.Sleep(50 * time.Millisecond)
		c.savepoint(ctx, "41")
		c.waitFor(ctx, "41", engine.JobSavepointDone)
		start := func(pipelines int) (engine.SubmitResult, error) {
			spec.Pipelines = pipelines
			return c.Any().Submit(ctx, engine.SubmitRequest{JobID: "41", Config: spec.JSON(), StartWithSavepoint: true})
		}
		if res, err := start(2); err != nil || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "pipeline 2") {
			t.Fatalf("with another pipeline: %+v, %v; want a warning", res, err)
		}
		c.awaitRows(ctx, "41", spec.Want())
		c.savepoint(ctx, "41")
		c.waitFor(ctx, "41", engine.JobSavepointDone)
		if _, err := start(1); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "no pipeline 2") {
			t.Errorf("with a pipeline less: %v", err)
		}
		if res, err := start(2); err != nil || len(res.Warnings) > 0 {
			t.Errorf("as it was: %+v, %v", res, err)
		}
		c.stop(ctx, "41")
		c.waitFor(ctx, "41", engine.JobCanceled)
	})
}

// C021: a savepoint that does not come about ends in a defined state, within checkpoint.timeout.
func TestSavepoint_TakesTooLong(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		spec := flow(plugin.Streaming)
		spec.DeafAt, spec.Timeout, spec.Interval = 5, 2000*ms, 600_000*ms
		c.submit(ctx, "41", spec)
		c.waitFor(ctx, "41", engine.JobRunning)
		time.Sleep(500 * time.Millisecond)
		asked := time.Now()
		c.savepoint(ctx, "41")
		v := c.waitFor(ctx, "41", engine.JobFailed)
		if d := time.Since(asked); d > 5*time.Second || !strings.Contains(v.ErrorMsg, "savepoint") || !strings.Contains(v.ErrorMsg, "checkpoint.timeout") {
			t.Errorf("FAILED after %v: %s", d, v.ErrorMsg)
		}
	})
}

// A start from a savepoint needs as many slots as any other: what can never fit is refused, and the savepoint stays.
func TestSavepoint_TooLargeToStart(t *testing.T) {
	onGrid(t, fixed(1, engine.ScheduleWait), func(ctx context.Context, c *cluster) {
		spec := flow(plugin.Streaming)
		c.submit(ctx, "41", spec)
		c.waitFor(ctx, "41", engine.JobRunning)
		c.savepoint(ctx, "41")
		c.waitFor(ctx, "41", engine.JobSavepointDone)
		large := spec
		large.Parallelism = 4
		_, err := c.Any().Submit(ctx, engine.SubmitRequest{JobID: "41", Config: large.JSON(), StartWithSavepoint: true})
		if !errors.Is(err, engine.ErrConflict) || !strings.Contains(err.Error(), "4 task groups") {
			t.Errorf("start with more task groups than slots: %v", err)
		}
		c.resume(ctx, "41", spec)
		c.awaitRows(ctx, "41", spec.Want())
	})
}

// A member leaves around a stop with a savepoint: tasks that are being moved come to their new members all the same, and from then on none is moved.
// So it comes about also before the first checkpoint with another parallelism, when no task can be spared.
func TestSavepoint_MemberLeavesAtEveryMoment(t *testing.T) {
	slow := func() enginetest.Options { return enginetest.Options{Members: 4, Latency: 10 * time.Millisecond} }
	sweep(t, 5*time.Millisecond, 100*time.Millisecond, slow, func(ctx context.Context, c *cluster, at time.Duration) {
		spec := flow(plugin.Streaming)
		spec.Interval = 600_000 * ms
		c.submit(ctx, "41", spec)
		c.waitFor(ctx, "41", engine.JobRunning)
		time.Sleep(50 * time.Millisecond)
		c.savepoint(ctx, "41")
		c.waitFor(ctx, "41", engine.JobSavepointDone)
		more := spec
		more.Parallelism = 5
		c.resume(ctx, "41", more)
		c.waitFor(ctx, "41", engine.JobRunning)
		left := make(chan error, 1)
		time.AfterFunc(at, func() { left <- c.Leave(ctx, c.Workers()[0]) })
		time.Sleep(40 * time.Millisecond)
		c.savepoint(ctx, "41")
		if err := <-left; err != nil {
			t.Error(err)
		}
		if v := c.waitFor(ctx, "41", engine.JobSavepointDone); v.Restarts != 0 || v.FailureSum != 0 {
			t.Errorf("%d restarts, failures %+v", v.Restarts, v.Failures)
		}
		last := spec
		last.Interval = 20 * ms
		c.resume(ctx, "41", last)
		c.awaitRows(ctx, "41", spec.Want())
	})
}

// I24: what is kept of a job's checkpoints follows from its end and its options, also when its master dies at the end or nobody has noted that there
// is anything to clean up.
func TestSpecI24RetentionByStatus(t *testing.T) {
	for name, test := range map[string]struct {
		end    engine.JobStatus
		retain bool
		kept   bool
	}{
		"finished": {engine.JobFinished, true, false}, "failed": {engine.JobFailed, false, true},
		"canceled": {engine.JobCanceled, false, false}, "canceled, to be kept": {engine.JobCanceled, true, true},
		"savepoint": {engine.JobSavepointDone, false, true},
	} {
		for _, cleaner := range []string{"the same master", "the next master", "the finder of a job without a record"} {
			t.Run(name+"/"+cleaner, func(t *testing.T) {
				onGrid(t, enginetest.Options{Members: 4}, func(ctx context.Context, c *cluster) { c.retention(ctx, test.end, test.retain, test.kept, cleaner) })
			})
		}
	}
}

func (c *cluster) retention(ctx context.Context, end engine.JobStatus, retain, kept bool, cleaner string) {
	spec := flow(plugin.Streaming)
	spec.Retain = retain
	switch end {
	case engine.JobFinished:
		spec.Mode = plugin.Batch
	case engine.JobFailed:
		spec.FailAt, spec.FailAttempts, spec.Permanent = 25, 1, true
	}
	c.submit(ctx, "41", spec)
	switch end {
	case engine.JobCanceled:
		time.Sleep(100 * time.Millisecond)
		c.stop(ctx, "41")
	case engine.JobSavepointDone:
		time.Sleep(100 * time.Millisecond)
		c.savepoint(ctx, "41")
	}
	c.waitFor(ctx, "41", end)
	switch cleaner {
	case "the next master":
		c.Kill(c.Master())
	case "the finder of a job without a record":
		c.remove(ctx, "41", engine.MapPendingJobCleanup, engine.MapFinishedJobState)
		c.Kill(c.Master())
	}
	c.wantEmpty(ctx, 3*time.Minute)
	if v := c.info(ctx, "41"); v.Status != end {
		c.t.Errorf("the job is %s", v.Status)
	}
	if !kept {
		c.wantNoCheckpoints(ctx)
		return
	}
	spec.FailAt = 0
	c.resume(ctx, "41", spec)
	c.awaitRows(ctx, "41", spec.Want())
}
