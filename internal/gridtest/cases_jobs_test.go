package gridtest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine"
	"gridnode/node"
)

// run submits a job and returns its view when it has ended.
func (c *Cluster) run(config string) engine.JobView {
	t := c.t.(*testing.T)
	t.Helper()
	m := c.Live()[0]
	res, err := m.Jobs().Submit(context.Background(), engine.SubmitRequest{Config: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	id := res.JobID
	var v engine.JobView
	c.Await(2*time.Minute, "the end of a job", func() bool {
		var ok bool
		v, ok = look(m, id)
		return ok && v.Status.Final()
	})
	return v
}

// TestC202_RowsOfFakeSource: row.num is the number of rows of each subtask, however they are split, and also when the worker that makes them dies.
func TestC202_RowsOfFakeSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, shortCleanup)
		defer c.Stop()
		for _, test := range []struct{ rows, subtasks, splits, want int }{{10, 1, 1, 10}, {10, 3, 1, 30}, {10, 3, 4, 30}, {10, 1, 4, 10}, {0, 3, 1, 0}, {7, 1, 3, 7}} {
			dir := t.TempDir()
			v := c.run(fmt.Sprintf(`{"env":{"parallelism":%d},"source":[{"plugin_name":"FakeSource","row.num":%d,"split.num":%d,"schema":{"fields":{"id":"bigint"}}}],
"sink":[{"plugin_name":"LocalFile","path":%q,"tmp_path":%q,"file_format_type":"text"}]}`, test.subtasks, test.rows, test.splits, filepath.Join(dir, "out"), filepath.Join(dir, "tmp")))
			if n := visible(t, dir); v.Status != engine.JobFinished || n != test.want || v.Metrics.SinkRows != int64(test.want) {
				t.Errorf("%+v: %s with %d rows, %d counted: %s", test, v.Status, n, v.Metrics.SinkRows, v.ErrorMsg)
			}
		}
		dir := t.TempDir()
		id := submit(t, c.Master(), []byte(strings.Replace(string(sequenceJob(dir, 3, 40, 20)), `"mode":"sequence"`, `"mode":"sequence","split.num":4`, 1)))
		time.Sleep(time.Second)
		for _, m := range c.Live() {
			if m != c.Master() {
				c.Crash(m)
				break
			}
		}
		if end := c.awaitEnd(id, time.Minute); end != engine.JobFinished {
			t.Errorf("ended %s", end)
		}
		exact(t, dir, 120)
	})
}

// TestC204_MoreReadersThanFiles: the readers that have no file end at once, and the job with those that have.
func TestC204_MoreReadersThanFiles(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	noError(t, os.Mkdir(in, 0o700))
	noError(t, os.WriteFile(filepath.Join(in, "one.csv"), []byte("1\n2\n3\n"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, shortCleanup)
		defer c.Stop()
		began := time.Now()
		v := c.run(fmt.Sprintf(`{"env":{"parallelism":5},"source":[{"plugin_name":"LocalFile","path":%q,"file_format_type":"csv","schema":{"fields":{"id":"bigint"}}}],
"sink":[{"plugin_name":"LocalFile","path":%q,"tmp_path":%q,"file_format_type":"text"}]}`, in, filepath.Join(dir, "out"), filepath.Join(dir, "tmp")))
		if v.Status != engine.JobFinished || time.Since(began) > 15*time.Second {
			t.Errorf("%s after %v: %s", v.Status, time.Since(began), v.ErrorMsg)
		}
		exact(t, dir, 3)
	})
}

// TestC205_RowRulesCountAllSubtasks: a rule about the number of rows is judged once, over all subtasks, and nothing is carried to the next job.
func TestC205_RowRulesCountAllSubtasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, shortCleanup)
		defer c.Stop()
		job := func(least int) string {
			return fmt.Sprintf(`{"env":{"parallelism":4,"job.retry.times":0},"source":[{"plugin_name":"FakeSource","row.num":25,"schema":{"fields":{"id":"bigint"}}}],
"sink":[{"plugin_name":"Assert","rules":{"row_rules":[{"rule_type":"MIN_ROW","rule_value":%d},{"rule_type":"MAX_ROW","rule_value":100}]}}]}`, least)
		}
		for i := range 10 {
			if v := c.run(job(100)); v.Status != engine.JobFinished {
				t.Errorf("round %d: %s: %s", i, v.Status, v.ErrorMsg)
			}
		}
		for range 3 {
			if v := c.run(job(101)); v.Status != engine.JobFailed || !strings.Contains(v.ErrorMsg, "100") || !strings.Contains(v.ErrorMsg, "101") {
				t.Errorf("with one row too few: %s: %s", v.Status, v.ErrorMsg)
			}
		}
	})
}

// counting is a log of which only the lines about one host are counted.
type counting struct {
	host  string
	lines *atomic.Int64
}

func (w counting) Write(b []byte) (int, error) {
	if strings.Contains(string(b), w.host) {
		w.lines.Add(1)
	}
	return len(b), nil
}

// TestC200_AMemberIsGoneForGood, and stays in everybody's list of seeds: what tries to reach it costs neither goroutines nor heap as time goes by, and is told
// at most every 10 s.
func TestC200_AMemberIsGoneForGood(t *testing.T) {
	var lines atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, func(cfg *node.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(counting{"m3", &lines}, &slog.HandlerOptions{Level: slog.LevelInfo}))
		})
		defer c.Stop()
		c.Crash(c.at("m3"))
		held := func() (goroutines int, heap uint64) {
			runtime.GC()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			return runtime.NumGoroutine(), s.HeapAlloc
		}
		time.Sleep(time.Minute)
		g, h := held()
		before := lines.Load()
		const more = 2 * time.Minute
		time.Sleep(more)
		g2, h2 := held()
		told := lines.Load() - before
		t.Logf("%d goroutines and %d bytes, after %v %d and %d; %d lines", g, h, more, g2, h2, told)
		if g2 > g+5 || h2 > h+h/20+1<<20 {
			t.Errorf("%d goroutines and %d bytes of heap became %d and %d", g, h, g2, h2)
		}
		if before == 0 {
			t.Error("nobody has said that the member is gone")
		}
		if told > int64(2*more/(10*time.Second)) { // of two members
			t.Errorf("%d lines about the member that is gone", told)
		}
	})
}
