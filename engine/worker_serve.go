package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gridnode/engine/config"
	"gridnode/engine/plugin"
)

// order starts, confirms or stops tasks. A repeated order for a known attempt only confirms it.
func (w *worker) order(ctx context.Context, req orderRequest) (orderAnswer, error) {
	if err := w.raiseTerm(req.Term); err != nil {
		return orderAnswer{}, err
	}
	ans := orderAnswer{Tasks: make([]taskAnswer, len(req.Tasks)), Tallies: make([][]tally, len(req.Tasks))}
	fresh := map[int]*execution{}
	w.mu.Lock()
	for i, ref := range req.Tasks {
		key := execKey{req.JobID, req.Incarnation, ref.Pipeline, ref.Source, ref.Subtask}
		ans.Tasks[i] = w.known(key, ref, req.Stop)
		if ans.Tasks[i] == answerRunning && !req.Stop {
			ans.Tallies[i] = w.execs[key].tallies()
		}
		if ans.Tasks[i] == answerUnknown && !req.Stop && w.replaceable(key, ref) {
			e := &execution{key: key, ref: ref}
			w.execs[key] = e // before the state is read: from now on an order to stop finds it
			fresh[i] = e
			ans.Tasks[i] = answerLater
		}
	}
	w.mu.Unlock()
	if len(fresh) == 0 {
		return ans, nil
	}
	return ans, w.start(ctx, req, fresh, ans.Tasks)
}

// known answers for an attempt that this worker may have.
func (w *worker) known(key execKey, ref taskRef, stop bool) taskAnswer {
	e := w.execs[key]
	switch {
	case e == nil || e.ref.Attempt > ref.Attempt:
		return answerUnknown
	case e.ref.Attempt < ref.Attempt:
		e.stop(errReplaced)
		if e.is() == ended {
			return answerUnknown
		}
		return answerLater
	case e.is() == starting:
		return answerLater
	}
	if stop {
		e.stop(errCanceled)
	}
	return answerRunning
}

// replaceable reports whether an execution of that attempt may take the place of what is there.
func (w *worker) replaceable(key execKey, ref taskRef) bool {
	e := w.execs[key]
	return e == nil || e.ref.Attempt < ref.Attempt && e.is() == ended
}

// start reads the job's state and starts what that asks for; the rest is unknown here.
func (w *worker) start(ctx context.Context, req orderRequest, fresh map[int]*execution, answers []taskAnswer) error {
	st, err := w.state(ctx, req.JobID)
	var def *definition
	if err == nil {
		def, err = w.defs.get(ctx, req.JobID, req.Incarnation)
	}
	if err != nil && !errors.Is(err, errForeign) {
		for _, e := range fresh {
			w.forget(e)
		}
		return fmt.Errorf("job %s cannot be read: %w", req.JobID, err)
	}
	for i, e := range fresh {
		answers[i] = answerUnknown
		if def != nil && startable(st, req.Incarnation, e.ref, w.cfg.Cluster.Self()) {
			e.def = def
			if err := w.restore(ctx, st, e); err != nil {
				w.cfg.Logger.Warn("checkpoint not read yet", "job", req.JobID, "task", e.ref, "error", err)
				w.forget(e)
				answers[i] = answerLater
				continue
			}
			answers[i] = w.hand(ctx, e)
		}
		if answers[i] != answerRunning {
			w.forget(e)
		}
	}
	return nil
}

// hand gives an execution to the goroutine that owns them.
func (w *worker) hand(ctx context.Context, e *execution) taskAnswer {
	select {
	case w.starts <- e:
		return answerRunning
	case <-ctx.Done():
		return answerLater
	}
}

// commit makes an attempt's prepared output visible. It may be repeated, and may run on another worker than the one that prepared it.
func (w *worker) commit(ctx context.Context, req commitRequest) error {
	if err := w.raiseTerm(req.Term); err != nil {
		return err
	}
	def, err := w.defs.get(ctx, req.JobID, req.Incarnation)
	if err != nil {
		return err
	}
	if def.plan == nil {
		return fmt.Errorf("%w: the config of job %s cannot be read here: %v", ErrRetryable, req.JobID, def.err)
	}
	p, ok := def.pipeline(req.Ref.Pipeline)
	if !ok {
		return plugin.Permanentf("the config of job %s has no pipeline %d", req.JobID, req.Ref.Pipeline)
	}
	for _, out := range req.Prepared {
		i := slices.IndexFunc(p.Vertices, func(v config.Vertex) bool { return v.ID == out.Vertex && v.Sink != nil })
		if i < 0 {
			return plugin.Permanentf("pipeline %d has no sink %d", p.ID, out.Vertex)
		}
		v := p.Vertices[i]
		if err := w.guarded(ctx, func() error { return v.Sink.Commit(ctx, out.Data) }); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	return nil
}

// guarded runs a plugin's function with a token, and protected from its panics.
func (w *worker) guarded(ctx context.Context, f func() error) error {
	return w.tokens.do(ctx, func() error { return protect(f) })
}

// cleanup removes what an incarnation left on this member. Tasks of it that still run are stopped first.
func (w *worker) cleanup(ctx context.Context, req cleanupRequest) error {
	if err := w.raiseTerm(req.Term); err != nil {
		return err
	}
	if w.stopAll(req.JobID, req.Incarnation) > 0 {
		return fmt.Errorf("%w: %v", ErrRetryable, errBusy)
	}
	def, err := w.defs.get(ctx, req.JobID, req.Incarnation)
	if errors.Is(err, errForeign) {
		return nil // without its info it was cleaned up before
	}
	if err != nil {
		return err
	}
	if def.plan == nil {
		return nil // a config that cannot be read never ran here
	}
	var errs []error
	for _, p := range def.plan.Pipelines {
		for _, v := range p.Vertices {
			if v.Sink == nil {
				continue
			}
			err := w.guarded(ctx, func() error { return v.Sink.Cleanup(ctx, req.JobID, req.Incarnation) })
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", v.Name, err))
			}
		}
	}
	if len(errs) == 0 {
		w.defs.forget(req.Incarnation)
	}
	return errors.Join(errs...)
}

// stopAll stops the tasks of an incarnation and returns how many have not ended yet.
func (w *worker) stopAll(jobID, incarnation string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, e := range w.execs {
		if e.key.jobID != jobID || e.key.incarnation != incarnation || e.is() == ended {
			continue
		}
		e.stop(errReplaced)
		n++
	}
	return n
}
