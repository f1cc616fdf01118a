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
	Tasks       []TaskView // of a live job
	Savepoint   bool       // was started with a savepoint
	PendingFor  string     // why a PENDING job waits
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

// Metrics are sums over all subtasks, in all and per table.
type Metrics struct {
	SourceRows, SourceBytes int64
	SinkRows, SinkBytes     int64
	SourceQPS, SinkQPS      float64 // rows per second over the time the job ran
	SourceBPS, SinkBPS      float64 // bytes per second
	Tables                  map[string]TableMetrics
}

// TableMetrics are the figures of one table.
type TableMetrics struct {
	SourceRows, SourceBytes, SinkRows, SinkBytes int64
	SourceQPS, SinkQPS, SourceBPS, SinkBPS       float64
}

// Overview counts the cluster's workers, slots and jobs. Every job that was accepted and not yet forgotten is in exactly one count.
type Overview struct {
	Workers                                   int
	TotalSlots, FreeSlots                     int
	Running, Pending                          int // Running: live and not pending
	Finished, Failed, Canceled, SavepointDone int
	MasterID                                  string
	Term                                      uint64
}

// CleanupView is one pending cleanup.
type CleanupView struct {
	JobID       string
	Incarnation string
	Status      JobStatus
	DueAt       time.Time
	Attempts    int
	LastError   string
}
