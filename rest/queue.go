package rest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"gridnode/engine"
	"gridnode/grid"
)

const (
	maxPending   = 1000 // jobs that /pending-jobs describes at most
	maxDiagnosed = 64   // task groups of a pipeline, and of those of a job that lack a worker
)

func (s *Server) registerQueue(rs *routes) {
	for _, prefix := range []string{"", v1} {
		rs.handle(prefix+"/pending-jobs", methods{"GET": s.limited(s.pendingJobs)})
		rs.handle(prefix+"/update-tags", methods{"POST": s.limited(s.updateTags)})
	}
}

// updateTags replaces the tags of the member that is asked. They go with it: a restart brings its member-attributes back.
func (s *Server) updateTags(w http.ResponseWriter, r *http.Request) error {
	data, err := jsonBody(w, r)
	if err != nil {
		return err
	}
	obj, err := objectOf(data, "The request body")
	if err != nil {
		return err
	}
	if len(obj) > grid.MaxAttributes {
		return badRequest("%d tags are more than %d", len(obj), grid.MaxAttributes)
	}
	tags := make(map[string]string, len(obj))
	for name, raw := range obj {
		text, present, err := scalar(raw, "tag "+shorten(name))
		switch {
		case err != nil:
			return err
		case !present:
			return badRequest("tag %q must be a string or a number, not null", shorten(name))
		case name == "" || len(name) > grid.MaxAttributeBytes || len(text) > grid.MaxAttributeBytes:
			return badRequest("tag %q must have a name and a value of at most %d bytes each", shorten(name), grid.MaxAttributeBytes)
		}
		tags[name] = text
	}
	if err := s.cfg.Grid.SetTags(r.Context(), tags); err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, map[string]string{"status": "success", "message": "update node tags done."})
	return nil
}

// pendingShape is the queue: who waits, for what, and what there is. Numbers are numbers here, as SeaTunnel has them.
type pendingShape struct {
	QueueSummary    queueSummary    `json:"queueSummary"`
	ClusterSnapshot clusterSnapshot `json:"clusterSnapshot"`
	PendingJobs     []pendingJob    `json:"pendingJobs"`
}

type queueSummary struct {
	Size                   int                     `json:"size"`
	ScheduleStrategy       engine.ScheduleStrategy `json:"scheduleStrategy"`
	OldestEnqueueTimestamp any                     `json:"oldestEnqueueTimestamp"`
	NewestEnqueueTimestamp any                     `json:"newestEnqueueTimestamp"`
	LackingTaskGroups      int                     `json:"lackingTaskGroups"`
}

type clusterSnapshot struct {
	TotalSlots    int            `json:"totalSlots"`
	FreeSlots     int            `json:"freeSlots"`
	AssignedSlots int            `json:"assignedSlots"`
	WorkerCount   int            `json:"workerCount"`
	Workers       []workerOfJobs `json:"workers"`
}

type workerOfJobs struct {
	Address       string            `json:"address"`
	Tags          map[string]string `json:"tags"`
	TotalSlots    int               `json:"totalSlots"`
	FreeSlots     int               `json:"freeSlots"`
	DynamicSlot   bool              `json:"dynamicSlot"`
	CPUUsage      *float64          `json:"cpuUsage"` // null: not known; so is memUsage
	MemUsage      *float64          `json:"memUsage"`
	RunningJobIDs []string          `json:"runningJobIds"`
}

type pendingJob struct {
	JobID                string            `json:"jobId"`
	JobName              string            `json:"jobName"`
	PendingSourceState   string            `json:"pendingSourceState"`
	JobStatus            engine.JobStatus  `json:"jobStatus"`
	EnqueueTimestamp     any               `json:"enqueueTimestamp"`
	CheckTime            any               `json:"checkTime"` // null: not yet
	CheckCount           int               `json:"checkCount"`
	WaitDurationMs       int64             `json:"waitDurationMs"`
	TotalTaskGroups      int               `json:"totalTaskGroups"`
	AllocatedTaskGroups  int               `json:"allocatedTaskGroups"`
	LackingTaskGroups    int               `json:"lackingTaskGroups"`
	FailureReason        string            `json:"failureReason"`
	FailureMessage       string            `json:"failureMessage"`
	TagFilter            map[string]string `json:"tagFilter"`
	BlockingJobIDs       []string          `json:"blockingJobIds"`
	Pipelines            []pendingPipeline `json:"pipelines"`
	Lacking              []pendingTask     `json:"lackingTaskGroupDiagnostics"`
	OvertakenByLaterJobs int               `json:"overtakenByLaterJobs"` // ours
	Workers              []workerFit       `json:"workerDiagnostics"`    // ours
}

