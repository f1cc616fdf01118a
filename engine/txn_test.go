package engine

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// present returns a snapshot in which the given entries exist, each with a version of its own.
func present(state *jobState, maps ...string) snapshot {
	s := snapshot{jobID: "1", versions: map[string]uint64{}}
	for i, m := range maps {
		s.versions[m] = uint64(i + 10)
		switch m {
		case MapRunningJobInfo:
			s.info = &jobInfo{Incarnation: "a", SubmitKey: "k", Name: "n"}
		case MapRunningJobState:
			s.state = state
		case MapStateTimestamps:
			s.times = &timestamps{Incarnation: "a", Job: make([]int64, len(jobStatuses()))}
		case MapPendingJobCleanup:
			s.record = &cleanupRecord{Incarnation: "a", SubmitKey: "k", Status: JobFinished, HistoryDone: true}
		case MapFinishedJobState:
			s.history = &historyEntry{SubmitKey: "k", View: JobView{Incarnation: "a", Status: JobFinished}}
		}
	}
	return s
}

// named lists the maps whose versions a transaction names.
func named(t *testing.T, s snapshot, txn Txn) []string {
	t.Helper()
	var maps []string
	for _, c := range txn.If {
		if c.Version != s.versions[c.Key.Map] {
			t.Errorf("condition on %s has version %d, read was %d", c.Key.Map, c.Version, s.versions[c.Key.Map])
		}
		maps = append(maps, c.Key.Map)
	}
	slices.Sort(maps)
	return maps
}

func sorted(maps ...string) []string { slices.Sort(maps); return maps }

// The table of transactions: what each names.
func TestTxnConditions(t *testing.T) {
	running := &jobState{Incarnation: "a", Term: 3, Status: JobRunning}
	done := &jobState{Incarnation: "a", Term: 3, Status: JobFinished}
	all := []string{MapRunningJobInfo, MapRunningJobState, MapStateTimestamps}
	ended := present(done, append(all, MapPendingJobCleanup, MapFinishedJobState)...)
	fresh := jobInfo{Incarnation: "b"}
	for name, test := range map[string]struct {
		snap snapshot
		make func(snapshot) (Txn, error)
		want []string
	}{
		"Submit": {present(nil), func(s snapshot) (Txn, error) {
			return submitTxn(s, fresh, newState(fresh, nil, 1), 0, time.Second)
		}, sorted(MapRunningJobInfo, MapRunningJobState, MapStateTimestamps, MapPendingJobCleanup, MapFinishedJobState)},
		"TakeOver":   {present(running, all...), func(s snapshot) (Txn, error) { return takeOverTxn(s, 4) }, sorted(MapRunningJobState)},
		"Transition": {present(running, all...), func(s snapshot) (Txn, error) { return transitionTxn(s, running, 0), nil }, sorted(MapRunningJobState)},
		"Commit":     {present(running, all...), func(s snapshot) (Txn, error) { return commitTxn(s, done, 0, 0), nil }, sorted(MapRunningJobState)},
		"Settle":     {present(done, all...), func(s snapshot) (Txn, error) { return settleTxn(s, 0, 0) }, sorted(MapRunningJobState, MapPendingJobCleanup)},
		"Cancel":     {present(running, all...), cancelTxn, sorted(MapRunningJobState)},
		"Repair": {present(nil, MapRunningJobInfo), func(s snapshot) (Txn, error) {
			return repairTxn(s, newState(*s.info, nil, 1), 0)
		}, sorted(MapRunningJobInfo, MapRunningJobState, MapPendingJobCleanup)},
		"History": {func() snapshot { s := ended; r := *s.record; r.HistoryDone = false; s.record = &r; return s }(),
			func(s snapshot) (Txn, error) { return historyTxn(s, "a", historyEntry{}, time.Hour) }, sorted(MapPendingJobCleanup, MapFinishedJobState)},
		"Clean timestamps": {ended, func(s snapshot) (Txn, error) { return cleanTxn(s, "a", MapStateTimestamps) }, sorted(MapPendingJobCleanup, MapStateTimestamps)},
		"Clean state":      {ended, func(s snapshot) (Txn, error) { return cleanTxn(s, "a", MapRunningJobState) }, sorted(MapPendingJobCleanup, MapRunningJobState)},
		"Clean info":       {ended, func(s snapshot) (Txn, error) { return cleanTxn(s, "a", MapRunningJobInfo) }, sorted(MapPendingJobCleanup, MapRunningJobInfo)},
		"Forget": {present(nil, MapPendingJobCleanup, MapFinishedJobState), func(s snapshot) (Txn, error) { return forgetTxn(s, "a") },
			sorted(MapPendingJobCleanup, MapRunningJobInfo, MapRunningJobState, MapStateTimestamps, MapFinishedJobState)},
	} {
		t.Run(name, func(t *testing.T) {
			txn, err := test.make(test.snap)
			if err != nil {
				t.Fatal(err)
			}
			if got := named(t, test.snap, txn); !slices.Equal(got, test.want) {
				t.Errorf("names %v, want %v", got, test.want)
			}
		})
	}
}

