package engine

import (
	"context"
	"sync"
	"time"
)

// A piece of work that keeps its token for longer than tokenPatience is taken to be waiting for I/O, and others go on. When the timer that says
// so is itself late by more than tokenLate, the process waits for a processor, and so may the work: then it keeps its token for twice as long,
// and so on up to maxTokenPatience. Else each piece of work that a starved machine delays would let one more compete for the processor.
const (
	tokenPatience    = 20 * time.Millisecond
	tokenLate        = 2 * time.Millisecond
	maxTokenPatience = time.Second
)

// tokens bounds how many batches of rows are worked on at once, so that tasks never starve the rest of the process.
type tokens chan struct{}

// do runs work while it holds a token.
func (t tokens) do(ctx context.Context, work func() error) error {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l := &loan{free: func() { <-t }}
	l.wait(tokenPatience)
	defer l.end()
	return work()
}

// loan is a token that a piece of work has.
type loan struct {
	free func()

	mu    sync.Mutex // guards what follows
	over  bool
	timer *time.Timer
}

// wait takes the token back after the patience, or later if the process is starved.
func (l *loan) wait(patience time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	due := time.Now().Add(patience)
	l.timer = time.AfterFunc(patience, func() {
		if more := morePatience(patience, time.Since(due)); more > 0 {
			l.wait(more)
			return
		}
		l.end()
	})
}

// end gives the token back, once.
func (l *loan) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	if !l.over {
		l.over = true
		l.free()
	}
}

// morePatience returns how long work may go on with its token whose patience ended with a timer that was late; 0 is not at all.
func morePatience(patience, late time.Duration) time.Duration {
	if late <= tokenLate || patience >= maxTokenPatience {
		return 0
	}
	return min(2*patience, maxTokenPatience)
}
