package e2e

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// The cases that are about half an hour run for as long as they are told to; without that they are left out. What they are about has a short form of each in
// engine and internal/gridtest, where time is fake: TestCheckpoint_ThousandsLeaveNothing and TestC200_AMemberIsGoneForGood.
var endurance = flag.Duration("endurance", 0, "how long TestC190 and TestC200 run, such as 30m, at least 6m (give -timeout more than that), and that TestC185 and TestC191 run; 0: none of them")

// endures skips a test that is not wanted, and refuses a time in which heaps do not settle.
func endures(t *testing.T) {
	t.Helper()
	if *endurance == 0 {
		t.Skip("it takes as long as -endurance says")
	}
	if least := 6 * time.Minute; *endurance < least {
		t.Fatalf("-endurance is %v, must be at least %v", *endurance, least)
	}
}

// footprint is what members hold, all together: who is master holds more than the others. Of each figure it is the median of many, for requests come and go;
// the heap is what the last collections left.
type footprint struct{ heap, goroutines, files int }

// footprintOf looks at members for a while.
func footprintOf(members []*member, window time.Duration) footprint {
	var seen [3][]int
	for end := time.Now().Add(window); time.Now().Before(end); time.Sleep(time.Second) {
		var sum [3]int
		for _, m := range members {
			f := figuresOf(m, "go_memstats_next_gc_bytes", "go_goroutines", "process_open_fds", "go_gc_gogc_percent")
			f[0] = f[0] * 100 / (100 + f[3]) // the next collection comes when that much more is there than the last one left
			for i := range sum {
				sum[i] += f[i]
			}
		}
		for i, n := range sum {
			seen[i] = append(seen[i], n)
		}
	}
	median := func(list []int) int { slices.Sort(list); return list[len(list)/2] }
	return footprint{median(seen[0]), median(seen[1]), median(seen[2])}
}

// grown reports whether a footprint is larger than before by more than percent of the heap, and a few goroutines and files of each of n members: each new
// master may leave connections between members open, up to three each way.
func (f footprint) grown(before footprint, percent, n int) bool {
	return f.heap > before.heap+before.heap*percent/100+n<<20 || f.goroutines > before.goroutines+5*n || f.files > before.files+12*n
}

// figuresOf reads metrics without labels.
func figuresOf(m *member, names ...string) []int {
	m.t.Helper()
	out := make([]int, len(names))
	lines := bufio.NewScanner(bytes.NewReader(m.get("/metrics").body))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if i := slices.Index(names, name); i >= 0 {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				m.t.Fatalf("%s: %s is %s", m.name, name, value)
			}
			out[i] = int(n)
		}
	}
	return out
}

// TestC190_TenStreamsForHalfAnHour: ten streams of 10 rows a second, with a checkpoint every 100 ms. What the members hold does not grow with the checkpoints;
// every row is there once.
func TestC190_TenStreamsForHalfAnHour(t *testing.T) {
	endures(t)
	t.Parallel()
	c := startCluster(t, 3, "--set", "engine.state-cleanup-delay-ms=500")
	var jobs []job
	for i := range 10 {
		j := job{dir: t.TempDir()}
		config := spec{rows: 100_000_000, rate: 10, env: `,"checkpoint.interval":100`}.config(j.dir)
		j.id = c.members[i%3].submit(strings.Replace(config, `"BATCH"`, `"STREAMING"`, 1), "")
		jobs = append(jobs, j)
	}
	c.awaitRunning(jobs...)
	began := time.Now()
	seen := map[string]*drain{}
	for _, j := range jobs {
		seen[j.id] = &drain{rows: map[int]int{}}
	}
	work := func(until time.Duration) {
		for time.Since(began) < until {
			time.Sleep(5 * time.Second)
			for _, j := range jobs {
				seen[j.id].take(t, filepath.Join(j.dir, "out"), 20*time.Second)
			}
		}
	}
	window := min(time.Minute, *endurance/10)
	work(*endurance / 3)
	early := footprintOf(c.members, window)
	work(*endurance - window)
	late := footprintOf(c.members, window)
	t.Logf("%+v after %v, %+v after %v", early, *endurance/3, late, *endurance)
	if late.grown(early, 10, len(c.members)) {
		t.Errorf("the members hold %+v, before %+v", late, early)
	}
	total := 0
	for _, j := range jobs {
		v := read[struct {
			Pipelines []struct{ Counts struct{ Completed int } }
		}](c.members[0], "/jobs/checkpoints/"+j.id)
		total += v.Pipelines[0].Counts.Completed
		c.members[0].stopJob(j.id)
	}
	c.watch(jobs, "CANCELED", 20*time.Second)
	rows := 0
	for _, j := range jobs {
		d := seen[j.id]
		d.take(t, filepath.Join(j.dir, "out"), 0)
		rows += len(d.rows)
		for id, n := range d.rows {
			if n != 1 || id > len(d.rows) {
				t.Errorf("job %s: row %d of %d is there %d times", j.id, id, len(d.rows), n)
				break
			}
		}
	}
	t.Logf("%d checkpoints, %d rows, each once", total, rows)
	if want := int(endurance.Seconds()) * 10 * 5; total < want { // half of what was asked for, on a busy machine
		t.Errorf("only %d checkpoints, the test shows little", total)
	}
}

