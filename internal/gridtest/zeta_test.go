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
	"gridnode/grid"
	"gridnode/node"
)

// twoPipelines copies ids in two pipelines, each of its own source and its own directory, six subtasks each.
func twoPipelines(dir, mode string, rows, rate int) []byte {
	var sources, sinks []string
	for _, name := range []string{"a", "b"} {
		sources = append(sources, fmt.Sprintf(`{"plugin_name":"FakeSource","plugin_output":%q,"mode":"sequence","row.num":%d,"schema":{"fields":{"id":"bigint"}}}`, name, rows))
		sinks = append(sinks, fmt.Sprintf(`{"plugin_name":"LocalFile","plugin_input":%q,"path":%q,"tmp_path":%q,"file_format_type":"text"}`,
			name, filepath.Join(dir, name, "out"), filepath.Join(dir, name, "tmp")))
	}
	return fmt.Appendf(nil, `{"env":{"job.mode":%q,"parallelism":6,"checkpoint.interval":300,"read_limit.rows_per_second":%d,"job.retry.interval.seconds":1},"source":[%s],"sink":[%s]}`,
		mode, rate, strings.Join(sources, ","), strings.Join(sinks, ","))
}

// apart makes m1 and m2 masters and m3 and m4 workers; hybrid makes m1 and m2 both, and m3 a witness, without which two members do not survive a death.
func apart(cfg *node.Config) {
	cfg.Roles = []string{node.RoleMaster}
	if cfg.Name != "m1" && cfg.Name != "m2" {
		cfg.Roles = []string{grid.RoleWorker}
	}
}

func hybrid(cfg *node.Config) {
	if cfg.Name == "m3" {
		cfg.Roles = witnessOnly
	}
}

// Z1 and Z2: two pipelines of six subtasks each, batch and streaming, on two members that do everything and on two masters and two workers, and nobody dies,
// or a worker, or the master: the job comes to its end, and both outputs are exact.
func TestZeta_FaultTolerance(t *testing.T) {
	for _, layout := range []string{"hybrid", "apart"} {
		for _, mode := range []string{"BATCH", "STREAMING"} {
			for _, victim := range []string{"nobody", "worker", "master"} {
				if testing.Short() && (victim == "nobody" || layout == "apart") {
					continue
				}
				t.Run(layout+"/"+mode+"/"+victim, func(t *testing.T) {
					dir := t.TempDir()
					synctest.Test(t, func(t *testing.T) { faultTolerance(t, dir, layout, mode, victim) })
				})
			}
		}
	}
}

func faultTolerance(t *testing.T, dir, layout, mode, victim string) {
	n, roles := 3, hybrid
	if layout == "apart" {
		n, roles = 4, apart
	}
	c := Start(t, n, few, shortCleanup, roles)
	defer c.Stop()
	const rows = 60
	client := c.Live()[n-1]
	id := submit(t, client, twoPipelines(dir, mode, rows, 40))
	out := func() int { return visible(t, filepath.Join(dir, "a")) + visible(t, filepath.Join(dir, "b")) }
	c.Await(30*time.Second, "the first lines", func() bool { return out() > 1 })
	var dies *Member
	for _, m := range c.Live() {
		isMaster := m == c.Master()
		switch {
		case victim == "master" && isMaster, victim == "worker" && layout == "hybrid" && !isMaster && m.Host != "m3", victim == "worker" && m.Host == "m3" && layout == "apart":
			dies = m
		}
	}
	if dies != nil {
		c.Crash(dies)
	} else if victim != "nobody" {
		t.Fatalf("there is no %s", victim)
	}
	c.Await(2*time.Minute, "all lines", func() bool { return out() >= 2*6*rows })
	if mode == "STREAMING" {
		if v, ok := look(c.Live()[0], id); ok && v.Status != engine.JobRunning {
			t.Errorf("the stream is %s (%s)", v.Status, v.ErrorMsg)
		}
		c.cancel(id)
	}
	want := map[string]engine.JobStatus{"BATCH": engine.JobFinished, "STREAMING": engine.JobCanceled}[mode]
	if end := c.awaitEnd(id, time.Minute); end != want {
		v, _ := look(c.Live()[0], id)
		t.Errorf("the job ended %s: %s", end, v.ErrorMsg)
	}
	exact(t, filepath.Join(dir, "a"), 6*rows)
	exact(t, filepath.Join(dir, "b"), 6*rows)
}

// cancel stops a job, by the first member that takes it.
func (c *Cluster) cancel(id string) {
	c.t.Helper()
	c.Await(time.Minute, "the stop of the job", func() bool {
		return c.Live()[0].Jobs().Stop(context.Background(), engine.StopRequest{JobID: id}) == nil
	})
}

