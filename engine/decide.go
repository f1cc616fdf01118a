package engine

import (
	"fmt"
	"slices"
	"time"
)

// What the driver learned about a task or a pipeline.
type obsKind int

const (
	obsRunning      obsKind = iota // the worker runs the attempt
	obsUnknown                     // the worker lives and does not know the attempt
	obsEnded                       // the worker's report: FINISHED, FAILED or CANCELED
	obsCommitted                   // all prepared output of the attempt is visible
	obsPreparedLost                // the prepared output is gone and was not committed
	obsCommitFailed                // the commit failed for good
	obsChecked                     // all prepared output of the pipeline was judged

	obsCkptDone         // all tasks of the pipeline have answered the checkpoint
	obsCkptLate         // some did not in time
	obsCkptAbort        // nobody collects its answers
	obsCkptCommitted    // all output that was prepared for it is visible
	obsCkptCommitFailed // that will never be
)

// observation is one of those. It carries the attempt that it is about, and no term: a task that was taken over keeps its attempt.
type observation struct {
	kind      obsKind
	ref       taskRef
	status    TaskStatus // of obsEnded
	err       string     // of obsEnded, obsCommitFailed, obsChecked; empty: none
	permanent bool       // a retry cannot cure err
	prepared  []preparedOutput
	tallies   []tally
	end       *taskPoint // of obsEnded: where the task stopped

	ckpt   uint64                // of those about checkpoints: its id
	points map[taskRef]taskPoint // of obsCkptDone
	late   []taskRef             // of obsCkptLate
}

// maxPrepared bounds the prepared output that one job's state can hold; an entry of the store may have 4 MiB.
const maxPrepared = 3 << 20

// world is what decide may know besides the state and the observations.
type world struct {
	members    map[string]bool // ids of the agreed members; nil: nobody is judged lost
	leaving    map[string]bool // those that are leaving
	elsewhere  bool            // a worker stays that may have tasks of the job
	stateBytes int             // what the state can grow to without prepared output
	retryTimes int
	// retryInterval is the wait before a restart.
	retryInterval time.Duration

	fatal string                             // not empty: the job cannot run at all, and why
	held  func(pipeline *pipelineState) bool // its restart has to wait still
	place func(n int, all bool) placement    // chooses workers for n tasks; all: the whole job or nothing
	nowMs int64

	checkpointDue func(pipeline *pipelineState) bool // nil: the job takes no checkpoints by itself
	savepointLate string                             // not empty: the savepoint took too long, and how long that is
	refused       map[int]string                     // by pipeline id: why the storage has not taken its last checkpoint
	unstorable    func(pipeline int) bool            // it is not asked again for now; nil: never so
}

// placement is the answer of world.place.
type placement struct {
	workers   []string // one per task; nil: it does not fit now
	reason    string   // why not
	reject    bool     // it does not fit, and the job is not to wait
	overtaken int      // how many jobs submitted later got slots meanwhile
}

// decider applies one pass to a copy of the state.
type decider struct {
	st    *jobState
	w     world
	hurt  map[int][]injury // by index of the pipeline: what went wrong in this pass
	joins map[int]bool     // pipelines that wait for a restart already
}

// injury is a failure or a loss.
type injury struct {
	task      *taskState // whose attempt it is; nil: the pipeline's
	cause     string
	permanent bool
}

// decide returns the state that follows from cur, what was observed and the world. It does no I/O and may be repeated: the same
// observations on a state that already has them change nothing.
func decide(cur *jobState, obs []observation, w world) *jobState {
	d := &decider{st: cur.clone(), w: w, hurt: map[int][]injury{}, joins: map[int]bool{}}
	if cur.Status.Final() {
		return d.st
	}
	for i := range d.st.Pipelines {
		p := &d.st.Pipelines[i]
		d.joins[i] = p.Restarts > 0 && hasTask(p, TaskCreated) && w.held(p)
	}
	for _, o := range obs {
		d.observe(o)
	}
	d.markParting()
	d.markLost()
	d.healOrFail()
	d.savepoint()
	d.stopPipelines()
	d.endPipelines()
	d.endJob()
	d.schedule()
	d.started()
	d.checkpoints()
	d.tellUnstorable()
	return d.st
}

