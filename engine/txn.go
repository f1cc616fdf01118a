package engine

import (
	"errors"
	"fmt"
	"time"
)

// Each function of this file that ends in Txn is one row of the table of transactions in the design: it checks its guard on what was read
// and returns the transaction, which names the versions that were read. A guard that fails returns an error, and that settles the matter:
//
//	errNothing     it is already so
//	errFinal       a terminal state is stored
//	errNewerTerm   a newer master has taken the job over
//	errForeign     the entries belong to another incarnation, or are gone
var (
	errNothing   = errors.New("nothing to do")
	errFinal     = errors.New("the job has ended")
	errNewerTerm = errors.New("a newer master has taken the job over")
	errForeign   = errors.New("the job is gone or has been submitted anew")
)

// snapshot is everything stored about one job, read in one atomic step.
type snapshot struct {
	jobID    string
	info     *jobInfo
	state    *jobState
	times    *timestamps
	record   *cleanupRecord
	history  *historyEntry
	versions map[string]uint64 // by map; absent is 0
}

// conds names the entries of these maps as they were read.
func (s snapshot) conds(maps ...string) []Cond {
	out := make([]Cond, len(maps))
	for i, m := range maps {
		out[i] = Cond{Key: keyOf(m, s.jobID), Version: s.versions[m]}
	}
	return out
}

func (s snapshot) put(mapName string, v any) Put {
	return Put{Key: keyOf(mapName, s.jobID), Value: encode(v)}
}

// live reports whether the state is there, of that incarnation, and not terminal.
func (s snapshot) live(incarnation string) error {
	switch {
	case s.state == nil || s.state.Incarnation != incarnation:
		return errForeign
	case s.state.Status.Final():
		return errFinal
	}
	return nil
}

// submitTxn stores info, state CREATED and timestamps together. Nothing of an earlier run may be left, history included.
func submitTxn(snap snapshot, info jobInfo, st *jobState, nowMs int64, retryAfter time.Duration) (Txn, error) {
	if snap.info != nil && snap.info.Incarnation == info.Incarnation {
		return Txn{}, errNothing
	}
	if err := submitGuard(snap, nowMs, retryAfter); err != nil {
		return Txn{}, err
	}
	return Txn{
		If: snap.conds(MapRunningJobInfo, MapRunningJobState, MapStateTimestamps, MapPendingJobCleanup, MapFinishedJobState),
		Put: []Put{
			snap.put(MapRunningJobInfo, info),
			snap.put(MapRunningJobState, st),
			snap.put(MapStateTimestamps, newTimestamps(st, nowMs)),
		},
	}, nil
}

func submitGuard(snap snapshot, nowMs int64, retryAfter time.Duration) error {
	id := snap.jobID
	switch {
	case snap.record != nil:
		r := snap.record
		why := fmt.Sprintf("job %s has ended (%s) and is being cleaned up; the id cannot be used again", id, r.Status)
		if r.Attempts > 0 {
			why += fmt.Sprintf("; the cleanup has failed %d times, at last: %s", r.Attempts, r.LastError)
		}
		return &RetryAfterError{After: max(time.Duration(max(r.DueMs, r.RetryMs)-nowMs)*time.Millisecond, time.Second), Reason: why}
	case snap.state != nil && snap.state.Status.Final():
		return &RetryAfterError{After: retryAfter, Reason: fmt.Sprintf("job %s has ended (%s) and waits for its cleanup; the id cannot be used again", id, snap.state.Status)}
	case snap.history != nil:
		return fmt.Errorf("%w: job id %s was used before; that job is %s", ErrConflict, id, snap.history.View.Status)
	case snap.info != nil || snap.state != nil:
		return fmt.Errorf("%w: job %s is running", ErrConflict, id)
	case snap.times != nil:
		return &RetryAfterError{After: retryAfter, Reason: fmt.Sprintf("job %s still has leftovers of an earlier run", id)}
	}
	return nil
}

// submittedBefore returns the status of the job that the same submit already made, if it did: a repeat of the submit key, or of the id of
// a job that is live, unless that id was chosen for the submit: then another job has it by chance.
func submittedBefore(snap snapshot, submitKey string, chosen bool) (name string, status JobStatus, ok bool) {
	same := func(key string) bool { return submitKey != "" && key == submitKey }
	switch {
	case snap.info != nil && snap.state == nil && snap.record == nil && (!chosen || same(snap.info.SubmitKey)):
		return snap.info.Name, JobCreated, true
	case snap.info != nil && snap.state != nil && (same(snap.info.SubmitKey) || !chosen && !snap.state.Status.Final()):
		return snap.info.Name, snap.state.Status, true
	case snap.record != nil && same(snap.record.SubmitKey):
		if snap.history != nil {
			name = snap.history.View.JobName
		}
		return name, snap.record.Status, true
	case snap.history != nil && same(snap.history.SubmitKey):
		return snap.history.View.JobName, snap.history.View.Status, true
	}
	return "", "", false
}

