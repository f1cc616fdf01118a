package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine/config"
)

// The scenarios of the life cycle's specification, by their numbers. A runner there is the coordinator's driver here, a process is a driver of
// one term, and "suspended" is a live job that nobody drives.

func short(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// status asks this member, and says whether it answered.
func (s *seat) status() (JobView, error) {
	ctx, cancel := short(100 * time.Millisecond)
	defer cancel()
	return s.svc.Info(ctx, rigJob)
}

func (s *seat) wantView() {
	s.t.Helper()
	if v, err := s.status(); err != nil || v.Status != s.ends {
		s.t.Errorf("the member shows %s, %v; want %s", v.Status, err, s.ends)
	}
}

// T1, S6: observed and stored while leading. What comes later changes nothing.
func TestSpecT01EndWhileLeading(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		if err := <-a.observe(); err != nil {
			t.Fatal(err)
		}
		r.wantEnd()
		for term := uint64(2); term < 5; term++ {
			a.leave()
			a.grant(term)
			a.wantView()
		}
		a.leave()
		r.wantEnd()
	})
}

// T8, S3, S4: while the close of a term is pending nothing is declared, and what is observed then is its outcome.
func TestSpecT08NothingIsDeclaredBeforeTheCloseSettles(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		settle := a.occupy()
		a.revoke()
		synctest.Wait()
		if st := r.state(); st.Status.Final() || r.stored().record != nil {
			t.Errorf("declared %s before the close settled", st.Status)
		}
		heard := a.observe()
		if a.over() {
			t.Error("the term is over while a call of it is still out")
		}
		settle()
		if err := <-heard; err != nil {
			t.Errorf("the observation was answered %v", err)
		}
		if err := <-a.leads; err != nil {
			t.Fatal(err)
		}
		r.wantEnd()
	})
}

// T10: the last call of the term fails. An observed end is stored all the same; without one the job stays live.
func TestSpecT10CloseSettlesWithAnError(t *testing.T) {
	for _, observed := range []bool{true, false} {
		onRig(t, func(t *testing.T, r *rig, a *seat) {
			gate := r.store.holdEnd()
			slow := make(chan struct{})
			a.driver().begin(lineKey{kind: -1}, func(*line) ([]observation, bool) { <-slow; return nil, false })
			if observed {
				a.observe()
			}
			a.revoke()
			close(slow)
			gate.pass(turnAway)
			if !observed && r.ends == JobFinished {
				r.held() <- fmt.Errorf("%w: cut off", ErrIndeterminate) // the call for the commit is the last one
			}
			if err := <-a.leads; err != nil {
				t.Fatal(err)
			}
			if observed {
				r.wantEnd()
			} else if st := r.state(); st.Status.Final() || r.store.ends() != 0 {
				t.Errorf("nothing was observed, and the job is %s", st.Status)
			}
		})
	}
}

// T11: what comes after the term has closed is refused to its sender, who keeps it, and nothing is stored. It can only be a report: the answers to
// the term's own calls are waited for.
func TestSpecT11ObservationAfterTheClose(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		a.revoke()
		if r.ends == JobFinished {
			if a.over() {
				t.Fatal("the term closed before the answer to its commit was there")
			}
			<-a.observe()
			<-a.leads
			r.wantEnd()
			return
		}
		<-a.leads
		if err := <-a.observe(); !errors.Is(err, ErrRetryable) {
			t.Errorf("a report after the close was answered %v, want ErrRetryable", err)
		}
		if r.store.ends() != 0 || r.state().Status.Final() {
			t.Errorf("the job is %s without a master", r.state().Status)
		}
		a.grant(2)
		if err := <-a.observe(); err != nil {
			t.Errorf("the next term answered %v", err)
		}
		a.leave()
		r.wantEnd()
	})
}

// T12, S1, S12: the first end stays, whatever is reported after it; those who were told may call back at once.
func TestSpecT12SecondEndIsNoEnd(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		if err := <-a.observe(); err != nil {
			t.Fatal(err)
		}
		before := r.stored()
		for _, s := range []TaskStatus{TaskFailed, TaskFinished, TaskCanceled} {
			if err := a.report(s, "too late"); err != nil {
				t.Errorf("a late report of %s was answered %v, want a no-op", s, err)
			}
		}
		after := r.stored()
		if !bytes.Equal(encode(before.state), encode(after.state)) {
			t.Errorf("the state changed: %+v", after.state)
		}
		a.leave()
		r.wantEnd()
	})
}

