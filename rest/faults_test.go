package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"gridnode/engine"
	"gridnode/grid"
)

// message returns the text of an error answer, and fails the test if the answer is none.
func message(t *testing.T, rec *httptest.ResponseRecorder) string {
	t.Helper()
	var body struct{ Status, Message string }
	if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || body.Status != "fail" || body.Message == "" || body.Message == "null" {
		t.Errorf("%d %q is not an error answer (%v)", rec.Code, rec.Body, err)
	}
	if got := rec.Header().Get("Content-Type"); got != jsonType {
		t.Errorf("Content-Type %q", got)
	}
	return body.Message
}

func TestBadRequests_SayWhatIsWrong(t *testing.T) {
	tests := []struct {
		method, target, body string
		status               int
		says                 string
	}{
		{"GET", "/job-info/abc", "", 400, `"abc"`},
		{"GET", "/job-info/12abc", "", 400, `"12abc"`},
		{"GET", "/job-info/1.0", "", 400, `"1.0"`},
		{"GET", "/job-info/1e3", "", 400, `"1e3"`},
		{"GET", "/job-info/-", "", 400, `"-"`},
		{"GET", "/job-info/+5", "", 400, `"+5"`},
		{"GET", "/job-info/9223372036854775808", "", 400, `"9223372036854775808"`},
		{"GET", "/job-info/%20", "", 400, `" "`},
		{"GET", "/job-info/%FF", "", 400, "UTF-8"},
		{"GET", "/job-info/..%2Foverview", "", 400, `"../overview"`},
		{"GET", "/job-info/../overview", "", 404, "/job-info/../overview"},
		{"GET", "/job-info/", "", 400, "The jobId must not be empty."},
		{"GET", "/finished-jobs/NOPE", "", 400, `"NOPE"`},
		{"GET", "/nope", "", 404, "/nope"},
		{"GET", "//overview", "", 404, "//overview"},
		{"GET", "/submit-job", "", 405, "POST"},
		{"DELETE", "/overview", "", 405, "GET"},
		{"POST", "/submit-job", "", 400, "Request body is empty."},
		{"POST", "/submit-job", " \n", 400, "Request body is empty."},
		{"POST", "/submit-job", "{", 400, "Invalid JSON format in request body."},
		{"POST", "/submit-job", "{\"a\":1,\n  \"ü\":2,}", 400, "Line 2, column 9"},
		{"POST", "/submit-job", "\ufeff\n\nenv {\n}", 400, "Line 3, column 1"},
		{"POST", "/submit-job", "{} {}", 400, "Invalid JSON format in request body."},
		{"POST", "/submit-job", "{\"a\":\"\xff\"}", 400, "Invalid JSON format in request body."},
		{"POST", "/submit-job", "[]", 400, "must be a JSON object"},
		{"POST", "/submit-job", "null", 400, "must be a JSON object"},
		{"POST", "/submit-job?jobId=x", "{}", 400, `"x"`},
		{"POST", "/submit-job?jobId=0", "{}", 400, "jobId 0"},
		{"POST", "/submit-job?jobId=1&jobId=2", "{}", 400, "jobId is given twice"},
		{"POST", "/submit-job?jobName=%zz", "{}", 400, "query string"},
		{"POST", "/submit-job?jobName=%FF", "{}", 400, "UTF-8"},
		{"POST", "/submit-job?isStartWithSavePoint=true", "{}", 400, "Please provide jobId when start with save point."},
		{"POST", "/submit-job?isStartWithSavePoint=maybe", "{}", 400, `"maybe"`},
		{"POST", "/submit-job?format=hocon", "{}", 400, `"hocon"`},
		{"POST", "/submit-job?format=xml", "{}", 400, `"xml"`},
		{"POST", "/submit-job?dry-run=static", "{}", 400, "Dry-run is only supported via CLI"},
		{"POST", "/submit-job?dryRun=true", "{}", 400, "Dry-run is only supported via CLI"},
		{"POST", "/submit-job", strings.Repeat(" ", maxJobBody+1), 413, "larger than"},
		{"POST", "/submit-job/upload", "{}", 415, "config_file"},
		{"POST", "/submit-jobs", "{}", 400, "array"},
		{"POST", "/submit-jobs", "[1]", 400, "index 0"},
		{"POST", "/submit-jobs", `[{},{"params":{"jobId":1e3}}]`, 400, `index 1: jobId "1e3"`},
		{"POST", "/submit-jobs", `[{"params":[]}]`, 400, "params"},
		{"POST", "/submit-jobs", "[" + strings.Repeat("{},", maxSubmits) + "{}]", 413, "more than"},
		{"POST", "/stop-job", "{}", 400, "jobId cannot be empty."},
		{"POST", "/stop-job", `{"jobId":null}`, 400, "jobId cannot be empty."},
		{"POST", "/stop-job", `{"jobId":""}`, 400, "jobId cannot be empty."},
		{"POST", "/stop-job", `{"jobId":1.5}`, 400, `"1.5"`},
		{"POST", "/stop-job", `{"jobId":{}}`, 400, "jobId"},
		{"POST", "/stop-job", `{"jobId":1,"force":"x"}`, 400, "force"},
		{"POST", "/stop-job", `{"jobId":-1}`, 404, "-1"},
		{"POST", "/stop-job", `{"jobId":1,"jobId":2}`, 400, `the key "jobId" twice`},
		{"POST", "/stop-job", `{"jobId":1,"isStopWithSavePoint":true,"isStopWithSavePoint":false}`, 400, `the key "isStopWithSavePoint" twice`},
		{"POST", "/stop-job", `{"jobId":1,"isStopWithSavepoint":true}`, 400, `the key "isStopWithSavepoint", which is unknown; there are: jobId, isStopWithSavePoint, force`},
		{"POST", "/stop-jobs", `[{"jobId":1},{"jobId":2,"savepoint":true}]`, 400, `index 1: The request has the key "savepoint"`},
		{"POST", "/stop-jobs", `[{"jobId":1},{"jobId":2,"jobId":2}]`, 400, `index 1 has the key "jobId" twice`},
		{"POST", "/submit-jobs", `[{"source":[],"sink":[],"source":[{}]}]`, 400, `index 0 has the key "source" twice`},
		{"POST", "/submit-jobs", `[{},{"params":{"jobName":"a","jobName":"b"}}]`, 400, `index 1: params has the key "jobName" twice`},
		{"POST", "/submit-jobs", `[{"params":{"isStartWithSavepoint":true,"jobId":1}}]`, 400, `index 0: params has the key "isStartWithSavepoint", which is unknown`},
		{"POST", "/submit-jobs", `[{"params":{"format":"hocon"}}]`, 400, `index 0: format "hocon"`},
		{"POST", "/update-tags", `{"a":"1","a":"2"}`, 400, `the key "a" twice`},
		{"POST", "/stop-jobs", `[{"jobId":1},{}]`, 400, "index 1: jobId cannot be empty."},
		{"GET", "/api/v1/maps/m/entries?limit=0", "", 400, "'limit'"},
		{"GET", "/hazelcast/health/nope", "", 404, "nope"},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+shorten(tt.target+" "+tt.body), func(t *testing.T) {
			f := newFixture(t)
			rec := f.do(tt.method, tt.target, tt.body)
			if got := message(t, rec); rec.Code != tt.status || !strings.Contains(got, tt.says) {
				t.Errorf("%d %q, want %d with %q", rec.Code, got, tt.status, tt.says)
			}
			if len(f.jobs.submits) > 0 || len(f.jobs.stops) > 0 {
				t.Error("the engine was asked all the same")
			}
			if tt.status == 405 && !strings.Contains(rec.Header().Get("Allow"), tt.says) {
				t.Errorf("Allow: %q", rec.Header().Get("Allow"))
			}
		})
	}
}

