package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// cleanCheckpoints removes the checkpoints of an incarnation that has ended, except for those from which the job can be started again. It may be
// repeated, and changes nothing of another incarnation.
func (c *coordinator) cleanCheckpoints(ctx context.Context, snap snapshot, incarnation string) error {
	store, cfg := c.s.cfg.Store, c.s.cfg.Checkpoint
	entries, err := store.GetAll(ctx, []Key{keyOf(MapCheckpointID, snap.jobID), keyOf(MapCheckpointMonitor, snap.jobID)})
	if err != nil {
		return err
	}
	var index *checkpointIndex
	if err := load(entries[0], &index); err != nil {
		return err
	}
	kept := checkpointIndex{Incarnation: incarnation}
	if index != nil && index.Incarnation == incarnation && snap.state != nil {
		def, err := c.s.defs.get(ctx, snap.jobID, incarnation)
		if ignoring(err, errForeign) != nil {
			return err
		}
		kept = index.retained(snap.state, def != nil && (def.plan == nil || def.plan.Checkpoint.RetainCanceled), cfg.MaxRetained)
		if err := c.shrink(ctx, snap, entries[0], *index, kept); err != nil {
			return err
		}
	}
	if err := c.ageMonitor(ctx, entries[1], incarnation); err != nil {
		return err
	}
	if cfg.Storage == nil || index != nil && index.Incarnation != incarnation {
		return nil
	}
	if len(kept.Pipelines) > 0 && kept.Status != JobSavepointDone {
		if err := cfg.Storage.Expire(ctx, snap.jobID, incarnation, time.Now().Add(c.s.cfg.HistoryTTL)); err != nil {
			return err
		}
	}
	return c.cleanStorage(ctx, snap, kept)
}

// sweepStorage removes from the storage what was kept for as long as a history that is over.
func (c *coordinator) sweepStorage(ctx context.Context) {
	if files := c.s.cfg.Checkpoint.Storage; files != nil {
		if err := files.Sweep(ctx, time.Now()); err != nil {
			c.s.cfg.Logger.Warn("checkpoints that are over are not removed from the storage", "error", err)
		}
	}
}

// shrink brings the stored checkpoints down to those that are kept. What a user did not ask for does not stay for longer than the job's history.
func (c *coordinator) shrink(ctx context.Context, snap snapshot, e Entry, index, kept checkpointIndex) error {
	key := keyOf(MapCheckpointID, snap.jobID)
	txn := Txn{If: []Cond{{Key: key, Version: e.Version}}, Delete: index.missing(snap.jobID, kept)}
	if len(kept.Pipelines) == 0 {
		txn.Delete = append(txn.Delete, key)
		return c.applied(ctx, txn)
	}
	if index.Status != "" {
		return nil // it was done before
	}
	ttl := c.s.cfg.HistoryTTL
	if kept.Status == JobSavepointDone {
		ttl = 0
	}
	for _, k := range kept.missing(snap.jobID, checkpointIndex{}) {
		if ttl == 0 {
			break
		}
		data, err := c.s.cfg.Store.Get(ctx, k)
		if err != nil || data.Version == 0 {
			return errors.Join(err, ErrRetryable)
		}
		put := Txn{If: []Cond{{Key: k, Version: data.Version}}, Put: []Put{{Key: k, Value: data.Value, TTL: ttl}}}
		if err := c.applied(ctx, put); err != nil {
			return err
		}
	}
	txn.Put = []Put{{Key: key, Value: encode(kept), TTL: ttl}}
	return c.applied(ctx, txn)
}

// ageMonitor lets the figures of an ended job live as long as its history.
func (c *coordinator) ageMonitor(ctx context.Context, e Entry, incarnation string) error {
	var m *JobCheckpoints
	if err := load(e, &m); err != nil || m == nil || m.Incarnation != incarnation || m.Ended {
		return err
	}
	m.Ended = true
	return c.applied(ctx, Txn{
		If:  []Cond{{Key: e.Key, Version: e.Version}},
		Put: []Put{{Key: e.Key, Value: encode(m), TTL: c.s.cfg.HistoryTTL}},
	})
}

// applied runs a transaction once. A conflict says to look again.
func (c *coordinator) applied(ctx context.Context, t Txn) error {
	res, err := c.s.cfg.Store.Txn(ctx, t)
	if err == nil && !res.Applied {
		return fmt.Errorf("%w: an entry was changed meanwhile", ErrRetryable)
	}
	return err
}

// cleanStorage removes from the storage what is not kept. Other incarnations of the job are older, and over, unless they belong to another cluster.
func (c *coordinator) cleanStorage(ctx context.Context, snap snapshot, kept checkpointIndex) error {
	files, id := c.s.cfg.Checkpoint.Storage, snap.jobID
	refs, err := files.List(ctx, id)
	errs := []error{err, files.Clean(ctx, id, kept.Incarnation, kept.refs(id, kept.Incarnation))}
	if kept.From != "" {
		errs = append(errs, files.Clean(ctx, id, kept.From, nil))
	}
	if snap.state == nil {
		return errors.Join(errs...) // it was done when the state was there
	}
	done := map[string]bool{kept.Incarnation: true, kept.From: true}
	for _, r := range refs {
		if !done[r.Incarnation] {
			done[r.Incarnation] = true
			errs = append(errs, files.Supersede(ctx, id, r.Incarnation, timeOf(snap.state.CreatedMs)))
		}
	}
	return errors.Join(errs...)
}

// finishCleanup has the cleanup of a job that has ended done now, although its tombstone is not due yet, and waits for it.
func (c *coordinator) finishCleanup(ctx context.Context, snap snapshot) error {
	id, asked := snap.jobID, time.Now()
	for first := true; ; first = false {
		switch {
		case snap.record != nil && (snap.record.DueMs > 0 || first && snap.record.RetryMs > 0):
			err := c.change(ctx, id, snap.record.Incarnation, func(r *cleanupRecord) { r.DueMs, r.RetryMs = 0, 0 })
			if ignoring(err, errForeign) != nil {
				return err
			}
		case snap.record == nil && snap.state != nil && snap.state.Status.Final():
			if err := c.settle(ctx, id); err != nil {
				return err
			}
		case snap.record == nil:
			return nil
		}
		c.kick(c.sweepNow)
		if err := sleep(ctx, firstBackoff); err != nil {
			why := ""
			if snap.record != nil && snap.record.LastError != "" {
				why = fmt.Sprintf("; that has failed %d times, at last: %s", snap.record.Attempts, snap.record.LastError)
			}
			return &RetryAfterError{After: time.Second, Reason: fmt.Sprintf(
				"job %s is still being cleaned up after its last run (for %v)%s", id, time.Since(asked).Round(time.Millisecond), why)}
		}
		next, err := read(ctx, c.s.cfg.Store, id)
		if err != nil {
			return asRetry(ctx, err)
		}
		snap = next
	}
}
