package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// DropSavepoints removes what is stored of an ended job's checkpoints, and returns how many those were: the job cannot be started again from them. It may be
// repeated. The error is ErrConflict while the job lives, and ErrNotFound if there is no such job and nothing is stored of it.
func (s *Service) DropSavepoints(ctx context.Context, jobID string) (int, error) {
	n, err := parseJobID(jobID)
	if err != nil {
		return 0, err
	}
	return viaMaster(ctx, s, opDropSavepoints, strconv.FormatInt(n, 10), idempotent, dropSavepointsLocal)
}

// drop is what is known of an ended job's checkpoints.
type drop struct {
	known bool             // there is a job with that id, or was
	index *checkpointIndex // nil: the grid has none
	refs  []CheckpointRef  // in the storage
}

// dropSavepointsLocal is DropSavepoints on the master. The transaction names the state, so a start that comes before it makes the job live, and this is
// refused. What the storage has is listed before the transaction and removed after it: a run that was started in between has copies of its own.
func dropSavepointsLocal(ctx context.Context, c *coordinator, id string) (int, error) {
	var d drop
	err := update(ctx, c.s.cfg.Store, id, func(snap snapshot) (txn Txn, err error) {
		d, txn, err = c.dropTxn(ctx, snap)
		return txn, err
	})
	if err := ignoring(err, errNothing); err != nil {
		return 0, err
	}
	n := len(d.refs)
	if d.index != nil {
		n = max(n, len(d.index.missing(id, checkpointIndex{})))
	}
	over := map[string]bool{}
	for _, r := range d.refs {
		over[r.Incarnation] = true
	}
	var errs []error
	for incarnation := range over {
		errs = append(errs, c.s.cfg.Checkpoint.Storage.Clean(ctx, id, incarnation, nil))
	}
	switch err := errors.Join(errs...); {
	case err != nil:
		return 0, fmt.Errorf("%w: job %s: not all of its checkpoints are removed from the storage: %v", ErrIndeterminate, id, err)
	case n == 0 && !d.known:
		return 0, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	c.s.cfg.Logger.Info("checkpoints of an ended job removed", "job", id, "checkpoints", n)
	return n, nil
}

// dropTxn removes what the grid has, and lists what the storage has.
func (c *coordinator) dropTxn(ctx context.Context, snap snapshot) (d drop, _ Txn, err error) {
	id := snap.jobID
	if endOf(snap) == "" && (snap.state != nil || snap.info != nil) {
		return d, Txn{}, fmt.Errorf("%w: job %s has not ended: it needs its checkpoints itself", ErrConflict, id)
	}
	d.known = snap.state != nil || snap.record != nil || snap.history != nil
	if files := c.s.cfg.Checkpoint.Storage; files != nil {
		if d.refs, err = files.List(ctx, id); err != nil {
			return d, Txn{}, fmt.Errorf("list the stored checkpoints of job %s: %w", id, err)
		}
	}
	e, err := c.s.cfg.Store.Get(ctx, keyOf(MapCheckpointID, id))
	if err != nil {
		return d, Txn{}, asRetry(ctx, err)
	}
	if err := load(e, &d.index); err != nil {
		return d, Txn{}, err
	}
	if d.index == nil {
		return d, Txn{}, errNothing
	}
	return d, Txn{
		If:     append(snap.conds(MapRunningJobInfo, MapRunningJobState), Cond{Key: e.Key, Version: e.Version}),
		Delete: append(d.index.missing(id, checkpointIndex{}), e.Key),
	}, nil
}
