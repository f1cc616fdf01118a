package rest

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"gridnode/engine"
)

const (
	defaultBriefRows = 100
	maxBriefRows     = 1000
)

// registerJobDetail comes after every other path below /api/v1/jobs.
func (s *Server) registerJobDetail(rs *routes) {
	rs.handle("/api/v1/jobs", methods{"GET": s.limited(s.jobs)})
	rs.handle("/api/v1/jobs/{jobId}", methods{"GET": s.limited(s.jobDetail)})
	rs.stream("/api/v1/jobs/{jobId}/events", s.jobEvents)
}

// countsShape counts the jobs that were accepted and are not forgotten. The others add up to accepted.
type countsShape struct {
	Accepted      int `json:"accepted"`
	Pending       int `json:"pending"`
	Running       int `json:"running"`
	Finished      int `json:"finished"`
	Failed        int `json:"failed"`
	Canceled      int `json:"canceled"`
	SavepointDone int `json:"savepointDone"`
}

func (c *countsShape) add(s engine.JobStatus, n int) {
	c.Accepted += n
	switch s {
	case engine.JobPending, engine.JobCreated:
		c.Pending += n
	case engine.JobFinished:
		c.Finished += n
	case engine.JobFailed:
		c.Failed += n
	case engine.JobCanceled:
		c.Canceled += n
	case engine.JobSavepointDone:
		c.SavepointDone += n
	default:
		c.Running += n
	}
}

// briefShape is a job in a list.
type briefShape struct {
	JobID      string           `json:"jobId"`
	JobName    string           `json:"jobName"`
	Status     engine.JobStatus `json:"status"`
	CreateTime *time.Time       `json:"createTime"`
	StartTime  *time.Time       `json:"startTime,omitempty"`
	FinishTime *time.Time       `json:"finishTime,omitempty"`
	Restarts   int              `json:"restarts"`
	Failures   int              `json:"failures"`
	ErrorMsg   string           `json:"errorMsg,omitempty"`
	SourceRows int64            `json:"sourceRows"`
	SinkRows   int64            `json:"sinkRows"`
}

type jobsShape struct {
	Counts countsShape  `json:"counts"`
	Total  int          `json:"total"` // jobs in the state that was asked for
	Page   int          `json:"page"`
	Rows   int          `json:"rows"`
	Jobs   []briefShape `json:"jobs"`
}

// jobs answers how many jobs there are in which state, and lists them page by page, live ones first. Counts and list are made of the same answers.
func (s *Server) jobs(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	page, err := q.positive("page", 1)
	if err != nil {
		return err
	}
	rows, err := q.number("rows", 1, maxBriefRows, defaultBriefRows)
	if err != nil {
		return err
	}
	text, err := q.get("status")
	if err != nil {
		return err
	}
	status := engine.JobStatus(strings.ToUpper(text))
	if status != "" && !slices.Contains(jobStatuses(), status) {
		return badRequest("%q is not a job state", shorten(text))
	}
	part, err := s.cfg.Jobs.Jobs(r.Context(), status, pageStart(page, rows), rows)
	if err != nil {
		return err
	}
	shape := jobsShape{Total: part.Total, Page: page, Rows: rows, Jobs: []briefShape{}}
	for status, n := range part.Counts {
		shape.Counts.add(status, n)
	}
	for _, v := range part.Jobs {
		shape.Jobs = append(shape.Jobs, briefOf(v))
	}
	s.answer(w, r, http.StatusOK, shape)
	return nil
}

func briefOf(v engine.JobView) briefShape {
	return briefShape{
		JobID: v.JobID, JobName: v.JobName, Status: v.Status, CreateTime: moment(v.CreateTime), StartTime: moment(v.StartTime),
		FinishTime: moment(v.FinishTime), Restarts: v.Restarts, Failures: v.FailureSum, ErrorMsg: v.ErrorMsg,
		SourceRows: v.Metrics.SourceRows, SinkRows: v.Metrics.SinkRows,
	}
}

// moment is a time as our own paths show it; nil for one that has not come.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// detailShape is all that is known of one job. Numbers are numbers, times are RFC 3339 in UTC.
type detailShape struct {
	briefShape
	Mode           string                       `json:"mode"`
	Incarnation    string                       `json:"incarnation"`
	Term           uint64                       `json:"term,omitempty"`
	Pending        string                       `json:"pendingReason,omitempty"`
	Overtaken      int                          `json:"overtakenByLaterJobs,omitempty"`
	TagFilter      map[string]string            `json:"tagFilter"`
	Metrics        figuresShape                 `json:"metrics"`
	Tables         map[string]figuresShape      `json:"tables"`
	Tasks          []jobTask                    `json:"tasks"`
	FailedAttempts []failureShape               `json:"failedAttempts"` // the first ones and the last ones
	Times          map[string]time.Time         `json:"stateTimes"`
	Pipelines      map[int]map[string]time.Time `json:"pipelineTimes"`
	TaskTimes      []taskTimesShape             `json:"taskTimes"`
	DAG            jobDAG                       `json:"jobDag"`
}

