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

	mu   sync.Mutex      // guards what follows
	real context.Context // nil until it is needed
	stop context.CancelFunc
}

// Deadline implements [context.Context].
func (b *budgeted) Deadline() (time.Time, bool) { return b.deadline, true }

// Done implements [context.Context].
func (b *budgeted) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.real == nil {
		b.real, b.stop = context.WithDeadline(b.parent, b.deadline)
	}
	return b.real.Done()
}

// Err implements [context.Context].
func (b *budgeted) Err() error {
	ctx := b.current()
	if err := ctx.Err(); err != nil || ctx != b.parent || time.Now().Before(b.deadline) {
		return err
	}
	return context.DeadlineExceeded
}

// Value implements [context.Context].
func (b *budgeted) Value(key any) any { return b.current().Value(key) }

func (b *budgeted) current() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.real == nil {
		return b.parent
	}
	return b.real
}

func (b *budgeted) cancel() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.real == nil {
		b.real, b.stop = context.WithCancel(b.parent)
	}
	b.stop()
}
