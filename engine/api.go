package engine

import (
	"errors"
	"time"

	"gridnode/engine/plugin"
)

// What a caller did wrong, besides [ErrRetryable] and [ErrIndeterminate]. Each comes wrapped with the words for the user. Test with errors.Is.
var (
	ErrInvalid  = errors.New("invalid request") // the caller's fault: bad config, bad option, bad id
	ErrNotFound = errors.New("no such job")
	ErrConflict = errors.New("conflict") // the job id was used before, or the job cannot do that now
)

// RetryAfterError is an [ErrConflict] that will pass: the job's last run is still being cleaned up.
type RetryAfterError struct {
	Reason string
	After  time.Duration
}

func (e *RetryAfterError) Error() string { return e.Reason }
func (e *RetryAfterError) Unwrap() error { return ErrConflict }

// SubmitRequest asks for a job to be run.
type SubmitRequest struct {
	JobID              string // decimal int64 above 0; empty: the engine chooses one below 2^53
	JobName            string // overrides env job.name when not empty
	Config             []byte // JSON
	StartWithSavepoint bool
	SubmitKey          string // repeated by a retry of the same submit; empty: none
	Chosen             bool   // the engine has chosen JobID; [Service.Submit] sets it
}

// SubmitResult is the answer to an accepted submit.
type SubmitResult struct {
	JobID    string
	JobName  string
	Status   JobStatus
	Warnings []string // options that are accepted and have no effect yet
}

// StopRequest asks for a job to be stopped.
type StopRequest struct {
	JobID     string
	Savepoint bool
	Force     bool
}

// JobView is a job as the faces show it.
type JobView struct {
	JobID       string
	JobName     string
	Status      JobStatus
	Mode        plugin.Mode
	Env         map[string]string
	CreateTime  time.Time
	StartTime   time.Time // zero until it first ran
	FinishTime  time.Time // zero while it is not terminal
	ErrorMsg    string    // the root cause, of a FAILED job
	Restarts    int       // restarts of pipelines so far, all pipelines together
	Incarnation string
	Term        uint64
	DAG         DAG
	Metrics     Metrics
	Tasks       []TaskView    // of a live job
	Failures    []FailureView // of attempts, in order: the first ones and the last ones
	FailureSum  int           // of all
	Times       Times         // when states were entered; only of one job, not in lists
	Savepoint   bool          // was started with a savepoint
	PendingFor  string        // why a PENDING job waits, or a live one is not driven or does not end
	TagFilter   map[string]string
	Overtaken   int       // jobs submitted later that got slots while this one waited, up to a bound
	Unreadable  bool      // the master cannot read the job's config, and leaves the job as it is
	Checks      int       // how often the present master looked whether a live job fits
	CheckedAt   time.Time // when it did last
}

// DAG is the graph of a job.
type DAG struct {
	Edges    map[int][]Edge // by pipeline id
	Vertices []VertexView
}

// Edge leads from one vertex to another.
type Edge struct{ From, To int }

// VertexView is one vertex of a [DAG].
type VertexView struct {
	ID       int
	Pipeline int
	Type     string // source, transform, sink
	Name     string
	Tables   []string
}

// TaskView is one task group of a live job.
type TaskView struct {
	Pipeline, Source, Subtask int
	Status                    TaskStatus
	Attempt                   int
	Member                    string // member id
}

// FailureView is an attempt that failed or was lost.
type FailureView struct {
	Time     time.Time
	Pipeline int
	Source   int // 0: it is the whole pipeline's
	Subtask  int
	Attempt  int
	Member   string // member id
	Error    string
}

// Times says when states were last entered. A state that was never entered is not there.
type Times struct {
	Job       map[JobStatus]time.Time
	Pipelines map[int]map[TaskStatus]time.Time // by id
	Tasks     []TaskTimes
}

// TaskTimes are those of one task group, with its last attempt. Of a job with very many task groups only the first ones are there.
type TaskTimes struct {
	Pipeline, Source, Subtask int
	Attempt                   int
	Member                    string // member id
	States                    map[TaskStatus]time.Time
}

// Metrics are sums over all subtasks, in all and per table.
type Metrics struct {
	Figures
	Tables map[string]TableMetrics
}

// TableMetrics are the figures of one table.
type TableMetrics = Figures

// Figures count rows and bytes. What is committed is visible for good: by a checkpoint, or by the end of the pipeline.
type Figures struct {
	SourceRows, SourceBytes          int64
	SinkRows, SinkBytes              int64
	CommittedRows, CommittedBytes    int64
	SourceQPS, SinkQPS, CommittedQPS float64 // rows per second over the time the job ran
	SourceBPS, SinkBPS, CommittedBPS float64 // bytes per second
}

// WorkerSlots are the slots of one worker.
type WorkerSlots struct {
	MemberID string
	Tags     map[string]string
	Dynamic  bool // it has as many as are used
	Silent   bool // it does not answer for now, and gets no new tasks
	Total    int
	Used     int // may be more than Total after the number was lowered
	Jobs     []string
}

// Free returns the slots that have no task.
func (w WorkerSlots) Free() int { return max(w.Total-w.Used, 0) }

// Overview counts the cluster's workers, slots and jobs. Every job that was accepted and not yet forgotten is in exactly one count.
type Overview struct {
	Workers                                   int
	TotalSlots, FreeSlots                     int
	Slots                                     []WorkerSlots // by worker that takes tasks, in the order of joining
	Running, Pending                          int           // Running: live and not pending
	Finished, Failed, Canceled, SavepointDone int
	Strategy                                  ScheduleStrategy
	MasterID                                  string
	Term                                      uint64
}

// Accepted returns how many jobs were accepted and are not forgotten.
func (o Overview) Accepted() int {
	return o.Running + o.Pending + o.Finished + o.Failed + o.Canceled + o.SavepointDone
}

// CleanupStage is what a pending cleanup does next.
type CleanupStage string

// The stages, in their order. Each may be repeated.
const (
	CleanupHistory   CleanupStage = "history"   // write the job's history
	CleanupArtefacts CleanupStage = "artefacts" // stop what still runs of it, remove what it left on workers
	CleanupTombstone CleanupStage = "tombstone" // wait until the delay is over
	CleanupEntries   CleanupStage = "entries"   // remove its entries
)

// CleanupView is one pending cleanup.
type CleanupView struct {
	JobID       string
	Incarnation string
	Status      JobStatus
	Stage       CleanupStage
	DueAt       time.Time // when the tombstone may go
	NextTry     time.Time // when something is done next
	Attempts    int       // that failed, at this stage
	LastError   string
}