// T13, S2: a lease that comes and goes makes one new driver, of the new term, after the old one has ended; the task is not started again.
func TestSpecT13RegrantWithoutAnEnd(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		old := a.driver()
		settle := a.occupy()
		a.revoke()
		synctest.Wait()
		if err := a.svc.Lead(context.Background(), 2); err == nil {
			t.Error("a second term began while the first was closing")
		}
		if r.ends == JobFinished {
			r.held() <- fmt.Errorf("%w: cut off", ErrIndeterminate)
		}
		settle()
		<-a.leads
		a.grant(2)
		d := a.driver()
		if d == nil || d == old || r.state().Term != 2 || !old.closed {
			t.Fatalf("driver %p, old %p (closed %v), term %d", d, old, old.closed, r.state().Term)
		}
		<-a.observe()
		time.Sleep(time.Second)
		a.leave()
		r.wantEnd()
	})
}

// T15, I26: a thousand terms in a row: never two at once, and the chain drains.
func TestSpecT15ThousandTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, JobFailed)
		r.impatient = true
		a := r.seat("a")
		a.grant(1)
		a.running()
		rng := rand.New(rand.NewPCG(15, 15))
		for term := uint64(2); term <= 1000; term++ {
			a.revoke()
			if d := rng.IntN(3); d > 0 {
				time.Sleep(time.Duration(d) * time.Millisecond)
			}
			<-a.leads
			a.grant(term)
		}
		if got := r.state(); got.Term != 1000 || got.disturbed() {
			t.Errorf("state %+v", got)
		}
		<-a.observe()
		a.leave()
		r.wantEnd()
	})
}

// disturbed reports whether the job lost its only attempt on the way.
func (s *jobState) disturbed() bool { return s.restarts() != 0 || s.Pipelines[0].Tasks[0].Attempt != 1 }

// T16, T19: a term without jobs ends at once; one that is granted after the close does nothing.
func TestSpecT16CloseWithoutAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, JobFailed)
		a := r.seat("a")
		a.grant(1)
		a.leave()
		if len(r.store.seen) != 0 {
			t.Errorf("%d transactions of nothing", len(r.store.seen))
		}
	})
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		if r.ends == JobFinished {
			r.held() <- fmt.Errorf("%w: cut off", ErrIndeterminate)
		}
		a.leave()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		before := len(r.store.seen)
		if err := a.svc.Lead(ended, 2); err != nil {
			t.Error(err)
		}
		if r.state().Term != 1 || len(r.store.seen) != before {
			t.Errorf("a term that is over before it begins took the job over: %+v", r.state())
		}
	})
}

// T17, S9: closing twice and from several sides at once is closing once.
func TestSpecT17CloseTwice(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		ran := make(chan struct{})
		go func() { _ = a.svc.Run(ctx); close(ran) }()
		<-a.observe()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(a.revoke)
			wg.Go(stop)
		}
		wg.Wait()
		<-ran
		if err := <-a.leads; err != nil {
			t.Error(err)
		}
		r.wantEnd()
	})
}

// T18, I4: a term that ends without an observation leaves the job as it was, for the next.
func TestSpecT18RevokeAndCloseWithoutAnEnd(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		before := r.stored()
		if r.ends == JobFinished {
			r.held() <- fmt.Errorf("%w: cut off", ErrIndeterminate)
		}
		a.leave()
		after := r.stored()
		if !bytes.Equal(encode(before.state), encode(after.state)) || after.record != nil || after.history != nil || after.info == nil {
			t.Errorf("the job changed: %+v", after.state)
		}
	})
}

