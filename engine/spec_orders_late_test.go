package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine/config"
)

// I1, I13: an order to start a task that comes late, for a job that has moved on, is answered with "not known here", and nothing starts.
func TestSpecLateOrders(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		ctx, stop := context.WithCancel(context.Background())
		ran := make(chan struct{})
		go func() { _ = a.svc.Run(ctx); close(ran) }()
		inc := r.state().Incarnation
		late := func(when string, incarnation string, attempts ...int) {
			t.Helper()
			for _, attempt := range attempts {
				ans, err := a.svc.worker.order(ctx, orderRequest{JobID: rigJob, Incarnation: incarnation, Term: 9,
					Tasks: []taskRef{{Pipeline: 1, Source: 1, Attempt: attempt}}})
				if err != nil || !slices.Equal(ans.Tasks, []taskAnswer{answerUnknown}) {
					t.Errorf("%s: an order for attempt %d was answered %v, %v", when, attempt, ans.Tasks, err)
				}
			}
		}
		late("meant for another worker", inc, 1)
		late("of another attempt", inc, 0, 2)
		late("of another incarnation", "long ago", 1)
		<-a.observe()
		late("after the end", inc, 1, 2)
		time.Sleep(2 * DefaultConfig().StateCleanupDelay)
		if r.state() != nil {
			t.Error("not cleaned up")
		}
		late("after the cleanup", inc, 1, 2)
		if n := len(a.svc.worker.list(starting)) + len(a.svc.worker.list(running)); n != 0 {
			t.Errorf("%d tasks run", n)
		}
		stop()
		<-ran
		a.leave()
	})
}

// A job of the master's own term that nobody drives, since the answer to its submit was lost, is found by the next scan.
func TestSpecOwnJobIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, JobFailed)
		a := r.seat("a")
		a.grant(1)
		info := jobInfo{Incarnation: "x", Name: "n", Config: []byte("{}"), CreatedMs: 1}
		err := update(context.Background(), r.store, rigJob, func(s snapshot) (Txn, error) {
			return submitTxn(s, info, newState(info, r.plan(), 1), 1, time.Second)
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * rescanEvery)
		if a.driver() == nil {
			t.Error("nobody drives the job")
		}
		a.leave()
	})
}

// I11: a cleanup names the incarnation, and so touches nothing of another one.
// It is ZD of zetaRows.
func TestSpecCleanupNamesTheIncarnation(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		inc := r.state().Incarnation
		if err := a.svc.worker.cleanup(context.Background(), cleanupRequest{JobID: rigJob, Incarnation: inc, Term: 1}); err != nil {
			t.Fatal(err)
		}
		if err := a.svc.worker.cleanup(context.Background(), cleanupRequest{JobID: rigJob, Incarnation: "other", Term: 1}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.cleaned, []string{inc}) {
			t.Errorf("the sink was asked to clean up %q, want %q", r.cleaned, inc)
		}
		if r.ends == JobFinished {
			r.held() <- fmt.Errorf("%w: cut off", ErrIndeterminate)
		}
		a.leave()
	})
}

// I4: what a deposed master knows of the members may be old. It judges no task lost any more, and ends no job for that.
func TestSpecDeposedMasterJudgesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, JobFailed)
		r.parse = func() *config.Job {
			j := r.plan()
			j.Pipelines[0].Vertices[0].Parallelism = 2
			return j
		}
		a := r.seat("a")
		a.grant(1)
		a.running()
		heal := r.store.cutOff("a", fmt.Errorf("%w: cut off", ErrRetryable))
		go func() { _ = a.report(TaskFinished, "") }() // of one task of two
		synctest.Wait()
		a.revoke()
		r.mu.Lock()
		r.lonely = true
		r.mu.Unlock()
		synctest.Wait()
		heal()
		<-a.leads
		if st := r.state(); st.Status != JobRunning || r.store.ends() != 0 {
			t.Errorf("the job is %s: %s", st.Status, st.Cause)
		}
	})
}
