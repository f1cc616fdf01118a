package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
)

// remove takes entries of a job away behind the engine's back.
func (c *cluster) remove(ctx context.Context, id string, maps ...string) {
	c.t.Helper()
	c.rules.Off()
	var txn engine.Txn
	for _, m := range maps {
		txn.Delete = append(txn.Delete, engine.Key{Map: m, Place: id, Key: id})
	}
	if res, err := c.Store.Txn(ctx, txn); err != nil || !res.Applied {
		c.t.Fatal(res, err)
	}
}

// K1: an accepted job without a state is repaired and runs; it is not dropped.
// It is ZB of zetaRows.
func TestJobWithoutStateIsRepaired(t *testing.T) {
	onGrid(t, fixed(1, engine.ScheduleWait), func(ctx context.Context, c *cluster) {
		c.submit(ctx, "39", holder(3))
		c.waitFor(ctx, "39", engine.JobRunning)
		c.submit(ctx, "40", enginetest.Spec{Parallelism: 2, Rows: 10})
		c.waitFor(ctx, "40", engine.JobPending)
		c.remove(ctx, "40", engine.MapRunningJobState, engine.MapStateTimestamps)
		if v := c.info(ctx, "40"); v.Status != engine.JobCreated {
			t.Errorf("without a state the job shows as %s", v.Status)
		}
		c.Depose()
		c.waitFor(ctx, "40", engine.JobPending)
		c.Join()
		c.Join()
		c.waitFor(ctx, "40", engine.JobFinished)
		c.wantRows("40", 20)
		c.stop(ctx, "39")
		c.wantEmpty(ctx, 2*time.Minute)
	})
}

// A terminal state without a record is settled by the next scan: history is written, nothing runs, all is cleaned up.
// It is Z11 of zetaRows.
func TestTerminalJobWithoutRecordIsSettled(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "41", enginetest.Spec{Name: "zombie", Rows: 10})
		c.waitFor(ctx, "41", engine.JobFinished)
		time.Sleep(time.Second)
		c.remove(ctx, "41", engine.MapPendingJobCleanup, engine.MapFinishedJobState)
		c.Kill(c.Master())
		time.Sleep(2 * time.Second)
		if v := c.info(ctx, "41"); v.Status != engine.JobFinished || v.JobName != "zombie" || v.Metrics.SinkRows != 10 {
			t.Errorf("rebuilt: %+v", v)
		}
		if o := c.overview(ctx); o.Finished != 1 || o.Running != 0 || c.Output.Attempts("41") != 1 {
			t.Errorf("overview = %+v, %d attempts", o, c.Output.Attempts("41"))
		}
		c.wantEmpty(ctx, 3*time.Minute)
	})
}

// A job that a deposed master still accepted is found by a later scan of its successor.
func TestJobOfDeposedMasterIsFound(t *testing.T) {
	var late atomic.Bool
	opts := enginetest.Options{Txn: func(_ string, txn engine.Txn) enginetest.Fault {
		if len(txn.If) == 5 && len(txn.Put) == 3 && late.CompareAndSwap(false, true) {
			return enginetest.LostLate // the submit lands when the next master has already scanned
		}
		return enginetest.NoFault
	}}
	onGrid(t, opts, func(ctx context.Context, c *cluster) {
		time.Sleep(20 * time.Millisecond)
		old := c.Service(c.Master())
		time.AfterFunc(4*time.Millisecond, c.Depose)
		done, cancel := context.WithTimeout(ctx, 6*time.Millisecond)
		defer cancel()
		spec := enginetest.Spec{Rows: 10}
		if _, err := old.Submit(done, engine.SubmitRequest{JobID: "42", Config: spec.JSON()}); !errors.Is(err, engine.ErrIndeterminate) {
			t.Fatalf("Submit = %v, want ErrIndeterminate", err)
		}
		time.Sleep(10 * time.Second)
		c.waitFor(ctx, "42", engine.JobFinished)
		c.wantRows("42", 10)
	})
}

// I23: ended jobs are kept for a time and up to a number.
// It is Z20 of zetaRows.
func TestHistoryIsBounded(t *testing.T) {
	opts := enginetest.Options{Tune: func(cfg *engine.Config) {
		cfg.HistoryMax, cfg.HistoryTTL, cfg.StateCleanupDelay = 5, 5*time.Minute, 10*time.Second
	}}
	onGrid(t, opts, func(ctx context.Context, c *cluster) {
		for i := range 12 {
			id := fmt.Sprint(500 + i)
			c.submit(ctx, id, enginetest.Spec{Rows: 1})
			c.waitFor(ctx, id, engine.JobFinished)
		}
		c.wantEmpty(ctx, 2*time.Minute)
		time.Sleep(time.Minute)
		finished := try(ctx, c, func(s *engine.Service) ([]engine.JobView, error) { return s.Finished(ctx, engine.JobFinished) })
		if len(finished) != 5 || finished[0].JobID != "511" {
			t.Errorf("%d jobs in the history", len(finished))
		}
		time.Sleep(5 * time.Minute)
		if o := c.overview(ctx); o.Finished != 0 {
			t.Errorf("%d jobs in the history after its TTL", o.Finished)
		}
	})
}

func TestConfigValidate(t *testing.T) {
	if err := engine.DefaultConfig().Validate(); err == nil {
		t.Error("a config without Store, Cluster and Parse is valid")
	}
	if _, err := engine.New(engine.Config{}); err == nil {
		t.Error("New took an empty config")
	}
}