type figuresShape struct {
	SourceRows           int64   `json:"sourceRows"`
	SourceBytes          int64   `json:"sourceBytes"`
	SinkRows             int64   `json:"sinkRows"`
	SinkBytes            int64   `json:"sinkBytes"`
	CommittedRows        int64   `json:"committedRows"`
	CommittedBytes       int64   `json:"committedBytes"`
	SourceRowsPerSecond  float64 `json:"sourceRowsPerSecond"`
	SourceBytesPerSecond float64 `json:"sourceBytesPerSecond"`
	SinkRowsPerSecond    float64 `json:"sinkRowsPerSecond"`
	SinkBytesPerSecond   float64 `json:"sinkBytesPerSecond"`
}

type failureShape struct {
	Time     *time.Time `json:"time"`
	Pipeline int        `json:"pipeline"`
	Source   int        `json:"source"` // 0: it is the whole pipeline's
	Subtask  int        `json:"subtask"`
	Attempt  int        `json:"attempt"`
	Member   string     `json:"member"`
	Error    string     `json:"error"`
}

type taskTimesShape struct {
	Pipeline int                  `json:"pipeline"`
	Source   int                  `json:"source"`
	Subtask  int                  `json:"subtask"`
	Attempt  int                  `json:"attempt"`
	Member   string               `json:"member"`
	Times    map[string]time.Time `json:"stateTimes"`
}

func (s *Server) jobDetail(w http.ResponseWriter, r *http.Request) error {
	v, err := s.oneJob(r)
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, detailOf(v))
	return nil
}

// oneJob returns the job of the path, or the error that it is unknown.
func (s *Server) oneJob(r *http.Request) (engine.JobView, error) {
	text, err := pathVar(r, "jobId")
	if err != nil {
		return engine.JobView{}, err
	}
	id, possible, err := jobID(text)
	if err != nil {
		return engine.JobView{}, err
	}
	unknown := failf(http.StatusNotFound, "there is no job %s", id)
	if !possible {
		return engine.JobView{}, unknown
	}
	v, err := s.cfg.Jobs.Info(r.Context(), id)
	if errors.Is(err, engine.ErrNotFound) {
		err = unknown
	}
	return v, err
}

func detailOf(v engine.JobView) detailShape {
	m := v.Metrics
	d := detailShape{
		briefShape: briefOf(v), Mode: string(v.Mode), Incarnation: v.Incarnation, Term: v.Term, Pending: v.PendingFor, Overtaken: v.Overtaken,
		TagFilter: notNil(v.TagFilter), Tables: make(map[string]figuresShape, len(m.Tables)), Tasks: []jobTask{}, FailedAttempts: []failureShape{},
		Times: momentsOf(v.Times.Job), Pipelines: make(map[int]map[string]time.Time, len(v.Times.Pipelines)), TaskTimes: []taskTimesShape{},
		DAG:     dagShape(v),
		Metrics: figuresOf(m.Figures),
	}
	for name, t := range m.Tables {
		d.Tables[name] = figuresOf(t)
	}
	for _, t := range v.Tasks {
		d.Tasks = append(d.Tasks, jobTask(t))
	}
	for _, f := range v.Failures {
		d.FailedAttempts = append(d.FailedAttempts, failureShape{Time: moment(f.Time), Pipeline: f.Pipeline, Source: f.Source, Subtask: f.Subtask,
			Attempt: f.Attempt, Member: f.Member, Error: f.Error})
	}
	for id, times := range v.Times.Pipelines {
		d.Pipelines[id] = momentsOf(times)
	}
	for _, t := range v.Times.Tasks {
		d.TaskTimes = append(d.TaskTimes, taskTimesShape{Pipeline: t.Pipeline, Source: t.Source, Subtask: t.Subtask, Attempt: t.Attempt,
			Member: t.Member, Times: momentsOf(t.States)})
	}
	return d
}

func momentsOf[S ~string](times map[S]time.Time) map[string]time.Time {
	out := make(map[string]time.Time, len(times))
	for state, t := range times {
		out[string(state)] = t.UTC()
	}
	return out
}

func figuresOf(t engine.TableMetrics) figuresShape {
	return figuresShape{
		SourceRows: t.SourceRows, SourceBytes: t.SourceBytes, SinkRows: t.SinkRows, SinkBytes: t.SinkBytes,
		CommittedRows: t.CommittedRows, CommittedBytes: t.CommittedBytes,
		SourceRowsPerSecond: t.SourceQPS, SourceBytesPerSecond: t.SourceBPS, SinkRowsPerSecond: t.SinkQPS, SinkBytesPerSecond: t.SinkBPS,
	}
}

// withoutRates returns the detail without what changes although nothing happens.
func (d detailShape) withoutRates() detailShape {
	still := func(f figuresShape) figuresShape {
		f.SourceRowsPerSecond, f.SourceBytesPerSecond, f.SinkRowsPerSecond, f.SinkBytesPerSecond = 0, 0, 0, 0
		return f
	}
	tables := make(map[string]figuresShape, len(d.Tables))
	for name, f := range d.Tables {
		tables[name] = still(f)
	}
	d.Metrics, d.Tables = still(d.Metrics), tables
	return d
}
