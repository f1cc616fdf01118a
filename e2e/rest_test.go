package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestC045_MalformedIDsInPaths, and C047: stopping what is not there or has ended.
func TestC045_C047_IDsOfJobs(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	m := c.members[1]
	for _, id := range []string{"abc", "12abc", "1.0", "1e3", "-", "9223372036854775808", "%20"} {
		value, _ := url.PathUnescape(id)
		refused(t, "job-info "+id, m.get("/job-info/"+id), strings.TrimSpace(value))
	}
	for _, path := range []string{"/job-info/", "/job-info/../overview"} {
		if a := m.get(path); a.status >= 500 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	for _, id := range []string{"123456789", "-1", "0"} {
		if a := m.get("/job-info/" + id); a.status != 200 || strings.TrimSpace(string(a.body)) != fmt.Sprintf(`{"jobId":%q}`, id) {
			t.Errorf("job-info of unknown %s: %d %s", id, a.status, a.body)
		}
	}
	done := m.start(spec{rows: 5})
	c.watch([]job{done}, "FINISHED", 20*time.Second)
	before := read[overview](m, "/overview")
	a := m.post("/stop-job", `{"jobId":"123456789"}`)
	if refused(t, "stop of an unknown job", a, "123456789"); a.status != http.StatusNotFound {
		t.Errorf("stop of an unknown job: %d", a.status)
	}
	if a := m.post("/stop-job", fmt.Sprintf(`{"jobId":%q}`, done.id)); a.status != 200 && a.status != 409 {
		t.Errorf("stop of an ended job: %d %s", a.status, a.body)
	}
	if now := read[overview](m, "/overview"); now != before || info(m, done.id).JobStatus != "FINISHED" {
		t.Errorf("after the stops: %+v, before %+v", now, before)
	}
}

// TestC029_C034_C035_C036_C037_Jobs: exact ids, names as sent, lists by state, any member answers, an id is used once.
// It is Z22 of the engine's zetaRows.
func TestC029_C034_C035_C036_C037_Jobs(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--set", cleanup5s)
	const id = "913457286014730241"
	dir := t.TempDir()
	name := "同步-Ünï 😀"
	if got := c.members[0].submit(spec{rows: 30, rate: 10}.config(dir), "?jobId="+id+"&jobName="+url.QueryEscape(name)); got != id {
		t.Errorf("submitted as %s", got)
	}
	if again := c.members[1].submit(spec{rows: 30, rate: 10}.config(dir), "?jobId="+id); again != id { // C037
		t.Errorf("submitted again as %s", again)
	}
	for _, m := range c.members {
		a := m.get("/job-info/" + id)
		if !bytes.Contains(a.body, []byte(`"jobId":"`+id+`"`)) || info(m, id).JobName != name {
			t.Errorf("%s: %s", m.name, a.body)
		}
		if typ := strings.ToLower(strings.ReplaceAll(a.header.Get("Content-Type"), " ", "")); typ != "application/json;charset=utf-8" {
			t.Errorf("content type %q", typ)
		}
		if !bytes.Contains(m.get("/running-jobs").body, []byte(`"jobId":"`+id+`"`)) {
			t.Errorf("%s does not list it as running", m.name)
		}
	}
	first := job{id: id, dir: dir, rows: 30}
	c.watch([]job{first}, "FINISHED", 30*time.Second)
	first.exact(t)
	if a := c.members[2].post("/submit-job?jobId="+id, spec{rows: 30}.config(dir)); a.status != http.StatusConflict {
		t.Errorf("submitted after its end: %d %s", a.status, a.body)
	}
	first.exact(t)

	var stopped []job
	for i, m := range c.members { // C036: submitted through one member, stopped through another, as string and as number
		j := m.start(spec{rows: 10000, rate: 10})
		c.await(10*time.Second, "running", func() bool { return info(m, j.id).JobStatus == "RUNNING" })
		body := fmt.Sprintf(`{"jobId":%q}`, j.id)
		if i == 1 {
			body = fmt.Sprintf(`{"jobId":%s}`, j.id)
		}
		if a := c.members[(i+1)%3].post("/stop-job", body); a.status != 200 {
			t.Errorf("stop: %d %s", a.status, a.body)
		}
		stopped = append(stopped, j)
	}
	c.watch(stopped, "CANCELED", 20*time.Second)
	c.watch([]job{failing(c.members[0])}, "FAILED", 20*time.Second)
	for path, want := range map[string]int{ // C035
		"/finished-jobs": 5, "/finished-jobs/": 5, "/finished-jobs/FINISHED": 1, "/finished-jobs/canceled": 3, "/finished-jobs/FAILED": 1,
	} {
		if got := len(read[[]jobView](c.members[1], path)); got != want {
			t.Errorf("%s has %d entries, want %d", path, got, want)
		}
	}
	refused(t, "an unknown state", c.members[1].get("/finished-jobs/NOPE"), "NOPE")
}

// failing starts a job that fails at once and for good.
func failing(m *member) job {
	m.t.Helper()
	return job{id: m.submit(`{"env":{"job.name":"bad","job.retry.times":0},"source":[{"plugin_name":"FakeSource","row.num":1,
"schema":{"fields":{"id":"bigint"}}}],"sink":[{"plugin_name":"Assert","rules":{"row_rules":[{"rule_type":"MIN_ROW","rule_value":9}]}}]}`, "")}
}

// TestC044_C051_C052_ListsAndCounters: one job in each state; all lists and counters agree on every member, before and after the master dies
// and a member comes back.
func TestC044_C051_C052_ListsAndCounters(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--set", "engine.state-cleanup-delay-ms=3000", "--set", "engine.history-job-expire-minutes=60")
	m := c.other()
	var finished []job
	for range 3 {
		finished = append(finished, m.start(spec{rows: 3}))
	}
	failed := []job{failing(m), failing(m)}
	canceled := m.start(spec{rows: 10000, rate: 10})
	running := m.start(spec{rows: 10000, rate: 10})
	c.watch(finished, "FINISHED", 20*time.Second)
	c.watch(failed, "FAILED", 20*time.Second)
	if a := m.post("/stop-job", fmt.Sprintf(`{"jobId":%q}`, canceled.id)); a.status != 200 {
		t.Fatalf("stop: %d %s", a.status, a.body)
	}
	c.watch([]job{canceled}, "CANCELED", 20*time.Second)
	c.await(10*time.Second, "running", func() bool { return info(m, running.id).JobStatus == "RUNNING" })
	check := func(workers string) {
		t.Helper()
		for _, m := range c.live() {
			want := overview{workers, workers, "1", "0", "3", "2", "1"}
			if o := read[overview](m, "/overview"); o != want {
				t.Errorf("%s counts %+v, want %+v", m.name, o, want)
			}
			if got := ids(read[[]jobView](m, "/running-jobs")); !slices.Equal(got, []string{running.id}) {
				t.Errorf("%s lists %v as running, want %s", m.name, got, running.id)
			}
			v := info(m, failed[0].id)
			if v.ErrorMsg == nil || !strings.Contains(*v.ErrorMsg, "MIN_ROW") || v.FinishedTime == "" || v.FinishedTime < v.CreateTime {
				t.Errorf("%s shows the failed job as %+v", m.name, v)
			}
			if v := info(m, running.id); v.FinishedTime != "" || v.FinishTime != "" {
				t.Errorf("%s shows a running job with an end: %+v", m.name, v)
			}
		}
	}
	check("3")
	victim := c.killMaster()
	c.await(10*time.Second, "2 workers", func() bool { return read[overview](c.live()[0], "/overview").Workers == "2" })
	check("2")
	c.add(victim.grid, strings.TrimPrefix(victim.http, "http://"))
	c.awaitSafe(3)
	check("3")
}

// TestC016_PendingJobs: a job that waits for a slot is listed as pending, can be stopped, and never runs after that.
func TestC016_PendingJobs(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, "--set", "engine.slot-service.dynamic-slot=false", "--set", "engine.slot-service.slot-num=1",
		"--set", "engine.job-schedule-strategy=WAIT")
	m := c.members[0]
	holder := m.start(spec{rows: 10000, rate: 20})
	c.await(10*time.Second, "the holder running", func() bool { return info(m, holder.id).JobStatus == "RUNNING" })
	waiting := m.start(spec{rows: 10})
	c.await(10*time.Second, "the other pending", func() bool { return info(m, waiting.id).JobStatus == "PENDING" })
	if o := read[overview](m, "/overview"); o.RunningJobs != "1" || o.PendingJobs != "1" {
		t.Errorf("counts: %+v", o)
	}
	if got := ids(read[[]jobView](m, "/running-jobs")); len(got) != 2 {
		t.Errorf("listed as not ended: %v", got)
	}
	if a := m.post("/stop-job", fmt.Sprintf(`{"jobId":%q}`, waiting.id)); a.status != 200 {
		t.Fatalf("stop: %d %s", a.status, a.body)
	}
	c.watch([]job{waiting}, "CANCELED", 5*time.Second)
	if a := m.post("/stop-job", fmt.Sprintf(`{"jobId":%q}`, holder.id)); a.status != 200 {
		t.Fatalf("stop: %d %s", a.status, a.body)
	}
	c.watch([]job{holder, waiting}, "CANCELED", 10*time.Second)
	if o := read[overview](m, "/overview"); o.CancelledJobs != "2" || o.RunningJobs+o.PendingJobs != "00" {
		t.Errorf("counts after both were stopped: %+v", o)
	}
	waiting.nothing(t)
}

