package engine

import "time"

// The transactions of a cleanup, in their order. Each names the record, so that none touches another incarnation.

func recordGuard(snap snapshot, incarnation string) error {
	if snap.record == nil || snap.record.Incarnation != incarnation {
		return errForeign
	}
	return nil
}

// historyTxn writes the history entry and notes in the record that it is written.
func historyTxn(snap snapshot, incarnation string, h historyEntry, ttl time.Duration) (Txn, error) {
	if err := recordGuard(snap, incarnation); err != nil {
		return Txn{}, err
	}
	if snap.record.HistoryDone {
		return Txn{}, errNothing
	}
	rec := *snap.record
	rec.HistoryDone = true
	put := snap.put(MapFinishedJobState, h)
	put.TTL = ttl
	return Txn{
		If:  snap.conds(MapPendingJobCleanup, MapFinishedJobState),
		Put: []Put{put, snap.put(MapPendingJobCleanup, rec)},
	}, nil
}

// recordTxn changes the record itself.
func recordTxn(snap snapshot, incarnation string, change func(*cleanupRecord)) (Txn, error) {
	if err := recordGuard(snap, incarnation); err != nil {
		return Txn{}, err
	}
	rec := *snap.record
	change(&rec)
	return Txn{If: snap.conds(MapPendingJobCleanup), Put: []Put{snap.put(MapPendingJobCleanup, rec)}}, nil
}

// cleanTxn removes one entry of the ended incarnation: its timestamps, its state or its info.
func cleanTxn(snap snapshot, incarnation, mapName string) (Txn, error) {
	if err := recordGuard(snap, incarnation); err != nil {
		return Txn{}, err
	}
	if snap.versions[mapName] == 0 {
		return Txn{}, errNothing
	}
	return Txn{If: snap.conds(MapPendingJobCleanup, mapName), Delete: []Key{keyOf(mapName, snap.jobID)}}, nil
}

// forgetTxn removes the record when everything that it names is gone and the history was written.
func forgetTxn(snap snapshot, incarnation string) (Txn, error) {
	if err := recordGuard(snap, incarnation); err != nil {
		return Txn{}, err
	}
	if snap.info != nil || snap.state != nil || snap.times != nil || !snap.record.HistoryDone {
		return Txn{}, errForeign
	}
	return Txn{
		If:     snap.conds(MapPendingJobCleanup, MapRunningJobInfo, MapRunningJobState, MapStateTimestamps, MapFinishedJobState),
		Delete: []Key{keyOf(MapPendingJobCleanup, snap.jobID)},
	}, nil
}