// T20, S11, S15, I13: a driver of an older term has no effect any more, by its inbox nor by its last will.
func TestSpecT20OlderTermHasNoEffect(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		old := a.driver()
		if r.ends == JobFinished {
			r.held() <- fmt.Errorf("%w: cut off", ErrIndeterminate)
		}
		a.leave()
		a.grant(2)
		time.Sleep(time.Millisecond)
		before := r.stored()
		late := observation{kind: obsEnded, ref: taskRef{Pipeline: 1, Source: 1, Attempt: 1}, status: TaskFailed, err: "of the old term"}
		if err := old.deliver(context.Background(), late); !errors.Is(err, ErrRetryable) {
			t.Errorf("the old driver answered %v", err)
		}
		old.inbox = append(old.inbox, delivery{obs: late})
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if err := old.lastWill(ended); !errors.Is(err, errNewerTerm) {
			t.Errorf("its last will = %v, want errNewerTerm", err)
		}
		if after := r.stored(); !bytes.Equal(encode(before.state), encode(after.state)) || after.record != nil {
			t.Errorf("the old term changed the state: %+v", after.state)
		}
		<-a.observe()
		time.Sleep(3 * time.Second)
		a.leave()
		r.wantEnd()
		if cause := r.state().Cause; strings.Contains(cause, "old term") {
			t.Errorf("cause %q", cause)
		}
	})
}

// T21, S8: no second term begins while one is there, so none can be made while a result is pending.
func TestSpecT21NoTermBesideAnother(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		settle := a.occupy()
		a.revoke()
		a.observe()
		synctest.Wait()
		d := a.driver()
		for _, term := range []uint64{1, 2, 3} {
			if err := a.svc.Lead(context.Background(), term); err == nil {
				t.Errorf("term %d began beside term 1", term)
			}
		}
		if a.driver() != d {
			t.Error("another driver came")
		}
		settle()
		<-a.leads
		r.wantEnd()
		if err := a.svc.Lead(context.Background(), 1); err == nil {
			t.Error("an old term began again")
		}
	})
}

// T22: a second report of the same term, while the first is being stored by a term that closes: the first one counts.
func TestSpecT22SecondReportWhileTheFirstIsFlushed(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		settle := a.occupy()
		gate := r.store.holdEnd()
		a.revoke()
		first := a.observe()
		settle()
		if !gate.holds() {
			t.Fatal("the end is not being written")
		}
		second := make(chan error, 1)
		go func() { second <- a.report(TaskFailed, "the second one") }()
		synctest.Wait()
		gate.pass(letThrough)
		<-a.leads
		if err := <-first; err != nil {
			t.Errorf("the first was answered %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("the second was answered %v, want a no-op", err)
		}
		r.wantEnd()
		if cause := r.state().Cause; strings.Contains(cause, "second") {
			t.Errorf("cause %q", cause)
		}
	})
}

// T23, I12, I14: a master that is cut off from the store has observed an end; the next takes the job over. When the old one is back, its end
// loses against the newer term.
func TestSpecT23CutOffMasterLoses(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		b := r.seat("b")
		heal := r.store.cutOff("a", fmt.Errorf("%w: cut off", ErrRetryable))
		a.observe()
		a.revoke()
		synctest.Wait()
		b.grant(2)
		time.Sleep(100 * time.Millisecond)
		if st := r.state(); st.Term != 2 || st.Status.Final() {
			t.Fatalf("the next master has not taken the job over: %+v", st)
		}
		heal()
		<-a.leads
		if st := r.state(); st.Status.Final() {
			t.Errorf("the old master ended the job of the new one: %+v", st)
		}
		if r.ends == JobFinished {
			r.held() <- nil
		} else if err := <-b.observe(); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		b.leave()
		r.wantEnd()
	})
}

// T24: as T23, but the write had taken before the cut. The next master finds it and runs nothing.
func TestSpecT24CutOffMasterHadWritten(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		b := r.seat("b")
		gate := r.store.holdEnd()
		a.observe()
		heal := r.store.cutOff("a", fmt.Errorf("%w: cut off", ErrRetryable))
		gate.pass(goSilent)
		a.revoke()
		b.grant(2)
		time.Sleep(time.Second)
		if b.driver() != nil || r.store.ends() != 1 {
			t.Errorf("the next master drives a job that has ended (%d commits)", r.store.ends())
		}
		b.wantView()
		heal()
		<-a.leads
		b.leave()
		r.wantEnd()
		for _, o := range r.sent() {
			if o.Term == 2 {
				t.Errorf("term 2 gave the order %+v", o)
			}
		}
	})
}