// takeOverTxn writes the own term into a live job's state: from there an older term can change nothing in it.
func takeOverTxn(snap snapshot, term uint64) (Txn, error) {
	switch st := snap.state; {
	case st == nil || snap.record != nil:
		return Txn{}, errForeign
	case st.Status.Final():
		return Txn{}, errFinal
	case st.Term > term:
		return Txn{}, errNewerTerm
	case st.Term == term:
		return Txn{}, errNothing
	}
	next := snap.state.clone()
	next.Term = term
	return Txn{If: snap.conds(MapRunningJobState), Put: []Put{snap.put(MapRunningJobState, next)}}, nil
}

// repairTxn gives an accepted job that has no state a new one.
func repairTxn(snap snapshot, st *jobState, nowMs int64) (Txn, error) {
	if snap.info == nil || snap.record != nil || snap.info.Incarnation != st.Incarnation {
		return Txn{}, errForeign
	}
	if snap.state != nil {
		return Txn{}, errNothing
	}
	return Txn{
		If:  snap.conds(MapRunningJobInfo, MapRunningJobState, MapPendingJobCleanup),
		Put: []Put{snap.put(MapRunningJobState, st), snap.put(MapStateTimestamps, newTimestamps(st, nowMs))},
	}, nil
}

// stepGuard is the guard of transitionTxn and commitTxn: own incarnation, own term, not final. Attempts were compared when the
// observations were applied to this very snapshot, and the transaction names its version.
func stepGuard(snap snapshot, incarnation string, term uint64) error {
	if err := snap.live(incarnation); err != nil {
		return err
	}
	switch {
	case snap.state.Term > term:
		return errNewerTerm
	case snap.state.Term < term:
		return errForeign
	}
	return nil
}

// transitionTxn writes a step of a live job, with its timestamps.
func transitionTxn(snap snapshot, next *jobState, nowMs int64) Txn {
	t := Txn{If: snap.conds(MapRunningJobState), Put: []Put{snap.put(MapRunningJobState, next)}}
	times := snap.timesOrNew(nowMs)
	tasks, changed := times.stampTasks(snap.state, next, nowMs)
	if len(next.trail) > 0 || changed {
		t.Put = append(t.Put, snap.put(MapStateTimestamps, tasks.stamp(next.trail, nowMs)))
	}
	return t
}

// timesOrNew returns the timestamps of the state; new ones if there are none, or none that have a place for every state.
func (s snapshot) timesOrNew(nowMs int64) timestamps {
	if s.times != nil && s.times.Incarnation == s.state.Incarnation && s.times.fit(s.state) {
		return *s.times
	}
	return newTimestamps(s.state, nowMs)
}

// commitTxn writes the end of a job: the terminal state and the cleanup record are one step. Whether the writer still leads is not asked.
func commitTxn(snap snapshot, next *jobState, nowMs int64, delay time.Duration) Txn {
	t := transitionTxn(snap, next, nowMs)
	t.Put = append(t.Put, snap.put(MapPendingJobCleanup, newCleanup(snap, next.Status, nowMs, delay)))
	return t
}

func newCleanup(snap snapshot, status JobStatus, nowMs int64, delay time.Duration) cleanupRecord {
	r := cleanupRecord{Incarnation: snap.state.Incarnation, Status: status, DueMs: nowMs + delay.Milliseconds()}
	if snap.info != nil {
		r.SubmitKey = snap.info.SubmitKey
	}
	return r
}

// settleTxn gives a terminal job without a cleanup record one.
func settleTxn(snap snapshot, nowMs int64, delay time.Duration) (Txn, error) {
	if snap.state == nil || !snap.state.Status.Final() || snap.record != nil {
		return Txn{}, errNothing
	}
	return Txn{
		If:  snap.conds(MapRunningJobState, MapPendingJobCleanup),
		Put: []Put{snap.put(MapPendingJobCleanup, newCleanup(snap, snap.state.Status, nowMs, delay))},
	}, nil
}

// cancelTxn sets the cancel intent. Any term may do that; the stored term stays.
func cancelTxn(snap snapshot) (Txn, error) {
	if err := stopGuard(snap); err != nil {
		return Txn{}, err
	}
	if snap.state.Cancel {
		return Txn{}, errNothing
	}
	next := snap.state.clone()
	next.Cancel = true
	return Txn{If: snap.conds(MapRunningJobState), Put: []Put{snap.put(MapRunningJobState, next)}}, nil
}

// stopGuard refuses to stop a job that is not live.
func stopGuard(snap snapshot) error {
	switch st := snap.state; {
	case st != nil && st.Status.Final():
		return fmt.Errorf("%w: job %s is already %s", ErrConflict, snap.jobID, st.Status)
	case st == nil && snap.history != nil:
		return fmt.Errorf("%w: job %s is already %s", ErrConflict, snap.jobID, snap.history.View.Status)
	case st == nil && snap.record != nil:
		return fmt.Errorf("%w: job %s is already %s", ErrConflict, snap.jobID, snap.record.Status)
	case st == nil && snap.info != nil:
		return fmt.Errorf("%w: job %s is being recovered", ErrRetryable, snap.jobID)
	case st == nil:
		return fmt.Errorf("%w: %s", ErrNotFound, snap.jobID)
	}
	return nil
}
