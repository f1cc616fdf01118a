package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const cleanup5s = "engine.state-cleanup-delay-ms=5000"

// writer writes acknowledged entries and compare-and-set increments through one member until it is stopped.
type writer struct {
	stop, done           chan struct{}
	acked                map[string]string
	added, unknown, fail int
	slowest              time.Duration
}

func startWriter(m *member) *writer {
	w := &writer{stop: make(chan struct{}), done: make(chan struct{}), acked: map[string]string{}}
	go func() {
		defer close(w.done)
		for i := 0; ; i++ {
			select {
			case <-w.stop:
				return
			default:
				w.write(m, i)
			}
		}
	}()
	return w
}

func (w *writer) write(m *member, i int) {
	start := time.Now()
	k, v := fmt.Sprintf("k%d", i%97), strconv.Itoa(i)
	a, err := m.call("PUT", "/api/v1/maps/e2e/entries/"+k, []byte(v), "Content-Type", "text/plain")
	switch {
	case err != nil || a.status == http.StatusGatewayTimeout:
		delete(w.acked, k) // it may hold either
	case a.status < 300:
		w.acked[k] = v
	}
	w.slowest = max(w.slowest, time.Since(start))
	w.increment(m)
}

func (w *writer) increment(m *member) {
	path := "/api/v1/maps/e2e/entries/counter"
	a, err := m.call("GET", path, nil)
	if err != nil || a.status != http.StatusOK && a.status != http.StatusNotFound {
		w.fail++
		return
	}
	n, cond := 0, []string{"If-None-Match", "*"}
	if a.status == http.StatusOK {
		n, _ = strconv.Atoi(string(a.body))
		cond = []string{"If-Match", a.header.Get("ETag")}
	}
	a, err = m.call("PUT", path, []byte(strconv.Itoa(n+1)), append(cond, "Content-Type", "text/plain")...)
	switch {
	case err != nil || a.status == http.StatusGatewayTimeout:
		w.unknown++
	case a.status < 300:
		w.added++
	default:
		w.fail++
	}
}

// check ends the writer and holds what was acknowledged against what a member reads.
func (w *writer) check(t *testing.T, m *member) {
	t.Helper()
	close(w.stop)
	<-w.done
	for k, v := range w.acked {
		if a := m.get("/api/v1/maps/e2e/entries/" + k); string(a.body) != v {
			t.Errorf("acknowledged write of %s=%s reads %d %q", k, v, a.status, a.body)
		}
	}
	n, _ := strconv.Atoi(string(m.get("/api/v1/maps/e2e/entries/counter").body))
	if n < w.added || n > w.added+w.unknown {
		t.Errorf("the counter is %d after %d acknowledged and %d unknown increments", n, w.added, w.unknown)
	}
	t.Logf("%d increments acknowledged, %d unknown, %d refused; slowest write %v", w.added, w.unknown, w.fail, w.slowest.Round(time.Millisecond))
}

// TestThreeMembers_MasterKilled: C036 in passing, for the jobs are submitted through all three members.
func TestThreeMembers_MasterKilled(t *testing.T) { killOne(t, true) }

func TestThreeMembers_WorkerKilled(t *testing.T) { killOne(t, false) }

func killOne(t *testing.T, master bool) {
	c := startCluster(t, 3, "--set", cleanup5s)
	var jobs []job
	for i := range 3 {
		jobs = append(jobs, startJob(t, c.members[i], i+1, 300, 100, ""))
	}
	victim := c.master()
	if !master {
		victim = c.other()
	}
	w := startWriter(c.otherThan(victim))
	c.await(20*time.Second, "all jobs running", func() bool {
		for _, j := range jobs {
			if info(c.members[0], j.id).JobStatus != "RUNNING" {
				return false
			}
		}
		return true
	})
	if master {
		c.killMaster()
	} else {
		victim.kill()
	}
	c.watch(jobs, "FINISHED", 60*time.Second)
	for _, j := range jobs {
		j.exact(t)
	}
	w.check(t, c.live()[0])
	c.mapsEmptyWithin(30 * time.Second)
}

func (c *cluster) otherThan(victim *member) *member {
	for _, m := range c.live() {
		if m != victim {
			return m
		}
	}
	return nil
}

func TestFiveMembers_TwoKilledOneAfterTheOther(t *testing.T) {
	c := startCluster(t, 5, "--set", cleanup5s)
	var jobs []job
	for i := range 3 {
		jobs = append(jobs, startJob(t, c.members[i], 3, 400, 80, ""))
	}
	master, second := c.master(), c.other()
	var third *member
	for _, m := range c.live() {
		if m != master && m != second {
			third = m
		}
	}
	w := startWriter(third)
	c.killMaster()
	c.awaitSafe(4)
	second.kill()
	c.watch(jobs, "FINISHED", 90*time.Second)
	for _, j := range jobs {
		j.exact(t)
	}
	w.check(t, third)
}

