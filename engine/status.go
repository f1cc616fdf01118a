package engine

// JobStatus is the state of a job. The names and their order are SeaTunnel Zeta's; the order indexes the timestamps.
type JobStatus string

// The states of a job.
const (
	JobInitializing   JobStatus = "INITIALIZING"
	JobCreated        JobStatus = "CREATED"
	JobPending        JobStatus = "PENDING"
	JobScheduled      JobStatus = "SCHEDULED"
	JobRunning        JobStatus = "RUNNING"
	JobFailing        JobStatus = "FAILING"
	JobFailed         JobStatus = "FAILED"
	JobDoingSavepoint JobStatus = "DOING_SAVEPOINT"
	JobSavepointDone  JobStatus = "SAVEPOINT_DONE"
	JobCanceling      JobStatus = "CANCELING"
	JobCanceled       JobStatus = "CANCELED"
	JobFinished       JobStatus = "FINISHED"
	JobUnknowable     JobStatus = "UNKNOWABLE" // the answer for an unknown job; never stored
)

// Final reports whether the state is terminal: no job leaves it.
func (s JobStatus) Final() bool {
	switch s {
	case JobFailed, JobSavepointDone, JobCanceled, JobFinished:
		return true
	}
	return false
}

// TaskStatus is the state of a task group (and, with SCHEDULED, of a pipeline).
type TaskStatus string

// The states of a task group.
const (
	TaskInitializing TaskStatus = "INITIALIZING"
	TaskCreated      TaskStatus = "CREATED"
	TaskScheduled    TaskStatus = "SCHEDULED" // pipelines only
	TaskDeploying    TaskStatus = "DEPLOYING"
	TaskRunning      TaskStatus = "RUNNING"
	TaskFinished     TaskStatus = "FINISHED"
	TaskCanceling    TaskStatus = "CANCELING"
	TaskCanceled     TaskStatus = "CANCELED"
	TaskFailing      TaskStatus = "FAILING"
	TaskFailed       TaskStatus = "FAILED"
)