// The guards: what each transaction refuses on what was read.
func TestTxnGuards(t *testing.T) {
	running := &jobState{Incarnation: "a", Term: 3, Status: JobRunning}
	done := &jobState{Incarnation: "a", Term: 3, Status: JobFinished}
	all := []string{MapRunningJobInfo, MapRunningJobState, MapStateTimestamps}
	live, over := present(running, all...), present(done, append(all, MapPendingJobCleanup)...)
	second := func(_ Txn, err error) error { return err }
	submit := func(s snapshot) error {
		return second(submitTxn(s, jobInfo{Incarnation: "b"}, &jobState{}, 0, time.Second))
	}
	for name, test := range map[string]struct{ got, want error }{
		"step of a stale term":            {stepGuard(live, "a", 2), errNewerTerm},
		"step before the takeover":        {stepGuard(live, "a", 4), errForeign},
		"step of another incarnation":     {stepGuard(live, "b", 3), errForeign},
		"step of an ended job":            {stepGuard(over, "a", 3), errFinal},
		"step of a missing job":           {stepGuard(present(nil), "a", 3), errForeign},
		"takeover by an older term":       {second(takeOverTxn(live, 2)), errNewerTerm},
		"takeover of one's own":           {second(takeOverTxn(live, 3)), errNothing},
		"takeover of an ended job":        {second(takeOverTxn(present(done, all...), 9)), errFinal},
		"takeover beside a record":        {second(takeOverTxn(over, 9)), errForeign},
		"takeover of a missing job":       {second(takeOverTxn(present(nil), 9)), errForeign},
		"submit over a live job":          {submit(live), ErrConflict},
		"submit over a tombstone":         {submit(over), ErrConflict},
		"submit over history":             {submit(present(nil, MapFinishedJobState)), ErrConflict},
		"submit over a record":            {submit(present(nil, MapPendingJobCleanup)), ErrConflict},
		"submit over timestamps":          {submit(present(nil, MapStateTimestamps)), ErrConflict},
		"settle of a live job":            {second(settleTxn(live, 0, 0)), errNothing},
		"settle beside a record":          {second(settleTxn(over, 0, 0)), errNothing},
		"repair beside a state":           {second(repairTxn(live, &jobState{Incarnation: "a"}, 0)), errNothing},
		"repair beside a record":          {second(repairTxn(over, &jobState{Incarnation: "a"}, 0)), errForeign},
		"cancel of an ended job":          {second(cancelTxn(over)), ErrConflict},
		"cancel of a job in history":      {second(cancelTxn(present(nil, MapFinishedJobState))), ErrConflict},
		"cancel of an unknown job":        {second(cancelTxn(present(nil))), ErrNotFound},
		"history of another incarnation":  {second(historyTxn(over, "b", historyEntry{}, 0)), errForeign},
		"cleaning of another incarnation": {second(cleanTxn(over, "b", MapRunningJobState)), errForeign},
		"cleaning what is gone":           {second(cleanTxn(present(nil, MapPendingJobCleanup), "a", MapRunningJobState)), errNothing},
		"forgetting too early":            {second(forgetTxn(over, "a")), errForeign},
	} {
		if !errors.Is(test.got, test.want) {
			t.Errorf("%s: %v, want %v", name, test.got, test.want)
		}
	}
}

// A repeat of a submit is known wherever the job has got to.
func TestSubmittedBefore(t *testing.T) {
	running, done := &jobState{Incarnation: "a", Status: JobRunning}, &jobState{Incarnation: "a", Status: JobFinished}
	all := []string{MapRunningJobInfo, MapRunningJobState, MapStateTimestamps}
	for name, snap := range map[string]snapshot{
		"live":            present(running, all...),
		"without a state": present(nil, MapRunningJobInfo),
		"tombstone":       present(done, all...),
		"record":          present(nil, MapPendingJobCleanup),
		"history":         present(nil, MapFinishedJobState),
	} {
		if _, _, ok := submittedBefore(snap, "k", true); !ok {
			t.Errorf("%s: the repeat is not known", name)
		}
		if _, _, ok := submittedBefore(snap, "other", true); ok {
			t.Errorf("%s: another submit, whose id is the same by chance, counts as a repeat", name)
		}
		_, _, ok := submittedBefore(snap, "other", false)
		if alive := name == "live" || name == "without a state"; ok != alive {
			t.Errorf("%s: another submit of the same id counts as a repeat: %v", name, ok)
		}
	}
}