// A body that is packed is refused as that, on every path that takes one, and not taken for bad JSON or for the value itself.
func TestPackedBodies(t *testing.T) {
	for _, path := range []string{"POST /submit-job", "POST /submit-jobs", "POST /stop-job", "POST /stop-jobs", "POST /update-tags", "PUT /api/v1/maps/m/entries/k"} {
		for coding, status := range map[string]int{"gzip": 415, "br": 415, "identity, gzip": 415, "identity": 0, "Identity": 0} {
			f := newFixture(t)
			method, target, _ := strings.Cut(path, " ")
			rec := f.do(method, target, "{}", "Content-Encoding: "+coding)
			if status == 0 {
				if rec.Code == 415 {
					t.Errorf("%s with %s: %d", path, coding, rec.Code)
				}
				continue
			}
			if text := message(t, rec); rec.Code != status || !strings.Contains(text, coding) || rec.Header().Get("Accept-Encoding") != "identity" {
				t.Errorf("%s with %s: %d %s", path, coding, rec.Code, text)
			}
			if len(f.jobs.submits)+len(f.jobs.stops) > 0 {
				t.Errorf("%s with %s was carried out", path, coding)
			}
		}
	}
}

// What /openmetrics answers is OpenMetrics, also to those who do not ask for it by Accept; what /metrics answers is up to Accept.
func TestMetrics_Formats(t *testing.T) {
	for _, test := range []struct{ path, accept, want string }{
		{"/openmetrics", "", "application/openmetrics-text"}, {"/openmetrics", "*/*", "application/openmetrics-text"}, {"/openmetrics", "text/plain", "application/openmetrics-text"},
		{"/metrics", "", "text/plain"}, {"/metrics", "application/openmetrics-text; version=1.0.0", "application/openmetrics-text"},
	} {
		rec := newFixture(t).do("GET", test.path, "", "Accept: "+test.accept)
		ends := strings.HasSuffix(rec.Body.String(), "# EOF\n")
		if got := rec.Header().Get("Content-Type"); rec.Code != 200 || !strings.HasPrefix(got, test.want) || ends != strings.Contains(test.want, "openmetrics") {
			t.Errorf("%s for %q: %d %s", test.path, test.accept, rec.Code, got)
		}
	}
}