type pendingPipeline struct {
	PipelineID          int           `json:"pipelineId"`
	PipelineName        string        `json:"pipelineName"`
	TotalTaskGroups     int           `json:"totalTaskGroups"`
	AllocatedTaskGroups int           `json:"allocatedTaskGroups"`
	LackingTaskGroups   int           `json:"lackingTaskGroups"`
	TaskGroups          []pendingTask `json:"taskGroupDiagnostics"`
}

// pendingTask is one task group. SeaTunnel's id of it is a number; here it is its place in the pipeline.
type pendingTask struct {
	Location       taskLocation `json:"taskGroupLocation"`
	TaskFullName   string       `json:"taskFullName"`
	Allocated      bool         `json:"allocated"`
	FailureReason  *string      `json:"failureReason"`
	FailureMessage *string      `json:"failureMessage"`
}

type taskLocation struct {
	JobID       string `json:"jobId"`
	PipelineID  int    `json:"pipelineId"`
	TaskGroupID int    `json:"taskGroupId"`
}

// pendingJobs answers the queue, in its order.
func (s *Server) pendingJobs(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	limit, err := q.number("limit", 1, maxPending, maxPending)
	if err != nil {
		return err
	}
	only, err := q.get("jobId")
	if err != nil {
		return err
	}
	if only != "" {
		if only, _, err = jobID(only); err != nil {
			return err
		}
	}
	pretty, err := q.get("pretty")
	if err != nil {
		return err
	}
	readable, err := boolean(pretty, "pretty")
	if err != nil {
		return err
	}
	o, err := s.cfg.Jobs.Overview(r.Context())
	if err != nil {
		return err
	}
	jobs, err := s.cfg.Jobs.Running(r.Context())
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, s.pendingShape(o, s.workerLoads(r.Context(), o.Slots), jobs, only, limit, stamper(readable)))
	return nil
}

// stamper writes times as Unix milliseconds, or readably.
func stamper(readable bool) func(time.Time) any {
	return func(t time.Time) any {
		if readable {
			return clock(t)
		}
		return t.UnixMilli()
	}
}

func (s *Server) pendingShape(o engine.Overview, loads workerLoads, jobs []engine.JobView, only string, limit int, stamp func(time.Time) any) pendingShape {
	shape := pendingShape{
		QueueSummary:    queueSummary{ScheduleStrategy: o.Strategy},
		ClusterSnapshot: s.snapshotShape(o, loads),
		PendingJobs:     []pendingJob{},
	}
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(v engine.JobView) bool {
		return !waits(v)
	})
	slices.SortFunc(jobs, func(a, b engine.JobView) int {
		return cmp.Or(a.CreateTime.Compare(b.CreateTime), cmp.Compare(a.JobID, b.JobID))
	})
	address := s.addresses()
	sum := &shape.QueueSummary
	sum.Size = len(jobs)
	for i, v := range jobs {
		sum.LackingTaskGroups += lacking(v)
		if i == 0 {
			sum.OldestEnqueueTimestamp = stamp(v.CreateTime)
		}
		sum.NewestEnqueueTimestamp = stamp(v.CreateTime)
		if only == v.JobID || only == "" && len(shape.PendingJobs) < limit {
			job := pendingJobShape(v, o, stamp)
			job.Workers = workerFits(v, o, address)
			shape.PendingJobs = append(shape.PendingJobs, job)
		}
	}
	return shape
}

// waits reports whether a job waits for slots: as a whole, or for those of tasks that are to start again.
func waits(v engine.JobView) bool {
	return v.Status == engine.JobPending || v.Status == engine.JobCreated || v.PendingFor != "" && lacking(v) > 0
}

// lacking counts the task groups that have no worker.
func lacking(v engine.JobView) (n int) {
	for _, t := range v.Tasks {
		if t.Status == engine.TaskCreated {
			n++
		}
	}
	return n
}