// drain takes rows out of a directory and counts them.
type drain struct{ rows map[int]int }

// take reads the files that are at least that old, and removes them.
func (d *drain) take(t *testing.T, dir string, age time.Duration) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || e.IsDir() || time.Since(info.ModTime()) < age {
			continue
		}
		path := filepath.Join(dir, e.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Fields(string(b)) {
			n, err := strconv.Atoi(line)
			if err != nil {
				t.Fatalf("%s: %q", path, line)
			}
			d.rows[n]++
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestC200_AMemberIsDownForHalfAnHour, and stays in the list of seeds of the others, and first in the list of five clients. What the others hold does not grow, and
// they hardly speak of it.
func TestC200_AMemberIsDownForHalfAnHour(t *testing.T) {
	endures(t)
	t.Parallel()
	c := newCluster(t)
	for range 3 {
		c.add(loopback, loopback)
	}
	c.awaitSafe(3)
	dead := c.members[2]
	first, second := c.members[0], c.members[1]
	seeds := fmt.Sprintf("--join=%s,%s,%s", dead.grid, first.grid, second.grid)
	for _, m := range []*member{second, first} { // so that each of them was started with the dead one among its seeds
		m.term(leaveLimit)
		n := c.spawn("--bind", m.grid, "--http", strings.TrimPrefix(m.http, "http://"), seeds)
		n.awaitReady()
		c.awaitSafe(3)
	}
	live := c.live()
	live = slices.DeleteFunc(live, func(m *member) bool { return m == dead })
	j := live[0].start(spec{rows: 100_000_000, rate: 5, env: ""})
	c.awaitRunning(j)
	dead.kill()
	c.awaitMaster()
	for range 5 {
		wait := program("job", "wait", j.id, "--http", strings.Join([]string{dead.http, live[0].http, live[1].http}, ","))
		if err := wait.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = wait.Process.Kill(); _ = wait.Wait() })
	}
	began := time.Now()
	start := min(2*time.Minute, *endurance/6)
	window := min(time.Minute, *endurance/10)
	time.Sleep(start)
	early := footprintOf(live, window)
	spoke := map[*member]int{}
	about := func(m *member) (n int) {
		for line := range strings.Lines(m.output()) {
			if strings.Contains(line, dead.name) || strings.Contains(line, dead.grid) {
				n++
			}
		}
		return n
	}
	for _, m := range live {
		spoke[m] = about(m)
	}
	counted := time.Now()
	time.Sleep(*endurance - window - time.Since(began))
	late := footprintOf(live, window)
	t.Logf("%+v after %v, %+v after %v", early, start, late, *endurance)
	if late.grown(early, 5, len(live)) {
		t.Errorf("the members hold %+v, before %+v", late, early)
	}
	for _, m := range live {
		lines, most := about(m)-spoke[m], int(time.Since(counted)/(10*time.Second))+1
		t.Logf("%s has said %d lines about the dead member", m.name, lines)
		if lines > most {
			t.Errorf("%s has said %d lines about the dead member, more than %d", m.name, lines, most)
		}
	}
	live[0].stopJob(j.id)
	c.watch([]job{j}, "CANCELED", 20*time.Second)
}

// Each replica of a partition keeps its last effects, up to 1 MiB: with the usual 271 of them it takes tens of thousands of jobs until a member holds what it
// will hold. With few, the first round fills them.
const fewPartitions = "--partition-count=3"

// untilGC is how long an idle process may have garbage: Go collects every two minutes at least.
const untilGC = 130 * time.Second

