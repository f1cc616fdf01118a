package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const cleanup5s = "engine.state-cleanup-delay-ms=5000"

// TestThreeMembers_MasterKilled covers C024 and C051: the jobs run on, and at every poll every survivor lists and counts them right.
func TestThreeMembers_MasterKilled(t *testing.T) { killOne(t, true) }

// TestThreeMembers_WorkerKilled is the same with a member that is not the master.
func TestThreeMembers_WorkerKilled(t *testing.T) { killOne(t, false) }

func killOne(t *testing.T, master bool) {
	t.Parallel()
	c := startCluster(t, 3, "--set", cleanup5s)
	victim := c.master()
	if !master {
		victim = c.other()
	}
	jobs := c.startEvenly(spec{subtasks: 1, rows: 300, rate: 100}, spec{subtasks: 2, rows: 300, rate: 100}, spec{subtasks: 3, rows: 300, rate: 100})
	writers := startWriters(c.keyOf(victim), c.otherThan(victim))
	c.awaitRunning(jobs...)
	c.killMember(victim)
	c.watch(jobs, "FINISHED", 60*time.Second)
	for _, j := range jobs {
		j.exact(t)
	}
	check(t, writers, c.live()...)
	c.mapsEmptyWithin(30 * time.Second)
}

func TestFiveMembers_TwoKilledOneAfterTheOther(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5, "--set", cleanup5s)
	jobs := c.startEvenly(spec{subtasks: 3, rows: 400, rate: 80}, spec{subtasks: 3, rows: 400, rate: 80}, spec{subtasks: 3, rows: 400, rate: 80})
	first, second := c.master(), c.other()
	writers := startWriters(c.keyOf(first), c.otherThan(first, second))
	c.awaitRunning(jobs...)
	c.killMember(first)
	c.awaitSafe(4)
	c.killMember(second)
	c.watch(jobs, "FINISHED", 90*time.Second)
	for _, j := range jobs {
		j.exact(t)
	}
	check(t, writers, c.live()...)
}

// TestNoRetries_WorkerKilled is SeaTunnel's ClusterFailureNoRestoreIT with a stricter end: FAILED, with a cause, and no rows.
func TestNoRetries_WorkerKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	j := c.members[0].start(spec{subtasks: 3, rows: 20000, rate: 100, env: `,"job.retry.times":0`})
	c.awaitRunning(j)
	victim := c.other()
	c.killMember(victim)
	c.watch([]job{j}, "FAILED", 30*time.Second)
	for _, m := range c.live() {
		if cause := info(m, j.id).cause(); !strings.Contains(cause, "job.retry.times") || !strings.Contains(cause, "member") {
			t.Errorf("%s shows as cause %q", m.name, cause)
		}
	}
	j.nothing(t)
}

// TestMapWrites_PrimaryKilled kills the primary of a counter while two others count, three times: once it is the master too.
func TestMapWrites_PrimaryKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	for round := range 3 {
		victim := c.other()
		if round == 2 {
			victim = c.master()
		}
		survivors := slices.DeleteFunc(c.live(), func(m *member) bool { return m == victim })
		writers := startWriters(c.keyOf(victim), survivors...)
		time.Sleep(time.Duration(300+37*round) * time.Millisecond) // they write meanwhile
		c.killMember(victim)
		c.awaitSafe(2)
		check(t, writers, survivors...)
		victim.restart()
		c.awaitSafe(3)
	}
}

// TestC005_FiveMembers_TwoMastersKilledInsideTheCleanupDelay: the result of an ended job is kept, a running job goes on, and nothing is left
// when the delay is over. Two backups, so that two deaths close together lose nothing.
func TestC005_FiveMembers_TwoMastersKilledInsideTheCleanupDelay(t *testing.T) {
	t.Parallel()
	const delay = 10 * time.Second
	c := startCluster(t, 5, "--backup-count", "2", "--set", fmt.Sprintf("engine.state-cleanup-delay-ms=%d", delay.Milliseconds()))
	live := c.members[2].start(spec{rows: 600, rate: 60})
	done := c.members[1].start(spec{subtasks: 2, rows: 10})
	c.watch([]job{done}, "FINISHED", 20*time.Second)
	ended, files := time.Now(), done.files(t, "out")
	for range 2 {
		c.killMaster()
		if late := time.Since(ended); late > delay*8/10 {
			t.Errorf("the kill came %v after the job's end, too late to mean anything", late)
		}
		for _, m := range c.live() {
			c.poll(m)
			if got := ids(list(m, "/running-jobs")); !slices.Equal(got, []string{live.id}) {
				t.Errorf("%s lists %v as running, want %s", m.name, got, live.id)
			}
			if o := read[overview](m, "/overview"); o.RunningJobs != "1" || o.FinishedJobs != "1" {
				t.Errorf("%s counts %+v", m.name, o)
			}
		}
	}
	c.watch([]job{done, live}, "FINISHED", 60*time.Second)
	live.exact(t)
	c.mapsEmptyWithin(delay + 20*time.Second)
	if now := done.files(t, "out"); !slices.Equal(now, files) {
		t.Errorf("the files of the ended job changed from %v to %v", files, now)
	}
	for _, m := range c.live() {
		c.poll(m) // after the cleanup, too
	}
}

