package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	membersAnswer = `{"members":[{"id":"i1","name":"n1","address":"127.0.0.1:5701","http":"http://127.0.0.1:8080","master":true,"state":"active","roles":["data","worker"],"owned":136,"backups":135},` +
		`{"id":"i2","name":"n2","address":"127.0.0.1:5702","http":"http://127.0.0.1:8081","state":"leaving","roles":["data"],"owned":135,"backups":136}]}`
	clusterAnswer = `{"clusterId":"c","name":"dev","size":2,"partitions":271,"backupCount":1,"backups":1,"dataMembers":2,"safe":true}`
	runningJob    = `{"jobId":"913457286014730241","jobName":"orders","jobStatus":"RUNNING","createTime":"2026-11-30 10:00:00","restarts":"1",` +
		`"metrics":{"SourceReceivedCount":"100","SinkWriteCount":"99"},"tasks":[{"pipeline":1,"source":1,"subtask":0,"status":"RUNNING","attempt":2,"member":"i1"}]}`
	failedJob = `{"jobId":"7","jobName":"broken","jobStatus":"FAILED","errorMsg":"row 3\nis bad","createTime":"2026-11-30 10:00:00","finishTime":"2026-11-30 10:00:09","restarts":"0",` +
		`"metrics":{"SourceReceivedCount":"5","SinkWriteCount":"0"}}`
)

func jobOf(status string) answer {
	return answer{200, nil, `{"jobId":"7","jobName":"orders","jobStatus":"` + status + `","errorMsg":null,"restarts":"0","metrics":{"SourceReceivedCount":"5","SinkWriteCount":"4"}}`}
}