func TestErrors_HaveTheirStatus(t *testing.T) {
	tests := []struct {
		err        error
		status     int
		retryAfter string
		unknown    bool
	}{
		{fmt.Errorf("%w: sink is missing", engine.ErrInvalid), 400, "", false},
		{fmt.Errorf("%w: 7", engine.ErrNotFound), 404, "", false},
		{fmt.Errorf("%w: id 7 was used", engine.ErrConflict), 409, "", false},
		{&engine.RetryAfterError{Reason: "still being cleaned up", After: 1500 * time.Millisecond}, 409, "2", false},
		{fmt.Errorf("%w: no master", engine.ErrRetryable), 503, "1", false},
		{engine.ErrIndeterminate, 504, "", true},
		{fmt.Errorf("ask: %w", grid.ErrNoMaster), 503, "1", false},
		{grid.ErrClosed, 503, "1", false},
		{grid.ErrIndeterminate, 504, "", true},
		{grid.ErrTooLarge, 413, "", false},
		{grid.ErrBadRequest, 400, "", false},
		{grid.ErrRefused, 409, "", false},
		{grid.ErrInternal, 500, "", false},
		{fmt.Errorf("disk on fire"), 500, "", false},
	}
	for _, tt := range tests {
		f := newFixture(t)
		f.jobs.err = tt.err
		rec := f.do("POST", "/submit-job", "{}")
		text := message(t, rec)
		if rec.Code != tt.status || rec.Header().Get("Retry-After") != tt.retryAfter {
			t.Errorf("%v: %d, Retry-After %q; want %d, %q", tt.err, rec.Code, rec.Header().Get("Retry-After"), tt.status, tt.retryAfter)
		}
		if got := strings.Contains(rec.Body.String(), `"outcome":"unknown"`); got != tt.unknown {
			t.Errorf("%v: outcome unknown: %v", tt.err, got)
		}
		if tt.status == 500 && (strings.Contains(text, "fire") || !strings.Contains(text, rec.Header().Get("X-Request-Id"))) {
			t.Errorf("the cause is told, or the way to it is not: %s", text)
		}
		if tt.status == 500 && !strings.Contains(f.logs.String(), rec.Header().Get("X-Request-Id")) {
			t.Errorf("not logged: %s", f.logs.String())
		}
	}
}

func TestPanic_IsAnsweredWithoutItsText(t *testing.T) {
	f := newFixture(t)
	f.jobs.panics = true
	rec := f.do("GET", "/job-info/7", "")
	if text := message(t, rec); rec.Code != 500 || strings.Contains(text, "secret") || strings.Contains(text, ".go") {
		t.Errorf("%d %q", rec.Code, text)
	}
	if !strings.Contains(f.logs.String(), "secret") {
		t.Error("the panic was not logged")
	}
}

func TestJobInfo_ImpossibleIDs_AreUnknown(t *testing.T) {
	for path, want := range map[string]string{"0": "0", "-1": "-1", "-9223372036854775808": "-9223372036854775808", "007": "7"} {
		rec := newFixture(t).do("GET", "/job-info/"+path, "")
		if got := strings.TrimSpace(rec.Body.String()); rec.Code != 200 || got != `{"jobId":"`+want+`"}` {
			t.Errorf("%s: %d %s", path, rec.Code, got)
		}
	}
}

func TestSubmit_TakesWhatWasSent(t *testing.T) {
	tests := []struct {
		query, key string
		want       engine.SubmitRequest
	}{
		{"", "", engine.SubmitRequest{}},
		{"jobId=913457286014730241", "", engine.SubmitRequest{JobID: "913457286014730241"}},
		{"jobName=a=b", "", engine.SubmitRequest{JobName: "a=b"}},
		{"jobName=a%3Db%26c", "", engine.SubmitRequest{JobName: "a=b&c"}},
		{"jobName=", "", engine.SubmitRequest{}},
		{"jobName=%E5%90%8C%E6%AD%A5-%C3%9Cn%C3%AF%20%F0%9F%98%80", "", engine.SubmitRequest{JobName: "同步-Ünï 😀"}},
		{"whatever=1&format=json", "", engine.SubmitRequest{}},
		{"jobId=7&jobId=7&isStartWithSavePoint=TRUE", "", engine.SubmitRequest{JobID: "7", StartWithSavepoint: true}},
		{"", "k-1", engine.SubmitRequest{SubmitKey: "k-1"}},
	}
	for _, tt := range tests {
		f := newFixture(t)
		const config = `{"env":{"x":9007199254740993}}`
		rec := f.do("POST", "/submit-job?"+tt.query, config, "Idempotency-Key: "+tt.key, "Content-Type: application/x-www-form-urlencoded")
		tt.want.Config = []byte(config)
		if diff := gocmp.Diff([]engine.SubmitRequest{tt.want}, f.jobs.submits); diff != "" || rec.Code != 200 {
			t.Errorf("%s: %d (-want +got):\n%s", tt.query, rec.Code, diff)
		}
	}
}

