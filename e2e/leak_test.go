package e2e

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestC185_C191_C193_NothingStays: after many jobs with every kind of end, nothing is left of them but history: no entries in the engine's maps,
// no files below tmp, no goroutines, no open files.
// It is Z23 and ZH of the engine's zetaRows.
func TestC185_C191_C193_NothingStays(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--set", "engine.state-cleanup-delay-ms=500", "--set", "engine.slot-service.dynamic-slot=false",
		"--set", "engine.slot-service.slot-num=8", "--set", "engine.job-schedule-strategy=REJECT")
	runManyJobs(t, c, 1) // warm up
	before := map[*member]usage{}
	for _, m := range c.members {
		before[m] = usageOf(m)
	}
	runManyJobs(t, c, 4)
	for _, m := range c.members {
		var now usage
		start := time.Now()
		for now = usageOf(m); time.Since(start) < 20*time.Second && now.above(before[m]); now = usageOf(m) {
			time.Sleep(200 * time.Millisecond)
		}
		t.Logf("%s: %+v, before %+v", m.name, now, before[m])
		if now.above(before[m]) {
			t.Errorf("%s holds %+v, before the jobs %+v", m.name, now, before[m])
		}
	}
}

// runManyJobs runs rounds of jobs that finish, fail, are canceled and are refused, and waits until they are cleaned up.
func runManyJobs(t *testing.T, c *cluster, rounds int) {
	t.Helper()
	for range rounds {
		var finish, fail, cancel []job
		for i := range 6 {
			m := c.members[i%3]
			finish = append(finish, m.start(spec{subtasks: 1 + i%2, rows: 20}))
			fail = append(fail, failing(m))
		}
		for i := range 3 {
			cancel = append(cancel, c.members[i].start(spec{rows: 100000, rate: 50}))
		}
		c.await(20*time.Second, "a job that asks for too many slots failed", func() bool { // it is accepted, and not run
			wide := c.members[0].start(spec{subtasks: 200, rows: 1})
			c.watch([]job{wide}, "FAILED", 20*time.Second)
			return true
		})
		c.awaitRunning(cancel...)
		for i, j := range cancel {
			c.members[(i+1)%3].stopJob(j.id)
		}
		c.watch(finish, "FINISHED", 20*time.Second)
		c.watch(fail, "FAILED", 20*time.Second)
		c.watch(cancel, "CANCELED", 20*time.Second)
		c.mapsEmptyWithin(20 * time.Second)
		for _, j := range finish {
			j.exact(t)
			if left := j.files(t, "tmp"); len(left) > 0 {
				t.Errorf("job %s left %v", j.id, left)
			}
		}
		for _, j := range cancel {
			j.nothing(t)
		}
	}
}

// usage is what a process holds.
type usage struct{ goroutines, files int }

// above allows for a few connections and requests that come and go.
func (u usage) above(v usage) bool { return u.goroutines > v.goroutines+12 || u.files > v.files+8 }

func usageOf(m *member) usage {
	m.t.Helper()
	var u usage
	figures := bufio.NewScanner(bytes.NewReader(m.get("/metrics").body))
	for figures.Scan() {
		name, value, _ := strings.Cut(figures.Text(), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "go_goroutines":
			u.goroutines = int(n)
		case "process_open_fds":
			u.files = int(n)
		}
	}
	if u.goroutines == 0 {
		m.t.Fatalf("%s: no goroutines in its metrics", m.name)
	}
	return u
}
