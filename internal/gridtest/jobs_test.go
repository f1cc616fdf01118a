package gridtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine"
	"gridnode/node"
)

// sequenceJob copies ids 1 to subtasks*rows into files, at rate rows a second for each subtask.
func sequenceJob(dir string, subtasks, rows, rate int) []byte {
	return fmt.Appendf(nil, `{"env":{"job.name":"seq","parallelism":%d,"read_limit.rows_per_second":%d,"job.retry.interval.seconds":1},
"source":[{"plugin_name":"FakeSource","mode":"sequence","row.num":%d,"schema":{"fields":{"id":"bigint"}}}],
"sink":[{"plugin_name":"LocalFile","path":%q,"tmp_path":%q,"file_format_type":"text"}]}`,
		subtasks, rate, rows, filepath.Join(dir, "out"), filepath.Join(dir, "tmp"))
}

// exact checks that the committed lines are 1 to n, each once.
func exact(t *testing.T, dir string, n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "out", "*"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			seen[strings.TrimSpace(line)]++
		}
	}
	for i := 1; i <= n; i++ {
		if got := seen[fmt.Sprint(i)]; got != 1 {
			t.Errorf("row %d is there %d times", i, got)
		}
	}
	if len(seen) != n {
		t.Errorf("%d different rows, want %d", len(seen), n)
	}
}

// look returns the job as a member shows it, or nothing while it cannot.
func look(m *Member, id string) (engine.JobView, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	v, err := m.Jobs().Info(ctx, id)
	return v, err == nil
}

// listed reports whether the job is in the running list of the member.
func listed(m *Member, id string) (yes, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	list, err := m.Jobs().Running(ctx)
	for _, v := range list {
		yes = yes || v.JobID == id
	}
	return yes, err == nil
}

// awaitEnd polls every live member until all show the job as ended; an ended job that runs again fails the test.
func (c *Cluster) awaitEnd(id string, limit time.Duration) engine.JobStatus {
	c.t.Helper()
	var end engine.JobStatus
	c.Await(limit, "the end of the job", func() bool {
		all := true
		for _, m := range c.Live() {
			v, ok := look(m, id)
			switch {
			case !ok:
				all = false
			case v.Status.Final():
				if end != "" && v.Status != end {
					c.t.Fatalf("%s shows %s after %s", m.Host, v.Status, end)
				}
				end = v.Status
				if yes, known := listed(m, id); known && yes {
					c.t.Fatalf("%s lists the job as running after it ended %s", m.Host, end)
				}
			default:
				if end != "" {
					c.t.Fatalf("%s shows %s after the job had ended %s", m.Host, v.Status, end)
				}
				all = false
			}
		}
		return all
	})
	return end
}

// engineMapsEmpty waits until nothing but history is left of any job.
func (c *Cluster) engineMapsEmpty(limit time.Duration) {
	c.t.Helper()
	c.Await(limit, "the end of the cleanup", func() bool {
		for _, name := range engine.MapNames() {
			if name == engine.MapFinishedJobState {
				continue
			}
			n, err := c.Live()[0].Map(name).Size(context.Background())
			if err != nil || n > 0 {
				return false
			}
		}
		return true
	})
}

func shortCleanup(cfg *node.Config) { cfg.Engine.StateCleanupDelay = 3 * time.Second }

func submit(t *testing.T, m *Member, config []byte) string {
	t.Helper()
	for range 100 {
		res, err := m.Jobs().Submit(context.Background(), engine.SubmitRequest{Config: config, SubmitKey: t.Name()})
		if err == nil {
			return res.JobID
		}
		if !errors.Is(err, engine.ErrRetryable) && !errors.Is(err, engine.ErrIndeterminate) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("submit is refused for ever")
	return ""
}

// TestJob_CrashSweep kills the master, or a member that is not, at every step of a job's life: the job finishes, each row is there once, and
// nothing is left behind.
func TestJob_CrashSweep(t *testing.T) {
	step := 150 * time.Millisecond
	if testing.Short() {
		step = 700 * time.Millisecond
	}
	for _, master := range []bool{true, false} {
		for at := time.Duration(0); at < 2100*time.Millisecond; at += step {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				c := Start(t, 3, few, shortCleanup)
				defer c.Stop()
				victim := c.Master()
				if !master {
					for _, m := range c.Live() {
						if m != c.Master() {
							victim = m
						}
					}
				}
				var client *Member
				for _, m := range c.Live() {
					if m != victim {
						client = m
					}
				}
				id := submit(t, client, sequenceJob(dir, 3, 120, 100))
				time.Sleep(at)
				c.Crash(victim)
				if end := c.awaitEnd(id, time.Minute); end != engine.JobFinished {
					v, _ := look(client, id)
					t.Errorf("the job ended %s: %s", end, v.ErrorMsg)
				}
				exact(t, dir, 360)
				c.engineMapsEmpty(time.Minute)
				if left, _ := filepath.Glob(filepath.Join(dir, "tmp", "*")); len(left) > 0 {
					t.Errorf("left below tmp_path: %v", left)
				}
			})
			if t.Failed() {
				t.Fatalf("crash of the master: %v, at %v", master, at)
			}
		}
	}
}

// TestJob_TwoMastersDieInsideTheCleanupDelay is the story of apache/seatunnel#10687: the owner of a delayed cleanup dies, and so does the next.
func TestJob_TwoMastersDieInsideTheCleanupDelay(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 5, shortCleanup, func(cfg *node.Config) { cfg.BackupCount = 2; cfg.Engine.StateCleanupDelay = 10 * time.Second })
		defer c.Stop()
		id := submit(t, c.Live()[4], sequenceJob(dir, 2, 50, 1000))
		if end := c.awaitEnd(id, time.Minute); end != engine.JobFinished {
			t.Fatal(end)
		}
		for range 2 {
			old := c.Master()
			c.Crash(old)
			c.Await(10*time.Second, "a new master", func() bool { return c.Master() != nil && c.Master() != old })
			if end := c.awaitEnd(id, time.Minute); end != engine.JobFinished {
				t.Fatal(end)
			}
		}
		exact(t, dir, 100)
		c.engineMapsEmpty(time.Minute)
		if end := c.awaitEnd(id, time.Minute); end != engine.JobFinished {
			t.Errorf("after the cleanup the job is %s", end)
		}
	})
}

// TestJob_NoRetries_WorkerDies is ClusterFailureNoRestoreIT: a defined end, with a cause.
// It is Z12 of the engine's zetaRows.
func TestJob_NoRetries_WorkerDies(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, shortCleanup)
		defer c.Stop()
		config := strings.Replace(string(sequenceJob(dir, 3, 1000, 100)), `"env":{`, `"env":{"job.retry.times":0,`, 1)
		client := c.Master()
		id := submit(t, client, []byte(config))
		time.Sleep(time.Second)
		for _, m := range c.Live() {
			if m != client {
				c.Crash(m)
				break
			}
		}
		if end := c.awaitEnd(id, 30*time.Second); end != engine.JobFailed {
			t.Errorf("ended %s", end)
		}
		if v, _ := look(client, id); v.ErrorMsg == "" {
			t.Error("no cause is given")
		} else {
			t.Log(v.ErrorMsg)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "out", "*")); len(files) > 0 {
			t.Errorf("a failed job left output: %v", files)
		}
		c.engineMapsEmpty(time.Minute)
	})
}