func TestSubmitJobs_FailureInTheMiddle_SaysWhatRuns(t *testing.T) {
	f := newFixture(t)
	f.jobs.failOn = map[string]error{"b": fmt.Errorf("%w: sink is missing", engine.ErrInvalid)}
	rec := f.do("POST", "/submit-jobs", `[{"params":{"jobName":"a"},"env":{"n":9007199254740993}},{"params":{"jobName":"b"}},{"params":{"jobName":"c"}}]`)
	if text := message(t, rec); rec.Code != 400 || !strings.HasPrefix(text, "index 1: ") {
		t.Errorf("%d %q", rec.Code, text)
	}
	if !strings.Contains(rec.Body.String(), `"submitted":[{"jobId":"4711","jobName":"a","jobStatus":"CREATED"}]`) || len(f.jobs.submits) != 2 {
		t.Errorf("%s after %d submits", rec.Body, len(f.jobs.submits))
	}
	if got := string(f.jobs.submits[0].Config); got != `{"env":{"n":9007199254740993}}` {
		t.Errorf("config %s", got)
	}
}

func TestStopJobs_FailureInTheMiddle_SaysWhatWasStopped(t *testing.T) {
	f := newFixture(t)
	f.jobs.failOn = map[string]error{"2": engine.ErrNotFound}
	rec := f.do("POST", "/stop-jobs", `[{"jobId":1,"isStopWithSavePoint":true},{"jobId":"2","force":"true"},{"jobId":3}]`)
	if text := message(t, rec); rec.Code != 404 || text != "index 1: there is no job 2" || !strings.Contains(rec.Body.String(), `"stopped":[{"jobId":"1"}]`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	want := []engine.StopRequest{{JobID: "1", Savepoint: true}, {JobID: "2", Force: true}}
	if diff := gocmp.Diff(want, f.jobs.stops); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}
}

func TestUpload(t *testing.T) {
	tests := []struct {
		field, file, config string
		status              int
		says                string
	}{
		{"config_file", "job.json", `{"env":{}}`, 200, "4711"},
		{"config_file", "job.json", `{`, 400, "Invalid JSON"},
		{"config_file", "job.json", ``, 400, "empty"},
		{"config_file", "job.conf", `env {}`, 400, "hocon"},
		{"config_file", "job.sql", `select`, 400, "sql"},
		{"config_file", "job.exe", `x`, 400, "exe"},
		{"file", "job.json", `{}`, 400, "config_file"},
		{"config_file", "job.json", strings.Repeat(" ", maxJobBody+1), 413, "larger"},
	}
	for _, tt := range tests {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		part, err := w.CreateFormFile(tt.field, tt.file)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write([]byte(tt.config))
		_ = w.Close()
		rec := newFixture(t).do("POST", "/submit-job/upload?jobName=u", form.String(), "Content-Type: "+w.FormDataContentType())
		if rec.Code != tt.status || !strings.Contains(rec.Body.String(), tt.says) {
			t.Errorf("%s %s: %d %s", tt.field, tt.file, rec.Code, rec.Body)
		}
	}
}

func TestCrossOrigin_CannotChangeAnything(t *testing.T) {
	f := newFixture(t)
	rec := f.do("POST", "/submit-job", "{}", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site")
	message(t, rec)
	if rec.Code != http.StatusForbidden || len(f.jobs.submits) > 0 {
		t.Errorf("%d, %d submits", rec.Code, len(f.jobs.submits))
	}
}

func TestOverload_IsAnsweredAtOnce(t *testing.T) {
	f := newFixture(t)
	for range cap(f.inFlight) {
		f.inFlight <- struct{}{}
	}
	if rec := f.do("GET", "/overview", ""); rec.Code != 503 || rec.Header().Get("Retry-After") == "" {
		t.Errorf("overview: %d", rec.Code)
	}
	if rec := f.do("GET", "/healthz", ""); rec.Code != 200 {
		t.Errorf("healthz: %d", rec.Code)
	}
}