// T25, S10: a master that cannot read a job's config leaves the job as it is, however long it leads: that is no result, neither while it leads nor after. It
// takes no report that it could not judge. The next master, or the same one when it can read it, brings the job to its end.
func TestSpecT25UnreadableConfigIsNotKept(t *testing.T) {
	for name, who := range map[string]string{"next master": "a", "same master": "b"} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(t *testing.T, r *rig, a *seat) {
				switch r.ends {
				case JobCanceled:
					a.leave()
					return // what a cancel needs is done without the config: see the next test
				case JobFinished:
					r.held() <- fmt.Errorf("%w: cut off", ErrIndeterminate)
				}
				a.leave()
				before := r.state()
				b := r.seat("b")
				var readable atomic.Bool
				b.svc.defs.parse = func([]byte) (*config.Job, error) {
					if readable.Load() {
						return r.plan(), nil
					}
					return nil, errors.New("an option from the future")
				}
				b.grant(2)
				for range 3 {
					time.Sleep(time.Minute)
					if err := b.report(TaskFailed, "broken"); !errors.Is(err, ErrRetryable) {
						t.Errorf("the report was answered %v", err)
					}
				}
				st := r.state()
				if st.Term != 2 || r.stored().record != nil {
					t.Errorf("state %+v, record %+v", st, r.stored().record)
				}
				if st.Term = before.Term; !bytes.Equal(encode(st), encode(before)) {
					t.Errorf("the master that cannot read the config changed the job from %+v to %+v", before, st)
				}
				if v, err := infoLocal(t.Context(), b.svc.leader, rigJob); err != nil || !strings.Contains(v.PendingFor, "an option from the future") {
					t.Errorf("shown as %+v, %v", v, err)
				}
				last := b
				if readable.Store(true); who == "a" {
					b.leave()
					last = a
					a.grant(3)
				}
				time.Sleep(12 * time.Second)
				<-last.observe()
				time.Sleep(3 * time.Second)
				last.leave()
				r.wantEnd()
			})
		})
	}
}

// T25: a job whose config the master cannot read can be canceled.
func TestSpecT25UnreadableConfigCanBeCanceled(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		if r.ends != JobCanceled {
			if r.ends == JobFinished {
				r.held() <- nil
			}
			a.leave()
			return
		}
		a.leave()
		b := r.seat("b")
		b.svc.defs.parse = func([]byte) (*config.Job, error) { return nil, errors.New("an option from the future") }
		b.grant(2)
		time.Sleep(10 * time.Second)
		heard := b.observe()
		time.Sleep(3 * time.Second)
		<-heard
		b.leave()
		r.wantEnd()
	})
}

// T26: the store answers a driver with an error that it does not know. The job stays, is tried again, and goes on.
func TestSpecT26DriverInTrouble(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		heal := r.store.cutOff("a", errors.New("the disk is on fire"))
		heard := a.observe()
		time.Sleep(time.Minute)
		if a.driver() == nil || r.state().Status.Final() || r.stored().info == nil {
			t.Errorf("driver %v, state %+v", a.driver(), r.state())
		}
		heal()
		time.Sleep(10 * time.Second)
		if err := <-heard; err != nil && !again(err) {
			t.Errorf("the report was answered %v", err)
		}
		a.leave()
		r.wantEnd()
	})
}

// T27, I22: the store cannot be read when the term begins. Nothing is concluded from that; when it can, the job is driven.
func TestSpecT27StoreCannotBeReadAtTheGrant(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		if r.ends == JobFinished {
			r.held() <- fmt.Errorf("%w: cut off", ErrIndeterminate)
		}
		a.leave()
		before := r.stored()
		heal := r.store.cutOff("a", fmt.Errorf("%w: a partition is lost", ErrRetryable))
		a.grant(2)
		time.Sleep(10 * time.Second)
		if a.driver() != nil || a.svc.leader.scanned.Load() {
			t.Error("the scan that saw nothing counts as one that saw all")
		}
		if after := r.stored(); !bytes.Equal(encode(before.state), encode(after.state)) {
			t.Errorf("the state changed: %+v", after.state)
		}
		heal()
		time.Sleep(time.Second)
		if a.driver() == nil {
			t.Fatal("the job is not driven")
		}
		<-a.observe()
		time.Sleep(3 * time.Second)
		a.leave()
		r.wantEnd()
	})
}