func (s *Server) snapshotShape(o engine.Overview, loads workerLoads) clusterSnapshot {
	snap := clusterSnapshot{
		TotalSlots: o.TotalSlots, FreeSlots: o.FreeSlots, AssignedSlots: o.TotalSlots - o.FreeSlots, WorkerCount: len(o.Slots),
		Workers: []workerOfJobs{},
	}
	address := s.addresses()
	for _, w := range o.Slots {
		cpu, mem := loads.usage(w.MemberID)
		snap.Workers = append(snap.Workers, workerOfJobs{
			Address: address(w.MemberID), CPUUsage: cpu, MemUsage: mem, Tags: notNil(w.Tags), TotalSlots: w.Total, FreeSlots: w.Free(),
			DynamicSlot: w.Dynamic, RunningJobIDs: append([]string{}, w.Jobs...),
		})
	}
	return snap
}

// Why a job waits.
const (
	notEnough = "RESOURCE_NOT_ENOUGH"
	failed    = "REQUEST_FAILED"
)

func pendingJobShape(v engine.JobView, o engine.Overview, stamp func(time.Time) any) pendingJob {
	job := pendingJob{
		JobID: v.JobID, JobName: v.JobName, PendingSourceState: "SUBMIT", JobStatus: v.Status, EnqueueTimestamp: stamp(v.CreateTime),
		CheckCount: v.Checks, WaitDurationMs: max(time.Since(v.CreateTime).Milliseconds(), 0),
		TotalTaskGroups: len(v.Tasks), LackingTaskGroups: lacking(v), AllocatedTaskGroups: len(v.Tasks) - lacking(v),
		FailureReason: notEnough, FailureMessage: v.PendingFor, TagFilter: notNil(v.TagFilter),
		BlockingJobIDs: []string{}, Pipelines: []pendingPipeline{}, Lacking: []pendingTask{}, Workers: []workerFit{}, OvertakenByLaterJobs: v.Overtaken,
	}
	if !v.CheckedAt.IsZero() {
		job.CheckTime = stamp(v.CheckedAt)
	}
	if v.Unreadable {
		job.FailureReason = failed
	}
	if !v.StartTime.IsZero() {
		job.PendingSourceState = "RESTORE"
	}
	for _, t := range v.Tasks {
		job.addTask(v, t)
	}
	for _, w := range o.Slots {
		if hasTags(w, v.TagFilter) {
			job.BlockingJobIDs = append(job.BlockingJobIDs, w.Jobs...)
		}
	}
	slices.Sort(job.BlockingJobIDs)
	job.BlockingJobIDs = slices.Compact(job.BlockingJobIDs)
	return job
}

// addTask enters a task group. Of many that lack a worker only the first ones are listed by themselves; all are counted.
func (j *pendingJob) addTask(v engine.JobView, t engine.TaskView) {
	i := slices.IndexFunc(j.Pipelines, func(p pendingPipeline) bool { return p.PipelineID == t.Pipeline })
	if i < 0 {
		i = len(j.Pipelines)
		j.Pipelines = append(j.Pipelines, pendingPipeline{PipelineID: t.Pipeline, PipelineName: fmt.Sprint("pipeline-", t.Pipeline), TaskGroups: []pendingTask{}})
	}
	p := &j.Pipelines[i]
	task := pendingTask{
		Location:     taskLocation{JobID: v.JobID, PipelineID: t.Pipeline, TaskGroupID: p.TotalTaskGroups + 1},
		TaskFullName: fmt.Sprintf("%s subtask %d", vertexName(v, t.Source), t.Subtask), Allocated: t.Status != engine.TaskCreated,
	}
	p.TotalTaskGroups++
	if task.Allocated {
		p.AllocatedTaskGroups++
	} else {
		p.LackingTaskGroups++
		reason, message := j.FailureReason, j.FailureMessage
		task.FailureReason, task.FailureMessage = &reason, &message
		if len(j.Lacking) < maxDiagnosed {
			j.Lacking = append(j.Lacking, task)
		}
	}
	if len(p.TaskGroups) < maxDiagnosed {
		p.TaskGroups = append(p.TaskGroups, task)
	}
}

func vertexName(v engine.JobView, id int) string {
	for _, x := range v.DAG.Vertices {
		if x.ID == id {
			return x.Name
		}
	}
	return fmt.Sprint("source ", id)
}

func hasTags(w engine.WorkerSlots, tags map[string]string) bool {
	for k, v := range tags {
		if got, ok := w.Tags[k]; !ok || got != v {
			return false
		}
	}
	return true
}
