package rest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gridnode/engine"
)

// Of each worker a waiting job's diagnostics say whether it would take a task of the job, and why not, or why that does not help.
func TestWorkerFits(t *testing.T) {
	job := engine.JobView{JobID: "7", Status: engine.JobPending, TagFilter: map[string]string{"disk": "ssd"}}
	for i := range 4 {
		job.Tasks = append(job.Tasks, engine.TaskView{Pipeline: 1, Source: 1, Subtask: i, Status: engine.TaskCreated})
	}
	ssd := map[string]string{"disk": "ssd", "zone": "a"}
	running, untagged := job, job
	running.StartTime = time.Now()
	untagged.TagFilter = nil
	small := engine.WorkerSlots{MemberID: "w", Tags: ssd, Total: 3, Used: 1}
	for name, test := range map[string]struct {
		job     engine.JobView
		workers []engine.WorkerSlots
		fits    bool
		says    string
	}{
		"tag is not there":       {job, []engine.WorkerSlots{{MemberID: "w", Total: 9}}, false, "disk=ssd"},
		"tag has another value":  {job, []engine.WorkerSlots{{MemberID: "w", Tags: map[string]string{"disk": "hdd"}, Total: 9}}, false, "disk=ssd (but hdd)"},
		"no slot is free":        {job, []engine.WorkerSlots{{MemberID: "w", Tags: ssd, Total: 3, Used: 3}}, false, "all of its 3 slots"},
		"more than all":          {job, []engine.WorkerSlots{{MemberID: "w", Tags: ssd, Total: 3, Used: 5}}, false, "all of its 3 slots"},
		"silent":                 {job, []engine.WorkerSlots{{MemberID: "w", Tags: ssd, Total: 9, Silent: true}}, false, "does not answer"},
		"too few in all":         {job, []engine.WorkerSlots{small, {MemberID: "x", Total: 90}}, true, "4 slots at once, and the workers that match have 2 free"},
		"the silent do not help": {job, []engine.WorkerSlots{small, {MemberID: "x", Tags: ssd, Total: 90, Silent: true}}, true, "have 2 free"},
		"kept for others":        {job, []engine.WorkerSlots{small, {MemberID: "x", Tags: ssd, Total: 90}}, true, "kept for jobs that come first"},
		"a restart takes one":    {running, []engine.WorkerSlots{small}, true, "kept for jobs that come first"},
		"dynamic":                {job, []engine.WorkerSlots{{MemberID: "w", Tags: ssd, Dynamic: true}}, true, "any number"},
		"no filter":              {untagged, []engine.WorkerSlots{{MemberID: "w", Total: 1, Used: 1}}, false, "all of its 1 slots"},
	} {
		fits := workerFits(test.job, engine.Overview{Slots: test.workers}, strings.ToUpper)
		if len(fits) != len(test.workers) || fits[0].Fits != test.fits || !strings.Contains(fits[0].Reason, test.says) || fits[0].Address != "W" || fits[0].FreeSlots != test.workers[0].Free() {
			t.Errorf("%s: %+v, want %v with %q", name, fits, test.fits, test.says)
		}
	}
	if fits := workerFits(job, engine.Overview{Slots: make([]engine.WorkerSlots, 500)}, strings.ToUpper); len(fits) != maxWorkersOf {
		t.Errorf("%d workers are named", len(fits))
	}
}

// /pending-jobs tells how busy each worker is; of one that does not answer that is null.
func TestPendingJobs_Load(t *testing.T) {
	f := newFixture(t)
	rec := f.do("GET", "/pending-jobs", "")
	var got struct {
		ClusterSnapshot struct{ Workers []map[string]any }
		PendingJobs     []struct{ WorkerDiagnostics []workerFit }
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 {
		t.Fatalf("%d %s, %v", rec.Code, rec.Body, err)
	}
	workers := got.ClusterSnapshot.Workers
	if len(workers) != 2 || workers[0]["cpuUsage"] != 0.125 || workers[0]["memUsage"] != 0.0165 || workers[1]["cpuUsage"] != nil || workers[1]["memUsage"] != nil {
		t.Errorf("workers: %v", workers)
	}
	if len(got.PendingJobs) != 1 || len(got.PendingJobs[0].WorkerDiagnostics) != 2 {
		t.Errorf("jobs: %+v", got.PendingJobs)
	}
}
