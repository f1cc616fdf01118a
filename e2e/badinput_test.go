package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	anySource = `"source":[{"plugin_name":"FakeSource","schema":{"fields":{"id":"bigint"}}}]`
	anySink   = `"sink":[{"plugin_name":"Console"}]`
)

// badJobs are submits that have to be refused with a message that names something.
var badJobs = []struct{ body, query, names string }{
	{``, "", "empty"},
	{`not json`, "", "JSON"},
	{`[]`, "", "object"},
	{`{` + anySource + `,` + anySink + `} {}`, "", "JSON"},
	{`{"env":{},"source":[{"Jdbc":{"url":"x"}}],` + anySink + `}`, "", "plugin_name"},
	{`{"env":{},` + anySource + `}`, "", "sink"},
	{`{"env":{},` + anySource + `,"sink":[]}`, "", "sink"},
	{`{"env":{},"source":[],` + anySink + `}`, "", "source"},
	{`{"env":{"parallelism":0},` + anySource + `,` + anySink + `}`, "", "parallelism"},
	{`{"env":{"parallelism":-3},` + anySource + `,` + anySink + `}`, "", "parallelism"},
	{`{"env":{"parallelism":1.5},` + anySource + `,` + anySink + `}`, "", "parallelism"},
	{`{"env":{"parallelism":"many"},` + anySource + `,` + anySink + `}`, "", "parallelism"},
	{`{"env":{"parallelism":1000000000},` + anySource + `,` + anySink + `}`, "", "parallelism"},
	{`{"env":{"job.mode":"SOMETIMES"},` + anySource + `,` + anySink + `}`, "", "job.mode"},
	{`{"env":{"job.retry.times":-1},` + anySource + `,` + anySink + `}`, "", "job.retry.times"},
	{`{"env":{"read_limit.rows_per_second":-5},` + anySource + `,` + anySink + `}`, "", "read_limit.rows_per_second"},
	{`{"env":{"no.such.option":1},` + anySource + `,` + anySink + `}`, "", "no.such.option"},
	{`{"env":{},"source":[{"plugin_name":"Nope"}],` + anySink + `}`, "", "Nope"},
	{`{"env":{},` + anySource + `,"sink":[{"plugin_name":"Http","url":"http://127.0.0.1:1"}]}`, "", "Http"},
	{`{"env":{},"source":[{"plugin_name":"Http","url":"http://127.0.0.1:1"}],` + anySink + `}`, "", "Http"},
	{`{"env":{},"source":[{"plugin_name":"Jdbc","url":"x"}],` + anySink + `}`, "", "Jdbc"},
	{`{"env":{},` + anySource + `,"transform":[{"plugin_name":"Sql","query":"select id from t where id < 40"}],` + anySink + `}`, "", "Sql"},
	{`{"env":{},"source":[{"plugin_name":""}],` + anySink + `}`, "", "plugin_name"},
	{`{"env":{},"source":[{"plugin_name":"FakeSource"}],` + anySink + `}`, "", "schema"},
	{`{"env":{},"source":[{"plugin_name":"FakeSource","schema":{"fields":{"id":"nosuchtype"}}}],` + anySink + `}`, "", "nosuchtype"},
	{`{"env":{},"source":[{"plugin_name":"FakeSource","row.num":-1,"schema":{"fields":{"id":"bigint"}}}],` + anySink + `}`, "", "row.num"},
	{`{"env":{},"source":[{"plugin_name":"FakeSource","row.num":"ten","schema":{"fields":{"id":"bigint"}}}],` + anySink + `}`, "", "row.num"},
	{`{"env":{},"source":[{"plugin_name":"FakeSource","row.nmu":1,"schema":{"fields":{"id":"bigint"}}}],` + anySink + `}`, "", "row.nmu"},
	{`{"env":{},` + anySource + `,"sink":[{"plugin_name":"LocalFile","file_format_type":"csv"}]}`, "", "path"},
	{`{"env":{},` + anySource + `,"sink":[{"plugin_name":"LocalFile","path":" ","file_format_type":"csv"}]}`, "", "path"},
	{`{"env":{},` + anySource + `,"sink":[{"plugin_name":"LocalFile","path":"/tmp/x","file_format_type":"parquet"}]}`, "", "file_format_type"},
	{`{"env":{},` + anySource + `,"sink":[{"plugin_name":"Assert"}]}`, "", "rules"},
	{`{"env":{},` + anySource + `,"transform":[{"plugin_name":"Filter","include_fields":["nope"]}],` + anySink + `}`, "", "nope"},
	{`{"env":{},` + anySource + `,"sink":[{"plugin_name":"Console","plugin_input":"nowhere"}]}`, "", "nowhere"},
	{`{"env":{},` + anySource + `,` + anySink + `}`, "?jobId=abc", "abc"},
	{`{"env":{},` + anySource + `,` + anySink + `}`, "?jobId=0", "jobId"},
	{`{"env":{},` + anySource + `,` + anySink + `}`, "?jobId=1&jobId=2", "jobId"},
	{`{"env":{},` + anySource + `,` + anySink + `}`, "?jobId=9223372036854775808", "9223372036854775808"},
	{`{"env":{},` + anySource + `,` + anySink + `}`, "?isStartWithSavePoint=true", "jobId"},
	{`{"env":{},` + anySource + `,` + anySink + `}`, "?isStartWithSavePoint=true&jobId=77", "77"},
	{`{"env":{},` + anySource + `,` + anySink + `}`, "?isStartWithSavePoint=perhaps", "isStartWithSavePoint"},
	{`{"env":{},` + anySource + `,` + anySink + `}`, "?format=hocon", "hocon"},
	{`{"env":{},` + anySource + `,` + anySink + `}`, "?format=xml", "format"},
}

