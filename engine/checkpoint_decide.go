package engine

import (
	"fmt"
	"slices"
	"strings"
)

// The part of decide that is about checkpoints and savepoints.

// observeCheckpoint applies what became of a checkpoint. An observation about another one than the state has is late, and a no-op.
func (d *decider) observeCheckpoint(o observation) {
	i := slices.IndexFunc(d.st.Pipelines, func(p pipelineState) bool { return p.ID == o.ref.Pipeline })
	if i < 0 || o.ckpt == 0 {
		return
	}
	p := &d.st.Pipelines[i]
	switch o.kind {
	case obsCkptDone:
		d.completeCheckpoint(p, o)
	case obsCkptLate:
		d.lateCheckpoint(p, o)
	case obsCkptAbort:
		if p.Ckpt.Open == o.ckpt {
			p.Ckpt.Open = 0
		}
	case obsCkptCommitted:
		p.Ckpt.Committed = p.Ckpt.Committed || p.Ckpt.Done == o.ckpt && !p.Ckpt.Broken
	case obsCkptCommitFailed:
		if p.Ckpt.Done == o.ckpt && !p.Ckpt.settled() {
			p.Ckpt.Broken = true
			d.injure(p, injury{cause: fmt.Sprintf("checkpoint %d of pipeline %d: %s", o.ckpt, p.ID, o.err), permanent: true})
		}
	}
}

// completeCheckpoint makes the checkpoint in flight the one from which tasks go on. Every task that runs must have answered with its present
// attempt. One that has ended meanwhile brings nothing: its output becomes visible with the pipeline's end.
func (d *decider) completeCheckpoint(p *pipelineState, o observation) {
	if p.Ckpt.Open != o.ckpt || d.stopping() || d.st.Savepoint || !steady(p) || p.Ckpt.Rescaled && hasTask(p, TaskFinished) {
		return
	}
	bytes, prepared := 0, false
	var answered []taskPoint
	visible := map[int][]tally{}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		if t.Status != TaskRunning {
			continue
		}
		pt, ok := o.points[p.ref(t)]
		if !ok {
			return
		}
		pt.Source, pt.Subtask, pt.Worker = t.Source, t.Subtask, t.Worker
		answered = append(answered, pt)
		visible[i] = pt.Tallies
		bytes += pt.bytes()
		prepared = prepared || len(pt.Prepared) > 0
	}
	if bytes > maxCheckpoint {
		d.injure(p, injury{permanent: true, cause: fmt.Sprintf(
			"checkpoint %d of pipeline %d has %d bytes, at most %d are allowed; lower the parallelism or the number of files", o.ckpt, p.ID, bytes, maxCheckpoint)})
		return
	}
	p.Ckpt.Open = 0
	p.Ckpt.Done, p.Ckpt.Committed, p.Ckpt.Rescaled = o.ckpt, !prepared, false
	p.answered = answered
	for i, v := range visible {
		p.Tasks[i].Visible = v
	}
}

// lateCheckpoint gives the checkpoint in flight up. The tasks that did not answer are stopped and start again, at the cost of one restart.
func (d *decider) lateCheckpoint(p *pipelineState, o observation) {
	if p.Ckpt.Open != o.ckpt || d.stopping() || d.st.Savepoint {
		return
	}
	var silent []string
	for _, ref := range o.late {
		if _, t := d.st.task(ref); t != nil && t.Attempt == ref.Attempt && t.turn(TaskFailing) {
			silent = append(silent, fmt.Sprintf("%v on member %s", ref, t.Worker))
		}
	}
	p.Ckpt.Open = 0
	if len(silent) > 0 {
		d.injure(p, injury{cause: fmt.Sprintf("checkpoint %d of pipeline %d was not complete within checkpoint.timeout: no answer of %s",
			o.ckpt, p.ID, strings.Join(silent, ", "))})
	}
}

// endFailing ends a task that was stopped because it did not answer. Its restart is already counted.
func (d *decider) endFailing(p *pipelineState, t *taskState) {
	t.turn(TaskFailed)
	if !d.stopping() && !p.Status.ended() && p.Status != TaskFailing {
		t.turn(TaskCreated)
	}
}

// startsInSavepoint reports whether a pipeline needs every one of its tasks for a savepoint: it has no checkpoint yet, or one that was taken with another
// parallelism, which does not say where one task is. So a task that is lost starts once more, with its share of that checkpoint, and ends there. Without any
// checkpoint it may also be left out, if it finds no worker in time: it then begins at its start, which only a start with the same parallelism can do.
func (d *decider) startsInSavepoint(p *pipelineState) bool {
	return p.Ckpt.Rescaled || p.Ckpt.Done == 0 && d.w.savepointLate == ""
}

