package gridtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine"
	"gridnode/node"
)

// streamingJob is sequenceJob as a streaming job with checkpoints.
func streamingJob(dir string, subtasks, rows, rate int) []byte {
	return []byte(strings.Replace(string(sequenceJob(dir, subtasks, rows, rate)), `"env":{`,
		`"env":{"job.mode":"STREAMING","checkpoint.interval":200,"job.retry.times":9,`, 1))
}

// visible counts the lines that are committed.
func visible(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "out", "*"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(b), "\n")
	}
	return n
}

// TestCheckpoint_CrashSweep kills the master, another member, or both, at every step of a streaming job's life: each row is put out once, the
// job still runs, and it never began from zero again. After a savepoint and a new start with another parallelism that is still so.
func TestCheckpoint_CrashSweep(t *testing.T) {
	step := 500 * time.Millisecond
	if testing.Short() {
		step = 900 * time.Millisecond
	}
	for _, who := range []string{"master", "member", "both"} {
		for at := 100 * time.Millisecond; at < 2000*time.Millisecond; at += step {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				members, backups := 3, 1
				if who == "both" {
					members, backups = 5, 2
				}
				c := Start(t, members, few, shortCleanup, func(cfg *node.Config) { cfg.BackupCount = backups })
				defer c.Stop()
				c.crashOne(dir, who, at)
			})
			if t.Failed() {
				t.Fatalf("crash of %s at %v", who, at)
			}
		}
	}
}

func (c *Cluster) crashOne(dir, who string, at time.Duration) {
	t := c.t.(*testing.T)
	var others []*Member
	for _, m := range c.Live() {
		if m != c.Master() {
			others = append(others, m)
		}
	}
	client, master, member := others[len(others)-1], c.Master(), others[0]
	const rows = 80
	id := submit(t, client, streamingJob(dir, 3, rows, 50))
	time.Sleep(at)
	if who != "member" {
		c.Crash(master)
	}
	if who != "master" {
		c.Crash(member)
	}
	c.Await(time.Minute, "all rows", func() bool { return visible(t, dir) >= 3*rows })
	exact(t, dir, 3*rows)
	v, ok := look(client, id)
	for !ok {
		v, ok = look(client, id)
	}
	if v.Status != engine.JobRunning || v.Metrics.SourceRows > 3*rows {
		t.Errorf("the job is %s (%s), with %d rows read", v.Status, v.ErrorMsg, v.Metrics.SourceRows)
	}
	c.stopWithSavepoint(client, id)
	if end := c.awaitEnd(id, time.Minute); end != engine.JobSavepointDone {
		t.Errorf("ended %s", end)
	}
	exact(t, dir, 3*rows)
}

// stopWithSavepoint asks until the answer is known.
func (c *Cluster) stopWithSavepoint(m *Member, id string) {
	c.t.Helper()
	c.Await(time.Minute, "the stop with a savepoint", func() bool {
		err := m.Jobs().Stop(context.Background(), engine.StopRequest{JobID: id, Savepoint: true})
		if v, ok := look(m, id); err != nil && ok && v.Status == engine.JobSavepointDone {
			return true
		}
		return err == nil
	})
}

// TestCheckpoint_SavepointOutlivesTheCluster stops a job with a savepoint, loses every member, and goes on in a new cluster with more subtasks, from
// the directory that both clusters used.
func TestCheckpoint_SavepointOutlivesTheCluster(t *testing.T) {
	dir := t.TempDir()
	stored := func(cfg *node.Config) {
		cfg.Engine.CheckpointStorage, cfg.Engine.CheckpointNamespace = node.StorageLocalFile, filepath.Join(dir, "checkpoints")
	}
	job := func(subtasks int) []byte {
		return []byte(strings.Replace(string(streamingJob(dir, subtasks, 60, 40)), `"mode":"sequence"`, `"mode":"sequence","split.num":6`, 1))
	}
	id := ""
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, shortCleanup, stored)
		defer c.Stop()
		id = submit(t, c.Live()[0], job(2))
		c.Await(time.Minute, "some rows", func() bool { return visible(t, dir) > 20 })
		c.stopWithSavepoint(c.Live()[1], id)
		if end := c.awaitEnd(id, time.Minute); end != engine.JobSavepointDone {
			t.Fatalf("ended %s", end)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, shortCleanup, stored)
		defer c.Stop()
		if n := visible(t, dir); n == 0 || n >= 120 {
			t.Fatalf("%d rows are visible after the savepoint", n)
		}
		c.Await(time.Minute, "the start", func() bool {
			_, err := c.Live()[0].Jobs().Submit(context.Background(), engine.SubmitRequest{JobID: id, Config: job(4), StartWithSavepoint: true})
			if err != nil && errors.Is(err, engine.ErrInvalid) {
				t.Fatal(err)
			}
			return err == nil
		})
		c.Await(time.Minute, "all rows", func() bool { return visible(t, dir) >= 120 })
		exact(t, dir, 120)
		if v, ok := look(c.Live()[0], id); !ok || !v.Savepoint || v.Status != engine.JobRunning {
			t.Errorf("the job is %s, started with a savepoint %v", v.Status, v.Savepoint)
		}
		if err := c.Live()[0].Jobs().Stop(context.Background(), engine.StopRequest{JobID: id}); err != nil {
			t.Fatal(err)
		}
		c.awaitEnd(id, time.Minute)
		c.Await(time.Minute, "the directory to be empty", func() bool {
			left, err := filepath.Glob(filepath.Join(dir, "checkpoints", "*"))
			return err == nil && len(left) == 0
		})
		if left, _ := filepath.Glob(filepath.Join(dir, "tmp", "*")); len(left) > 0 {
			t.Errorf("left below tmp_path: %v", left)
		}
	})
}

// TestCheckpoint_OneVeryLargeSplit is C021: a source that never pauses and has all its rows in one split still lets barriers through. It needs real
// time: in fake time a task that never waits would stop the clock.
func TestCheckpoint_OneVeryLargeSplit(t *testing.T) {
	c := Start(t, 1, few)
	defer c.StopNow()
	m := c.Live()[0]
	id := submit(t, m, []byte(`{"env":{"job.mode":"STREAMING","checkpoint.interval":50},
"source":[{"plugin_name":"FakeSource","row.num":900000000,"split.num":1,"schema":{"fields":{"id":"bigint"}}}],
"sink":[{"plugin_name":"Console","log.print.data":false}]}`))
	c.Await(30*time.Second, "two checkpoints", func() bool {
		figures, err := m.Jobs().Checkpoints(context.Background(), id)
		return err == nil && len(figures.Pipelines) == 1 && figures.Pipelines[0].Completed >= 2
	})
	c.stopWithSavepoint(m, id)
	if end := c.awaitEnd(id, 30*time.Second); end != engine.JobSavepointDone {
		t.Errorf("ended %s", end)
	}
	saved, err := m.Jobs().Savepoints(context.Background(), id)
	if err != nil || len(saved.Savepoints) == 0 || saved.Savepoints[len(saved.Savepoints)-1].Kind != engine.SavepointKind {
		t.Errorf("savepoints = %+v, %v", saved, err)
	}
}