// stopping reports whether no task of the job may start any more.
func (d *decider) stopping() bool {
	return d.st.Cancel || d.st.Status == JobFailing || d.st.Status == JobCanceling
}

func (d *decider) observe(o observation) {
	p, t := d.st.task(o.ref)
	switch {
	case o.kind == obsChecked:
		d.checked(o)
		return
	case o.kind > obsChecked:
		d.observeCheckpoint(o)
		return
	}
	if t == nil || t.Attempt != o.ref.Attempt {
		return
	}
	switch o.kind {
	case obsRunning:
		if t.Status == TaskDeploying {
			t.turn(TaskRunning)
		}
	case obsUnknown:
		if t.Status == TaskRunning || t.Status == TaskCanceling || t.Status == TaskFailing || t.Moving && t.Status == TaskDeploying {
			d.lose(p, t, fmt.Sprintf("member %s lives and does not know it", t.Worker))
		}
	case obsEnded:
		d.ended(p, t, o)
	case obsCommitted:
		if t.Status == TaskFinished && p.Committing {
			t.Committed, t.Visible = true, t.Tallies
		}
	case obsPreparedLost:
		d.preparedLost(p, t)
	case obsCommitFailed:
		if p.Committing && !p.Status.ended() {
			d.injure(p, injury{task: t, cause: fmt.Sprintf("%v on member %s: commit: %s", o.ref, t.Worker, o.err), permanent: true})
		}
	}
}

// ended applies the report of a task.
func (d *decider) ended(p *pipelineState, t *taskState, o observation) {
	if !t.active() {
		return
	}
	if most := min(maxPrepared, maxState-d.w.stateBytes); o.status == TaskFinished && d.preparedBytes()+sizeOf(o.prepared)+o.end.size() > most {
		o.status, o.permanent = TaskFailed, true
		o.err = fmt.Sprintf("the job's sinks prepared more than %d bytes for their commits; lower the parallelism", most)
	}
	t.Tallies = o.tallies
	switch {
	case o.status == TaskFinished:
		t.Prepared, t.End = o.prepared, o.end
		t.turn(TaskFinished)
	case t.Status == TaskFailing:
		d.endFailing(p, t)
	case t.Status == TaskCanceling:
		t.turn(TaskCanceled)
	case t.Moving && o.status == TaskCanceled:
		d.startElsewhere(t)
	default:
		if o.err == "" {
			o.err = "it stopped by itself"
		}
		t.turn(TaskFailed)
		d.injure(p, injury{task: t, cause: fmt.Sprintf("%v on member %s: %s", o.ref, t.Worker, o.err), permanent: o.permanent})
	}
}

func (d *decider) preparedBytes() int {
	n := 0
	for _, p := range d.st.Pipelines {
		for _, t := range p.Tasks {
			n += sizeOf(t.Prepared) + t.End.size()
		}
	}
	return n
}

func sizeOf(outs []preparedOutput) int {
	n := 0
	for _, o := range outs {
		n += len(o.Data)
	}
	return n
}

// checked applies the judgement over all prepared output. A good one is the commit decision.
func (d *decider) checked(o observation) {
	for i := range d.st.Pipelines {
		p := &d.st.Pipelines[i]
		if p.ID != o.ref.Pipeline || p.Committing || p.Status != TaskRunning || d.stopping() || !allTasks(p, TaskFinished) || d.st.Savepoint || !p.Ckpt.settled() {
			continue
		}
		if o.err != "" {
			d.injure(p, injury{cause: fmt.Sprintf("pipeline %d: %s", p.ID, o.err), permanent: true})
			continue
		}
		if d.w.checkpointDue != nil {
			if d.unstorable(p) {
				continue
			}
			p.Ckpt.Final = p.Ckpt.take()
		}
		p.Committing = true
	}
}

