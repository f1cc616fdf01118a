package enginetest

import (
	"context"
	"fmt"
	"time"

	"gridnode/engine"
)

// lateBy is how late a transaction with the fault [LostLate] runs.
const lateBy = 50 * time.Millisecond

// storeView is the store as one member reaches it: with latency and faults, and not at all once the member is dead.
type storeView struct{ n *node }

func (v *storeView) ready(ctx context.Context) error {
	if err := v.n.delay(ctx); err != nil {
		return err
	}
	if down := v.n.g.opts.Down; down != nil && down(v.n.id) {
		return fmt.Errorf("%w: the store is down", engine.ErrRetryable)
	}
	return nil
}

func (v *storeView) Get(ctx context.Context, key engine.Key) (engine.Entry, error) {
	if err := v.ready(ctx); err != nil {
		return engine.Entry{}, err
	}
	return v.n.g.Store.Get(ctx, key)
}

func (v *storeView) GetAll(ctx context.Context, keys []engine.Key) ([]engine.Entry, error) {
	if err := v.ready(ctx); err != nil {
		return nil, err
	}
	return v.n.g.Store.GetAll(ctx, keys)
}

func (v *storeView) Scan(ctx context.Context, mapName string, fn func(engine.Entry) error) error {
	if err := v.ready(ctx); err != nil {
		return err
	}
	return v.n.g.Store.Scan(ctx, mapName, fn)
}

func (v *storeView) Size(ctx context.Context, mapName string) (int, error) {
	if err := v.ready(ctx); err != nil {
		return 0, err
	}
	return v.n.g.Store.Size(ctx, mapName)
}

func (v *storeView) Txn(ctx context.Context, t engine.Txn) (engine.TxnResult, error) {
	if err := v.ready(ctx); err != nil {
		return engine.TxnResult{}, err
	}
	fault := NoFault
	if f := v.n.g.opts.Txn; f != nil {
		fault = f(v.n.id, t)
	}
	unknown := fmt.Errorf("%w: no answer of the store", engine.ErrIndeterminate)
	switch fault {
	case Refused:
		return engine.TxnResult{}, fmt.Errorf("%w: the store is busy", engine.ErrRetryable)
	case LostBefore:
		return engine.TxnResult{}, unknown
	case LostLate:
		v.n.g.wg.Go(func() {
			if sleepOrDone(v.n.g.ctx, lateBy) == nil {
				_, _ = v.run(v.n.g.ctx, t)
			}
		})
		return engine.TxnResult{}, unknown
	}
	res, err := v.run(ctx, t)
	if lost := v.n.delay(context.WithoutCancel(ctx)); lost != nil || fault == LostAfter {
		return engine.TxnResult{}, unknown
	}
	return res, err
}

func (v *storeView) run(ctx context.Context, t engine.Txn) (engine.TxnResult, error) {
	res, err := v.n.g.Store.Txn(ctx, t)
	if f := v.n.g.opts.OnTxn; f != nil {
		f(v.n.id, t, res.Applied)
	}
	return res, err
}