// TestBadInput covers C030, C033, C050 and C069 as far as there are savepoints and HOCON, and decisions D1 and D5: what cannot be run is refused, by
// name, and leaves no trace. Of C042, C192, C207, C209, C211, C213, C215 and C216 it covers that the plugins that they are about are not here: Http, Jdbc, Sql.
func TestBadInput(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	for i, bad := range badJobs {
		refused(t, bad.query+" "+bad.body, c.members[i%3].post("/submit-job"+bad.query, bad.body), bad.names)
	}
	for i, bad := range []struct{ body, names string }{
		{``, "empty"}, {`{}`, "jobId"}, {`{"jobId":""}`, "jobId"}, {`{"jobId":"abc"}`, "abc"}, {`{"jobId":1.5}`, "1.5"}, {`{"jobId":[]}`, "jobId"},
		{`{"jobId":"5","isStopWithSavePoint":"perhaps"}`, "isStopWithSavePoint"}, {`{"jobId":"5"}`, "5"}, {`{"jobId":"5"`, "JSON"},
	} {
		refused(t, "stop "+bad.body, c.members[i%3].post("/stop-job", bad.body), bad.names)
	}
	for _, m := range c.members {
		c.poll(m) // there is no job
		if all := ids(append(list(m, "/running-jobs"), list(m, "/finished-jobs")...)); len(all) > 0 {
			t.Errorf("%s lists %v after nothing but refusals", m.name, all)
		}
	}
	if left := leftovers(c.members[0]); len(left) > 0 {
		t.Errorf("left in the engine's maps: %v", left)
	}
	c.members[0].submit(`{`+anySource+`,`+anySink+`}`, "") // C030: no env means the defaults
	c.members[1].submit("\ufeff{"+anySource+","+anySink+"}", "?unknown=1")
}