// TestNoRetries_WorkerKilled is SeaTunnel's ClusterFailureNoRestoreIT with a stricter end: FAILED, with a cause.
func TestNoRetries_WorkerKilled(t *testing.T) {
	c := startCluster(t, 3)
	j := startJob(t, c.members[0], 3, 2000, 100, `,"job.retry.times":0`)
	c.await(20*time.Second, "running", func() bool { return info(c.members[0], j.id).JobStatus == "RUNNING" })
	c.other().kill()
	c.watch([]job{j}, "FAILED", 30*time.Second)
	if v := info(c.live()[0], j.id); v.ErrorMsg == nil || !strings.Contains(*v.ErrorMsg, "job.retry.times") {
		t.Errorf("cause: %v", v.ErrorMsg)
	}
	if n := len(j.lines(t)); n > 0 {
		t.Errorf("a failed job left %d rows", n)
	}
}

// TestC005_FiveMembers_TwoMastersKilledInsideTheCleanupDelay: C005, apache/seatunnel#10687. The result of an ended job is kept, a running job
// goes on, and nothing is left when the delay is over.
func TestC005_FiveMembers_TwoMastersKilledInsideTheCleanupDelay(t *testing.T) {
	c := startCluster(t, 5, "--backup-count", "2", "--set", "engine.state-cleanup-delay-ms=12000")
	done := startJob(t, c.members[1], 2, 10, 0, "")
	c.watch([]job{done}, "FINISHED", 20*time.Second)
	live := startJob(t, c.members[2], 1, 600, 40, "")
	files := stamps(t, done)
	for range 2 {
		c.killMaster()
		for _, m := range c.live() {
			if v := info(m, done.id); v.JobStatus != "FINISHED" {
				t.Errorf("%s shows the ended job %s", m.name, v.JobStatus)
			}
			if got := ids(read[[]jobView](m, "/running-jobs")); len(got) != 1 || got[0] != live.id {
				t.Errorf("%s lists %v as running, want %s", m.name, got, live.id)
			}
			if o := read[overview](m, "/overview"); o.RunningJobs != "1" || o.FinishedJobs != "1" {
				t.Errorf("%s counts %+v", m.name, o)
			}
		}
	}
	c.watch([]job{done, live}, "FINISHED", 60*time.Second)
	live.exact(t)
	if now := stamps(t, done); now != files {
		t.Errorf("the files of the ended job changed from %s to %s", files, now)
	}
	c.mapsEmptyWithin(60 * time.Second)
	if v := info(c.live()[0], done.id); v.JobStatus != "FINISHED" {
		t.Errorf("after the cleanup the job is %s", v.JobStatus)
	}
}

func stamps(t *testing.T, j job) string {
	t.Helper()
	var out strings.Builder
	files, _ := filepath.Glob(filepath.Join(j.dir, "out", "*"))
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %d %v;", filepath.Base(f), st.Size(), st.ModTime())
	}
	return out.String()
}

// TestRollingTermination: members are told to leave one after the other, while fresh ones come; nothing acknowledged is lost.
func TestRollingTermination(t *testing.T) {
	c := startCluster(t, 3)
	for range 3 {
		fresh := c.add("127.0.0.1:0", "127.0.0.1:0")
		c.awaitSafe(4)
		old := c.live()[0]
		w := startWriter(fresh)
		if code := old.term(20 * time.Second); code != 0 {
			t.Errorf("%s exits %d on SIGTERM", old.name, code)
		}
		c.awaitSafe(3)
		w.check(t, c.live()[0])
		for _, k := range []string{"counter"} {
			if a, err := fresh.call("DELETE", "/api/v1/maps/e2e/entries/"+k, nil); err != nil || a.status >= 300 {
				t.Fatalf("delete: %v %v", a.status, err)
			}
		}
	}
}

// TestRestartAtTheSameAddress: a killed member that starts again under its ports is a new, empty member, and joins.
func TestRestartAtTheSameAddress(t *testing.T) {
	c := startCluster(t, 3)
	for range 2 {
		victim := c.other()
		a, err := c.otherThan(victim).call("PUT", "/api/v1/maps/m/entries/k", []byte("v"), "Content-Type", "text/plain")
		if err != nil || a.status >= 300 {
			t.Fatalf("put: %v %v", a.status, err)
		}
		victim.kill()
		back := c.add(victim.grid, strings.TrimPrefix(victim.http, "http://"))
		c.awaitSafe(3)
		if a := back.get("/api/v1/maps/m/entries/k"); string(a.body) != "v" {
			t.Errorf("after the restart: %d %s", a.status, a.body)
		}
	}
}
