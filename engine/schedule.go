package engine

// schedule gives workers to tasks that are to start: the whole job at first, later those that are started again.
func (d *decider) schedule() {
	if d.stopping() || d.st.Status.Final() {
		return
	}
	first := d.st.Status == JobCreated || d.st.Status == JobPending
	waiting := d.waitingTasks()
	if len(waiting) == 0 {
		return
	}
	got := d.w.place(len(waiting), first)
	if got.workers == nil {
		d.doesNotFit(first, got)
		return
	}
	if first {
		d.st.turn(JobScheduled)
	}
	d.st.PendingFor = ""
	for k, t := range waiting[:len(got.workers)] {
		t.Attempt++
		t.Worker, t.Parting, t.Moving = got.workers[k], false, false
		t.Committed, t.Prepared, t.Tallies, t.End = false, nil, nil, nil
		t.turn(TaskDeploying)
	}
	for i := range d.st.Pipelines {
		if first {
			d.st.turnPipeline(i, TaskScheduled)
			d.st.turnPipeline(i, TaskDeploying)
		}
	}
}

func (d *decider) waitingTasks() []*taskState {
	var out []*taskState
	for i := range d.st.Pipelines {
		p := &d.st.Pipelines[i]
		if p.Status.ended() || d.w.held(p) || d.st.Savepoint && !d.startsInSavepoint(p) {
			continue
		}
		for j := range p.Tasks {
			if p.Tasks[j].Status == TaskCreated {
				out = append(out, &p.Tasks[j])
			}
		}
	}
	return out
}

func (d *decider) doesNotFit(first bool, got placement) {
	d.st.PendingFor = got.reason
	d.st.Overtaken = max(d.st.Overtaken, got.overtaken)
	if !first {
		return
	}
	d.st.turn(JobPending)
	if got.reject {
		d.failJob(got.reason)
		d.stopPipelines()
		d.endPipelines()
		d.endJob()
	}
}

// call is something that the driver has to have done by somebody else. The calls that are due follow from the state alone, so a new
// master finds them again.
type callKind int

const (
	callDeploy callKind = iota // start the attempt, or confirm that it runs
	callCancel                 // stop the attempt
	callCheck                  // judge a pipeline's prepared output
	callCommit                 // make an attempt's prepared output visible

	callBarrier    // cut the attempt's output for a checkpoint, and tell where it is
	callSavepoint  // the same, and end it there
	callCkptCommit // make the output visible that was prepared for a pipeline's newest checkpoint
)

// call is one of those; its fields identify it.
type call struct {
	kind   callKind
	worker string // of those to a worker
	ref    taskRef
	ckpt   uint64 // of those about checkpoints
}

// dueCalls lists what is to be done in this state. confirmed tells which running attempts need no confirmation now.
func dueCalls(st *jobState, batch bool, confirmed func(taskRef) bool) []call {
	if st.Status.Final() {
		return nil
	}
	var out []call
	for i := range st.Pipelines {
		p := &st.Pipelines[i]
		out = append(out, checkpointCalls(st, p)...)
		for j := range p.Tasks {
			t := &p.Tasks[j]
			ref := p.ref(t)
			switch {
			case t.Moving && (t.Status == TaskDeploying || t.Status == TaskRunning):
				out = append(out, call{kind: callCancel, worker: t.Worker, ref: ref})
			case t.Status == TaskDeploying, t.Status == TaskRunning && !confirmed(ref):
				out = append(out, call{kind: callDeploy, worker: t.Worker, ref: ref})
			case t.Status == TaskCanceling, t.Status == TaskFailing:
				out = append(out, call{kind: callCancel, worker: t.Worker, ref: ref})
			case t.Status == TaskFinished && p.Committing && p.Status == TaskRunning && !t.Committed:
				out = append(out, call{kind: callCommit, ref: ref})
			}
		}
		stopping := st.Cancel || st.Status == JobFailing || st.Status == JobCanceling
		if batch && !stopping && !st.Savepoint && p.Status == TaskRunning && !p.Committing && allTasks(p, TaskFinished) && p.Ckpt.settled() {
			out = append(out, call{kind: callCheck, ref: taskRef{Pipeline: p.ID}})
		}
	}
	return out
}