// preparedLost sends a task whose output went with its worker back to the start.
func (d *decider) preparedLost(p *pipelineState, t *taskState) {
	if !p.Committing || t.Status != TaskFinished || t.Committed || p.Status.ended() {
		return
	}
	lost := injury{task: t, cause: fmt.Sprintf("%v: its output was lost with member %s before it was committed", p.ref(t), t.Worker)}
	lost.permanent = d.st.Savepoint // nothing starts any more that could bring it again
	d.injure(p, lost)
	if lost.permanent {
		p.Ckpt.Broken = true
		return
	}
	t.Prepared, t.End = nil, nil
	t.turn(TaskCreated)
}

func (d *decider) markLost() {
	for i := range d.st.Pipelines {
		p := &d.st.Pipelines[i]
		for j := range p.Tasks {
			if t := &p.Tasks[j]; t.active() && d.w.members != nil && !d.w.members[t.Worker] {
				d.lose(p, t, fmt.Sprintf("member %s is gone", t.Worker))
			}
		}
	}
}

// lose ends a task that surely does not run any more.
func (d *decider) lose(p *pipelineState, t *taskState, why string) {
	switch t.Status {
	case TaskCanceling:
		t.turn(TaskCanceled)
		return
	case TaskFailing:
		d.endFailing(p, t)
		return
	}
	if t.Parting {
		d.startElsewhere(t)
		return
	}
	t.turn(TaskFailed)
	d.injure(p, injury{task: t, cause: fmt.Sprintf("%v was lost: %s", p.ref(t), why)})
}

func (d *decider) injure(p *pipelineState, in injury) {
	i := slices.IndexFunc(d.st.Pipelines, func(q pipelineState) bool { return q.ID == p.ID })
	in.cause = shorten(in.cause, maxReportBytes) // retriesText may follow
	d.hurt[i] = append(d.hurt[i], in)
	d.st.noteFailure(p, in, d.w.nowMs)
}

// healOrFail restarts what was hurt, at the cost of one restart of its pipeline, or fails the pipeline and with it the job.
func (d *decider) healOrFail() {
	if d.w.fatal != "" {
		d.failJob(d.w.fatal)
		for i := range d.st.Pipelines {
			d.st.Pipelines[i].Committing = false
			d.st.Pipelines[i].Ckpt.Broken = !d.st.Pipelines[i].Ckpt.settled() || d.st.Pipelines[i].Ckpt.Broken
		}
	}
	for i := range d.st.Pipelines {
		p := &d.st.Pipelines[i]
		wounds := d.hurt[i]
		if len(wounds) == 0 || p.Status.ended() {
			continue
		}
		k := slices.IndexFunc(wounds, func(in injury) bool { return in.permanent })
		switch {
		case d.st.Cancel:
			p.Committing = false // output was lost and no attempt may start: what failed becomes CANCELED
		case k >= 0:
			d.failPipeline(i, wounds[k].cause)
		case d.st.Savepoint && (!d.startsInSavepoint(p) || !p.Ckpt.Rescaled && p.Restarts >= d.w.retryTimes):
			turnAll(p, TaskFailed, TaskCreated)
			turnAll(p, TaskCreated, TaskCanceled) // nothing starts any more: the savepoint has it where its last checkpoint does
		case d.joins[i]:
			turnAll(p, TaskFailed, TaskCreated) // it joins the restart that is about to come
		case p.Restarts >= d.w.retryTimes:
			d.failPipeline(i, wounds[0].cause+retriesText(d.w.retryTimes))
		default:
			p.Restarts++
			p.RestartAtMs = d.w.nowMs + d.w.retryInterval.Milliseconds()
			turnAll(p, TaskFailed, TaskCreated)
		}
	}
}

func retriesText(times int) string {
	if times == 0 {
		return " (job.retry.times is 0)"
	}
	return fmt.Sprintf(" (all %d restarts of job.retry.times are used up)", times)
}

func (d *decider) failPipeline(i int, cause string) {
	d.st.turnPipeline(i, TaskFailing)
	d.failJob(cause)
}

func (d *decider) failJob(cause string) {
	if d.st.Cause == "" {
		d.st.Cause = shorten(cause, maxCauseBytes)
	}
	d.st.turn(JobFailing)
}

