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
)

// The cases that are about half an hour run for as long as they are told to; without that they are left out. What they are about has a short form of each in
// engine and internal/gridtest, where time is fake: TestCheckpoint_ThousandsLeaveNothing and TestC200_AMemberIsGoneForGood.
var endurance = flag.Duration("endurance", 0, "how long TestC190 and TestC200 run, such as 30m (run them with -timeout above that); 0: not at all")

// footprint is what a process holds. The heap is that of the last collections, the goroutines the fewest seen: requests come and go.
type footprint struct{ heap, goroutines, files int }

// footprints looks at members for a while.
func footprints(members []*member, window time.Duration) []footprint {
	out := make([]footprint, len(members))
	heaps := make([][]int, len(members))
	for end := time.Now().Add(window); ; time.Sleep(time.Second) {
		for i, m := range members {
			f := figuresOf(m, "go_memstats_next_gc_bytes", "go_goroutines", "process_open_fds")
			heaps[i] = append(heaps[i], f[0]/2) // the next collection comes when twice as much is there as the last one left
			if out[i].goroutines == 0 || f[1] < out[i].goroutines {
				out[i].goroutines = f[1]
			}
			if out[i].files == 0 || f[2] < out[i].files {
				out[i].files = f[2]
			}
		}
		if time.Now().After(end) {
			break
		}
	}
	for i, h := range heaps {
		slices.Sort(h)
		out[i].heap = h[len(h)/2]
	}
	return out
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
	if *endurance == 0 {
		t.Skip("it takes as long as -endurance says")
	}
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
	work(*endurance / 6)
	early := footprints(c.members, window)
	work(*endurance - window)
	late := footprints(c.members, window)
	for i, m := range c.members {
		t.Logf("%s: %+v after %v, %+v after %v", m.name, early[i], *endurance/6, late[i], *endurance)
		if late[i].heap > early[i].heap+early[i].heap/10+1<<20 || late[i].goroutines > early[i].goroutines+5 || late[i].files > early[i].files+12 { // each task has a file open now and then
			t.Errorf("%s holds %+v, before %+v", m.name, late[i], early[i])
		}
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
	if *endurance == 0 {
		t.Skip("it takes as long as -endurance says")
	}
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
	early := footprints(live, window)
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
	late := footprints(live, window)
	for i, m := range live {
		lines, most := about(m)-spoke[m], int(time.Since(counted)/(10*time.Second))+1
		t.Logf("%s: %+v after %v, %+v after %v, %d lines about the dead one", m.name, early[i], start, late[i], *endurance, lines)
		if late[i].heap > early[i].heap+early[i].heap/20+1<<20 || late[i].goroutines > early[i].goroutines+5 || late[i].files > early[i].files+5 || lines > most {
			t.Errorf("%s holds %+v, before %+v, and has said %d lines about the dead member", m.name, late[i], early[i], lines)
		}
	}
	live[0].stopJob(j.id)
	c.watch([]job{j}, "CANCELED", 20*time.Second)
}
