package engine

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// I17: the wait grows, has jitter, and is capped.
func TestCleanupRetryGrowsWithJitterUpToACap(t *testing.T) {
	var highest time.Duration
	for attempts := 1; attempts <= 40; attempts++ {
		seen := map[time.Duration]bool{}
		top := time.Duration(0)
		for range 200 {
			d := cleanupRetry(attempts)
			if d < firstCleanupRetry/2 || d > maxCleanupRetry {
				t.Fatalf("attempt %d waits %v", attempts, d)
			}
			seen[d] = true
			top = max(top, d)
		}
		if len(seen) < 100 {
			t.Errorf("attempt %d: %d different waits of 200", attempts, len(seen))
		}
		if attempts <= 5 && top < highest {
			t.Errorf("attempt %d waits at most %v, the one before up to %v", attempts, top, highest)
		}
		highest = max(highest, top)
	}
	if highest < maxCleanupRetry*9/10 {
		t.Errorf("the longest wait is %v", highest)
	}
}

func TestCleanupViewTellsStageAndNextTry(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	at := func(s int) int64 { return now.Add(time.Duration(s) * time.Second).UnixMilli() }
	for name, test := range map[string]struct {
		rec   cleanupRecord
		stage CleanupStage
		next  time.Duration
	}{
		"at first":              {cleanupRecord{DueMs: at(60)}, CleanupHistory, 0},
		"history has failed":    {cleanupRecord{DueMs: at(60), Attempts: 1, RetryMs: at(2)}, CleanupHistory, 2 * time.Second},
		"artefacts":             {cleanupRecord{DueMs: at(60), HistoryDone: true}, CleanupArtefacts, 0},
		"artefacts have failed": {cleanupRecord{DueMs: at(-60), HistoryDone: true, Attempts: 9, RetryMs: at(7)}, CleanupArtefacts, 7 * time.Second},
		"waits for the delay":   {cleanupRecord{DueMs: at(60), HistoryDone: true, Artefacts: true}, CleanupTombstone, time.Minute},
		"due":                   {cleanupRecord{DueMs: at(-1), HistoryDone: true, Artefacts: true}, CleanupEntries, 0},
		"due and has failed":    {cleanupRecord{DueMs: at(-1), HistoryDone: true, Artefacts: true, Attempts: 1, RetryMs: at(3)}, CleanupEntries, 3 * time.Second},
	} {
		v := test.rec.view("1", now)
		if v.Stage != test.stage || v.NextTry.Sub(now) != test.next {
			t.Errorf("%s: %s, next in %v", name, v.Stage, v.NextTry.Sub(now))
		}
	}
}

func TestShorten(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("é", 100), strings.Repeat("x", 100)} {
		got := shorten(s, 33)
		if len(got) > 33 || !utf8.ValidString(got) || len(s) <= 33 && got != s || len(s) > 33 && !strings.HasSuffix(got, "[...]") {
			t.Errorf("shorten(%q) = %q", s, got)
		}
	}
}

// A submit inside the window is told why, and when it may try again.
func TestSubmitInsideTheCleanupWindow(t *testing.T) {
	rec := &cleanupRecord{Status: JobFailed, DueMs: 60_000, Attempts: 3, RetryMs: 90_000, LastError: "the disk is gone"}
	err, ok := submitGuard(snapshot{jobID: "7", record: rec}, 30_000, time.Second).(*RetryAfterError)
	if !ok || err.After != time.Minute || !strings.Contains(err.Reason, "FAILED") || !strings.Contains(err.Reason, "the disk is gone") {
		t.Errorf("submitGuard = %+v", err)
	}
}

// ZK: the clock goes back by a day after a job's end, or it was wrong when the record was written. The tombstone, and a cleanup that has failed, wait no longer
// than they would from now on.
func TestCleanupAfterAStepOfTheClock(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		<-a.observe()
		time.Sleep(time.Second)
		rec := r.stored().record
		if rec == nil {
			t.Fatal("there is no record")
		}
		day := 24 * time.Hour.Milliseconds()
		rec.DueMs, rec.RetryMs = rec.DueMs+day, time.Now().UnixMilli()+day
		if _, err := r.store.Txn(t.Context(), Txn{Put: []Put{{Key: keyOf(MapPendingJobCleanup, rigJob), Value: encode(rec)}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultConfig().StateCleanupDelay - time.Second)
		if r.state() == nil {
			t.Error("the tombstone went before its time")
		}
		time.Sleep(maxCleanupRetry + 10*time.Second)
		if s := r.stored(); s.state != nil || s.record != nil || s.info != nil {
			t.Errorf("after %v there is still %+v", DefaultConfig().StateCleanupDelay+maxCleanupRetry, s)
		}
		a.leave()
		r.wantEnd()
	})
}
