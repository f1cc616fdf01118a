package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// failure checks the body of a refusal: a status of the caller's fault, and a message that names what is wrong.
func failure(t *testing.T, what string, a answer, names string) {
	t.Helper()
	var v struct{ Status, Message string }
	if err := json.Unmarshal(a.body, &v); err != nil || v.Status != "fail" {
		t.Errorf("%s: answered %d %s", what, a.status, a.body)
		return
	}
	if a.status < 400 || a.status >= 500 {
		t.Errorf("%s: status %d, want 4xx", what, a.status)
	}
	if v.Message == "" || v.Message == "null" || !strings.Contains(v.Message, names) {
		t.Errorf("%s: message %q does not name %q", what, v.Message, names)
	}
	if strings.Contains(string(a.body), "goroutine ") {
		t.Errorf("%s: a stack trace is in the answer", what)
	}
}

func post(t *testing.T, m *member, path, body string) answer {
	t.Helper()
	a, err := m.call("POST", path, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestBadInput covers C030, C031 to C033 as far as there are savepoints, and decision D5: what cannot be run is refused, by name, and leaves
// no trace.
func TestBadInput(t *testing.T) {
	c := startCluster(t, 3)
	const src = `"source":[{"plugin_name":"FakeSource","schema":{"fields":{"id":"bigint"}}}]`
	const sink = `"sink":[{"plugin_name":"Console"}]`
	for i, bad := range []struct{ body, query, names string }{
		{``, "", "empty"},
		{`not json`, "", "JSON"},
		{`{"env":{},"source":[{"Jdbc":{"url":"x"}}],` + sink + `}`, "", "plugin_name"},
		{`{"env":{},` + src + `}`, "", "sink"},
		{`{"env":{},` + src + `,"sink":[]}`, "", "sink"},
		{`{"env":{},"source":[],` + sink + `}`, "", "source"},
		{`{"env":{"parallelism":0},` + src + `,` + sink + `}`, "", "parallelism"},
		{`{"env":{"parallelism":-3},` + src + `,` + sink + `}`, "", "parallelism"},
		{`{"env":{"parallelism":"many"},` + src + `,` + sink + `}`, "", "parallelism"},
		{`{"env":{"job.mode":"SOMETIMES"},` + src + `,` + sink + `}`, "", "job.mode"},
		{`{"env":{"no.such.option":1},` + src + `,` + sink + `}`, "", "no.such.option"},
		{`{"env":{},"source":[{"plugin_name":"Nope"}],` + sink + `}`, "", "Nope"},
		{`{"env":{},"source":[{"plugin_name":"FakeSource"}],` + sink + `}`, "", "schema"},
		{`{"env":{},"source":[{"plugin_name":"FakeSource","row.num":-1,"schema":{"fields":{"id":"bigint"}}}],` + sink + `}`, "", "row.num"},
		{`{"env":{},"source":[{"plugin_name":"FakeSource","row.nmu":1,"schema":{"fields":{"id":"bigint"}}}],` + sink + `}`, "", "row.nmu"},
		{`{"env":{},` + src + `,"sink":[{"plugin_name":"LocalFile","file_format_type":"csv"}]}`, "", "path"},
		{`{"env":{},` + src + `,"sink":[{"plugin_name":"LocalFile","path":"/tmp/x","file_format_type":"parquet"}]}`, "", "file_format_type"},
		{`{"env":{},` + src + `,"transform":[{"plugin_name":"Filter","include_fields":["nope"]}],` + sink + `}`, "", "nope"},
		{`{"env":{},` + src + `,"sink":[{"plugin_name":"Console","plugin_input":"nowhere"}]}`, "", "nowhere"},
		{`{"env":{},` + src + `,` + sink + `}`, "?jobId=abc", "abc"},
		{`{"env":{},` + src + `,` + sink + `}`, "?jobId=9223372036854775808", "9223372036854775808"},
		{`{"env":{},` + src + `,` + sink + `}`, "?isStartWithSavePoint=true", "jobId"},
		{`{"env":{},` + src + `,` + sink + `}`, "?isStartWithSavePoint=true&jobId=77", "77"},
		{`{"env":{},` + src + `,` + sink + `}`, "?format=hocon", "hocon"},
	} {
		a := post(t, c.members[i%3], "/submit-job"+bad.query, bad.body)
		failure(t, fmt.Sprintf("%s %s", bad.query, bad.body), a, bad.names)
	}
	for _, m := range c.members {
		if list := read[[]jobView](m, "/running-jobs"); len(list) > 0 {
			t.Errorf("%s lists %v after nothing but refusals", m.name, list)
		}
		if o := read[overview](m, "/overview"); o.RunningJobs+o.PendingJobs+o.FinishedJobs+o.FailedJobs+o.CancelledJobs != "00000" {
			t.Errorf("%s counts %+v", m.name, o)
		}
	}
	if left := leftovers(c.members[0]); len(left) > 0 {
		t.Errorf("left in the engine's maps: %v", left)
	}
	// C030: no env is accepted with defaults.
	submit(c.members[0], []byte(`{`+src+`,`+sink+`}`), "")
}

// TestC045_MalformedIDsInPaths, and C047: stopping what is not there or has ended.
func TestC045_C047_IDsOfJobs(t *testing.T) {
	c := startCluster(t, 3)
	m := c.members[1]
	for _, id := range []string{"abc", "12abc", "1.0", "1e3", "-", "9223372036854775808", "%20"} {
		value, _ := url.PathUnescape(id)
		failure(t, "job-info "+id, m.get("/job-info/"+id), strings.TrimSpace(value))
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
	done := startJob(t, m, 1, 5, 0, "")
	c.watch([]job{done}, "FINISHED", 20*time.Second)
	before := read[overview](m, "/overview")
	a := post(t, m, "/stop-job", `{"jobId":"123456789"}`)
	if failure(t, "stop of an unknown job", a, "123456789"); a.status != http.StatusNotFound {
		t.Errorf("stop of an unknown job: %d", a.status)
	}
	if a := post(t, m, "/stop-job", fmt.Sprintf(`{"jobId":%q}`, done.id)); a.status != 200 && a.status != 409 {
		t.Errorf("stop of an ended job: %d %s", a.status, a.body)
	}
	if now := read[overview](m, "/overview"); now != before || info(m, done.id).JobStatus != "FINISHED" {
		t.Errorf("after the stops: %+v, before %+v", now, before)
	}
}

// TestC029_C034_C035_C036_C037_Jobs: exact ids, names as sent, lists by state, any member answers, an id is used once.
func TestC029_C034_C035_C036_C037_Jobs(t *testing.T) {
	c := startCluster(t, 3, "--set", cleanup5s)
	const id = "913457286014730241"
	dir := t.TempDir()
	name := "同步-Ünï 😀"
	if got := submit(c.members[0], sequence(dir, 1, 30, 10, ""), "?jobId="+id+"&jobName="+url.QueryEscape(name)); got != id {
		t.Errorf("submitted as %s", got)
	}
	if again := submit(c.members[1], sequence(dir, 1, 30, 10, ""), "?jobId="+id); again != id { // C037
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
	if a := post(t, c.members[2], "/submit-job?jobId="+id, string(sequence(dir, 1, 30, 0, ""))); a.status != http.StatusConflict {
		t.Errorf("submitted after its end: %d %s", a.status, a.body)
	}
	first.exact(t)

	var stopped []job
	for i, m := range c.members { // C036: submitted through one member, stopped through another, as string and as number
		j := startJob(t, m, 1, 10000, 10, "")
		c.await(10*time.Second, "running", func() bool { return info(m, j.id).JobStatus == "RUNNING" })
		body := fmt.Sprintf(`{"jobId":%q}`, j.id)
		if i == 1 {
			body = fmt.Sprintf(`{"jobId":%s}`, j.id)
		}
		if a := post(t, c.members[(i+1)%3], "/stop-job", body); a.status != 200 {
			t.Errorf("stop: %d %s", a.status, a.body)
		}
		stopped = append(stopped, j)
	}
	c.watch(stopped, "CANCELED", 20*time.Second)
	c.watch([]job{failing(t, c.members[0])}, "FAILED", 20*time.Second)
	for path, want := range map[string]int{ // C035
		"/finished-jobs": 5, "/finished-jobs/": 5, "/finished-jobs/FINISHED": 1, "/finished-jobs/canceled": 3, "/finished-jobs/FAILED": 1,
	} {
		if got := len(read[[]jobView](c.members[1], path)); got != want {
			t.Errorf("%s has %d entries, want %d", path, got, want)
		}
	}
	failure(t, "an unknown state", c.members[1].get("/finished-jobs/NOPE"), "NOPE")
}

// failing starts a job that fails at once and for good.
func failing(t *testing.T, m *member) job {
	t.Helper()
	return job{id: submit(m, []byte(`{"env":{"job.name":"bad"},"source":[{"plugin_name":"FakeSource","row.num":1,
"schema":{"fields":{"id":"bigint"}}}],"sink":[{"plugin_name":"Assert","rules":{"row_rules":[{"rule_type":"MIN_ROW","rule_value":9}]}}]}`), "")}
}

// TestC044_C051_C052_ListsAndCounters: one job in each state; all lists and counters agree on every member, before and after the master dies
// and a member comes back.
func TestC044_C051_C052_ListsAndCounters(t *testing.T) {
	c := startCluster(t, 3, "--set", "engine.state-cleanup-delay-ms=3000", "--set", "engine.history-job-expire-minutes=60")
	m := c.other()
	var finished []job
	for range 3 {
		finished = append(finished, startJob(t, m, 1, 3, 0, ""))
	}
	failed := []job{failing(t, m), failing(t, m)}
	canceled := startJob(t, m, 1, 10000, 10, "")
	running := startJob(t, m, 1, 10000, 10, "")
	c.watch(finished, "FINISHED", 20*time.Second)
	c.watch(failed, "FAILED", 20*time.Second)
	if a := post(t, m, "/stop-job", fmt.Sprintf(`{"jobId":%q}`, canceled.id)); a.status != 200 {
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
	c := startCluster(t, 1, "--set", "engine.slot-service.dynamic-slot=false", "--set", "engine.slot-service.slot-num=1",
		"--set", "engine.job-schedule-strategy=WAIT")
	m := c.members[0]
	holder := startJob(t, m, 1, 10000, 20, "")
	c.await(10*time.Second, "the holder running", func() bool { return info(m, holder.id).JobStatus == "RUNNING" })
	waiting := startJob(t, m, 1, 10, 0, "")
	c.await(10*time.Second, "the other pending", func() bool { return info(m, waiting.id).JobStatus == "PENDING" })
	if o := read[overview](m, "/overview"); o.RunningJobs != "1" || o.PendingJobs != "1" {
		t.Errorf("counts: %+v", o)
	}
	if got := ids(read[[]jobView](m, "/running-jobs")); len(got) != 2 {
		t.Errorf("listed as not ended: %v", got)
	}
	if a := post(t, m, "/stop-job", fmt.Sprintf(`{"jobId":%q}`, waiting.id)); a.status != 200 {
		t.Fatalf("stop: %d %s", a.status, a.body)
	}
	c.watch([]job{waiting}, "CANCELED", 5*time.Second)
	if a := post(t, m, "/stop-job", fmt.Sprintf(`{"jobId":%q}`, holder.id)); a.status != 200 {
		t.Fatalf("stop: %d %s", a.status, a.body)
	}
	c.watch([]job{holder, waiting}, "CANCELED", 10*time.Second)
	if n := len(waiting.lines(t)); n > 0 {
		t.Errorf("the stopped job wrote %d rows", n)
	}
}

// TestMaps walks through the maps' REST on every member.
func TestMaps(t *testing.T) {
	c := startCluster(t, 3)
	do := func(m *member, method, key, body string, want int, header ...string) answer {
		t.Helper()
		a, err := m.call(method, "/api/v1/maps/m/entries/"+key, []byte(body), header...)
		if err != nil || a.status != want {
			t.Errorf("%s %s %s %v: %d %s %v, want %d", method, key, body, header, a.status, a.body, err, want)
		}
		return a
	}
	for i, m := range c.members {
		next := c.members[(i+1)%3]
		key := url.PathEscape(fmt.Sprintf("a/b %d", i))
		do(m, "GET", key, "", 404)
		tag := do(m, "PUT", key, `{"n":1}`, 201, "Content-Type", "application/json").header.Get("ETag")
		a := do(next, "GET", key, "", 200)
		if string(a.body) != `{"n":1}` || a.header.Get("ETag") != tag || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
			t.Errorf("read %s %v", a.body, a.header)
		}
		do(next, "PUT", key, "x", 412, "If-None-Match", "*", "Content-Type", "text/plain")
		do(next, "PUT", key, "x", 412, "If-Match", `"1"`, "Content-Type", "text/plain")
		do(next, "PUT", key, "x", 200, "If-Match", tag, "Content-Type", "text/plain")
		do(next, "PUT", key, "<p>", 200, "Content-Type", "text/html")
		if a := do(m, "GET", key, "", 200); !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("content type %s", a.header.Get("Content-Type"))
		}
		do(m, "PUT", key, "{", 400, "Content-Type", "application/json")
		do(m, "DELETE", key, "", 204)
		do(next, "GET", key, "", 404)
	}
	m := c.members[0]
	failure(t, "a bad ttl", do(m, "PUT", "k?ttl=soon", "v", 400, "Content-Type", "text/plain"), "ttl")
	do(m, "PUT", "k?ttl=1s", "v", 201, "Content-Type", "text/plain")
	do(m, "GET", "k", "", 200)
	took := c.await(5*time.Second, "expiry", func() bool { return c.members[1].get("/api/v1/maps/m/entries/k").status == 404 })
	if took < 500*time.Millisecond {
		t.Errorf("an entry with a second to live was gone after %v", took)
	}
}
