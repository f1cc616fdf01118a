package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"golang.org/x/time/rate"

	"gridnode/engine/config"
	"gridnode/engine/plugin"
)

// Why a task was stopped.
var (
	errCanceled = errors.New("the task was canceled")
	errReplaced = errors.New("the job does not want this attempt any more")
)

// maxBatch is how many rows are read at once at most.
const maxBatch = 1000

// runTask works a task off and returns its report.
func (w *worker) runTask(ctx context.Context, e *execution) report {
	rep := report{JobID: e.key.jobID, Incarnation: e.key.incarnation, Ref: e.ref, Status: TaskFinished}
	var err error
	if perr := protect(func() error { rep.Prepared, rep.End, err = w.process(ctx, e); return nil }); perr != nil {
		err = perr
	}
	rep.Tallies = e.tallies()
	if err == nil {
		return rep
	}
	rep.Prepared, rep.End = nil, nil
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errCanceled):
		rep.Status = TaskCanceled
	case cause != nil:
		rep.Status, rep.Error = TaskFailed, shorten(cause.Error(), maxReportBytes)
	default:
		_, rep.Permanent = errors.AsType[*plugin.PermanentError](err)
		rep.Status, rep.Error = TaskFailed, shorten(err.Error(), maxReportBytes)
	}
	return rep
}

// protect turns a panic of a plugin into an error, so that it costs one task and not the member.
func protect(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

// process opens the chain of a task, moves all rows through it and prepares its output.
func (w *worker) process(ctx context.Context, e *execution) (out []preparedOutput, end *taskPoint, err error) {
	if e.def.err != nil {
		return nil, nil, fmt.Errorf("read the config: %w", e.def.err) // another member may be able to
	}
	if e.at.err != nil {
		return nil, nil, &plugin.PermanentError{Err: e.at.err}
	}
	p, ok := e.def.pipeline(e.ref.Pipeline)
	if !ok {
		return nil, nil, plugin.Permanentf("the config has no pipeline %d", e.ref.Pipeline)
	}
	c, err := openChain(ctx, p, e.ref.Source, w.taskContext(e, p), e.at)
	if err != nil {
		return nil, nil, err
	}
	e.setMeter(c.meter)
	defer func() {
		if cerr := c.close(); cerr != nil && err == nil {
			err = fmt.Errorf("close: %w", cerr)
		}
	}()
	if err := w.pump(ctx, c, e); err != nil {
		return nil, nil, err
	}
	_, committed, _, _ := e.barriers.due()
	err = w.turn(ctx, func() (err error) { out, end, err = c.finish(ctx, committed); return err })
	return out, end, err
}

// pump moves rows, and takes the checkpoints that are asked for between them, until the source's end or an order to end. A bounded source of a
// streaming job has no more to say at its end, and the job goes on until it is stopped.
func (w *worker) pump(ctx context.Context, c *chain, e *execution) error {
	lim := newLimits(e.def.plan)
	table := tableOf(c.head.vertex)
	read, stopReading := e.barriers.reading(ctx)
	defer func() { stopReading(nil) }()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch id, committed, stop, due := e.barriers.due(); {
		case stop:
			return nil
		case due:
			if err := w.checkpoint(ctx, c, e, id, committed); err != nil {
				return err
			}
			stopReading(nil)
			read, stopReading = e.barriers.reading(ctx)
			continue
		case c.ended && e.def.plan.Mode == plugin.Batch:
			return nil
		case c.ended:
			if err := e.barriers.idle(ctx); err != nil {
				return err
			}
			continue
		}
		var rows []plugin.Row
		err := w.turn(ctx, func() (err error) { rows, err = c.reader.Read(read, lim.batch); return err })
		switch {
		case errors.Is(err, io.EOF):
			c.ended = true
			continue
		case errors.Is(err, errBarrier):
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", c.head.vertex.Name, err)
		}
		bytes := sizeOfRows(rows)
		if err := lim.wait(ctx, len(rows), int(bytes)); err != nil {
			return err
		}
		c.meter.read(table, int64(len(rows)), bytes)
		if err := w.turn(ctx, func() error { return c.push(ctx, c.head, table, rows) }); err != nil {
			return err
		}
	}
}

// checkpoint cuts a task's output and keeps the answer for the master.
func (w *worker) checkpoint(ctx context.Context, c *chain, e *execution, id, committed uint64) error {
	var pt taskPoint
	err := w.turn(ctx, func() (err error) { pt, err = c.barrier(ctx, id, committed); return err })
	if err != nil {
		return fmt.Errorf("checkpoint %d: %w", id, err)
	}
	e.barriers.give(id, pt)
	return nil
}

func (w *worker) taskContext(e *execution, p config.Pipeline) plugin.TaskContext {
	tc := plugin.TaskContext{
		JobID: e.key.jobID, JobName: e.def.info.Name, Incarnation: e.key.incarnation, Pipeline: p.ID, Subtask: e.ref.Subtask,
		Attempt: e.ref.Attempt, Mode: e.def.plan.Mode, Member: w.cfg.Cluster.Self(),
		Logger: w.cfg.Logger.With("job", e.key.jobID, "task", e.ref.String()),
	}
	for _, v := range p.Vertices {
		if v.ID == e.ref.Source {
			tc.Parallelism = v.Parallelism
		}
	}
	return tc
}

// limits slows a source subtask down to the job's read limits. Batches are a tenth of a second's worth, so that the flow is smooth.
type limits struct {
	batch       int
	rows, bytes *rate.Limiter
}

func newLimits(plan *config.Job) limits {
	l := limits{batch: maxBatch}
	if n := plan.RowsPerSecond; n > 0 {
		l.batch = min(maxBatch, max(1, n/10))
		l.rows = rate.NewLimiter(rate.Limit(n), l.batch)
	}
	if n := plan.BytesPerSec; n > 0 {
		l.batch = min(l.batch, max(1, n/1000))
		l.bytes = rate.NewLimiter(rate.Limit(n), max(1, n/10))
	}
	return l
}

func (l limits) wait(ctx context.Context, rows, bytes int) error {
	if err := waitN(ctx, l.rows, rows); err != nil {
		return err
	}
	return waitN(ctx, l.bytes, bytes)
}

// waitN takes n from a limiter, in parts if n is more than its burst.
func waitN(ctx context.Context, l *rate.Limiter, n int) error {
	for l != nil && n > 0 {
		part := min(n, l.Burst())
		if err := l.WaitN(ctx, part); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("read limit: %w", err)
		}
		n -= part
	}
	return nil
}