// TestC040_C041_ManyJobs: names belong to their jobs also when many are submitted at once, and a job may be run again and again.
func TestC040_C041_ManyJobs(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	const jobs = 30
	got := make([]string, jobs)
	var wg sync.WaitGroup
	for i := range jobs {
		wg.Go(func() {
			body := `{` + anySource + `,` + anySink + `}`
			a, err := c.members[i%3].call("POST", fmt.Sprintf("/submit-job?jobName=job-%d", i), []byte(body))
			if err != nil {
				t.Errorf("submit: %v", err)
				return
			}
			if got[i], err = submitted(a); err != nil {
				t.Errorf("submit: %v", err)
			}
		})
	}
	wg.Wait()
	var all []job
	for _, id := range got {
		c.jobs[id] = true
		all = append(all, job{id: id})
	}
	all = append(all, job{id: c.members[0].submit(`{`+anySource+`,`+anySink+`}`, "")})
	for range 5 {
		again := c.members[1].start(spec{rows: 10})
		c.watch([]job{again}, "FINISHED", 20*time.Second)
		again.exact(t)
	}
	c.watch(all, "FINISHED", 20*time.Second)
	for i, j := range all {
		want := fmt.Sprintf("job-%d", i)
		if i == jobs {
			want = "SeaTunnel_Job"
		}
		if name := info(c.members[2], j.id).JobName; name != want {
			t.Errorf("job %d is called %q, want %q", i, name, want)
		}
	}
}

