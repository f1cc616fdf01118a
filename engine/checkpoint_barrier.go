package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errBarrier ends a source's Read early, so that a barrier comes through; the source is asked again after it.
var errBarrier = errors.New("a checkpoint is due")

// barrierPatience is how long a worker lets the master wait for the answers of its tasks; the master asks again.
const barrierPatience = time.Second

// barriers brings orders of the master to a task at work, and its answers back. The zero value is ready.
type barriers struct {
	mu        sync.Mutex
	id        uint64 // the newest checkpoint that was asked for
	committed uint64 // up to this one all output is visible
	stop      bool   // the task is to end where it is
	answered  uint64
	answer    taskPoint // to checkpoint answered
	interrupt context.CancelCauseFunc
	changed   chan struct{} // closed when any of these changes; nil: nobody waits
}

// order asks for a checkpoint, or for the task's end. An older one than was asked for before is of no use any more.
func (b *barriers) order(id, committed uint64, stop bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id < b.id && !stop {
		return
	}
	news := stop && !b.stop || id > b.id
	b.id, b.stop = max(b.id, id), b.stop || stop
	b.committed = max(b.committed, committed)
	if !news {
		return
	}
	if b.interrupt != nil {
		b.interrupt(errBarrier)
	}
	b.signal()
}

func (b *barriers) signal() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// wait returns a channel that is closed at the next change.
func (b *barriers) wait() <-chan struct{} {
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// due returns what the task is to do before the next row.
func (b *barriers) due() (id, committed uint64, stop, any bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.id, b.committed, b.stop, b.stop || b.id > b.answered
}

// reading returns a context for reads, which a barrier ends. It may be used until it has ended.
func (b *barriers) reading(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.interrupt = cancel
	if b.stop || b.id > b.answered {
		cancel(errBarrier)
	}
	return ctx, cancel
}

// give keeps the answer to a checkpoint, for as long as the master may ask for it.
func (b *barriers) give(id uint64, pt taskPoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered, b.answer = id, pt
	b.signal()
}

// take waits for the answer to a checkpoint. It returns false if there is none when ctx ends, or when it is of no use any more.
func (b *barriers) take(ctx context.Context, id uint64) (taskPoint, bool) {
	for {
		b.mu.Lock()
		if b.answered >= id || b.stop {
			defer b.mu.Unlock()
			return b.answer, b.answered == id
		}
		changed := b.wait()
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return taskPoint{}, false
		}
	}
}

// idle waits until there is something to do for a task that has no more rows.
func (b *barriers) idle(ctx context.Context) error {
	for {
		b.mu.Lock()
		if b.stop || b.id > b.answered {
			defer b.mu.Unlock()
			return nil
		}
		changed := b.wait()
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// barrierRequest asks a worker to have tasks cut their output for a checkpoint, or end where they are.
type barrierRequest struct {
	JobID, Incarnation string
	Term               uint64
	ID                 uint64
	Committed          uint64
	Stop               bool
	Tasks              []taskRef
}

// barrierAnswer has the points of those tasks that have answered, in the order of the request; nil where there is none yet.
type barrierAnswer struct{ Points []*taskPoint }

// barrier orders a checkpoint and waits for the answers for a while. It may be repeated: a task answers once, and the answer is kept.
func (w *worker) barrier(ctx context.Context, req barrierRequest) (barrierAnswer, error) {
	if err := w.raiseTerm(req.Term); err != nil {
		return barrierAnswer{}, err
	}
	ans := barrierAnswer{Points: make([]*taskPoint, len(req.Tasks))}
	execs := make([]*execution, len(req.Tasks))
	w.mu.Lock()
	for i, ref := range req.Tasks {
		e := w.execs[execKey{req.JobID, req.Incarnation, ref.Pipeline, ref.Source, ref.Subtask}]
		if e != nil && e.ref == ref && e.is() != ended {
			execs[i] = e
		}
	}
	w.mu.Unlock()
	for _, e := range execs {
		if e != nil {
			e.barriers.order(req.ID, req.Committed, req.Stop)
		}
	}
	if req.Stop {
		return ans, nil // the answer is the report
	}
	ctx, cancel := context.WithTimeout(ctx, barrierPatience)
	defer cancel()
	for i, e := range execs {
		if e == nil {
			continue
		}
		if pt, ok := e.barriers.take(ctx, req.ID); ok {
			ans.Points[i] = &pt
		}
	}
	return ans, nil
}
