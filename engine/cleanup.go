package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	firstCleanupRetry = time.Second
	maxCleanupRetry   = time.Minute
	pruneEvery        = 30 * time.Second
	sweepStorageEvery = 5 * time.Minute
	maxCleanupError   = 1 << 10 // bytes of an error that the record keeps
)

// sweepLoop works off the cleanup records: the record owns the cleanup, not this loop, so a new master goes on where the last one was.
func (c *coordinator) sweepLoop(ctx context.Context) {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	limit := make(chan struct{}, parallelCleanups)
	sweeping := make(chan struct{}, 1) // one of the storage at a time, beside the rest
	prune, store := time.Now(), time.Now()
	for ctx.Err() == nil {
		next := c.sweep(ctx, &jobs, limit)
		if !time.Now().Before(prune) {
			prune = time.Now().Add(pruneEvery)
			if err := c.pruneHistory(ctx); err != nil {
				c.s.cfg.Logger.Warn("history not pruned", "error", err)
			}
		}
		if !time.Now().Before(store) {
			store = time.Now().Add(min(sweepStorageEvery, c.s.cfg.HistoryTTL))
			select {
			case sweeping <- struct{}{}:
				jobs.Go(func() { defer func() { <-sweeping }(); c.sweepStorage(ctx) })
			default:
			}
		}
		t := time.NewTimer(next)
		select {
		case <-t.C:
		case <-c.sweepNow:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// sweep starts what is due, and returns when to look again.
func (c *coordinator) sweep(ctx context.Context, jobs *sync.WaitGroup, limit chan struct{}) time.Duration {
	next := rescanEvery
	err := c.s.cfg.Store.Scan(ctx, MapPendingJobCleanup, func(e Entry) error {
		var rec cleanupRecord
		if err := decodeWithin(e.Value, &rec, maxRecordValues); err != nil {
			c.s.cfg.Logger.Error("cleanup record cannot be read", "job", e.Key.Key, "error", err)
			return nil
		}
		now := time.Now().UnixMilli()
		if at := rec.nextMs(); at > now && !rec.afar(now, c.s.cfg.StateCleanupDelay) {
			next = min(next, time.Duration(at-now)*time.Millisecond)
			return nil
		}
		c.beginClean(ctx, e.Key.Key, rec.Incarnation, jobs, limit)
		return nil
	})
	if err != nil {
		c.s.cfg.Logger.Warn("cleanup records cannot be scanned", "error", err)
		return rescanAfterError
	}
	return next
}

// nextMs is when there is something to do: at once after the job's end, then when the tombstone is due, later after a failure.
func (r *cleanupRecord) nextMs() int64 {
	if r.HistoryDone && r.Artefacts {
		return max(r.DueMs, r.RetryMs)
	}
	return r.RetryMs
}

// afar reports whether a time of the record lies further ahead than any that is written now: the clock went back, or was wrong when it was written.
func (r *cleanupRecord) afar(nowMs int64, delay time.Duration) bool {
	return r.DueMs > nowMs+delay.Milliseconds() || r.RetryMs > nowMs+maxCleanupRetry.Milliseconds()
}

// near brings such times back to what they would be now.
func (r *cleanupRecord) near(nowMs int64, delay time.Duration) {
	r.DueMs = min(r.DueMs, nowMs+delay.Milliseconds())
	r.RetryMs = min(r.RetryMs, nowMs+maxCleanupRetry.Milliseconds())
}

func (r *cleanupRecord) view(jobID string, now time.Time) CleanupView {
	v := CleanupView{
		JobID: jobID, Incarnation: r.Incarnation, Status: r.Status, DueAt: timeOf(r.DueMs), NextTry: timeOf(r.nextMs()),
		Attempts: r.Attempts, LastError: r.LastError,
	}
	if v.NextTry.Before(now) {
		v.NextTry = now
	}
	if r.DueMs == 0 { // nobody waits for the tombstone's time any more
		v.DueAt = v.NextTry
	}
	switch {
	case !r.HistoryDone:
		v.Stage = CleanupHistory
	case !r.Artefacts:
		v.Stage = CleanupArtefacts
	case r.DueMs > now.UnixMilli():
		v.Stage = CleanupTombstone
	default:
		v.Stage = CleanupEntries
	}
	return v
}

// beginClean works one record off, beside the others.
func (c *coordinator) beginClean(ctx context.Context, id, incarnation string, jobs *sync.WaitGroup, limit chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cleaning[id] {
		return
	}
	c.cleaning[id] = true
	jobs.Go(func() {
		defer c.endClean(id)
		select {
		case limit <- struct{}{}:
			defer func() { <-limit }()
		case <-ctx.Done():
			return
		}
		err := ignoring(c.clean(ctx, id, incarnation), errForeign)
		if err == nil || ctx.Err() != nil {
			return
		}
		c.s.cfg.Logger.Warn("cleanup of an ended job failed, will be repeated", "job", id, "error", err)
		if err := c.noteFailure(ctx, id, incarnation, err); err != nil {
			c.s.cfg.Logger.Warn("failed cleanup could not be noted", "job", id, "error", err)
			_ = sleep(ctx, firstCleanupRetry) // so that a record that cannot be written is not tried in a tight loop
		}
	})
}

func (c *coordinator) endClean(id string) {
	c.mu.Lock()
	delete(c.cleaning, id)
	c.mu.Unlock()
	c.kick(c.sweepNow)
}

// clean does the steps of a cleanup in their order. Each may be repeated and interrupted anywhere.
func (c *coordinator) clean(ctx context.Context, id, incarnation string) error {
	if err := c.bringNear(ctx, id, incarnation); err != nil {
		return fmt.Errorf("times: %w", err)
	}
	if err := c.writeHistory(ctx, id, incarnation); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	snap, err := read(ctx, c.s.cfg.Store, id)
	if err != nil {
		return err
	}
	if err := recordGuard(snap, incarnation); err != nil {
		return err
	}
	if snap.times != nil { // they go first, so without them the artefacts are gone
		if err := c.removeArtefacts(ctx, id, incarnation); err != nil {
			return fmt.Errorf("artefacts: %w", err)
		}
		if err := c.cleanCheckpoints(ctx, snap, incarnation); err != nil {
			return fmt.Errorf("checkpoints: %w", err)
		}
	}
	log := c.s.cfg.Logger.With("job", id, "term", c.term)
	if snap.record.DueMs > time.Now().UnixMilli() {
		log.Debug("cleanup: what the job left is removed")
		return c.change(ctx, id, incarnation, func(r *cleanupRecord) {
			r.Artefacts = true
			r.Attempts, r.RetryMs, r.LastError = 0, 0, "" // the next stage counts its own failures
		})
	}
	for _, m := range []string{MapStateTimestamps, MapRunningJobState, MapRunningJobInfo} {
		err := update(ctx, c.s.cfg.Store, id, func(s snapshot) (Txn, error) { return cleanTxn(s, incarnation, m) })
		if err := ignoring(err, errNothing); err != nil {
			return fmt.Errorf("remove from %s: %w", m, err)
		}
		log.Debug("cleanup: entry removed", "map", m)
	}
	c.s.defs.forget(incarnation)
	return update(ctx, c.s.cfg.Store, id, func(s snapshot) (Txn, error) { return forgetTxn(s, incarnation) })
}

// bringNear corrects a record whose times were written by a clock that was ahead of this one.
func (c *coordinator) bringNear(ctx context.Context, id, incarnation string) error {
	delay := c.s.cfg.StateCleanupDelay
	err := update(ctx, c.s.cfg.Store, id, func(s snapshot) (Txn, error) {
		if err := recordGuard(s, incarnation); err != nil {
			return Txn{}, err
		}
		if now := time.Now().UnixMilli(); s.record.afar(now, delay) {
			return recordTxn(s, incarnation, func(r *cleanupRecord) { r.near(now, delay) })
		}
		return Txn{}, errNothing
	})
	return ignoring(err, errNothing)
}

func (c *coordinator) writeHistory(ctx context.Context, id, incarnation string) error {
	err := update(ctx, c.s.cfg.Store, id, func(s snapshot) (Txn, error) {
		if err := recordGuard(s, incarnation); err != nil { // a sweep may begin with a record that is gone by now
			return Txn{}, err
		}
		return historyTxn(s, incarnation, c.s.historyOf(s), c.s.cfg.HistoryTTL)
	})
	return ignoring(err, errNothing)
}

// removeArtefacts has every worker remove what the incarnation left there.
func (c *coordinator) removeArtefacts(ctx context.Context, id, incarnation string) error {
	members, _ := c.s.cfg.Cluster.Members()
	var (
		g    errgroup.Group
		mu   sync.Mutex
		errs []error
	)
	g.SetLimit(parallelCleanups)
	for _, m := range members {
		if !m.Worker {
			continue
		}
		g.Go(func() error {
			req := cleanupRequest{JobID: id, Incarnation: incarnation, Term: c.term}
			if err := c.s.ask(ctx, c.s.cfg.CommitTimeout, m.ID, opCleanup, req, nil); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("member %s: %w", m.ID, err))
			}
			return nil
		})
	}
	return errors.Join(g.Wait(), errors.Join(errs...))
}

func (c *coordinator) change(ctx context.Context, id, incarnation string, f func(*cleanupRecord)) error {
	return update(ctx, c.s.cfg.Store, id, func(s snapshot) (Txn, error) { return recordTxn(s, incarnation, f) })
}

// noteFailure keeps the failure and the time of the next attempt in the record.
func (c *coordinator) noteFailure(ctx context.Context, id, incarnation string, failure error) error {
	return ignoring(c.change(ctx, id, incarnation, func(r *cleanupRecord) {
		r.Attempts++
		r.LastError = shorten(failure.Error(), maxCleanupError)
		r.RetryMs = time.Now().Add(cleanupRetry(r.Attempts)).UnixMilli()
	}), errForeign)
}

// cleanupRetry grows with the attempts, is capped, and has jitter.
func cleanupRetry(attempts int) time.Duration {
	d := min(firstCleanupRetry<<min(attempts, 10), maxCleanupRetry)
	return d/2 + rand.N(d/2+1)
}

// pruneHistory removes the oldest history entries above the limit.
func (c *coordinator) pruneHistory(ctx context.Context) error {
	n, err := c.s.cfg.Store.Size(ctx, MapFinishedJobState)
	if err != nil || n <= c.s.cfg.HistoryMax {
		return err
	}
	type old struct {
		id      string
		version uint64
		end     time.Time
	}
	var all []old
	err = c.s.cfg.Store.Scan(ctx, MapFinishedJobState, func(e Entry) error {
		var h *historyEntry
		if err := load(e, &h); err != nil {
			h = &historyEntry{} // one that cannot be read counts as the oldest
		}
		all = append(all, old{e.Key.Key, e.Version, h.View.FinishTime})
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b old) int { return a.end.Compare(b.end) })
	for _, o := range all[:max(len(all)-c.s.cfg.HistoryMax, 0)] {
		// A job that is still being cleaned up keeps its history: the record must be absent.
		key := keyOf(MapFinishedJobState, o.id)
		txn := Txn{If: []Cond{{Key: key, Version: o.version}, {Key: keyOf(MapPendingJobCleanup, o.id)}}, Delete: []Key{key}}
		if _, err := c.s.cfg.Store.Txn(ctx, txn); err != nil {
			return err
		}
	}
	return nil
}