// TestC185_ManyJobs: 500 short jobs with checkpoints, 100 that are refused and 100 that are canceled, 20 at a time. When the history is over, all of the engine's maps
// are as empty as before, and the members hold what they held.
func TestC185_ManyJobs(t *testing.T) {
	endures(t)
	t.Parallel()
	c := startCluster(t, 3, fewPartitions, "--set", "engine.state-cleanup-delay-ms=1000", "--set", "engine.history-job-expire-minutes=1",
		"--set", "engine.slot-service.dynamic-slot=false", "--set", "engine.slot-service.slot-num=40")
	round := func(good, refused, canceled int) {
		var all []func(*member)
		var files []job
		for i := range good {
			j := job{dir: t.TempDir(), rows: 10, id: fmt.Sprint(10_000*len(c.jobs) + 100_000 + i)}
			files = append(files, j)
			all = append(all, func(m *member) {
				m.runToEnd(spec{rows: 10, rate: 20, env: `,"checkpoint.interval":500`}.config(j.dir), j.id, "FINISHED")
			})
		}
		for range refused {
			all = append(all, func(m *member) {
				m.until("a job of 1000 tasks is refused for 120 slots", func() bool {
					a, err := m.call("POST", "/submit-job", []byte(spec{subtasks: 1000, rows: 1}.config(t.TempDir())))
					return err == nil && a.status == 409
				})
			})
		}
		for i := range canceled {
			id := fmt.Sprint(10_000*len(c.jobs) + 200_000 + i)
			all = append(all, func(m *member) {
				m.submitUntil(spec{rows: 100_000, rate: 10}.config(t.TempDir()), id)
				m.stopSoon(id)
				m.endOf(id, "CANCELED")
			})
		}
		twentyAtOnce(c, all)
		for _, j := range files {
			j.exact(t)
		}
	}
	over := func() {
		c.await(3*time.Minute, "the history is over", func() bool {
			n := 0
			for _, m := range read[struct{ Maps []struct{ Size int } }](c.members[0], "/api/v1/maps").Maps {
				n += m.Size
			}
			return n == 0
		})
	}
	round(300, 20, 20)
	over()
	time.Sleep(untilGC)
	before := footprintOf(c.members, 20*time.Second)
	round(500, 100, 100)
	over()
	time.Sleep(untilGC)
	after := footprintOf(c.members, 20*time.Second)
	t.Logf("%+v, before %+v", after, before)
	if after.grown(before, 10, len(c.members)) {
		t.Errorf("the members hold %+v, before %+v", after, before)
	}
}

// TestC191_TwoThousandJobs on one member, 20 at a time: goroutines, open files and memory are as before.
func TestC191_TwoThousandJobs(t *testing.T) {
	endures(t)
	t.Parallel()
	c := startCluster(t, 1, fewPartitions, "--set", "engine.state-cleanup-delay-ms=500", "--set", "engine.history-max=20")
	run := func(n int) {
		dir := t.TempDir()
		var all []func(*member)
		for i := range n {
			all = append(all, func(m *member) {
				m.runToEnd(spec{rows: 10}.config(filepath.Join(dir, fmt.Sprint(i))), fmt.Sprint(n*10_000+i+1), "FINISHED")
			})
		}
		twentyAtOnce(c, all)
		c.mapsEmptyWithin(30 * time.Second)
	}
	run(1000)
	time.Sleep(untilGC)
	before := footprintOf(c.members, 20*time.Second)
	run(2000)
	time.Sleep(untilGC)
	after := footprintOf(c.members, 20*time.Second)
	t.Logf("%+v, before %+v", after, before)
	if after.grown(before, 15, 1) {
		t.Errorf("the member holds %+v, before %+v", after, before)
	}
}

// twentyAtOnce does many things, 20 at a time, through one member after the other.
func twentyAtOnce(c *cluster, all []func(*member)) {
	var g errgroup.Group
	g.SetLimit(20)
	for i, do := range all {
		g.Go(func() error { do(c.members[i%len(c.members)]); return nil })
	}
	_ = g.Wait()
}

// submitUntil submits a job with an id of its own until it is accepted.
func (m *member) submitUntil(config, id string) {
	m.until(id+" is accepted", func() bool {
		a, err := m.call("POST", "/submit-job?jobId="+id, []byte(config))
		return err == nil && a.status == 200
	})
}

func (m *member) stopSoon(id string) {
	m.until(id+" is to be stopped", func() bool {
		a, err := m.call("POST", "/stop-job", fmt.Appendf(nil, `{"jobId":%q}`, id))
		return err == nil && (a.status == 200 || a.status == 409)
	})
}

func (m *member) endOf(id, want string) {
	m.until(id+" is "+want, func() bool {
		a, err := m.call("GET", "/job-info/"+id, nil)
		return err == nil && strings.Contains(string(a.body), `"jobStatus":"`+want+`"`)
	})
}

func (m *member) runToEnd(config, id, want string) { m.submitUntil(config, id); m.endOf(id, want) }

// until polls from any goroutine.
func (m *member) until(what string, ok func() bool) {
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Errorf("not within two minutes: %s", what)
			return
		}
	}
}