// TestBadRequests: paths, methods and maps that are not there.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	m := c.members[0]
	long := strings.Repeat("k", 2000)
	for _, bad := range []struct {
		method, path string
		header       []string
		status       int
		names        string
	}{
		{"GET", "/nope", nil, 404, "/nope"},
		{"GET", "/submit-job", nil, 405, "GET"},
		{"DELETE", "/overview", nil, 405, "DELETE"},
		{"PUT", entries + long, nil, 400, "key"},
		{"PUT", "/api/v1/maps/" + long + "/entries/k", nil, 400, "map"},
		{"PUT", entries + "k?ttl=-1s", nil, 400, "ttl"},
		{"PUT", entries + "k?tll=1s", nil, 400, "tll"},
		{"PUT", entries + "k", []string{"If-Match", "x"}, 400, "If-Match"},
		{"PUT", entries + "k", []string{"If-Match", "*", "If-None-Match", "*"}, 400, "If-None-Match"},
		{"PUT", "/api/v1/maps/engine_runningJobState/entries/k", nil, 403, "engine"},
		{"DELETE", "/api/v1/maps/engine_runningJobState/entries/k", nil, 403, "engine"},
		{"GET", "/finished-jobs/NOPE", nil, 400, "NOPE"},
	} {
		a := m.must(bad.method, bad.path, "v", append(bad.header, "Content-Type", "text/plain")...)
		what := fmt.Sprintf("%s %s", bad.method, bad.path[:min(len(bad.path), 60)])
		if refused(t, what, a, bad.names); a.status != bad.status {
			t.Errorf("%s: %d, want %d", what, a.status, bad.status)
		}
	}
	for _, path := range []string{"/readyz", "/healthz", "/metrics", "/", "/hazelcast/rest/maps/overview"} {
		if a := m.get(path); a.status != http.StatusOK || len(a.body) == 0 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// TestC018_OnePipelineFails covers decision D10: the job is FAILED with the cause, and the other pipeline commits nothing.
func TestC018_OnePipelineFails(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	dir := t.TempDir()
	config := fmt.Sprintf(`{"env":{"job.retry.times":0},"source":[
{"plugin_name":"FakeSource","plugin_output":"a","row.num":5,"schema":{"fields":{"id":"bigint"}}},
{"plugin_name":"FakeSource","plugin_output":"b","mode":"sequence","row.num":1000,"split.num":1000,"split.read-interval":100,"schema":{"fields":{"id":"bigint"}}}],
"sink":[{"plugin_name":"Assert","plugin_input":"a","rules":{"row_rules":[{"rule_type":"MIN_ROW","rule_value":10}]}},%s]}`,
		textSink(dir, `,"plugin_input":"b"`))
	j := job{dir: dir, id: c.members[1].submit(config, "")}
	c.watch([]job{j}, "FAILED", 30*time.Second)
	if cause := info(c.members[2], j.id).cause(); !strings.Contains(cause, "MIN_ROW") {
		t.Errorf("cause: %q", cause)
	}
	j.nothing(t)
}

// TestC019_SourceGone: what a task reads is removed, and then the member that runs it dies. All retries fail alike, and the job ends with the cause.
func TestC019_SourceGone(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.Mkdir(in, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("%d.csv", i)), []byte("1\n2\n3\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf(`{"env":{"job.retry.times":2,"job.retry.interval.seconds":1,"parallelism":3,"read_limit.rows_per_second":5},
"source":[{"plugin_name":"LocalFile","path":%q,"file_format_type":"csv","schema":{"fields":{"id":"bigint"}}}],"sink":[%s]}`, in, textSink(dir, ""))
	j := job{dir: dir, id: c.members[0].submit(config, "")}
	c.awaitRunning(j)
	if err := os.RemoveAll(in); err != nil {
		t.Fatal(err)
	}
	c.killMember(c.other())
	c.watch([]job{j}, "FAILED", 60*time.Second)
	if cause := info(c.live()[0], j.id).cause(); !strings.Contains(cause, in) {
		t.Errorf("the cause does not name %s: %q", in, cause)
	}
	j.nothing(t)
}