// T28, T32: an end that is stored is what every later term shows, and nothing is driven; also when only the history is left.
func TestSpecT28StoredEndIsShown(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		<-a.observe()
		first, err := a.status()
		if err != nil {
			t.Fatal(err)
		}
		a.leave()
		b := r.seat("b")
		for term := uint64(2); term < 4; term++ {
			b.grant(term)
			if b.driver() != nil {
				t.Error("a job that has ended is driven")
			}
			v, err := b.status()
			if err != nil || v.Status != r.ends || !v.FinishTime.Equal(first.FinishTime) || v.ErrorMsg != first.ErrorMsg || v.Incarnation != first.Incarnation {
				t.Errorf("term %d shows %+v, %v; want %+v", term, v, err, first)
			}
			time.Sleep(2 * DefaultConfig().StateCleanupDelay)
			b.leave()
		}
		if snap := r.stored(); snap.state != nil || snap.info != nil || snap.record != nil || snap.history == nil {
			t.Errorf("after the cleanup: %+v", snap)
		}
		r.wantEnd()
	})
}

// T29, S13, I25: a cancel that comes before anything runs is shown at once, survives the term and is carried out by the next.
func TestSpecT29CancelBeforeAnythingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, JobCanceled)
		a := r.seat("a")
		g, first := newGate(), atomic.Bool{}
		r.store.gate = func(_ string, t Txn) *gate {
			if puts(t, MapRunningJobInfo) || !puts(t, MapStateTimestamps) || first.Swap(true) {
				return nil
			}
			return g // the first step of the driver
		}
		a.grant(1)
		ctx, cancel := short(time.Minute)
		defer cancel()
		if _, err := a.svc.Submit(ctx, SubmitRequest{JobID: rigJob, Config: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if !g.holds() {
			t.Fatal("the driver does not begin")
		}
		if err := a.svc.Stop(ctx, StopRequest{JobID: rigJob}); err != nil {
			t.Fatal(err)
		}
		if v, err := a.status(); err != nil || v.Status != JobCanceling {
			t.Errorf("shown as %s, %v", v.Status, err)
		}
		a.revoke()
		g.pass(letThrough)
		<-a.leads
		if st := r.state(); !st.Cancel || st.Status.Final() {
			t.Errorf("after the term: %+v", st)
		}
		a.grant(2)
		time.Sleep(time.Second)
		a.wantView()
		a.leave()
		if st := r.state(); st.Status != JobCanceled || len(r.sent()) != 0 {
			t.Errorf("the job is %s after the orders %v", st.Status, r.sent())
		}
	})
}

// T30: whoever waits for a master gets an error in time, and the next term answers.
func TestSpecT30NobodyHangs(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		gate := r.store.holdEnd()
		heal := func() {}
		heard := a.observe()
		if r.ends != JobFinished {
			heal = r.store.cutOff("a", fmt.Errorf("%w: cut off", ErrRetryable))
		}
		a.revoke()
		gate.pass(turnAway)
		start := time.Now()
		if _, err := a.svc.Info(context.Background(), rigJob); !errors.Is(err, ErrRetryable) {
			t.Errorf("Info without a master = %v", err)
		}
		if err := a.svc.Stop(context.Background(), StopRequest{JobID: rigJob}); !errors.Is(err, ErrRetryable) {
			t.Errorf("Stop without a master = %v", err)
		}
		if d := time.Since(start); d > 3*DefaultConfig().ForwardTimeout {
			t.Errorf("two requests took %v", d)
		}
		if err := <-heard; err != nil && !again(err) {
			t.Errorf("the report was answered %v", err)
		}
		<-a.leads
		heal()
		a.grant(2)
		if _, err := a.status(); err != nil {
			t.Errorf("the next term answers %v", err)
		}
		if r.ends != JobFinished {
			<-a.observe()
		}
		a.leave()
		r.wantEnd()
	})
}

