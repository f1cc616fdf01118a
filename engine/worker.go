package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	progressEvery  = time.Second           // between two progress reports
	selfCheckEvery = 5 * time.Second       // between two looks at whether the jobs still want their tasks
	leasePoll      = 20 * time.Millisecond // between two looks at whether a lapsed lease is back
)

// worker runs tasks on this member.
type worker struct {
	cfg    Config
	defs   *definitions
	tokens tokens
	ask    func(ctx context.Context, timeout time.Duration, to string, o op, req, ans any) error
	starts chan *execution // to the goroutine of run, which owns the executions

	mu    sync.Mutex
	term  uint64 // the highest seen; lower ones are refused
	execs map[execKey]*execution
}

// execKey names a task group of an incarnation; a worker has at most one attempt of it.
type execKey struct {
	jobID, incarnation        string
	pipeline, source, subtask int
}

// execution is one attempt on this worker: being started, running, or ended with a report that is still to be taken.
type execution struct {
	key execKey
	ref taskRef
	def *definition
	at  restorePoint

	barriers barriers

	mu     sync.Mutex
	phase  phase
	cause  error // why it is to stop
	cancel context.CancelCauseFunc
	meter  *meter
}

type phase int

const (
	starting phase = iota
	running
	ended
)

func (e *execution) is() phase {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.phase
}

func (e *execution) enter(p phase) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.phase = p
}

// stop makes the task end; the first cause counts.
func (e *execution) stop(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause == nil {
		e.cause = cause
	}
	if e.cancel != nil {
		e.cancel(e.cause)
	}
}

// bind gives stop the means to end the task, also when it was called before.
func (e *execution) bind(cancel context.CancelCauseFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancel = cancel
	if e.cause != nil {
		cancel(e.cause)
	}
}

func (e *execution) setMeter(m *meter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.meter = m
}

func (e *execution) tallies() []tally {
	e.mu.Lock()
	m := e.meter
	e.mu.Unlock()
	if m == nil {
		return nil
	}
	return m.tallies()
}

// run owns all executions until ctx ends, and joins them.
func (w *worker) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { w.every(ctx, progressEvery, w.sendProgress) })
	wg.Go(func() { w.every(ctx, selfCheckEvery, w.selfCheck) })
	for {
		select {
		case e := <-w.starts:
			wg.Go(func() { w.execute(ctx, e) })
		case <-ctx.Done():
			return
		}
	}
}

func (w *worker) every(ctx context.Context, d time.Duration, f func(context.Context)) {
	for sleep(ctx, d) == nil {
		f(ctx)
	}
}

// turn runs a piece of a task's work when its turn comes and the member may act. While the member's lease is lapsed, its tasks pause: if it
// is renewed nobody has replaced them, and if the member is removed instead, they end with its life.
func (w *worker) turn(ctx context.Context, work func() error) error {
	for w.cfg.Cluster.Alive().Err() != nil {
		if err := sleep(ctx, leasePoll); err != nil {
			return context.Cause(ctx)
		}
	}
	return w.tokens.do(ctx, work)
}

// execute runs one attempt, and then delivers its report.
func (w *worker) execute(ctx context.Context, e *execution) {
	defer w.forget(e)
	taskCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e.bind(cancel)
	e.enter(running)
	w.cfg.Logger.Info("task started", "job", e.key.jobID, "task", e.ref)
	rep := w.runTask(taskCtx, e)
	e.enter(ended)
	w.cfg.Logger.Info("task ended", "job", e.key.jobID, "task", e.ref, "status", rep.Status, "error", rep.Error)
	w.deliver(ctx, rep)
}

// deliver sends a report until it was durably taken, or the job's state shows that nobody waits for it.
func (w *worker) deliver(ctx context.Context, rep report) {
	var wait backoff
	for ctx.Err() == nil {
		err := w.sendReport(ctx, rep)
		if err == nil {
			return
		}
		if st, rerr := w.state(ctx, rep.JobID); rerr == nil && settled(st, rep.Incarnation, rep.Ref) {
			return
		}
		w.cfg.Logger.Debug("report not taken yet", "job", rep.JobID, "task", rep.Ref, "error", err)
		if sleep(ctx, wait.next()) != nil {
			return
		}
	}
}

func (w *worker) sendReport(ctx context.Context, rep report) error {
	master, _, ok := w.cfg.Cluster.Master()
	if !ok {
		return fmt.Errorf("%w: no master", ErrRetryable)
	}
	return w.ask(ctx, w.cfg.CallTimeout, master, opReport, rep, nil)
}

func (w *worker) state(ctx context.Context, jobID string) (*jobState, error) {
	e, err := w.cfg.Store.Get(ctx, keyOf(MapRunningJobState, jobID))
	if err != nil {
		return nil, err
	}
	var st *jobState
	return st, load(e, &st)
}

// settled reports whether a state waits for nothing more from an attempt: the incarnation has ended or is gone, or the attempt has ended or
// was replaced.
func settled(st *jobState, incarnation string, ref taskRef) bool {
	if st == nil || st.Incarnation != incarnation || st.Status.Final() {
		return true
	}
	_, t := st.task(ref)
	return t == nil || t.Attempt != ref.Attempt || !t.active()
}

// startable reports whether a state asks this member to start an attempt.
func startable(st *jobState, incarnation string, ref taskRef, self string) bool {
	if st == nil || st.Cancel || settled(st, incarnation, ref) {
		return false
	}
	_, t := st.task(ref)
	return t.Status == TaskDeploying && t.Worker == self && !t.Moving
}

func (w *worker) forget(e *execution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.execs[e.key] == e {
		delete(w.execs, e.key)
	}
}

// list returns the executions in one phase.
func (w *worker) list(p phase) []*execution {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*execution
	for _, e := range w.execs {
		if e.is() == p {
			out = append(out, e)
		}
	}
	return out
}

// sendProgress tells the master the figures of all running tasks. A lost one is made up for by the next.
func (w *worker) sendProgress(ctx context.Context) {
	var rep progressReport
	for _, e := range w.list(running) {
		rep.Tasks = append(rep.Tasks, taskProgress{JobID: e.key.jobID, Incarnation: e.key.incarnation, Ref: e.ref, Tallies: e.tallies()})
	}
	master, _, ok := w.cfg.Cluster.Master()
	if len(rep.Tasks) == 0 || !ok {
		return
	}
	if err := w.ask(ctx, progressEvery, master, opProgress, rep, nil); err != nil {
		w.cfg.Logger.Debug("progress not delivered", "error", err)
	}
}

// selfCheck stops tasks that their jobs do not want any more, whoever forgot to say so.
func (w *worker) selfCheck(ctx context.Context) {
	for _, e := range w.list(running) {
		st, err := w.state(ctx, e.key.jobID)
		if err != nil {
			w.cfg.Logger.Debug("task not checked", "job", e.key.jobID, "error", err)
			continue
		}
		if settled(st, e.key.incarnation, e.ref) {
			e.stop(errReplaced)
		}
	}
}

// raiseTerm refuses a master older than one already seen.
func (w *worker) raiseTerm(term uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if term < w.term {
		return fmt.Errorf("%w: term %d is over, this member has seen term %d", ErrRetryable, term, w.term)
	}
	w.term = term
	return nil
}

var errBusy = errors.New("tasks of the incarnation are still ending")