// stopPipelines leads every pipeline that may not run on towards its end. One that has decided to commit rolls forward.
func (d *decider) stopPipelines() {
	if d.st.Cancel {
		d.st.turn(JobCanceling)
	}
	if !d.stopping() {
		return
	}
	for i := range d.st.Pipelines {
		p := &d.st.Pipelines[i]
		if p.Committing && p.Status == TaskRunning && d.canRollForward(p) {
			continue
		}
		p.Committing = false
		if p.Status != TaskFailing || d.st.Cancel {
			d.st.turnPipeline(i, TaskCanceling)
		}
		if p.Status.ended() {
			continue
		}
		turnAll(p, TaskCreated, TaskCanceled)
		turnAll(p, TaskDeploying, TaskCanceling)
		turnAll(p, TaskRunning, TaskCanceling)
	}
}

// canRollForward reports whether a pipeline can still finish although no attempt may start any more.
func (d *decider) canRollForward(p *pipelineState) bool {
	return !p.Ckpt.Broken && !slices.ContainsFunc(p.Tasks, func(t taskState) bool { return !d.began(t) })
}

func (d *decider) endPipelines() {
	for i := range d.st.Pipelines {
		p := &d.st.Pipelines[i]
		d.pipelineStarted(i)
		if slices.ContainsFunc(p.Tasks, func(t taskState) bool { return !t.Status.ended() }) || !p.Ckpt.settled() {
			continue
		}
		switch {
		case p.Status == TaskFailing:
			d.st.turnPipeline(i, TaskFailed)
		case p.Status == TaskCanceling:
			d.st.turnPipeline(i, TaskCanceled)
		case p.Committing && !slices.ContainsFunc(p.Tasks, func(t taskState) bool { return !t.Committed && !(d.st.Savepoint && t.Status == TaskCanceled) }):
			d.st.turnPipeline(i, TaskFinished)
		}
	}
}

// endJob ends the job when all its pipelines have ended.
func (d *decider) endJob() {
	d.started()
	count := map[TaskStatus]int{}
	for _, p := range d.st.Pipelines {
		count[p.Status]++
	}
	all := len(d.st.Pipelines)
	switch {
	case count[TaskFinished] == all && d.st.Status != JobFailing && d.st.Savepoint && d.st.unsaved():
	case count[TaskFinished] == all && d.st.Status != JobFailing && d.st.Savepoint:
		d.st.turn(JobSavepointDone)
	case count[TaskFinished] == all && d.st.Status != JobFailing:
		d.st.turn(JobFinished)
	case count[TaskFinished]+count[TaskFailed]+count[TaskCanceled] < all:
	case d.st.Status == JobFailing:
		d.st.turn(JobFailed)
	default:
		d.st.turn(JobCanceled)
	}
	if d.st.Status.Final() {
		d.st.EndedMs = max(d.w.nowMs, d.st.CreatedMs)
		d.st.PendingFor = ""
	}
}

// started moves the job on to RUNNING once any of its tasks has been seen running.
func (d *decider) started() {
	for i := range d.st.Pipelines {
		d.pipelineStarted(i)
		if d.st.Status == JobScheduled && slices.ContainsFunc(d.st.Pipelines[i].Tasks, wasRunning) && d.st.turn(JobRunning) {
			d.st.StartedMs = d.w.nowMs
		}
	}
}

func (d *decider) pipelineStarted(i int) {
	p := &d.st.Pipelines[i]
	if p.Status == TaskDeploying && !slices.ContainsFunc(p.Tasks, func(t taskState) bool { return !d.began(t) }) {
		d.st.turnPipeline(i, TaskRunning)
	}
}

func wasRunning(t taskState) bool { return t.Status == TaskRunning || t.Status == TaskFinished }

func allTasks(p *pipelineState, s TaskStatus) bool {
	return !slices.ContainsFunc(p.Tasks, func(t taskState) bool { return t.Status != s })
}

func hasTask(p *pipelineState, s TaskStatus) bool {
	return slices.ContainsFunc(p.Tasks, func(t taskState) bool { return t.Status == s })
}

func turnAll(p *pipelineState, from, to TaskStatus) {
	for j := range p.Tasks {
		if p.Tasks[j].Status == from {
			p.Tasks[j].turn(to)
		}
	}
}