// TestC014_FixedSlots_MasterKilled: a job that holds all slots is the owner of them for the next master, too, and gives them back when it ends.
func TestC014_FixedSlots_MasterKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--set", "engine.slot-service.dynamic-slot=false", "--set", "engine.slot-service.slot-num=2")
	for _, roles := range []string{"data", "data", "data,worker", "data,worker"} {
		c.add(loopback, loopback, "--roles", roles)
	}
	c.awaitSafe(4)
	j := c.members[0].start(spec{subtasks: 4, rows: 100000, rate: 20})
	c.awaitRunning(j)
	slots := func() (total, free string) {
		v := read[struct{ TotalSlot, UnassignedSlot string }](c.live()[0], "/overview")
		return v.TotalSlot, v.UnassignedSlot
	}
	if total, free := slots(); total != "4" || free != "0" {
		t.Errorf("%s of %s slots are free while the job holds all", free, total)
	}
	c.killMaster()
	c.awaitRunning(j)
	if v := info(c.live()[0], j.id); v.Restarts != "0" {
		t.Errorf("the job was started again: %s restarts", v.Restarts)
	}
	c.live()[0].stopJob(j.id)
	c.watch([]job{j}, "CANCELED", 20*time.Second)
	c.await(10*time.Second, "all slots free", func() bool { total, free := slots(); return total == "4" && free == "4" })
}