// TestC005_JobsEnd_MasterKilled: jobs end before, at and after the moment at which the master dies. Each ends once.
func TestC005_JobsEnd_MasterKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--set", "engine.state-cleanup-delay-ms=1000")
	var specs []spec
	for i := range 14 {
		specs = append(specs, spec{subtasks: 1 + i%3, rows: 50 + 10*i, rate: 100})
	}
	jobs := c.startEvenly(specs...)
	first := jobs[2:3]
	c.watch(first, "FINISHED", 20*time.Second)
	c.awaitMaster()
	c.master().kill()                   // at once
	written := first[0].files(t, "out") // with sizes and times
	c.watch(jobs, "FINISHED", 60*time.Second)
	for _, j := range jobs {
		j.exact(t)
	}
	c.mapsEmptyWithin(20 * time.Second)
	if now := first[0].files(t, "out"); !slices.Equal(now, written) {
		t.Errorf("the output of a job that had ended was %v, and is %v", written, now)
	}
}

// TestSubmits_MasterKilled: jobs are submitted all the time while the master dies. A submit with a key may be repeated until it is answered, and
// makes one job; what is accepted, runs.
func TestSubmits_MasterKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	c.awaitMaster()
	victim := c.master()
	survivors := slices.DeleteFunc(c.live(), func(m *member) bool { return m == victim })
	var mu sync.Mutex
	var jobs []job
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i, m := range survivors {
		dir := t.TempDir()
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
				j := job{dir: fmt.Sprintf("%s/%d", dir, n), rows: 5}
				if j.id = submitWithKey(m, spec{rows: j.rows}.config(j.dir), fmt.Sprintf("key-%d-%d", i, n)); j.id == "" {
					return
				}
				mu.Lock()
				jobs = append(jobs, j)
				mu.Unlock()
			}
		})
	}
	time.Sleep(500 * time.Millisecond) // some are submitted
	c.killMember(victim)
	time.Sleep(500 * time.Millisecond) // some more
	close(stop)
	wg.Wait()
	for _, j := range jobs {
		c.jobs[j.id] = true
	}
	if len(c.jobs) != len(jobs) {
		t.Errorf("%d submits made %d jobs", len(jobs), len(c.jobs))
	}
	c.watch(jobs, "FINISHED", 30*time.Second)
	for _, j := range jobs {
		j.exact(t)
	}
	t.Logf("%d jobs", len(jobs))
}

// submitWithKey repeats a submit until it is accepted; it returns "" and fails the test if that takes too long or it is refused.
func submitWithKey(m *member, config, key string) string {
	for end := time.Now().Add(20 * time.Second); ; {
		a, err := m.call("POST", "/submit-job", []byte(config), "Idempotency-Key", key)
		if err == nil {
			if id, bad := submitted(a); bad == nil {
				return id
			}
		}
		if time.Now().After(end) || err == nil && a.status < 500 {
			m.t.Errorf("%s: submit: %d %s %v", m.name, a.status, a.body, err)
			return ""
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestC006_C007_StopThenKill: a stop was accepted, then a member dies at once or a little later, the master or another. The job is canceled, not
// failed, and nothing of it goes on.
func TestC006_C007_StopThenKill(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--set", "engine.state-cleanup-delay-ms=500")
	for i, after := range []time.Duration{0, 20 * time.Millisecond, 50 * time.Millisecond, 0, 100 * time.Millisecond, 200 * time.Millisecond} {
		c.awaitMaster()
		victim := c.master()
		if i%3 == 2 {
			victim = c.other()
		}
		through := c.otherThan(victim)
		j := through.start(spec{subtasks: 3, rows: 100000, rate: 50})
		c.awaitRunning(j)
		through.stopJob(j.id)
		time.Sleep(after)
		victim.kill()
		c.watch([]job{j}, "CANCELED", 30*time.Second)
		c.mapsEmptyWithin(20 * time.Second)
		j.nothing(t)
		victim.restart()
		c.awaitSafe(3)
	}
}