func TestCommands(t *testing.T) {
	ok := map[string]answer{
		"GET /api/v1/members":                   {200, nil, membersAnswer},
		"GET /api/v1/cluster":                   {200, nil, clusterAnswer},
		"GET /running-jobs":                     {200, nil, "[" + runningJob + "]"},
		"GET /finished-jobs":                    {200, nil, "[" + failedJob + "]"},
		"GET /job-info/7":                       {200, nil, failedJob},
		"GET /job-info/913457286014730241":      {200, nil, runningJob},
		"GET /job-info/8":                       {200, nil, `{"jobId":"8"}`},
		"POST /stop-job":                        {200, nil, `{"jobId":"7"}`},
		"POST /submit-job?":                     {200, nil, `{"jobId":"7","jobName":"orders","jobStatus":"CREATED","warnings":["x has no effect"]}`},
		"PUT /api/v1/maps/m/entries/k":          {201, nil, `{"created":true,"version":"42","partition":187,"primary":"n1"}`},
		"PUT /api/v1/maps/m/entries/k?ttl=1m0s": {200, nil, `{"created":false,"version":"43","partition":187}`},
		"PUT /api/v1/maps/m/entries/taken":      {412, nil, `{"status":"fail","message":"the entry \"taken\" of map \"m\" has version 3"}`},
		"GET /api/v1/maps/a%2Fb/entries/k%20":   {200, map[string]string{"Content-Type": "text/plain", "Etag": `"42"`}, "v1"},
		"DELETE /api/v1/maps/m/entries/k":       {204, nil, ""},
		"GET /api/v1/maps/m/size":               {200, nil, `{"name":"m","size":3}`},
		"POST /api/v1/cluster/recover":          {200, nil, `{"applied":false,"cluster":"dev","says":["would go on: n1","would be dropped: n2, n3"]}`},
	}
	tests := []struct {
		name string
		args []string
		want result
	}{
		{"members", []string{"members"}, result{0, "" +
			"NAME  ADDRESS         HTTP                   ROLE    STATE    ROLES        OWNED  BACKUPS\n" +
			"n1    127.0.0.1:5701  http://127.0.0.1:8080  master  ACTIVE   data,worker  136    135\n" +
			"n2    127.0.0.1:5702  http://127.0.0.1:8081  member  LEAVING  data         135    136\n" +
			"271 partitions, 1 backup each, cluster safe\n", ""}},
		{"members -o json", []string{"members", "-o", "json"}, result{0, membersAnswer + "\n", ""}},
		{"job list", []string{"job", "list"}, result{0, "" +
			"JOB ID              NAME    STATUS   CREATED              ENDED                READ  WRITTEN\n" +
			"913457286014730241  orders  RUNNING  2026-11-30 10:00:00  -                    100   99\n" +
			"7                   broken  FAILED   2026-11-30 10:00:00  2026-11-30 10:00:09  5     0\n", ""}},
		{"job list -o json", []string{"job", "list", "-o", "json"}, result{0, "[" + runningJob + "," + failedJob + "]\n", ""}},
		{"job info", []string{"job", "info", "913457286014730241"}, result{0, "" +
			"id        913457286014730241\nname      orders\nstatus    RUNNING\ncreated   2026-11-30 10:00:00\nended     -\nread      100\nwritten   99\nrestarts  1\n\n" +
			"PIPELINE  SOURCE  SUBTASK  STATUS   ATTEMPT  MEMBER\n1         1       0        RUNNING  2        i1\n", ""}},
		{"job info of an unknown job", []string{"job", "info", "8"}, result{1, "", "gridnode: there is no job 8\n"}},
		{"job stop", []string{"job", "stop", "7"}, result{0, "job 7 is being stopped\n", ""}},
		{"job submit", []string{"job", "submit", "-"}, result{0, "JOB ID  NAME    STATUS\n7       orders  CREATED\n", "gridnode: warning: x has no effect\n"}},
		{"job submit -q", []string{"job", "submit", "-", "-q"}, result{0, "7\n", "gridnode: warning: x has no effect\n"}},
		{"job submit --wait", []string{"job", "submit", "-", "--wait", "-q"}, result{1, "7\n", "gridnode: warning: x has no effect\ngridnode: job 7 FAILED: row 3\ngridnode: is bad\n"}},
		{"map put", []string{"map", "put", "m", "k", "v"}, result{0, "ok (new key, partition 187, primary n1, version 42)\n", ""}},
		{"map put --ttl", []string{"map", "put", "m", "k", "v", "--ttl", "1m"}, result{0, "ok (replaced, partition 187, version 43)\n", ""}},
		{"map put --if-absent", []string{"map", "put", "m", "taken", "v", "--if-absent"}, result{1, "", "gridnode: the entry \"taken\" of map \"m\" has version 3\n"}},
		{"map get", []string{"map", "get", "a/b", "k "}, result{0, "v1\n", ""}},
		{"map get --raw", []string{"map", "get", "a/b", "k ", "--raw"}, result{0, "v1", ""}},
		{"map get -o json", []string{"map", "get", "a/b", "k ", "-o", "json"},
			result{0, `{"map":"a/b","key":"k ","text":"v1","contentType":"text/plain","version":"42"}` + "\n", ""}},
		{"map rm", []string{"map", "rm", "m", "k"}, result{0, "ok\n", ""}},
		{"map size", []string{"map", "size", "m"}, result{0, "3\n", ""}},
		{"recover", []string{"recover"}, result{0, "cluster dev could be recovered, with --force --cluster dev\n  would go on: n1\n  would be dropped: n2, n3\n", ""}},
		{"recover -o json", []string{"recover", "-o", "json"},
			result{0, `{"applied":false,"cluster":"dev","says":["would go on: n1","would be dropped: n2, n3"]}` + "\n", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newREST(t, fixed(ok))
			got := newCLI("GRIDNODE_HTTP="+s.URL+",").run(t.Context(), tt.args...)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestJobSubmit_SendsFileNameAndKey(t *testing.T) {
	s := newREST(t, func(string, int) answer { return jobOf("CREATED") })
	file := filepath.Join(t.TempDir(), "job.json")
	if err := os.WriteFile(file, []byte(`{"env":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	res := newCLI().run(t.Context(), "job", "submit", file, "--name", "a=b&ü", "--id", "7", "--savepoint", "--http", s.URL)
	want := []string{`POST /submit-job?isStartWithSavePoint=true&jobId=7&jobName=a%3Db%26%C3%BC {"env":{}}`}
	requests, headers := s.seen()
	if diff := cmp.Diff(want, requests); diff != "" || res.code != 0 {
		t.Errorf("%+v (-want +got):\n%s", res, diff)
	}
	if len(headers[0].Get("Idempotency-Key")) < 16 {
		t.Errorf("Idempotency-Key %q", headers[0].Get("Idempotency-Key"))
	}
}

func TestMapPut_SendsConditionsAndValue(t *testing.T) {
	s := newREST(t, func(string, int) answer { return answer{200, nil, `{"version":"1"}`} })
	c := newCLI()
	c.app.stdin = strings.NewReader("from stdin")
	c.run(t.Context(), "map", "put", "m", "k", "-", "--if-version", "41", "--http", s.URL)
	newCLI().run(t.Context(), "map", "put", "m", "k", `{"a":1}`, "--if-absent", "--json", "--http", s.URL)
	requests, headers := s.seen()
	if diff := cmp.Diff([]string{"PUT /api/v1/maps/m/entries/k from stdin", `PUT /api/v1/maps/m/entries/k {"a":1}`}, requests); diff != "" {
		t.Error(diff)
	}
	if headers[0].Get("If-Match") != `"41"` || headers[1].Get("If-None-Match") != "*" || headers[1].Get("Content-Type") != "application/json" {
		t.Errorf("%v", headers)
	}
}

func TestJobWait_ExitCodes(t *testing.T) {
	for status, want := range map[string]int{"FINISHED": 0, "FAILED": 1, "CANCELED": 3, "SAVEPOINT_DONE": 4} {
		s := newREST(t, func(call string, nth int) answer {
			switch {
			case call == "GET /api/v1/members":
				return answer{200, nil, `{"members":[]}`}
			case nth < 3:
				return jobOf([]string{"CREATED", "SCHEDULED", "RUNNING"}[nth])
			}
			return jobOf(status)
		})
		res := newCLI().run(t.Context(), "job", "wait", "7", "--http", s.URL)
		if res.code != want || !strings.HasPrefix(res.stdout, "orders "+status+"  read 5  written 4") {
			t.Errorf("%s: %+v", status, res)
		}
	}
}

func TestJobWait_Timeout(t *testing.T) {
	s := newREST(t, func(call string, _ int) answer {
		if call == "GET /api/v1/members" {
			return answer{200, nil, `{"members":[]}`}
		}
		return jobOf("RUNNING")
	})
	res := newCLI().run(t.Context(), "job", "wait", "7", "--timeout", "50ms", "--http", s.URL)
	if res.code != exitTimeout || !strings.Contains(res.stderr, "has not ended within 50ms") {
		t.Errorf("%+v", res)
	}
}

// A member dies while it is asked; the wait goes on with one that it told of.
func TestJobWait_SurvivesTheMemberItAsks(t *testing.T) {
	second := newREST(t, func(call string, nth int) answer {
		switch {
		case call == "GET /api/v1/members":
			return answer{200, nil, `{"members":[]}`}
		case nth == 0:
			return answer{503, map[string]string{"Retry-After": "1"}, `{"status":"fail","message":"there is no master at the moment"}`}
		}
		return jobOf("FINISHED")
	})
	var first *restServer
	first = newREST(t, func(call string, nth int) answer {
		switch {
		case call == "GET /api/v1/members":
			return answer{200, nil, `{"members":[{"http":"` + first.URL + `"},{"http":"` + second.URL + `"}]}`}
		case nth == 0:
			return jobOf("RUNNING")
		}
		return answer{} // it breaks off
	})
	if res := newCLI().run(t.Context(), "job", "wait", "7", "--http", first.URL); res.code != 0 {
		t.Errorf("%+v", res)
	}
	if requests, _ := second.seen(); len(requests) < 2 {
		t.Errorf("the second was asked %v", requests)
	}
}

func TestWrites_AreNotRepeatedWhenTheirOutcomeIsUnknown(t *testing.T) {
	gatewayTimeout := answer{504, nil, `{"status":"fail","message":"the outcome of the operation is unknown","outcome":"unknown"}`}
	unavailable := answer{503, nil, `{"status":"fail","message":"not ready"}`}
	tests := []struct {
		name    string
		args    []string
		answers []answer
		code    int
		says    string
		calls   int
	}{
		{"put breaks off", []string{"map", "put", "m", "k", "v"}, []answer{{}}, 1, "outcome is unknown", 1},
		{"put indeterminate", []string{"map", "put", "m", "k", "v"}, []answer{gatewayTimeout}, 1, "outcome is unknown", 1},
		{"put retryable", []string{"map", "put", "m", "k", "v"}, []answer{unavailable, {200, nil, "{}"}}, 0, "", 2},
		{"rm indeterminate", []string{"map", "rm", "m", "k"}, []answer{gatewayTimeout}, 1, "outcome is unknown", 1},
		{"get indeterminate", []string{"map", "get", "m", "k"}, []answer{gatewayTimeout, {200, nil, "v"}}, 0, "", 2},
		{"submit breaks off", []string{"job", "submit", "-"}, []answer{{}, gatewayTimeout, jobOf("CREATED")}, 0, "", 3},
		{"put refused", []string{"map", "put", "m", "k", "v"}, []answer{{400, nil, "no JSON"}}, 1, "HTTP 400", 1},
		{"put internal", []string{"map", "put", "m", "k", "v"}, []answer{{500, nil, `{"message":"internal error"}`}}, 1, "internal error", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newREST(t, func(_ string, nth int) answer { return tt.answers[min(nth, len(tt.answers)-1)] })
			res := newCLI().run(t.Context(), append(tt.args, "--http", s.URL, "--http", s.URL)...)
			requests, headers := s.seen()
			if res.code != tt.code || !strings.Contains(res.stderr, tt.says) || len(requests) != tt.calls {
				t.Errorf("%+v after %v", res, requests)
			}
			if keys := map[string]bool{}; strings.HasPrefix(tt.name, "submit") {
				for _, h := range headers {
					keys[h.Get("Idempotency-Key")] = true
				}
				if len(keys) != 1 {
					t.Errorf("a repeated submit must keep its key: %v", keys)
				}
			}
		})
	}
}

func TestClient_PassesByWhatIsNoMember(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer other.Close()
	s := newREST(t, fixed(map[string]answer{"GET /api/v1/maps/m/size": {200, nil, `{"size":3}`}}))
	if res := newCLI().run(t.Context(), "map", "size", "m", "--http", other.URL, "--http", s.URL); res.code != 0 || res.stdout != "3\n" {
		t.Errorf("%+v", res)
	}
	if res := newCLI().run(t.Context(), "map", "size", "m", "--http", other.URL); res.code != 1 || !strings.Contains(res.stderr, "is not a gridnode") {
		t.Errorf("%+v", res)
	}
}

func TestClient_NobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	if res := newCLI().run(t.Context(), "map", "put", "m", "k", "v", "--http", addr); res.code != 1 || !strings.Contains(res.stderr, "no member answers at http://"+addr) {
		t.Errorf("%+v", res)
	}
}

// A member that is there and does not answer is not taken for one that is not there, and 503 for neither.
func TestClient_TellsApartWhyThereIsNoAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nobody answers: a process that stands still
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	breaks := newREST(t, func(string, int) answer { return answer{} })
	busy := newREST(t, func(string, int) answer { return answer{503, nil, `{"message":"there is no majority"}`} })
	there, gone, unknown := "was reached, but", "no member answers at", "the outcome is unknown"
	for _, tt := range []struct {
		name, method, at string
		says, not        []string
	}{
		{"read, nobody there", "GET", nobody.Addr().String(), []string{gone, "refused"}, []string{there, unknown}},
		{"write, nobody there", "PUT", nobody.Addr().String(), []string{gone, "refused"}, []string{there, unknown}},
		{"read, it stands still", "GET", silent.Addr().String(), []string{there, "did not answer within 50ms"}, []string{gone, unknown}},
		{"write, it stands still", "PUT", silent.Addr().String(), []string{there, "did not answer within 50ms", unknown}, []string{gone}},
		{"read, it breaks off", "GET", breaks.URL, []string{there, "broke off"}, []string{gone, unknown}},
		{"write, it breaks off", "PUT", breaks.URL, []string{there, "broke off", unknown}, []string{gone}},
		{"read, 503", "GET", busy.URL, []string{"no member could answer", "there is no majority"}, []string{gone, there, unknown}},
		{"write, 503", "PUT", busy.URL, []string{"no member could answer", "there is no majority"}, []string{gone, there, unknown}},
		{"read, one nobody and one 503", "GET", nobody.Addr().String() + "," + busy.URL, []string{"no member could answer"}, []string{gone}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := newClient([]string{tt.at}, nil, time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			c.readLimit, c.writeLimit = 50*time.Millisecond, 50*time.Millisecond
			_, err = c.do(t.Context(), request{method: tt.method, path: "/api/v1/maps/m/entries/k"})
			if err == nil {
				t.Fatal("no error")
			}
			for _, s := range tt.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
			for _, s := range tt.not {
				if strings.Contains(err.Error(), s) {
					t.Errorf("%q says %q", err, s)
				}
			}
		})
	}
}

func TestClient_GivesUpAfterItsPatience(t *testing.T) {
	s := newREST(t, func(string, int) answer { return answer{503, nil, `{"message":"there is no master"}`} })
	c := newCLI()
	c.app.patience = time.Millisecond
	if res := c.run(t.Context(), "map", "size", "m", "--http", s.URL); res.code != 1 || !strings.Contains(res.stderr, "there is no master") {
		t.Errorf("%+v", res)
	}
}

func TestClient_SignalEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s := newREST(t, func(string, int) answer {
		cancel(&signalError{syscall.SIGINT})
		return answer{503, nil, `{"message":"no"}`}
	})
	if res := newCLI().run(ctx, "map", "size", "m", "--http", s.URL); res.code != 130 {
		t.Errorf("%+v", res)
	}
}

func TestRecover_Force(t *testing.T) {
	s := newREST(t, func(string, int) answer {
		return answer{200, nil, `{"applied":true,"cluster":"dev","says":["go on: n1"]}`}
	})
	res := newCLI().run(t.Context(), "recover", "--force", "--cluster", "dev", "--http", s.URL)
	if diff := cmp.Diff(result{0, "cluster dev is recovered\n  go on: n1\n", ""}, res, cmp.AllowUnexported(result{})); diff != "" {
		t.Error(diff)
	}
	if requests, _ := s.seen(); len(requests) != 1 || requests[0] != `POST /api/v1/cluster/recover {"cluster":"dev","force":true}` {
		t.Errorf("%v", requests)
	}
	if res := newCLI().run(t.Context(), "recover", "--force", "--http", s.URL); res.code != exitUsage || !strings.Contains(res.stderr, "--cluster") {
		t.Errorf("without the cluster's name: %+v", res)
	}
	refuses := newREST(t, func(string, int) answer { return answer{409, nil, `{"message":"refused: 2 of 3 voters answer"}`} })
	if res := newCLI().run(t.Context(), "recover", "--force", "--cluster", "dev", "--http", refuses.URL); res.code != 1 || !strings.Contains(res.stderr, "2 of 3 voters") {
		t.Errorf("%+v", res)
	}
}

func TestMembers_Line(t *testing.T) {
	tests := []struct {
		in   clusterInfo
		want string
	}{
		{clusterInfo{Partitions: 271, BackupCount: 2, Backups: 2, DataMembers: 3, Safe: true}, "271 partitions, 2 backups each, cluster safe"},
		{clusterInfo{Partitions: 271, BackupCount: 1, Backups: 1, DataMembers: 3, Safe: true}, "271 partitions, 1 backup each, cluster safe"},
		{clusterInfo{Partitions: 271, BackupCount: 1, DataMembers: 1, Safe: true}, "271 partitions, no backups: 1 data member"},
		{clusterInfo{Partitions: 271, BackupCount: 2, Backups: 1, DataMembers: 2, Safe: true}, "271 partitions, 1 of 2 backups each: 2 data members"},
		{clusterInfo{Partitions: 271, DataMembers: 1, Safe: true}, "271 partitions, no backups: none are wanted"},
		{clusterInfo{Partitions: 271, BackupCount: 1}, "271 partitions, no data members: nothing can be stored"},
		{clusterInfo{Partitions: 1, BackupCount: 1, DataMembers: 2, Moves: 3}, "1 partition, 0 of 1 backup each, cluster not safe yet (3 moves)"},
		{clusterInfo{Partitions: 1, BackupCount: 1, Backups: 1, DataMembers: 3, Moves: 1}, "1 partition, 1 backup each, cluster not safe yet (1 move)"},
		{clusterInfo{Partitions: 1, BackupCount: 1, Backups: 1, DataMembers: 3, Moves: 1, MovesWaiting: 5, HandOvers: 2, Drops: 4},
			"1 partition, 1 backup each, cluster not safe yet (12 moves)"},
		{clusterInfo{Partitions: 1, BackupCount: 1, Backups: 1, DataMembers: 3},
			"1 partition, 1 backup each, cluster not known to be safe: a member or the master does not seem to be there"},
		{clusterInfo{Partitions: 9, DataMembers: 1, LostPartitions: 2, Safe: true}, "9 partitions, 0 backups each, 2 LOST"},
	}
	for _, tt := range tests {
		if got := tt.in.line(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
