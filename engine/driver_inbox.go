package engine

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// deliver hands an observation to the driver and waits until it is durable, or a no-op.
func (d *driver) deliver(ctx context.Context, o observation) error {
	done := make(chan error, 1)
	if !d.add(delivery{obs: o, done: done}) {
		return fmt.Errorf("%w: job %s is not driven here any more", ErrRetryable, d.jobID)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %v", ErrIndeterminate, context.Cause(ctx))
	}
}

// add puts a delivery into the inbox, unless that is closed.
func (d *driver) add(in ...delivery) bool {
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.inbox = append(d.inbox, in...)
	}
	d.mu.Unlock()
	d.poke()
	return !closed
}

// poke makes the driver look at its job again.
func (d *driver) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *driver) pending() []delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.inbox)
}

// settle takes the first deliveries, which are durable now, out of the inbox.
func (d *driver) settle(in []delivery, err error) {
	d.mu.Lock()
	d.inbox = slices.Delete(d.inbox, 0, len(in))
	d.mu.Unlock()
	for _, x := range in {
		if x.done != nil {
			x.done <- err
		}
	}
}

// close answers all that still wait. A job that has ended, or is gone, needs no report any more; otherwise the next master takes it.
func (d *driver) close(err error) {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	answer := fmt.Errorf("%w: job %s is not driven here any more: %v", ErrRetryable, d.jobID, err)
	if ignoring(err, errFinal, errForeign) == nil {
		answer = nil
	}
	d.settle(d.pending(), answer)
}

func observations(in []delivery) []observation {
	out := make([]observation, len(in))
	for i, x := range in {
		out[i] = x.obs
	}
	return out
}

// confirm notes that an attempt is known to run, with its figures if there are any.
func (d *driver) confirm(ref taskRef, tallies []tally) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for old := range d.confirmed {
		if old.Pipeline == ref.Pipeline && old.Source == ref.Source && old.Subtask == ref.Subtask && old.Attempt < ref.Attempt {
			delete(d.confirmed, old)
			delete(d.progress, old)
		}
	}
	d.confirmed[ref] = time.Now()
	if tallies != nil {
		d.progress[ref] = tallies
	}
}

func (d *driver) isConfirmed(ref taskRef) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.confirmed[ref]
	return ok && time.Since(at) < confirmEvery
}

// figures returns the last progress of an attempt.
func (d *driver) figures(ref taskRef) []tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.progress[ref]
}
