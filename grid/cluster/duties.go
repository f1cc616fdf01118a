package cluster

import (
	"context"
	"fmt"
	"sync"
)

// duties runs Config.OnMaster, term after term, for as long as masterLoop does. A term of the cluster never waits for the duties of a former
// one: they may have to end with writes to maps, which need leases, and leases need a master.
type duties struct {
	funcs []func(ctx context.Context, term uint64) error
	busy  []chan struct{} // one slot for each of funcs: taken while it runs
	tasks sync.WaitGroup
}

func newDuties(funcs []func(context.Context, uint64) error) *duties {
	d := &duties{funcs: funcs}
	for range funcs {
		d.busy = append(d.busy, make(chan struct{}, 1))
	}
	return d
}

// start runs each duty in the term until ctx ends, once its call of the former term has returned. One that fails before that cancels ctx with
// a *dutyError.
func (d *duties) start(ctx context.Context, term uint64, cancel context.CancelCauseFunc) {
	for i, f := range d.funcs {
		d.tasks.Go(func() {
			select {
			case d.busy[i] <- struct{}{}:
				defer func() { <-d.busy[i] }()
			case <-ctx.Done():
				return
			}
			if ctx.Err() != nil {
				return
			}
			if err := f(ctx, term); err != nil && ctx.Err() == nil {
				cancel(&dutyError{fmt.Errorf("as master in term %d: %w", term, err)})
			}
		})
	}
}

// wait returns when no duty runs any more.
func (d *duties) wait() { d.tasks.Wait() }

// dutyError is what a duty failed with, as the cause of the end of a term. Run ends with it.
type dutyError struct{ err error }

func (e *dutyError) Error() string { return e.err.Error() }

func (e *dutyError) Unwrap() error { return e.err }
