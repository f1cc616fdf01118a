package engine

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"gridnode/engine/plugin"
)

// barrierKey is the line of orders about one pipeline's checkpoints to one worker.
func barrierKey(c call) lineKey {
	return lineKey{kind: c.kind, worker: c.worker, ref: taskRef{Pipeline: c.ref.Pipeline}}
}

// barrier has the tasks of one worker take a checkpoint, and keeps their answers.
func (d *driver) barrier(ctx context.Context, key lineKey, calls []call, committed uint64) bool {
	req := barrierRequest{JobID: d.jobID, Incarnation: d.incarnation, Term: d.c.term, ID: calls[0].ckpt, Committed: committed,
		Stop: key.kind == callSavepoint}
	for _, c := range calls {
		req.Tasks = append(req.Tasks, c.ref)
	}
	var ans barrierAnswer
	err := d.c.s.ask(ctx, d.c.s.cfg.CallTimeout, key.worker, opBarrier, req, &ans)
	if err != nil || len(ans.Points) != len(req.Tasks) {
		d.log.Debug("checkpoint not answered", "worker", key.worker, "error", err)
		return false
	}
	all := !req.Stop // whether a task has ended is seen by its report
	for i, pt := range ans.Points {
		if pt == nil {
			all = false
			continue
		}
		d.book.acked(req.ID, req.Tasks[i], *pt)
	}
	return all
}

// commitCheckpoint has all output made visible that was prepared for a pipeline's newest checkpoint. Tasks that were done with before are left
// out when it is tried again.
func (d *driver) commitCheckpoint(ctx context.Context, l *line, c call, data *checkpointData) ([]observation, bool) {
	if data == nil || data.ID != c.ckpt {
		return nil, false
	}
	if l.done == nil {
		l.done = make([]bool, len(data.Tasks))
	}
	errs := make([]error, len(data.Tasks))
	var g errgroup.Group
	g.SetLimit(parallelCommits)
	for i, pt := range data.Tasks {
		if l.done[i] || len(pt.Prepared) == 0 {
			continue
		}
		g.Go(func() error {
			t := taskState{Source: pt.Source, Subtask: pt.Subtask, Worker: pt.Worker, Prepared: pt.Prepared}
			errs[i] = d.commitOn(ctx, l.wait.n, taskRef{Pipeline: c.ref.Pipeline, Source: pt.Source, Subtask: pt.Subtask}, t)
			l.done[i] = errs[i] == nil
			return nil
		})
	}
	_ = g.Wait()
	return d.judgeCommit(l, c, errors.Join(errs...))
}

// judgeCommit says what the errors of a commit mean.
func (d *driver) judgeCommit(l *line, c call, err error) ([]observation, bool) {
	_, permanent := errors.AsType[*plugin.PermanentError](err)
	if err == nil || again(err) {
		l.failures = 0
	} else {
		l.failures++
	}
	o := observation{kind: obsCkptCommitted, ref: c.ref, ckpt: c.ckpt}
	switch {
	case err == nil:
		return []observation{o}, true
	case permanent, errors.Is(err, plugin.ErrPreparedLost), l.failures >= maxCommitFailures:
		o.kind, o.err = obsCkptCommitFailed, "commit: "+err.Error()
		return []observation{o}, true
	}
	d.log.Warn("commit of a checkpoint failed, will be repeated", "pipeline", c.ref.Pipeline, "checkpoint", c.ckpt, "error", err)
	return nil, false
}

// commitOn has prepared output made visible by the worker that prepared it or, if that is gone, by another one.
func (d *driver) commitOn(ctx context.Context, try int, ref taskRef, t taskState) error {
	select {
	case d.c.commits <- struct{}{}:
		defer func() { <-d.c.commits }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %v", ErrRetryable, context.Cause(ctx))
	}
	worker := d.committer(t, try)
	if worker == "" {
		return fmt.Errorf("%w: no worker is a member of the cluster", ErrRetryable)
	}
	req := commitRequest{JobID: d.jobID, Incarnation: d.incarnation, Term: d.c.term, Ref: ref, Prepared: t.Prepared}
	return d.c.s.ask(ctx, d.c.s.cfg.CommitTimeout, worker, opCommit, req, nil)
}
