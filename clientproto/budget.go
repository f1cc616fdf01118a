package clientproto

import (
	"context"
	"sync"
	"time"
)

// budget bounds a request that does not say how long it wants to wait. cancel frees what the context holds.
func budget(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	b := &budgeted{parent: ctx, deadline: time.Now().Add(requestBudget)}
	return b, b.cancel
}

// budgeted is a context with a deadline. Most requests are over before anybody waits: it sets its timer, and joins its parent, only when somebody asks
// for the channel that tells of its end. The parent has no deadline of its own.
type budgeted struct {
	parent   context.Context
	deadline time.Time

	mu    sync.Mutex      // guards what follows
	real  context.Context // nil until it is needed
	stop  context.CancelFunc
	ended bool // by cancel
}

// Deadline implements [context.Context].
func (b *budgeted) Deadline() (time.Time, bool) { return b.deadline, true }

// Done implements [context.Context].
func (b *budgeted) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.real == nil {
		b.real, b.stop = context.WithDeadline(b.parent, b.deadline)
		if b.ended {
			b.stop()
		}
	}
	return b.real.Done()
}

// Err implements [context.Context].
func (b *budgeted) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.real != nil:
		return b.real.Err()
	case b.parent.Err() != nil:
		return b.parent.Err()
	case b.ended:
		return context.Canceled
	case !time.Now().Before(b.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements [context.Context]. Contexts that are made of this one find by it what they hang on.
func (b *budgeted) Value(key any) any {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.real != nil {
		return b.real.Value(key)
	}
	return b.parent.Value(key)
}

func (b *budgeted) cancel() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended = true; b.stop != nil {
		b.stop()
	}
}