// Z7: a tombstone whose delay is long and a job that waits, no worker, and the master dies: the job that has ended is settled without any worker, is not
// shown as running, and does not run again; the other one waits, and runs when a worker comes.
func TestZeta_TerminalJobNeedsNoWorker(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 4, few, func(cfg *node.Config) {
			cfg.Engine.StateCleanupDelay = 10 * time.Minute
			if cfg.Roles = []string{node.RoleMaster}; cfg.Name == "m4" || cfg.Name == "m5" {
				cfg.Roles = []string{grid.RoleWorker}
			}
		})
		defer c.Stop()
		ended := submit(t, c.Live()[0], sequenceJob(filepath.Join(dir, "ended"), 2, 20, 1000))
		if end := c.awaitEnd(ended, time.Minute); end != engine.JobFinished {
			t.Fatal(end)
		}
		c.Crash(c.Live()[3])
		c.AwaitSafe(3, time.Minute)
		ctx := context.Background()
		c.Await(20*time.Second, "the submit", func() bool {
			_, err := c.Live()[0].Jobs().Submit(ctx, engine.SubmitRequest{JobID: "5", Config: sequenceJob(filepath.Join(dir, "waits"), 2, 20, 1000)})
			if err != nil && !errors.Is(err, engine.ErrRetryable) && !errors.Is(err, engine.ErrIndeterminate) {
				t.Fatal(err)
			}
			return err == nil
		})
		c.awaitStatus("5", engine.JobPending, 20*time.Second)
		c.Crash(c.Master())
		c.awaitStatus("5", engine.JobPending, 30*time.Second)
		if end := c.awaitEnd(ended, 30*time.Second); end != engine.JobFinished {
			t.Errorf("the tombstone is %s", end)
		}
		time.Sleep(10 * time.Second)
		if v, ok := look(c.Live()[0], "5"); !ok || v.Status != engine.JobPending {
			t.Errorf("without a worker the job is %s", v.Status)
		}
		c.Add()
		if end := c.awaitEnd("5", time.Minute); end != engine.JobFinished {
			t.Errorf("the job that waited ended %s", end)
		}
		exact(t, filepath.Join(dir, "waits"), 40)
		exact(t, filepath.Join(dir, "ended"), 40)
	})
}

// C003: a stream of three files, a short one and two long ones. The master dies when the short one is read. The output goes on within each 10 s, and every row
// is there once; as a batch job, whose first task has come to its end then, the same, and it finishes.
func TestC003_OneTaskHasEndedWhenTheMasterDies(t *testing.T) {
	for _, mode := range []string{"STREAMING", "BATCH"} {
		dir := t.TempDir()
		in, total := filepath.Join(dir, "in"), 0
		if err := os.MkdirAll(in, 0o700); err != nil {
			t.Fatal(err)
		}
		for i, rows := range []int{10, 300, 300} {
			var b strings.Builder
			for range rows {
				total++
				fmt.Fprintln(&b, total)
			}
			if err := os.WriteFile(filepath.Join(in, fmt.Sprint(i, ".csv")), []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few, shortCleanup)
			defer c.Stop()
			client := c.Live()[0]
			if client == c.Master() {
				client = c.Live()[1]
			}
			id := submit(t, client, fmt.Appendf(nil, `{"env":{"job.mode":%q,"parallelism":3,"checkpoint.interval":2000,"read_limit.rows_per_second":5,"job.retry.interval.seconds":1},
"source":[{"plugin_name":"LocalFile","path":%q,"file_format_type":"csv","schema":{"fields":{"id":"bigint"}}}],
"sink":[{"plugin_name":"LocalFile","path":%q,"tmp_path":%q,"file_format_type":"text"}]}`, mode, in, filepath.Join(dir, "out"), filepath.Join(dir, "tmp")))
			time.Sleep(8 * time.Second) // the short file has 2 s
			c.Crash(c.Master())
			time.Sleep(10 * time.Second)
			seen := visible(t, dir)
			for seen < 600-60 {
				time.Sleep(10 * time.Second)
				v, _ := look(client, id)
				now := visible(t, dir)
				if now <= seen && v.Status == engine.JobRunning {
					t.Fatalf("%s: the job is RUNNING, and for 10 s nothing came after %d rows", mode, seen)
				}
				seen = now
			}
			if mode == "STREAMING" {
				c.Await(time.Minute, "all rows", func() bool { return visible(t, dir) >= total })
				c.cancel(id)
			}
			want := map[string]engine.JobStatus{"BATCH": engine.JobFinished, "STREAMING": engine.JobCanceled}[mode]
			if end := c.awaitEnd(id, 2*time.Minute); end != want {
				t.Errorf("%s: ended %s", mode, end)
			}
			exact(t, dir, total)
		})
	}
}
