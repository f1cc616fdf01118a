package engine

import (
	"fmt"
	"time"

	"gridnode/engine/config"
)

// savepointTxn sets the intent to stop a job with a savepoint. Any term may do that; the stored term stays.
func (c *coordinator) savepointTxn(snap snapshot) (Txn, error) {
	if err := stopGuard(snap); err != nil {
		return Txn{}, err
	}
	st := snap.state
	switch {
	case st.Cancel || st.Status == JobFailing || st.Status == JobCanceling:
		return Txn{}, fmt.Errorf("%w: isStopWithSavePoint is true, and job %s is being stopped already without a savepoint", ErrConflict, snap.jobID)
	case st.Savepoint:
		return Txn{}, errNothing
	case st.Status != JobRunning:
		return Txn{}, &RetryAfterError{After: time.Second, Reason: fmt.Sprintf(
			"isStopWithSavePoint is true, and job %s is %s: a savepoint can be taken when it is RUNNING", snap.jobID, st.Status)}
	}
	for _, p := range c.definitionOf(snap).pipelines() {
		for _, v := range p.Vertices {
			if err := restorable(v); err != nil {
				return Txn{}, fmt.Errorf("%w: isStopWithSavePoint is true: %w", ErrInvalid, err)
			}
		}
	}
	next := st.clone()
	next.Savepoint = true
	return Txn{If: snap.conds(MapRunningJobState), Put: []Put{snap.put(MapRunningJobState, next)}}, nil
}

func (d *definition) pipelines() []config.Pipeline {
	if d.plan == nil {
		return nil
	}
	return d.plan.Pipelines
}
