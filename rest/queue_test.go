package rest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"gridnode/engine"
)

func TestUpdateTags(t *testing.T) {
	long := strings.Repeat("x", 256)
	many := map[string]int{}
	for i := range 65 {
		many[whole(i)] = i
	}
	tooMany, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		body   string
		status int
		want   map[string]string
		says   string
	}{
		{`{"group":"platform","team":7,"gpu":true}`, 200, map[string]string{"group": "platform", "team": "7", "gpu": "true"}, "update node tags done."},
		{`{}`, 200, map[string]string{}, "success"},
		{`{"a":null}`, 400, nil, "not null"},
		{`{"a":{}}`, 400, nil, "tag a"},
		{`{"":"x"}`, 400, nil, "name"},
		{`{"` + long + `":"x"}`, 400, nil, "255"},
		{`{"a":"` + long + `"}`, 400, nil, "255"},
		{string(tooMany), 400, nil, "65 tags"},
		{`[]`, 400, nil, "object"},
		{``, 400, nil, "empty"},
	} {
		f := newFixture(t)
		rec := f.do("POST", "/update-tags", test.body)
		if rec.Code != test.status || !strings.Contains(rec.Body.String(), test.says) || !maps.Equal(f.grid.tags, test.want) {
			t.Errorf("%s: %d %s, tags %v", shorten(test.body), rec.Code, rec.Body, f.grid.tags)
		}
	}
}

func TestPendingJobs(t *testing.T) {
	f := newFixture(t)
	for target, want := range map[string]struct {
		status, jobs int
		says         string
	}{
		"/pending-jobs":                       {200, 1, `"scheduleStrategy":"WAIT"`},
		"/pending-jobs?jobId=8&limit=1":       {200, 1, `"blockingJobIds":["733584788375666689"]`},
		"/pending-jobs?jobId=9":               {200, 0, `"size":1`},
		"/pending-jobs?pretty=true":           {200, 1, `"enqueueTimestamp":"2026-11-30 10:20:00"`},
		"/hazelcast/rest/maps/pending-jobs":   {200, 1, `"lackingTaskGroups":3`},
		"/pending-jobs?limit=0":               {400, 0, "limit"},
		"/pending-jobs?jobId=x":               {400, 0, "x"},
		"/pending-jobs?pretty=perhaps":        {400, 0, "pretty"},
		"/overview?zone=a&no=such":            {200, 0, `"totalSlot":"0"`},
		"/hazelcast/rest/maps/overview?zone=": {200, 0, `"workers":"0"`},
	} {
		rec := f.do("GET", target, "")
		var got struct{ PendingJobs []any }
		_ = json.Unmarshal(rec.Body.Bytes(), &got)
		if rec.Code != want.status || len(got.PendingJobs) != want.jobs || !strings.Contains(rec.Body.String(), want.says) {
			t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
		}
	}
	if rec := f.do("PUT", "/pending-jobs", ""); rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", rec.Code)
	}
}

// What a waiting job's diagnostics say: of a job that has not run, of one that waits for slots of tasks that start again, and of one whose config the
// master cannot read.
func TestPendingJobs_Diagnostics(t *testing.T) {
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	stamp := func(t time.Time) any { return t.UnixMilli() }
	task := func(pipeline, subtask int, s engine.TaskStatus) engine.TaskView {
		return engine.TaskView{Pipeline: pipeline, Source: 1, Subtask: subtask, Status: s}
	}
	running := engine.JobView{JobID: "5", Status: engine.JobRunning, CreateTime: at, StartTime: at.Add(time.Second), PendingFor: "1 slot is wanted", Checks: 3, CheckedAt: at.Add(time.Minute),
		DAG:   engine.DAG{Vertices: []engine.VertexView{{ID: 1, Name: "pipeline-1 [Source[0]-FakeSource]"}}},
		Tasks: []engine.TaskView{task(1, 0, engine.TaskRunning), task(1, 1, engine.TaskCreated), task(2, 0, engine.TaskRunning)}}
	got := pendingJobShape(running, engine.Overview{}, stamp)
	if got.PendingSourceState != "RESTORE" || got.LackingTaskGroups != 1 || got.AllocatedTaskGroups != 2 || got.CheckCount != 3 || got.CheckTime != at.Add(time.Minute).UnixMilli() {
		t.Errorf("of a job that runs with one task less: %+v", got)
	}
	if len(got.Lacking) != 1 || len(got.Pipelines) != 2 || len(got.Pipelines[0].TaskGroups) != 2 {
		t.Fatalf("task groups: %+v", got)
	}
	lost := got.Lacking[0]
	if lost.Location != (taskLocation{JobID: "5", PipelineID: 1, TaskGroupID: 2}) || lost.Allocated || !strings.Contains(lost.TaskFullName, "FakeSource] subtask 1") ||
		lost.FailureReason == nil || *lost.FailureReason != notEnough || *lost.FailureMessage != "1 slot is wanted" {
		t.Errorf("the task group that lacks a worker: %+v", lost)
	}
	if ok := got.Pipelines[0].TaskGroups[0]; !ok.Allocated || ok.FailureReason != nil {
		t.Errorf("the task group that runs: %+v", ok)
	}
	if !waits(running) || waits(engine.JobView{Status: engine.JobRunning, Tasks: running.Tasks[:1]}) {
		t.Error("a running job waits only while it lacks a worker")
	}
	fresh := engine.JobView{JobID: "6", Status: engine.JobPending, CreateTime: at, Unreadable: true, PendingFor: "the master cannot read the config", Tasks: []engine.TaskView{task(1, 0, engine.TaskCreated)}}
	if got := pendingJobShape(fresh, engine.Overview{}, stamp); got.PendingSourceState != "SUBMIT" || got.FailureReason != failed || got.CheckTime != nil {
		t.Errorf("of a job that nobody can read: %+v", got)
	}
	many := engine.JobView{JobID: "7", Status: engine.JobPending}
	for i := range 500 {
		many.Tasks = append(many.Tasks, task(1, i, engine.TaskCreated))
	}
	if got := pendingJobShape(many, engine.Overview{}, stamp); got.LackingTaskGroups != 500 || len(got.Lacking) != maxDiagnosed || len(got.Pipelines[0].TaskGroups) != maxDiagnosed {
		t.Errorf("of a job with 500 task groups %d are listed", len(got.Lacking))
	}
}
