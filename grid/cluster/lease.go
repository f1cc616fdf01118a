package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"gridnode/grid"
)

// lease is the member's own: until when it may act. All times are readings of the monotonic clock.
type lease struct {
	length time.Duration
	base   time.Time
	until  atomic.Int64 // nanoseconds after base

	mu     sync.Mutex // guards what follows; never held while waiting
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	closed bool
}

func newLease(length time.Duration) *lease {
	l := &lease{length: length, base: time.Now()}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.cancel(grid.ErrNoLease)
	return l
}

func (l *lease) valid() bool { return int64(time.Since(l.base)) < l.until.Load() }

// renewed returns how long ago the last renewal was asked for that was granted; ok is false if none ever was, or the lease was given up.
func (l *lease) renewed() (ago time.Duration, ok bool) {
	until := l.until.Load()
	return time.Since(l.base) - time.Duration(until) + l.length, until != 0
}

func (l *lease) context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx
}

// extend lets the lease run from sent, the moment before the heartbeat was sent that was granted. A grant that comes late changes nothing.
func (l *lease) extend(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := sent.Sub(l.base) + l.length
	left := until - time.Since(l.base)
	if l.closed || left <= 0 || int64(until) <= l.until.Load() {
		return
	}
	l.until.Store(int64(until))
	if l.ctx.Err() != nil {
		l.ctx, l.cancel = context.WithCancelCause(context.Background())
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(left, l.check)
	} else {
		l.timer.Reset(left)
	}
}

// check ends the context when the lease has lapsed. It runs on the timer.
func (l *lease) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if left := l.until.Load() - int64(time.Since(l.base)); left > 0 { // extended meanwhile
		l.timer.Reset(time.Duration(left))
		return
	}
	l.cancel(grid.ErrNoLease)
}

// close gives the lease up for good.
func (l *lease) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.until.Store(0)
	l.cancel(grid.ErrNoLease)
	if l.timer != nil {
		l.timer.Stop()
	}
}
