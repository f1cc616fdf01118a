package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"gridnode/engine/plugin"
)

// maxCommitFailures is how often in a row a commit may fail with a definite error before the pipeline fails for good.
const maxCommitFailures = 10

// lineKey names a line: one per worker for orders, one per attempt for commits, one per pipeline for checks. A line has one call at a time.
type lineKey struct {
	kind   callKind
	worker string
	ref    taskRef
}

type line struct {
	busy      bool
	notBefore time.Time
	wait      backoff
	failures  int    // definite ones in a row
	done      []bool // of callCkptCommit: by task
}

// launch starts the calls that are due and whose line is free.
func (d *driver) launch(ctx context.Context, st *jobState) {
	batch := d.def.plan != nil && d.def.plan.Mode == plugin.Batch
	orders, barriers := map[lineKey][]taskRef{}, map[lineKey][]call{}
	for _, c := range dueCalls(st, batch, d.isConfirmed) {
		key := lineKey{kind: c.kind, worker: c.worker}
		switch c.kind {
		case callDeploy, callCancel:
			orders[key] = append(orders[key], c.ref)
		case callCheck:
			key.ref = c.ref
			if d.book.unstorable(c.ref.Pipeline) {
				continue // a good judgement would be the decision to commit
			}
			d.begin(key, func(*line) ([]observation, bool) { return []observation{d.check(st, c.ref.Pipeline)}, true })
		case callCommit:
			key.ref = c.ref
			_, t := st.task(c.ref)
			d.begin(key, func(l *line) ([]observation, bool) { return d.commit(ctx, l, c.ref, *t) })
		case callCkptCommit:
			key.ref = taskRef{Pipeline: c.ref.Pipeline, Attempt: int(c.ckpt)}
			data := d.book.data[c.ref.Pipeline]
			d.begin(key, func(l *line) ([]observation, bool) { return d.commitCheckpoint(ctx, l, c, data) })
		case callBarrier, callSavepoint:
			if c.kind == callBarrier && !d.book.wants(c.ckpt, c.ref) {
				continue
			}
			barriers[barrierKey(c)] = append(barriers[barrierKey(c)], c)
		}
	}
	for key, calls := range barriers {
		committed := committedUpTo(st, key.ref.Pipeline)
		d.begin(key, func(*line) ([]observation, bool) { return nil, d.barrier(ctx, key, calls, committed) })
	}
	for key, refs := range orders {
		d.begin(key, func(*line) ([]observation, bool) { return d.order(ctx, key, refs) })
	}
}

// begin runs a call in a goroutine, unless its line is busy or has to wait after a failure. The call returns what it observed, and whether it
// got all that it wanted.
func (d *driver) begin(key lineKey, run func(*line) ([]observation, bool)) {
	d.mu.Lock()
	l := d.lines[key]
	if l == nil {
		l = &line{}
		d.lines[key] = l
	}
	free := !l.busy && !time.Now().Before(l.notBefore)
	l.busy = l.busy || free
	d.mu.Unlock()
	if !free {
		return
	}
	d.calls.Go(func() {
		obs, ok := run(l)
		d.mu.Lock()
		l.busy = false
		if ok {
			delete(d.lines, key)
		} else {
			l.notBefore = time.Now().Add(l.wait.next())
		}
		d.mu.Unlock()
		in := make([]delivery, len(obs))
		for i, o := range obs {
			in[i] = delivery{obs: o}
		}
		d.add(in...)
	})
}

// order tells a worker to start, confirm or stop tasks.
func (d *driver) order(ctx context.Context, key lineKey, refs []taskRef) ([]observation, bool) {
	req := orderRequest{JobID: d.jobID, Incarnation: d.incarnation, Term: d.c.term, Stop: key.kind == callCancel, Tasks: refs}
	var ans orderAnswer
	err := d.c.s.ask(ctx, d.c.s.cfg.CallTimeout, key.worker, opOrder, req, &ans)
	if err != nil || len(ans.Tasks) != len(refs) {
		d.log.Debug("order not answered", "worker", key.worker, "error", err)
		return nil, false
	}
	var obs []observation
	complete := true
	for i, a := range ans.Tasks {
		switch {
		case a == answerUnknown:
			obs = append(obs, observation{kind: obsUnknown, ref: refs[i]})
			complete = complete && req.Stop // an attempt that was not started is asked about again
		case a == answerRunning && !req.Stop:
			var tallies []tally
			if i < len(ans.Tallies) {
				tallies = ans.Tallies[i]
			}
			d.confirm(refs[i], tallies)
			obs = append(obs, observation{kind: obsRunning, ref: refs[i]})
		default:
			complete = false // its end comes with its report
		}
	}
	return obs, complete
}

// check judges all that the sinks of a pipeline prepared.
func (d *driver) check(st *jobState, pipeline int) observation {
	o := observation{kind: obsChecked, ref: taskRef{Pipeline: pipeline}}
	prepared := map[int][][]byte{}
	for _, p := range st.Pipelines {
		for _, t := range p.Tasks {
			for _, out := range t.Prepared {
				if p.ID == pipeline {
					prepared[out.Vertex] = append(prepared[out.Vertex], out.Data)
				}
			}
		}
	}
	p, _ := d.def.pipeline(pipeline)
	for _, v := range p.Vertices {
		if v.Sink == nil {
			continue
		}
		if err := protect(func() error { return v.Sink.Check(prepared[v.ID]) }); err != nil {
			o.err = v.Name + ": " + err.Error()
			return o
		}
	}
	return o
}

// commit has an attempt's output made visible, by the worker that prepared it or, if that is gone, by any other.
func (d *driver) commit(ctx context.Context, l *line, ref taskRef, t taskState) ([]observation, bool) {
	err := d.commitOn(ctx, l.wait.n, ref, t)
	_, permanent := errors.AsType[*plugin.PermanentError](err)
	if err == nil || again(err) {
		l.failures = 0
	} else {
		l.failures++
	}
	switch {
	case err == nil:
		return []observation{{kind: obsCommitted, ref: ref}}, true
	case errors.Is(err, plugin.ErrPreparedLost):
		return []observation{{kind: obsPreparedLost, ref: ref}}, true
	case permanent, l.failures >= maxCommitFailures:
		return []observation{{kind: obsCommitFailed, ref: ref, err: err.Error()}}, true
	}
	d.log.Warn("commit of a task's output failed, will be repeated", "task", ref, "worker", t.Worker, "error", err)
	return nil, false
}

// committer chooses who commits; try makes repetitions go round if the worker that prepared the output is gone.
func (d *driver) committer(t taskState, try int) string {
	members, _ := d.c.s.cfg.Cluster.Members()
	var others []Member
	for _, m := range members {
		if m.ID == t.Worker {
			return m.ID
		}
		if m.Worker && !m.Leaving && !m.Silent {
			others = append(others, m)
		}
	}
	if len(others) == 0 {
		return ""
	}
	slices.SortFunc(others, func(a, b Member) int { return cmp.Compare(a.JoinSeq, b.JoinSeq) })
	return others[(t.Subtask+try)%len(others)].ID
}
