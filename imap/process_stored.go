package imap

import (
	"context"
	"fmt"

	"gridnode/grid"
)

// processInSteps is the primary's part of a processor on an entry of a map with a loader, whose store is told between the plan and the deed.
func (x *execution) processInSteps(fn Processor, o op) (any, error) {
	if len(o.Proc.Keys) != 1 {
		return nil, fmt.Errorf("%w: a plan for %d keys", grid.ErrBadMessage, len(o.Proc.Keys))
	}
	k := ref{Map: o.Map, Key: o.Proc.Keys[0]}
	if barred, err := x.barred(k); barred {
		return nil, err
	}
	r := x.look(k)
	if o.Proc.Plan {
		return x.plan(fn, k, r, o.Proc)
	}
	seen := uint64(0)
	if r != nil {
		seen = r.version
	}
	if seen != o.Proc.Do.Seen {
		return nil, fmt.Errorf("%w: the entry is not what entry processor %q saw a moment ago", grid.ErrNotReady, o.Proc.Name)
	}
	return nil, x.carryOut(k, r, *o.Proc.Do)
}

// processThrough runs a processor on entries of a map with a loader, key by key, several at once.
func (m *Map) processThrough(ctx context.Context, keys []Key, proc procOp) ([]Entry, error) {
	seen := make(map[string]bool, len(keys))
	for _, k := range keys {
		if err := m.check(k, proc.Arg); err != nil {
			return nil, err
		}
		if seen[string(k.Data)] {
			return nil, fmt.Errorf("%w: a key twice in one call of entry processor %q", grid.ErrBadRequest, proc.Name)
		}
		seen[string(k.Data)] = true
	}
	out := make([]Entry, len(keys))
	err := forEach(len(keys), func(i int) error {
		return m.underGuard(ctx, keys[i], func(ctx context.Context) error {
			one := proc
			one.Keys = [][]byte{keys[i].Data}
			reply, err := m.processGuarded(ctx, keys[i], one)
			out[i] = Entry{Map: m.name, Key: keys[i].Data, Value: reply}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// processGuarded loads the entry if it is absent, has the processor plan at the primary, tells the store, and has the plan carried out.
func (m *Map) processGuarded(ctx context.Context, k Key, proc procOp) (Data, error) {
	if _, err := m.fetch(ctx, k, false); err != nil {
		return nil, err
	}
	first := proc
	first.Plan = true
	raw, err := m.process(ctx, k, &first)
	if err != nil {
		return nil, err
	}
	plan, err := decode[planned](raw)
	if err != nil {
		return nil, err
	}
	if plan.Not {
		return nil, nil
	}
	stored := false
	if plan.Remove || plan.Put != nil {
		if stored, err = m.tellStore(ctx, k, &write{Remove: plan.Remove, Value: plan.Put}); err != nil {
			return nil, err
		}
	}
	second := proc
	second.Do = &plan
	if _, err = m.process(ctx, k, &second); err != nil && stored {
		err = fmt.Errorf("%w: the store of map %s has what entry processor %q made, the grid may not: %v", grid.ErrIndeterminate, m.name, proc.Name, err)
	}
	return plan.Reply, err
}

func (m *Map) process(ctx context.Context, k Key, proc *procOp) ([]byte, error) {
	o := m.op(opProcess)
	o.Proc = proc
	return m.g.callWithin(ctx, k, o, m.patience(ctx))
}
