package engine

// Bounds on what a job's state remembers of its failures.
const (
	firstFailures   = 4  // the ones with which it began
	lastFailures    = 28 // the latest ones
	maxFailureBytes = 512
)

// Bounds on the text of one error: what connectors quote may be as long as a line of a file, while a state has 4 MiB, every list shows the cause,
// and all must pass in one message.
const (
	maxReportBytes = 4 << 10 // as a worker reports it
	maxCauseBytes  = 8 << 10 // with what the master says of it, as the cause of a job's end
)

// failure is an attempt of a task group that failed or was lost, or the output of a pipeline that was judged bad.
type failure struct {
	AtMs   int64
	Ref    taskRef // Source 0: the pipeline's
	Member string
	Error  string
}

// noteFailure remembers a failure, and forgets one between the first and the last ones if there are too many.
func (s *jobState) noteFailure(p *pipelineState, in injury, nowMs int64) {
	f := failure{AtMs: nowMs, Ref: taskRef{Pipeline: p.ID}, Error: shorten(in.cause, maxFailureBytes)}
	if in.task != nil {
		f.Ref, f.Member = p.ref(in.task), in.task.Worker
	}
	s.FailureSum++
	s.Failures = append(s.Failures, f)
	if len(s.Failures) > firstFailures+lastFailures {
		s.Failures = append(s.Failures[:firstFailures:firstFailures], s.Failures[firstFailures+1:]...)
	}
}

func (s *jobState) failureViews() []FailureView {
	var out []FailureView
	for _, f := range s.Failures {
		out = append(out, FailureView{
			Time: timeOf(f.AtMs), Pipeline: f.Ref.Pipeline, Source: f.Ref.Source, Subtask: f.Ref.Subtask, Attempt: f.Ref.Attempt,
			Member: f.Member, Error: f.Error,
		})
	}
	return out
}
