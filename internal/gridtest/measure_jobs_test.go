package gridtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gridnode/engine"
)

var measureJobs = flag.String("measure.jobs", "", "numbers of running jobs for TestMeasure_MasterDies, such as 10,100,1000; real time")

// decideLimit is for a new master, with a thousand running jobs on two cores, all members in one process.
const decideLimit = 10 * time.Second

// TestMeasure_MasterDies measures in real time what the death of a master costs running jobs: until there is a new one, until it has decided about every
// job (its term is in all of them), until the first task that was lost puts out a row again, and until all such tasks run.
func TestMeasure_MasterDies(t *testing.T) {
	if *measureJobs == "" {
		t.Skip("-measure.jobs is not given")
	}
	for text := range strings.SplitSeq(*measureJobs, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("-measure.jobs: %v", err)
		}
		t.Run(text, func(t *testing.T) { measureMasterDies(t, n) })
	}
}

func measureMasterDies(t *testing.T, jobs int) {
	dir := t.TempDir()
	c := Start(t, 3)
	defer c.StopNow()
	submitStreams(t, c, dir, jobs)
	master := c.Master()
	before := map[string]bool{}
	c.Await(2*time.Minute, "all jobs running", func() bool {
		r := c.running()
		return len(r) == jobs && r.all(func(v engine.JobView) bool {
			return v.Status == engine.JobRunning && len(v.Tasks) == 1 && v.Tasks[0].Status == engine.TaskRunning
		})
	})
	var lost []string // directories of the jobs whose task is on the master
	for _, v := range c.running() {
		if v.Tasks[0].Member == string(master.ID()) {
			lost = append(lost, filepath.Join(dir, v.JobName))
		}
	}
	c.Await(time.Minute, "a row of each of them", func() bool {
		time.Sleep(100 * time.Millisecond)
		seen := map[string]bool{}
		for _, f := range outputs(lost) {
			if b, err := os.ReadFile(f); err == nil && string(b) == "1\n" {
				seen[filepath.Dir(f)] = true
				before[f] = true
			}
		}
		return len(seen) == len(lost)
	})
	start := time.Now()
	c.Crash(master)
	var mastered, row time.Duration
	rows := make(chan time.Duration, 1)
	var watch sync.WaitGroup
	watch.Go(func() { rows <- firstRow(lost, before, start) })
	c.Await(time.Minute, "a new master", func() bool {
		for _, m := range c.Live() {
			if s := m.Node.State(); s != nil && s.Master != "" && s.Master != master.ID() {
				mastered = time.Since(start)
				return true
			}
		}
		return false
	})
	next := c.Master()
	c.Await(time.Minute, "all jobs decided", func() bool {
		time.Sleep(50 * time.Millisecond) // to ask costs what is being measured
		r := c.running()
		term := uint64(0)
		for _, v := range r {
			term = max(term, v.Term)
		}
		return len(r) == jobs && term > 1 && r.all(func(v engine.JobView) bool { return v.Term == term })
	})
	decided := time.Since(start)
	c.Await(2*time.Minute, "all tasks running", func() bool {
		return c.running().all(func(v engine.JobView) bool {
			return v.Status == engine.JobRunning && v.Tasks[0].Status == engine.TaskRunning && v.Tasks[0].Member != string(master.ID())
		})
	})
	whole := time.Since(start)
	row = <-rows
	watch.Wait()
	restarts := 0
	for _, v := range c.running() {
		restarts += v.Restarts
	}
	t.Logf("jobs=%d cores=%d lost=%d restarts=%d master=%v decided=%v row=%v running=%v (%s)", jobs, runtime.GOMAXPROCS(0), len(lost), restarts,
		mastered.Round(time.Millisecond), decided.Round(time.Millisecond), row.Round(time.Millisecond), whole.Round(time.Millisecond), next.Host)
	if decided > decideLimit {
		t.Errorf("%d jobs were decided after %v, want %v", jobs, decided, decideLimit)
	}
	if restarts != len(lost) {
		t.Errorf("%d tasks were lost and %d restarted", len(lost), restarts)
	}
}

// submitStreams submits jobs of one task, which put out a row every half second until they are stopped.
func submitStreams(t *testing.T, c *Cluster, dir string, jobs int) {
	t.Helper()
	var wg sync.WaitGroup
	limit := make(chan struct{}, 16)
	for i := range jobs {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			config := fmt.Appendf(nil, `{"env":{"job.name":"s%d","job.mode":"STREAMING","parallelism":1,"read_limit.rows_per_second":2,"job.retry.times":100,"job.retry.interval.seconds":0},
"source":[{"plugin_name":"FakeSource","mode":"sequence","row.num":1000000,"schema":{"fields":{"id":"bigint"}}}],
"sink":[{"plugin_name":"LocalFile","path":%q,"file_format_type":"text","is_enable_transaction":false,"batch_size":1}]}`, i, filepath.Join(dir, fmt.Sprint("s", i)))
			if _, err := c.Live()[i%3].Jobs().Submit(context.Background(), engine.SubmitRequest{Config: config, SubmitKey: fmt.Sprint("measure-", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

type views []engine.JobView

func (v views) all(ok func(engine.JobView) bool) bool {
	for _, x := range v {
		if !ok(x) {
			return false
		}
	}
	return true
}

// running asks a live member for the running jobs, until it answers.
func (c *Cluster) running() views {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		list, err := c.Live()[0].Jobs().Running(ctx)
		cancel()
		if err == nil {
			return list
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// outputs lists the files of jobs.
func outputs(dirs []string) []string {
	var all []string
	for _, d := range dirs {
		files, _ := filepath.Glob(filepath.Join(d, "*"))
		all = append(all, files...)
	}
	return all
}

// firstRow returns how long after start a first row appears that was not there before: that of a task that runs again.
func firstRow(dirs []string, before map[string]bool, start time.Time) time.Duration {
	for end := start.Add(2 * time.Minute); time.Now().Before(end); {
		for _, f := range outputs(dirs) {
			if st, err := os.Stat(f); before[f] || err != nil || st.ModTime().Before(start) {
				continue
			}
			if b, err := os.ReadFile(f); err == nil && string(b) == "1\n" {
				return time.Since(start)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return -1
}