// T31, S14, I3, I6: an end is shown only once it is stored, and from then on nothing else is shown.
func TestSpecT31ShownWhenStored(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		shown := func(when string) {
			t.Helper()
			v, err := a.status()
			if err != nil {
				return // nobody leads
			}
			if stored := r.store.ends() > 0; v.Status.Final() != stored || stored && v.Status != r.ends {
				t.Errorf("%s: shown as %s, stored %v", when, v.Status, stored)
			}
		}
		gate := r.store.holdEnd()
		a.observe()
		if !gate.holds() {
			t.Fatal("the end is not being written")
		}
		shown("being written")
		a.revoke()
		shown("after the revocation")
		gate.pass(goSilent)
		shown("written")
		<-a.leads
		shown("without a master")
		a.grant(2)
		a.wantView()
		shown("in the next term")
		a.leave()
		r.wantEnd()
	})
}

// I13, I15: reports of older attempts, of other tasks, of another incarnation, of a job that is gone and of one that never was are answered as
// no-ops, and change nothing.
func TestSpecStaleReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, JobFailed)
		r.parse = func() *config.Job {
			j := r.plan()
			j.RetryTimes = 5
			return j
		}
		a := r.seat("a")
		a.grant(1)
		a.running()
		if err := a.report(TaskFailed, "the first attempt"); err != nil {
			t.Fatal(err)
		}
		r.await(func(st *jobState) bool {
			return st.Pipelines[0].Tasks[0].Attempt == 2 && st.Pipelines[0].Tasks[0].Status == TaskRunning
		})
		before := r.stored()
		inc := before.state.Incarnation
		for name, rep := range map[string]report{
			"older attempt":   {Incarnation: inc, Ref: taskRef{Pipeline: 1, Source: 1, Attempt: 1}, Status: TaskFinished},
			"other task":      {Incarnation: inc, Ref: taskRef{Pipeline: 1, Source: 1, Subtask: 7, Attempt: 2}, Status: TaskFailed},
			"other pipeline":  {Incarnation: inc, Ref: taskRef{Pipeline: 3, Source: 1, Attempt: 2}, Status: TaskFailed},
			"old incarnation": {Incarnation: "long ago", Ref: taskRef{Pipeline: 1, Source: 1, Attempt: 2}, Status: TaskFailed},
		} {
			rep.JobID = rigJob
			if err := a.send(rep); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		never := report{JobID: "12345", Incarnation: inc, Ref: taskRef{Pipeline: 1, Source: 1, Attempt: 1}, Status: TaskFailed}
		if err := a.send(never); err != nil {
			t.Errorf("a job that never was: %v", err)
		}
		if after := r.stored(); !bytes.Equal(encode(before.state), encode(after.state)) {
			t.Errorf("the state changed: %+v", after.state)
		}
		if err := a.svc.Stop(context.Background(), StopRequest{JobID: rigJob}); err != nil {
			t.Fatal(err)
		}
		r.await(func(st *jobState) bool { return st.Pipelines[0].Tasks[0].Status == TaskCanceling })
		if err := a.reportOf(2, TaskCanceled, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * DefaultConfig().StateCleanupDelay)
		if snap := r.stored(); snap.state != nil || snap.record != nil {
			t.Fatalf("not cleaned up: %+v", snap)
		}
		for attempt := range 4 {
			if err := a.send(report{JobID: rigJob, Incarnation: inc, Ref: taskRef{Pipeline: 1, Source: 1, Attempt: attempt}, Status: TaskFinished}); err != nil {
				t.Errorf("after the cleanup, attempt %d: %v", attempt, err)
			}
		}
		if snap := r.stored(); snap.state != nil || snap.times != nil || snap.info != nil || snap.record != nil {
			t.Errorf("a late report brought entries back: %+v", snap)
		}
		a.leave()
		if cell, ok := r.store.entries[keyOf(MapRunningJobState, "12345")]; ok && cell.Version != 0 {
			t.Error("a report made a job")
		}
	})
}