// savepoint leads every pipeline to its savepoint: tasks end between two rows, none starts any more, and when all have ended their points are
// the savepoint. It is written with the commit decision; from there the pipeline only goes forward. A task that is lost meanwhile goes on from the
// last complete checkpoint when the job is started again, so it costs nothing; of the exception startsInSavepoint tells.
func (d *decider) savepoint() {
	if !d.st.Savepoint || d.stopping() {
		return
	}
	d.st.turn(JobDoingSavepoint)
	for i := range d.st.Pipelines {
		p := &d.st.Pipelines[i]
		storable := !d.unstorable(p)
		if p.Status == TaskFinished && p.Ckpt.Final == 0 && storable {
			p.Ckpt.Final = p.Ckpt.take() // it has nothing more to do when the job is started again
		}
		if p.Status.ended() || p.Committing {
			continue
		}
		if !d.startsInSavepoint(p) {
			turnAll(p, TaskCreated, TaskCanceled)
		}
		d.pipelineStarted(i)
		if p.Status != TaskRunning || !storable || !p.Ckpt.settled() || p.Ckpt.Broken ||
			slices.ContainsFunc(p.Tasks, func(t taskState) bool { return t.Status != TaskFinished && t.Status != TaskCanceled }) {
			continue
		}
		p.Committing = true
		p.Ckpt.Final = p.Ckpt.take()
	}
	undecided := slices.ContainsFunc(d.st.Pipelines, func(p pipelineState) bool { return !p.Committing && !p.Status.ended() })
	if d.w.savepointLate != "" && (undecided || d.st.unsaved()) {
		d.failJob(d.w.savepointLate)
	}
}

// unsaved reports whether a pipeline has ended well and the savepoint does not have it yet.
func (s *jobState) unsaved() bool {
	return slices.ContainsFunc(s.Pipelines, func(p pipelineState) bool { return p.Status == TaskFinished && p.Ckpt.Final == 0 })
}

// unstorable reports whether the last checkpoint of a pipeline has to wait for the storage.
func (d *decider) unstorable(p *pipelineState) bool {
	return d.w.unstorable != nil && d.w.unstorable(p.ID)
}

// cannotStore begins what is shown of a job whose end or savepoint waits for the storage.
const cannotStore = "cannot be stored: "

// tellUnstorable shows what the job waits for, as long as it does.
func (d *decider) tellUnstorable() {
	for i := range d.st.Pipelines {
		p := &d.st.Pipelines[i]
		if why := d.w.refused[p.ID]; why != "" && !d.stopping() && !d.st.Status.Final() {
			d.st.PendingFor = fmt.Sprintf("the last checkpoint of pipeline %d %s%s", p.ID, cannotStore, why)
			return
		}
	}
	if strings.Contains(d.st.PendingFor, cannotStore) {
		d.st.PendingFor = ""
	}
}

// checkpoints gives up what cannot be completed any more, and opens what is due.
func (d *decider) checkpoints() {
	for i := range d.st.Pipelines {
		p := &d.st.Pipelines[i]
		if p.Ckpt.Open != 0 && (d.stopping() || d.st.Savepoint || p.Status != TaskRunning || !steady(p) || !hasTask(p, TaskRunning) ||
			p.Ckpt.Rescaled && hasTask(p, TaskFinished)) {
			p.Ckpt.Open = 0
		}
		if d.w.checkpointDue != nil && canOpen(d.st, p) && d.w.checkpointDue(p) {
			p.Ckpt.Open = p.Ckpt.take()
		}
	}
}

// began reports whether a task has got as far as a pipeline needs to be RUNNING or to roll forward.
func (d *decider) began(t taskState) bool {
	return wasRunning(t) || d.st.Savepoint && t.Status == TaskCanceled
}

// checkpointCalls lists what is to be done about checkpoints in this state.
func checkpointCalls(st *jobState, p *pipelineState) []call {
	var out []call
	if !p.Ckpt.settled() && !p.Status.ended() {
		out = append(out, call{kind: callCkptCommit, ref: taskRef{Pipeline: p.ID}, ckpt: p.Ckpt.Done})
	}
	stop := st.Savepoint && st.Status == JobDoingSavepoint && !st.Cancel
	for i := range p.Tasks {
		t := &p.Tasks[i]
		switch {
		case t.Status != TaskRunning:
		case stop:
			out = append(out, call{kind: callSavepoint, worker: t.Worker, ref: p.ref(t)})
		case p.Ckpt.Open != 0:
			out = append(out, call{kind: callBarrier, worker: t.Worker, ref: p.ref(t), ckpt: p.Ckpt.Open})
		}
	}
	return out
}

// committedUpTo returns the checkpoint up to which all output of a pipeline is visible, and that is recorded.
func committedUpTo(st *jobState, pipeline int) uint64 {
	for _, p := range st.Pipelines {
		if p.ID == pipeline && p.Ckpt.Committed {
			return p.Ckpt.Done
		}
	}
	return 0
}
