package engine

import (
	"context"
	"fmt"
)

// restore finds what an attempt goes on from: the newest complete checkpoint of its pipeline, as the state names it. No other can become complete before
// the attempt has answered, so state and checkpoint belong together. The error says to try again; what is wrong for good is left in the execution.
func (w *worker) restore(ctx context.Context, st *jobState, e *execution) error {
	e.at = restorePoint{}
	ps, _ := st.task(e.ref)
	id := ps.Ckpt.Done
	if id == 0 {
		return nil
	}
	keys := []Key{keyOf(MapRunningJobState, e.key.jobID), dataKey(e.key.jobID, e.key.incarnation, ps.ID, id)}
	entries, err := w.cfg.Store.GetAll(ctx, keys)
	if err != nil {
		return fmt.Errorf("read checkpoint %d of pipeline %d: %w", id, ps.ID, asRetry(ctx, err))
	}
	var now *jobState
	if err := load(entries[0], &now); err != nil {
		return err
	}
	if !startable(now, e.key.incarnation, e.ref, w.cfg.Cluster.Self()) {
		return fmt.Errorf("%w: the job does not want the attempt any more", ErrRetryable)
	}
	c, err := openCheckpoint(entries[1], ps.ID, id)
	if err == nil {
		p, ok := e.def.pipeline(ps.ID)
		if !ok {
			return nil // the task will say so
		}
		e.at, err = restoreFrom(c, p, e.ref)
	}
	e.at.err = err
	return nil
}
