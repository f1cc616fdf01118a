package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// How long the storage may take. A directory can hang in a way that no context ends, and then it must hold up neither a cancel nor the end of a term.
const (
	storagePatience = 10 * time.Second // for one call
	hungPatience    = time.Second      // while an earlier call has not been answered
	sweepPatience   = time.Minute      // for one sweep
	maxStorageCalls = 64               // under way at once, those that hang included
)

// patient gives every call to a storage a time in which it has to be answered. A call that is not goes on until the storage answers it; there
// are at most maxStorageCalls of them. What it has been told to do may still happen then, as after any lost answer.
type patient struct {
	CheckpointStorage
	tokens  chan struct{}
	overdue atomic.Int32 // calls that nobody waits for any more
}

func newPatient(s CheckpointStorage) *patient {
	return &patient{CheckpointStorage: s, tokens: make(chan struct{}, maxStorageCalls)}
}

// unansweredError says that the storage takes too long.
type unansweredError struct {
	what string
	wait time.Duration
}

func (e *unansweredError) Error() string {
	return fmt.Sprintf("the checkpoint storage has not answered within %v (%s)", e.wait, e.what)
}

// patiently makes one call, and gives it up after a while.
func patiently[T any](ctx context.Context, p *patient, wait time.Duration, what string, call func(context.Context) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	if p.overdue.Load() > 0 {
		wait = min(wait, hungPatience)
	}
	var none T
	slow := &unansweredError{what, wait}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, slow)
	defer cancel()
	select {
	case p.tokens <- struct{}{}:
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	done := make(chan answer, 1)
	var late atomic.Bool
	go func() { // awaited below; of those that hang the tokens bound the number
		v, err := call(ctx)
		done <- answer{v, err}
		<-p.tokens
		if late.Swap(true) {
			p.overdue.Add(-1)
		}
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
	}
	p.overdue.Add(1)
	if late.Swap(true) { // it was answered just now
		p.overdue.Add(-1)
	}
	return none, context.Cause(ctx)
}

func (p *patient) do(ctx context.Context, wait time.Duration, what string, call func(context.Context) error) error {
	_, err := patiently(ctx, p, wait, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

func (p *patient) Put(ctx context.Context, ref CheckpointRef, data []byte) error {
	return p.do(ctx, storagePatience, p.Where(ref), func(ctx context.Context) error { return p.CheckpointStorage.Put(ctx, ref, data) })
}

func (p *patient) Settle(ctx context.Context, ref CheckpointRef) error {
	return p.do(ctx, storagePatience, p.Where(ref), func(ctx context.Context) error { return p.CheckpointStorage.Settle(ctx, ref) })
}

func (p *patient) List(ctx context.Context, jobID string) ([]CheckpointRef, error) {
	return patiently(ctx, p, storagePatience, "list job "+jobID, func(ctx context.Context) ([]CheckpointRef, error) { return p.CheckpointStorage.List(ctx, jobID) })
}

func (p *patient) Get(ctx context.Context, ref CheckpointRef) ([]byte, bool, error) {
	type stored struct {
		data    []byte
		settled bool
	}
	s, err := patiently(ctx, p, storagePatience, p.Where(ref), func(ctx context.Context) (s stored, err error) {
		s.data, s.settled, err = p.CheckpointStorage.Get(ctx, ref)
		return s, err
	})
	return s.data, s.settled, err
}

func (p *patient) Delete(ctx context.Context, ref CheckpointRef) error {
	return p.do(ctx, storagePatience, p.Where(ref), func(ctx context.Context) error { return p.CheckpointStorage.Delete(ctx, ref) })
}

func (p *patient) Clean(ctx context.Context, jobID, incarnation string, keep []CheckpointRef) error {
	return p.do(ctx, storagePatience, "clean job "+jobID, func(ctx context.Context) error { return p.CheckpointStorage.Clean(ctx, jobID, incarnation, keep) })
}

func (p *patient) Supersede(ctx context.Context, jobID, incarnation string, since time.Time) error {
	return p.do(ctx, storagePatience, "clean job "+jobID, func(ctx context.Context) error { return p.CheckpointStorage.Supersede(ctx, jobID, incarnation, since) })
}

func (p *patient) Expire(ctx context.Context, jobID, incarnation string, at time.Time) error {
	return p.do(ctx, storagePatience, "expire job "+jobID, func(ctx context.Context) error { return p.CheckpointStorage.Expire(ctx, jobID, incarnation, at) })
}

func (p *patient) Sweep(ctx context.Context, now time.Time) error {
	return p.do(ctx, sweepPatience, "sweep", func(ctx context.Context) error { return p.CheckpointStorage.Sweep(ctx, now) })
}
