package rest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func TestShapes(t *testing.T) {
	tests := []struct{ name, method, target, body string }{
		{"overview", "GET", "/overview", ""},
		{"overview-tag", "GET", "/overview?zone=a", ""},
		{"overview-no-such-tag", "GET", "/overview?zone=b", ""},
		{"running-jobs", "GET", "/running-jobs", ""},
		{"running-jobs-page", "GET", "/running-jobs?page=2&rows=1", ""},
		{"finished-jobs", "GET", "/finished-jobs", ""},
		{"job-info-running", "GET", "/job-info/733584788375666689", ""},
		{"job-info-pending", "GET", "/job-info/8", ""},
		{"job-info-failed", "GET", "/job-info/22", ""},
		{"job-info-unknown", "GET", "/job-info/913457286014730241", ""},
		{"submit-job", "POST", "/submit-job?jobId=913457286014730241&jobName=warned", "{}"},
		{"submit-jobs", "POST", "/submit-jobs", `[{"params":{"jobId":913457286014730241,"jobName":"a"}},{"params":{"jobId":"2"}}]`},
		{"stop-job", "POST", "/stop-job", `{"jobId":913457286014730241}`},
		{"stop-jobs", "POST", "/stop-jobs", `[{"jobId":913457286014730241},{"jobId":"7"}]`},
		{"system-monitoring-information", "GET", "/system-monitoring-information", ""},
		{"cluster", "GET", "/api/v1/cluster", ""},
		{"members", "GET", "/api/v1/members", ""},
		{"partitions", "GET", "/api/v1/partitions", ""},
		{"jobs", "GET", "/api/v1/jobs", ""},
		{"jobs-page", "GET", "/api/v1/jobs?rows=2&page=2", ""},
		{"jobs-failed", "GET", "/api/v1/jobs?status=failed", ""},
		{"job-detail", "GET", "/api/v1/jobs/733584788375666689", ""},
		{"job-detail-failed", "GET", "/api/v1/jobs/22", ""},
		{"job-detail-unknown", "GET", "/api/v1/jobs/913457286014730241", ""},
		{"cleanup", "GET", "/api/v1/jobs/cleanup", ""},
		{"checkpoints", "GET", "/jobs/checkpoints/733584788375666689", ""},
		{"checkpoint-history", "GET", "/jobs/checkpoints/history/733584788375666689?pipelineId=1&limit=2&status=completed", ""},
		{"savepoints", "GET", "/api/v1/jobs/733584788375666689/savepoints", ""},
		{"savepoints-removed", "DELETE", "/api/v1/jobs/22/savepoints", ""},
		{"savepoints-of-a-live-job", "DELETE", "/api/v1/jobs/733584788375666689/savepoints", ""},
		{"savepoints-of-no-job", "DELETE", "/api/v1/jobs/77/savepoints", ""},
		{"checkpoints-no-such-job", "GET", "/api/v1/jobs/77/checkpoints", ""},
		{"hazelcast-health", "GET", "/hazelcast/health", ""},
		{"readyz", "GET", "/readyz", ""},
		{"index", "GET", "/", ""},
		{"no-such-path", "GET", "/nope", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			golden(t, tt.name, newFixture(t).do(tt.method, tt.target, tt.body))
		})
	}
}

// Every SeaTunnel path also answers under v1, and with a slash at its end, alike.
func TestAliases_AnswerAlike(t *testing.T) {
	tests := []struct{ method, path, body string }{
		{"GET", "/overview", ""}, {"GET", "/running-jobs", ""}, {"GET", "/finished-jobs", ""}, {"GET", "/finished-jobs/FAILED", ""},
		{"GET", "/job-info/22", ""}, {"GET", "/running-job/22", ""}, {"POST", "/submit-job", "{}"}, {"POST", "/submit-jobs", "[{}]"},
		{"POST", "/stop-job", `{"jobId":1}`}, {"POST", "/stop-jobs", `[{"jobId":1}]`}, {"GET", "/system-monitoring-information", ""},
	}
	for _, tt := range tests {
		f := newFixture(t)
		want := f.do(tt.method, tt.path, tt.body)
		if want.Code != http.StatusOK {
			t.Errorf("%s: status %d: %s", tt.path, want.Code, want.Body)
		}
		for _, alias := range []string{tt.path + "/", v1 + tt.path, v1 + tt.path + "/"} {
			if got := f.do(tt.method, alias, tt.body); got.Code != want.Code || got.Body.String() != want.Body.String() {
				t.Errorf("%s: %d %s, want what %s answers", alias, got.Code, got.Body, tt.path)
			}
		}
	}
}

