package engine

import (
	"fmt"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// jobInfo is what was submitted. It is written once per incarnation and never changed.
type jobInfo struct {
	Incarnation string
	SubmitKey   string
	Name        string
	Config      []byte
	CreatedMs   int64
	Savepoint   bool // was started with a savepoint
}

// jobState is a job with all its pipelines and task groups: one entry, so that each step is one transaction on one version.
type jobState struct {
	Incarnation string
	Term        uint64 // of the master that drives the job; it alone may write, except for the cancel intent
	Status      JobStatus
	Cancel      bool      // intent: set once, never cleared
	Savepoint   bool      // intent to stop with a savepoint: set once, never cleared
	Cause       string    // root cause of a failure
	PendingFor  string    // why a PENDING job waits, or what keeps one from its end
	Failures    []failure // of attempts, in order; the first ones and the last ones
	FailureSum  int       // of all
	Overtaken   int       // jobs submitted later that got slots while this one waited; at most maxOvertakes
	CreatedMs   int64
	StartedMs   int64 // 0 until it first ran
	EndedMs     int64 // 0 while it is not terminal
	Pipelines   []pipelineState

	trail []hop // the states passed through since it was cloned; not stored
}

// pipelineState is one pipeline of a job.
type pipelineState struct {
	ID         int
	Status     TaskStatus
	Restarts   int
	Committing bool // the commit decision: from here the pipeline only rolls forward
	// RestartAtMs is the wall clock before which what was restarted last does not start; 0 without a restart.
	RestartAtMs int64
	Ckpt        ckptState
	Tasks       []taskState

	answered []taskPoint // of the checkpoint that became complete since the state was cloned; not stored
}

// taskState is one task group: a subtask of a source with everything downstream of it.
type taskState struct {
	Source, Subtask int
	Status          TaskStatus
	Attempt         int    // raised by the same write that sets Worker, before the deploy is sent
	Worker          string // member id
	Parting         bool   // Worker is leaving the cluster: the loss of the attempt costs no restart
	Moving          bool   // the attempt is to stop, so that another one starts elsewhere; Parting is set too
	Committed       bool
	Prepared        []preparedOutput
	Tallies         []tally    // final figures of a task that has ended
	Visible         []tally    // figures of when the output was cut that is visible
	End             *taskPoint // where a task that is FINISHED stopped; without its prepared output and figures
}

// preparedOutput is what a sink's writer prepared.
type preparedOutput struct {
	Vertex int
	Data   []byte
}

// tally counts the rows of one table.
type tally struct {
	Table                                        string
	SourceRows, SourceBytes, SinkRows, SinkBytes int64
}

// taskRef names one attempt of one task group of a job.
type taskRef struct{ Pipeline, Source, Subtask, Attempt int }

func (r taskRef) String() string {
	return fmt.Sprintf("task %d/%d/%d attempt %d", r.Pipeline, r.Source, r.Subtask, r.Attempt)
}

// timestamps holds when each state was last entered, in Unix milliseconds, indexed by the ordinal of the state; 0 is never.
type timestamps struct {
	Incarnation string
	Job         []int64
	Pipelines   [][]int64   // in the order of jobState.Pipelines
	Tasks       [][][]int64 // in the order of jobState.Pipelines and their tasks; nil: none has left CREATED
}

// cleanupRecord names what is left to do after a job's end. As long as it exists the cleanup has an owner: whoever is master.
type cleanupRecord struct {
	Incarnation string
	SubmitKey   string
	Status      JobStatus
	DueMs       int64 // wall clock: when the tombstone may go; a clock that is off by some seconds only shortens or lengthens the delay
	HistoryDone bool
	Artefacts   bool // were removed once, right after the end
	Attempts    int  // failed ones
	RetryMs     int64
	LastError   string
}

// historyEntry is a job that has ended.
type historyEntry struct {
	SubmitKey string
	View      JobView
}

// hop is one change of state, for the timestamps.
type hop struct {
	pipeline int // index, -1 for the job itself
	ordinal  int
}

func (s *jobState) clone() *jobState {
	c := *s
	c.trail = nil
	c.Failures = slices.Clone(s.Failures)
	c.Pipelines = slices.Clone(s.Pipelines)
	for i := range c.Pipelines {
		c.Pipelines[i].Tasks = slices.Clone(s.Pipelines[i].Tasks)
		c.Pipelines[i].answered = nil
	}
	return &c
}

// plausible refuses numbers that no state has, so that nothing has to think of them later.
func (s *jobState) plausible() error {
	for _, p := range s.Pipelines {
		for _, t := range p.Tasks {
			if t.Subtask < 0 || t.Attempt < 0 || p.Restarts < 0 {
				return fmt.Errorf("%w: pipeline %d with %d restarts has %v", errMalformed, p.ID, p.Restarts, p.ref(&t))
			}
		}
	}
	return nil
}

// restarts sums the restarts of all pipelines.
func (s *jobState) restarts() int {
	n := 0
	for _, p := range s.Pipelines {
		n += p.Restarts
	}
	return n
}

// task finds the task group that ref names, whatever its attempt.
func (s *jobState) task(ref taskRef) (*pipelineState, *taskState) {
	for i := range s.Pipelines {
		p := &s.Pipelines[i]
		if p.ID != ref.Pipeline {
			continue
		}
		for j := range p.Tasks {
			if t := &p.Tasks[j]; t.Source == ref.Source && t.Subtask == ref.Subtask {
				return p, t
			}
		}
	}
	return nil, nil
}

func (p *pipelineState) ref(t *taskState) taskRef {
	return taskRef{Pipeline: p.ID, Source: t.Source, Subtask: t.Subtask, Attempt: t.Attempt}
}

// active reports whether the task may be running on its worker, and so holds a slot there.
func (t *taskState) active() bool {
	switch t.Status {
	case TaskDeploying, TaskRunning, TaskCanceling, TaskFailing:
		return true
	}
	return false
}

// encode returns the stored form of a record or message of this package; those always have one.
func encode(v any) []byte {
	b, err := msgpack.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("engine: encode %T: %v", v, err))
	}
	return b
}

// decode reads a request or an answer. The bytes may come from anywhere: they are looked through before anything is allocated for them.
func decode(b []byte, v any) error { return decodeWithin(b, v, maxMessageValues) }

func decodeWithin(b []byte, v any, most int) error {
	if err := checkRecord(b, most); err != nil {
		return fmt.Errorf("engine: decode %T: %w", v, err)
	}
	if err := msgpack.Unmarshal(b, v); err != nil {
		return fmt.Errorf("engine: decode %T: %w", v, err)
	}
	return nil
}
