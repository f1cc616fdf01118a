package engine_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// Whoever dies while a job is being stopped with a savepoint before its first checkpoint with another parallelism: the last checkpoint does not say where one
// task is, so the lost task starts once more and takes its share, and the savepoint comes about.
func TestSavepoint_DeathBeforeTheFirstCheckpointWithAnotherParallelism(t *testing.T) {
	four := func() enginetest.Options { return enginetest.Options{Members: 4, Latency: 3 * time.Millisecond} }
	for _, who := range []string{"master", "worker", "both"} {
		t.Run(who, func(t *testing.T) {
			sweep(t, 3*time.Millisecond, 45*time.Millisecond, four, func(ctx context.Context, c *cluster, at time.Duration) {
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
				time.Sleep(20 * time.Millisecond)
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
				if v := c.waitFor(ctx, "41", engine.JobSavepointDone); v.Restarts > 2 {
					t.Errorf("%d restarts", v.Restarts)
				}
				last := spec
				last.Interval = 20 * ms
				c.resume(ctx, "41", last)
				c.awaitRows(ctx, "41", spec.Want())
			})
		})
	}
}

// Whoever dies while a job is being stopped with a savepoint before its first checkpoint: the savepoint says of every task where it is, so the job goes on with
// any parallelism.
func TestSavepoint_DeathBeforeTheFirstCheckpoint(t *testing.T) {
	four := func() enginetest.Options { return enginetest.Options{Members: 4, Latency: 3 * time.Millisecond} }
	for _, who := range []string{"master", "worker"} {
		t.Run(who, func(t *testing.T) {
			sweep(t, 4*time.Millisecond, 40*time.Millisecond, four, func(ctx context.Context, c *cluster, at time.Duration) {
				spec := flow(plugin.Streaming)
				spec.Interval = 600_000 * ms
				c.submit(ctx, "41", spec)
				c.waitFor(ctx, "41", engine.JobRunning)
				time.Sleep(40 * time.Millisecond)
				victim := c.Workers()[0]
				if who == "master" {
					victim = c.Master()
				}
				time.AfterFunc(at, func() { c.Kill(victim) })
				c.savepoint(ctx, "41")
				c.waitFor(ctx, "41", engine.JobSavepointDone)
				spec.Parallelism, spec.Interval = 5, 20*ms
				c.resume(ctx, "41", spec)
				c.awaitRows(ctx, "41", 3*spec.Rows)
			})
		})
	}
}

// Savepoints that are removed are gone, in the grid and in the directory, and the job cannot be started from them. A job that lives keeps its checkpoints.
func TestSavepoint_Removed(t *testing.T) {
	for _, place := range []string{"grid", "directory"} {
		t.Run(place, func(t *testing.T) {
			dir, opts := t.TempDir(), enginetest.Options{}
			if place == "directory" {
				opts = withDir(t, dir, nil)
			}
			onGrid(t, opts, func(ctx context.Context, c *cluster) {
				drop := func() (int, error) { return c.Any().DropSavepoints(ctx, "41") }
				if _, err := drop(); !errors.Is(err, engine.ErrNotFound) {
					t.Errorf("of no job: %v", err)
				}
				spec := flow(plugin.Streaming)
				c.submit(ctx, "41", spec)
				time.Sleep(60 * time.Millisecond)
				if _, err := drop(); !errors.Is(err, engine.ErrConflict) {
					t.Errorf("of a live job: %v", err)
				}
				c.savepoint(ctx, "41")
				c.waitFor(ctx, "41", engine.JobSavepointDone)
				c.wantEmpty(ctx, 2*time.Minute)
				for _, want := range []int{1, 0} {
					if n, err := drop(); n != want || err != nil {
						t.Errorf("removed %d, %v, want %d", n, err, want)
					}
				}
				_, err := c.Any().Submit(ctx, engine.SubmitRequest{JobID: "41", Config: spec.JSON(), StartWithSavepoint: true})
				if !errors.Is(err, engine.ErrInvalid) {
					t.Errorf("a start from what was removed: %v", err)
				}
				c.wantNoneOf(ctx, []string{engine.MapCheckpointID, engine.MapCheckpointData})
				if left, _ := os.ReadDir(dir); len(left) > 0 {
					t.Errorf("left in the directory: %v", left)
				}
			})
		})
	}
}

// A removal and a start from the savepoint at once: the start is refused if nothing was left for it, and otherwise the job goes on, whatever is removed.
func TestSavepoint_RemovedWhileTheJobStarts(t *testing.T) {
	dirs := map[time.Duration]bool{} // which of the two came first
	for at := time.Duration(0); at <= 24*time.Millisecond; at += 2 * time.Millisecond {
		dir := t.TempDir()
		onGrid(t, withDir(t, dir, nil), func(ctx context.Context, c *cluster) {
			spec := flow(plugin.Streaming)
			c.submit(ctx, "41", spec)
			time.Sleep(60 * time.Millisecond)
			c.savepoint(ctx, "41")
			c.waitFor(ctx, "41", engine.JobSavepointDone)
			c.wantEmpty(ctx, 2*time.Minute)
			dropped := make(chan error, 1)
			time.AfterFunc(at, func() {
				_, err := c.Any().DropSavepoints(ctx, "41")
				dropped <- err
			})
			time.Sleep(10 * time.Millisecond)
			_, started := c.Any().Submit(ctx, engine.SubmitRequest{JobID: "41", Config: spec.JSON(), StartWithSavepoint: true})
			removed := <-dropped
			if started != nil && removed != nil {
				t.Fatalf("after %v: started: %v, removed: %v", at, started, removed)
			}
			dirs[at] = started == nil
			if started == nil {
				c.Kill(c.Master())
				c.awaitRows(ctx, "41", spec.Want())
			}
		})
	}
	first := map[bool]bool{}
	for _, b := range dirs {
		first[b] = true
	}
	if len(first) != 2 {
		t.Errorf("one of the two always came first: %v", dirs)
	}
}