func TestFinishedJobs_StateInAnyCase_NewestEndFirst(t *testing.T) {
	tests := []struct{ path, want string }{
		{"/finished-jobs", "22 23 21"}, {"/finished-jobs/", "22 23 21"}, {"/finished-jobs/FINISHED", "21"}, {"/finished-jobs/finished", "21"},
		{"/finished-jobs/RUNNING", ""}, {"/finished-jobs/UNKNOWABLE", ""}, {"/running-jobs", "8 733584788375666689"},
	}
	for _, tt := range tests {
		rec := newFixture(t).do("GET", tt.path, "")
		var jobs []struct{ JobID string }
		if err := json.Unmarshal(rec.Body.Bytes(), &jobs); err != nil || jobs == nil {
			t.Fatalf("%s: %v: %s", tt.path, err, rec.Body)
		}
		var ids []string
		for _, j := range jobs {
			ids = append(ids, j.JobID)
		}
		if got := strings.Join(ids, " "); got != tt.want || rec.Code != http.StatusOK {
			t.Errorf("%s: %d, jobs %q, want %q", tt.path, rec.Code, got, tt.want)
		}
	}
}

func TestPages(t *testing.T) {
	tests := []struct{ query, want string }{ // want: the end of the message, or the number of jobs
		{"page=1", "3"}, {"page=2&rows=2", "1"}, {"page=2&rows=3", "0"}, {"rows=1", "all"}, {"page=1&rows=9223372036854775807", "3"},
		{"page=3&rows=2", "Page number exceeds total pages"}, {"page=9223372036854775807&rows=9223372036854775807", "Page number exceeds total pages"},
		{"page=x", "Parameter 'page' must be an integer, but was: x"}, {"page=0", "Parameter 'page' must be greater than 0"},
		{"page=1&rows=-1", "Parameter 'rows' must be greater than 0"}, {"page=", "Parameter 'page' must be an integer, but was: "},
	}
	for _, tt := range tests {
		rec := newFixture(t).do("GET", "/finished-jobs?"+tt.query, "")
		var got struct {
			Data    []any
			Total   int
			Message string
		}
		switch err := json.Unmarshal(rec.Body.Bytes(), &got); {
		case tt.want == "all":
			if err == nil {
				t.Errorf("%s: %s, want a bare array", tt.query, rec.Body)
			}
		case len(tt.want) == 1:
			if got.Total != 3 || whole(len(got.Data)) != tt.want {
				t.Errorf("%s: %s", tt.query, rec.Body)
			}
		case rec.Code != http.StatusBadRequest || got.Message != tt.want:
			t.Errorf("%s: %d %q, want %q", tt.query, rec.Code, got.Message, tt.want)
		}
	}
}

func TestMetrics_ShowTheClusterAndAreWellFormed(t *testing.T) {
	f := newFixture(t)
	f.do("GET", "/overview", "")
	text := f.do("GET", "/metrics", "").Body.String()
	for _, want := range []string{
		"gridnode_cluster_members 3", `gridnode_partitions{role="primary"} 1`, "gridnode_partitions_lost 1", "gridnode_master 1",
		`gridnode_jobs{state="failed"} 1`, `gridnode_slots{state="used"} 4`, `node_state{address="[::1]:5702",cluster="dev"} 1`,
		`job_count{cluster="dev",type="running"} 1`, `gridnode_http_requests_total{code="200",method="GET",path="/overview"} 1`,
		`gridnode_build_info{`, "hazelcast_partition_partitionCount",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	families, err := f.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "gridnode_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestMetrics_BeforeJoining(t *testing.T) {
	f := newFixture(t)
	f.grid.state = nil
	if rec := f.do("GET", "/metrics", ""); rec.Code != http.StatusOK || strings.Contains(rec.Body.String(), "gridnode_cluster_members") {
		t.Errorf("%d, or figures of a cluster that is not there", rec.Code)
	}
}

func TestReadiness(t *testing.T) {
	f := newFixture(t)
	f.grid.checks[1] = Check{Name: "partitions", Detail: "2 of 3 are served"}
	golden(t, "readyz-not", f.do("GET", "/readyz", ""))
	f.grid.checks = nil
	if rec := f.do("GET", "/readyz", ""); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("no checks: %d", rec.Code)
	}
	if rec := f.do("GET", "/healthz", ""); rec.Code != http.StatusOK {
		t.Errorf("healthz: %d", rec.Code)
	}
	f.grid.state = nil
	if rec := f.do("GET", "/api/v1/cluster", ""); rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "1" {
		t.Errorf("cluster before joining: %d, Retry-After %q", rec.Code, rec.Header().Get("Retry-After"))
	}
}
