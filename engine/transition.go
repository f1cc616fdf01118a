package engine

import "slices"

// The orders below index the timestamps. They are SeaTunnel Zeta's ordinals, with SCHEDULED for task groups too.

func jobStatuses() []JobStatus {
	return []JobStatus{JobInitializing, JobCreated, JobPending, JobScheduled, JobRunning, JobFailing, JobFailed,
		JobDoingSavepoint, JobSavepointDone, JobCanceling, JobCanceled, JobFinished, JobUnknowable}
}

func taskStatuses() []TaskStatus {
	return []TaskStatus{TaskCreated, TaskScheduled, TaskDeploying, TaskRunning, TaskFinished, TaskCanceling, TaskCanceled,
		TaskFailing, TaskFailed, TaskInitializing}
}

// jobNext is the table of allowed edges of a job.
func jobNext(from JobStatus) []JobStatus {
	switch from {
	case JobInitializing:
		return []JobStatus{JobCreated}
	case JobCreated:
		return []JobStatus{JobPending, JobScheduled, JobFailing, JobCanceling}
	case JobPending:
		return []JobStatus{JobScheduled, JobFailing, JobCanceling}
	case JobScheduled:
		return []JobStatus{JobRunning, JobFailing, JobCanceling}
	case JobRunning:
		return []JobStatus{JobFailing, JobCanceling, JobDoingSavepoint, JobFinished}
	case JobDoingSavepoint:
		return []JobStatus{JobSavepointDone, JobFailing, JobCanceling}
	case JobFailing:
		return []JobStatus{JobFailed, JobCanceling}
	case JobCanceling:
		return []JobStatus{JobCanceled, JobFinished, JobSavepointDone}
	}
	return nil
}

// pipelineNext is the table of allowed edges of a pipeline.
func pipelineNext(from TaskStatus) []TaskStatus {
	switch from {
	case TaskInitializing:
		return []TaskStatus{TaskCreated}
	case TaskCreated:
		return []TaskStatus{TaskScheduled, TaskFailing, TaskCanceling}
	case TaskScheduled:
		return []TaskStatus{TaskDeploying, TaskFailing, TaskCanceling}
	case TaskDeploying:
		return []TaskStatus{TaskRunning, TaskFailing, TaskCanceling}
	case TaskRunning:
		return []TaskStatus{TaskFinished, TaskFailing, TaskCanceling}
	case TaskFailing:
		return []TaskStatus{TaskFailed, TaskCanceling}
	case TaskCanceling:
		return []TaskStatus{TaskCanceled}
	}
	return nil
}

// taskNext is the table of allowed edges of a task group. FAILED and FINISHED lead back to CREATED: a restart, and prepared output that was
// lost before it was committed.
func taskNext(from TaskStatus) []TaskStatus {
	switch from {
	case TaskInitializing:
		return []TaskStatus{TaskCreated}
	case TaskCreated:
		return []TaskStatus{TaskDeploying, TaskCanceled}
	case TaskDeploying:
		return []TaskStatus{TaskRunning, TaskFinished, TaskFailed, TaskCanceling}
	case TaskRunning:
		return []TaskStatus{TaskFinished, TaskFailed, TaskFailing, TaskCanceling}
	case TaskFailing: // it is being stopped, and will start again
		return []TaskStatus{TaskFailed, TaskFinished}
	case TaskCanceling:
		return []TaskStatus{TaskCanceled, TaskFinished}
	case TaskFailed, TaskFinished:
		return []TaskStatus{TaskCreated}
	}
	return nil
}

// ended reports whether a task group or pipeline has come to its end.
func (s TaskStatus) ended() bool {
	return s == TaskFinished || s == TaskCanceled || s == TaskFailed
}

// turn moves the job along an edge of the table; it does nothing and returns false if there is none.
func (s *jobState) turn(to JobStatus) bool {
	if !slices.Contains(jobNext(s.Status), to) {
		return false
	}
	s.Status = to
	s.trail = append(s.trail, hop{pipeline: -1, ordinal: slices.Index(jobStatuses(), to)})
	return true
}

// turnPipeline does the same for a pipeline.
func (s *jobState) turnPipeline(i int, to TaskStatus) bool {
	p := &s.Pipelines[i]
	if !slices.Contains(pipelineNext(p.Status), to) {
		return false
	}
	p.Status = to
	s.trail = append(s.trail, hop{pipeline: i, ordinal: slices.Index(taskStatuses(), to)})
	return true
}

// turn does the same for a task group.
func (t *taskState) turn(to TaskStatus) bool {
	if !slices.Contains(taskNext(t.Status), to) {
		return false
	}
	t.Status = to
	return true
}

// stamp returns the timestamps with the states of the trail entered now.
func (ts timestamps) stamp(trail []hop, nowMs int64) timestamps {
	ts.Job = slices.Clone(ts.Job)
	ts.Pipelines = slices.Clone(ts.Pipelines)
	for _, h := range trail {
		if h.pipeline < 0 {
			ts.Job[h.ordinal] = nowMs
			continue
		}
		ts.Pipelines[h.pipeline] = slices.Clone(ts.Pipelines[h.pipeline])
		ts.Pipelines[h.pipeline][h.ordinal] = nowMs
	}
	return ts
}

// fit reports whether there is a place for every state of a job and its pipelines.
func (ts timestamps) fit(st *jobState) bool {
	ok := len(ts.Job) == len(jobStatuses()) && len(ts.Pipelines) == len(st.Pipelines)
	for _, p := range ts.Pipelines {
		ok = ok && len(p) == len(taskStatuses())
	}
	return ok
}

// newTimestamps returns those of a job that is CREATED now, with room for its pipelines.
func newTimestamps(st *jobState, nowMs int64) timestamps {
	ts := timestamps{Incarnation: st.Incarnation, Job: make([]int64, len(jobStatuses()))}
	ts.Job[slices.Index(jobStatuses(), JobInitializing)] = st.CreatedMs
	ts.Job[slices.Index(jobStatuses(), JobCreated)] = nowMs
	for range st.Pipelines {
		p := make([]int64, len(taskStatuses()))
		p[slices.Index(taskStatuses(), TaskCreated)] = nowMs
		ts.Pipelines = append(ts.Pipelines, p)
	}
	return ts
}
