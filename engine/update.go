package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	firstBackoff = 20 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// backoff grows a wait from firstBackoff to maxBackoff, with jitter.
type backoff struct{ n int }

func (b *backoff) next() time.Duration {
	d := min(firstBackoff<<min(b.n, 10), maxBackoff)
	b.n++
	return d/2 + rand.N(d/2+1)
}

// sleep waits, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// again reports whether err is one of the two kinds after which reading and trying again makes sense.
func again(err error) bool { return errors.Is(err, ErrRetryable) || errors.Is(err, ErrIndeterminate) }

// read returns all that is stored about a job.
func read(ctx context.Context, store Store, jobID string) (snapshot, error) {
	maps := [...]string{MapRunningJobInfo, MapRunningJobState, MapStateTimestamps, MapPendingJobCleanup, MapFinishedJobState}
	keys := make([]Key, len(maps))
	for i, m := range maps {
		keys[i] = keyOf(m, jobID)
	}
	entries, err := store.GetAll(ctx, keys)
	if err != nil {
		return snapshot{}, fmt.Errorf("read job %s: %w", jobID, err)
	}
	snap := snapshot{jobID: jobID, versions: make(map[string]uint64, len(maps))}
	for i, m := range maps {
		snap.versions[m] = entries[i].Version
	}
	err = errors.Join(load(entries[0], &snap.info), load(entries[1], &snap.state), load(entries[2], &snap.times),
		load(entries[3], &snap.record), load(entries[4], &snap.history))
	return snap, err
}

// load decodes an entry; an absent one leaves *into nil.
func load[T any](e Entry, into **T) error {
	if e.Version == 0 {
		return nil
	}
	v := new(T)
	if err := decodeWithin(e.Value, v, maxRecordValues); err != nil {
		return err
	}
	if st, ok := any(v).(*jobState); ok {
		if err := st.plausible(); err != nil {
			return fmt.Errorf("engine: state of job %s: %w", e.Key.Key, err)
		}
	}
	*into = v
	return nil
}

// update reads a job, lets build apply its guard and make a transaction, and runs that. After a conflict or an unknown outcome it reads
// again and applies the guard again, which sees whether the own write took, until the store answers or ctx ends. Then the error is
// ErrIndeterminate if a transaction may have run, else ErrRetryable.
func update(ctx context.Context, store Store, jobID string, build func(snapshot) (Txn, error)) error {
	var wait backoff
	unsure := false
	for {
		err := attempt(ctx, store, jobID, build, &unsure)
		if err == nil || !again(err) {
			return err
		}
		if ctx.Err() == nil && sleep(ctx, wait.next()) == nil {
			continue
		}
		kind := ErrRetryable
		if unsure {
			kind = ErrIndeterminate
		}
		return fmt.Errorf("%w: job %s: %v", kind, jobID, err)
	}
}

// attempt is one round of update. unsure tells whether any transaction so far may still have run.
func attempt(ctx context.Context, store Store, jobID string, build func(snapshot) (Txn, error), unsure *bool) error {
	for {
		snap, err := read(ctx, store, jobID)
		if err != nil {
			return asRetry(ctx, err)
		}
		txn, err := build(snap)
		if err != nil {
			return err
		}
		res, err := store.Txn(ctx, txn)
		if err != nil {
			*unsure = *unsure || !errors.Is(err, ErrRetryable)
			return asRetry(ctx, err)
		}
		if res.Applied {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %v", ErrRetryable, context.Cause(ctx))
		}
	}
}

// asRetry makes an error that only says that ctx ended one of the kinds that callers know. A transaction that was cut short is the caller's to
// tell apart.
func asRetry(ctx context.Context, err error) error {
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if ctx.Err() != nil && ended && !again(err) {
		return fmt.Errorf("%w: %v", ErrRetryable, err)
	}
	return err
}

// ignoring returns nil for an error that is one of these.
func ignoring(err error, these ...error) error {
	for _, e := range these {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
