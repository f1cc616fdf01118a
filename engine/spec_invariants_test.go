package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// I5: before the end is stored nothing of the job is removed anywhere.
func TestSpecI05NothingIsRemovedBeforeTheCommit(t *testing.T) {
	var early, ended atomic.Bool
	var grid atomic.Pointer[cluster]
	opts := enginetest.Options{OnTxn: func(_ string, txn engine.Txn, done bool) {
		c := grid.Load()
		if c == nil || !done {
			return
		}
		if !ended.Load() && (c.Output.Cleanups("60") > 0 || len(txn.Delete) > 0) {
			early.Store(true)
		}
		if commitsEnd(txn) {
			ended.Store(true)
		}
	}}
	onGrid(t, opts, func(ctx context.Context, c *cluster) {
		grid.Store(c)
		spec := enginetest.Spec{Parallelism: 2, Rows: 40, Pause: 10 * ms, FailAt: 20, FailAttempts: 1, Retries: 5}
		c.submit(ctx, "60", spec)
		time.Sleep(100 * time.Millisecond)
		c.Kill(c.Master())
		c.waitFor(ctx, "60", engine.JobFinished)
		c.wantRows("60", spec.Want())
		c.wantEmpty(ctx, 3*time.Minute)
	})
	if early.Load() || !ended.Load() {
		t.Errorf("something was removed before the end: %v; the end was seen: %v", early.Load(), ended.Load())
	}
}

// I7: the stored end answers everything, after any number of masters, from the tombstone and from the history.
func TestSpecI07ResultWithTheStatus(t *testing.T) {
	onGrid(t, enginetest.Options{Members: 5}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "61", enginetest.Spec{Name: "seven", Parallelism: 2, Rows: 20, Pause: ms, FailAt: 11, FailAttempts: 9, Retries: 1, RetryAfter: 10 * ms})
		first := c.waitFor(ctx, "61", engine.JobFailed)
		if first.ErrorMsg == "" || first.Restarts != 1 || first.FinishTime.IsZero() || first.Metrics.SourceRows == 0 {
			t.Fatalf("the end says too little: %+v", first)
		}
		same := func(when string) {
			t.Helper()
			v := c.info(ctx, "61")
			if v.Status != first.Status || v.ErrorMsg != first.ErrorMsg || !v.FinishTime.Equal(first.FinishTime) || v.Restarts != first.Restarts ||
				v.Metrics.SourceRows != first.Metrics.SourceRows || v.JobName != "seven" || v.Incarnation != first.Incarnation {
				t.Errorf("%s: %+v, want %+v", when, v, first)
			}
		}
		for i := range 2 {
			c.Kill(c.Master())
			time.Sleep(800 * time.Millisecond)
			same(fmt.Sprint("after master ", i+1))
		}
		c.wantEmpty(ctx, 3*time.Minute)
		same("from the history")
	})
}

// I11: an id whose history has expired may be used again; the new incarnation has nothing to do with the old one, and a master of long ago cannot
// touch it.
func TestSpecI11SecondIncarnation(t *testing.T) {
	opts := enginetest.Options{Members: 4, Tune: func(cfg *engine.Config) {
		cfg.HistoryTTL, cfg.StateCleanupDelay = 20*time.Second, 5*time.Second
	}}
	onGrid(t, opts, func(ctx context.Context, c *cluster) {
		seen := map[string]bool{}
		for round := range 4 {
			spec := enginetest.Spec{Rows: 5 + round, Pause: 10 * ms}
			res := try(ctx, c, func(s *engine.Service) (engine.SubmitResult, error) {
				return s.Submit(ctx, engine.SubmitRequest{JobID: "62", Config: spec.JSON(), SubmitKey: fmt.Sprint("round-", round)})
			})
			v := c.waitFor(ctx, res.JobID, engine.JobFinished)
			if seen[v.Incarnation] || v.Metrics.SinkRows != int64(spec.Rows) {
				t.Errorf("round %d: incarnation %s (seen %v), %d rows", round, v.Incarnation, seen[v.Incarnation], v.Metrics.SinkRows)
			}
			seen[v.Incarnation] = true
			c.Depose()
			c.wantEmpty(ctx, time.Minute)
			time.Sleep(30 * time.Second)
		}
		if got := c.rules.Ends(); got != 4 {
			t.Errorf("%d incarnations ended, want 4", got)
		}
	})
}

// I19: many submits of one id at once, on all members, make one job; those of another definition hear that it runs.
func TestSpecI19OneJobOfManySubmits(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		spec := enginetest.Spec{Rows: 20, Pause: 5 * ms}
		var wg sync.WaitGroup
		var accepted atomic.Int32
		for i := range 12 {
			id := append(c.Workers(), c.Master())[i%3]
			wg.Go(func() {
				res, err := c.Service(id).Submit(ctx, engine.SubmitRequest{JobID: "63", Config: spec.JSON(), SubmitKey: fmt.Sprint("key", i%2)})
				if err != nil || res.JobID != "63" {
					t.Errorf("submit %d: %+v, %v", i, res, err)
					return
				}
				accepted.Add(1)
			})
		}
		wg.Wait()
		c.waitFor(ctx, "63", engine.JobFinished)
		c.wantRows("63", 20)
		if n := c.Output.Attempts("63"); n != 1 || accepted.Load() != 12 {
			t.Errorf("%d attempts after %d accepted submits", n, accepted.Load())
		}
		c.wantEmpty(ctx, 3*time.Minute)
		if c.rules.Ends() != 1 {
			t.Errorf("%d incarnations", c.rules.Ends())
		}
	})
}

// I20, I22: a submit that was acknowledged survives its master; one that was refused is nowhere; one whose outcome is unknown is there with all its
// entries or with none.
func TestSpecI20AcceptedMeansDurable(t *testing.T) {
	for _, fault := range []enginetest.Fault{enginetest.NoFault, enginetest.LostBefore, enginetest.LostAfter, enginetest.LostLate, enginetest.Refused} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			var grid atomic.Pointer[cluster]
			var once atomic.Bool
			opts := enginetest.Options{Txn: func(member string, txn engine.Txn) enginetest.Fault {
				c := grid.Load()
				if c == nil || !isSubmit(txn) || once.Swap(true) {
					return enginetest.NoFault
				}
				time.AfterFunc(3*time.Millisecond, func() { c.Kill(member) })
				return fault
			}}
			onGrid(t, opts, func(ctx context.Context, c *cluster) {
				grid.Store(c)
				svc := c.Service(c.Master()) // the member that is going to die is asked itself
				brief, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
				defer cancel()
				spec := enginetest.Spec{Rows: 3}
				_, err := svc.Submit(brief, engine.SubmitRequest{JobID: "64", Config: spec.JSON(), SubmitKey: "once"})
				time.Sleep(2 * time.Second)
				_, there := c.find(ctx, "64")
				switch {
				case err == nil && !there:
					t.Error("an acknowledged job is gone")
				case err != nil && !errors.Is(err, engine.ErrRetryable) && !errors.Is(err, engine.ErrIndeterminate):
					t.Errorf("Submit = %v", err)
				case errors.Is(err, engine.ErrRetryable) && there:
					t.Error("a submit that was refused is there")
				}
				c.submitAgain(ctx, "64", spec, "once")
				c.waitFor(ctx, "64", engine.JobFinished)
				c.wantRows("64", 3)
				c.wantEmpty(ctx, 3*time.Minute)
				if c.rules.Ends() != 1 {
					t.Errorf("%d incarnations", c.rules.Ends())
				}
			})
		})
	}
}

// find reports whether a job is known at all.
func (c *cluster) find(ctx context.Context, id string) (engine.JobView, bool) {
	c.t.Helper()
	type found struct {
		v  engine.JobView
		ok bool
	}
	f := try(ctx, c, func(s *engine.Service) (found, error) {
		v, err := s.Info(ctx, id)
		if errors.Is(err, engine.ErrNotFound) {
			return found{}, nil
		}
		return found{v, true}, err
	})
	return f.v, f.ok
}

func (c *cluster) submitAgain(ctx context.Context, id string, s enginetest.Spec, key string) {
	c.t.Helper()
	try(ctx, c, func(svc *engine.Service) (engine.SubmitResult, error) {
		return svc.Submit(ctx, engine.SubmitRequest{JobID: id, Config: s.JSON(), SubmitKey: key})
	})
}

// I21: a job whose entries nobody can read is kept as it is, and holds up no other.
func TestSpecI21OneBadJobHoldsUpNoOther(t *testing.T) {
	for _, broken := range []string{engine.MapRunningJobInfo, engine.MapRunningJobState, engine.MapPendingJobCleanup, engine.MapFinishedJobState} {
		t.Run(broken, func(t *testing.T) {
			onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
				spec := enginetest.Spec{Rows: 100, Pause: 20 * ms, Retries: 3}
				for i := range 4 {
					c.submit(ctx, fmt.Sprint(70+i), spec)
					c.waitFor(ctx, fmt.Sprint(70+i), engine.JobRunning)
				}
				c.rules.Off()
				key := engine.Key{Map: broken, Place: "99", Key: "99"}
				if res, err := c.Store.Txn(ctx, engine.Txn{Put: []engine.Put{{Key: key, Value: []byte{0x93, 0xc1, 0xff}}}}); err != nil || !res.Applied {
					t.Fatal(res, err)
				}
				c.Kill(c.Master())
				time.Sleep(time.Second)
				if got, want := c.running(ctx), 4; len(got) != want && broken != engine.MapRunningJobState || !slices.Contains(got, "73") {
					t.Errorf("running: %v", got)
				} else if broken == engine.MapRunningJobState && !slices.Contains(got, "99") {
					t.Errorf("the job that cannot be read is left out: %v", got)
				}
				cleanups := try(ctx, c, func(s *engine.Service) ([]engine.CleanupView, error) { return s.Cleanups(ctx) })
				if broken == engine.MapPendingJobCleanup && (len(cleanups) != 1 || cleanups[0].LastError == "") {
					t.Errorf("cleanups: %+v", cleanups)
				}
				c.overview(ctx)
				fin := try(ctx, c, func(s *engine.Service) ([]engine.JobView, error) { return s.Finished(ctx, "") })
				if broken == engine.MapFinishedJobState && (len(fin) != 1 || fin[0].JobID != "99") {
					t.Errorf("ended: %+v", fin)
				}
				for i := range 4 {
					id := fmt.Sprint(70 + i)
					c.waitFor(ctx, id, engine.JobFinished)
					c.wantRows(id, spec.Want())
				}
				time.Sleep(2 * time.Minute)
				if e, err := c.Store.Get(ctx, key); err != nil || e.Version == 0 {
					t.Errorf("the unreadable entry was dropped: %+v, %v", e, err)
				}
				for _, m := range liveMaps {
					if n, _ := c.Store.Size(ctx, m); n > 1 || n == 1 && m != broken {
						t.Errorf("%d entries in %s", n, m)
					}
				}
			})
		})
	}
}

// I1 to I26 as far as they can be seen from outside or in what is stored, on jobs of all kinds, under masters that are deposed and killed, members
// that join, cancels, submits that are repeated, ids that are used again, and a store and calls that fail in every way. See [engine.Rules].
func TestSpecRandomFaults(t *testing.T) {
	t.Parallel()
	seeds := uint64(12)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 26))
			var mu sync.Mutex
			opts := enginetest.Options{
				Members: 5,
				Txn:     func(string, engine.Txn) enginetest.Fault { return dice(rng, &mu, 12) },
				Call: func(string, string) enginetest.Fault {
					if f := dice(rng, &mu, 12); f != enginetest.LostLate {
						return f
					}
					return enginetest.NoFault
				},
				Tune: func(cfg *engine.Config) { cfg.StateCleanupDelay, cfg.HistoryTTL = 2*time.Second, time.Hour },
			}
			onGrid(t, opts, func(ctx context.Context, c *cluster) { c.misfortunes(ctx, rand.New(rand.NewPCG(seed, 27))) })
		})
	}
}

// randomSpec is a job of any kind, and the ends to which it may come if it is not canceled.
func randomSpec(rng *rand.Rand) (s enginetest.Spec, ends []engine.JobStatus) {
	s = enginetest.Spec{Pipelines: 1 + rng.IntN(2), Parallelism: 1 + rng.IntN(2), Rows: 5 + rng.IntN(20), Pause: enginetest.Duration(rng.IntN(20)) * ms,
		Retries: 50, RetryAfter: 20 * ms, Local: rng.IntN(3) == 0}
	switch rng.IntN(5) {
	case 0:
		s.FailAt, s.FailAttempts, s.Permanent = 3, 1000, true
		return s, []engine.JobStatus{engine.JobFailed}
	case 1:
		s.Mode = plugin.Streaming
		return s, nil
	case 2:
		s.FailAt, s.FailAttempts = 3, 2
	case 3:
		s.CommitErrors = 2
	}
	return s, []engine.JobStatus{engine.JobFinished}
}

func (c *cluster) misfortunes(ctx context.Context, rng *rand.Rand) {
	c.t.Helper()
	type planned struct {
		id   string
		spec enginetest.Spec
		ends []engine.JobStatus
	}
	var jobs []planned
	kills := 3
	for i := range 12 {
		p := planned{id: fmt.Sprint(800 + i)}
		p.spec, p.ends = randomSpec(rng)
		c.submit(ctx, p.id, p.spec)
		if p.ends == nil || rng.IntN(4) == 0 {
			p.ends = append(p.ends, engine.JobCanceled, engine.JobFinished)
			if p.spec.Mode == plugin.Streaming {
				p.ends = p.ends[:1]
			}
			time.AfterFunc(time.Duration(rng.IntN(300))*time.Millisecond, func() { c.cancelSomehow(ctx, p.id) })
		}
		jobs = append(jobs, p)
		switch n := rng.IntN(6); {
		case n == 0 && kills > 0:
			kills--
			c.Kill(c.Master())
			c.Join()
		case n == 1:
			c.Depose()
		case n == 2 && kills > 0 && len(c.Workers()) > 2:
			kills--
			c.Kill(c.Workers()[rng.IntN(len(c.Workers()))])
		}
		time.Sleep(time.Duration(rng.IntN(120)) * time.Millisecond)
	}
	for _, p := range jobs {
		v := c.waitFor(ctx, p.id, p.ends...)
		switch v.Status {
		case engine.JobFinished:
			c.wantRows(p.id, p.spec.Want())
		default:
			c.wantRowsAtMost(p.id, p.spec.Want())
		}
	}
	c.wantEmpty(ctx, 10*time.Minute)
	if got := c.running(ctx); len(got) > 0 {
		c.t.Errorf("running: %v", got)
	}
	if o := c.overview(ctx); o.Finished+o.Failed+o.Canceled != len(jobs) || o.Running+o.Pending != 0 || c.rules.Ends() != len(jobs) {
		c.t.Errorf("overview %+v, %d ends, want %d jobs", o, c.rules.Ends(), len(jobs))
	}
}

// wantRowsAtMost checks that a job that did not finish has put no row out twice. (Pipelines commit one by one.)
func (c *cluster) wantRowsAtMost(id string, most int) {
	c.t.Helper()
	if n, twice := c.Output.Rows(id); n > most || twice {
		c.t.Errorf("job %s put out %d rows of %d (twice: %v)", id, n, most, twice)
	}
}

// cancelSomehow asks for a cancel until the answer is definite.
func (c *cluster) cancelSomehow(ctx context.Context, id string) {
	for ctx.Err() == nil {
		err := c.Any().Stop(ctx, engine.StopRequest{JobID: id})
		if !errors.Is(err, engine.ErrRetryable) && !errors.Is(err, engine.ErrIndeterminate) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// I10, I3: while jobs of all ends come and go, no list of any member ever shows one as running that had been shown as ended, and none changes its end.
func TestSpecI10EndedJobsAreNeverListed(t *testing.T) {
	t.Parallel()
	onGrid(t, enginetest.Options{Members: 5, Tune: func(cfg *engine.Config) { cfg.StateCleanupDelay = 3 * time.Second }}, func(ctx context.Context, c *cluster) {
		var mu sync.Mutex
		ended := map[string]engine.JobStatus{}
		poll := func(member string) {
			mu.Lock()
			over := make(map[string]engine.JobStatus, len(ended))
			for id, s := range ended {
				over[id] = s
			}
			mu.Unlock()
			live, err := c.Service(member).Running(ctx)
			if err != nil {
				return
			}
			for _, v := range live {
				if s, ok := over[v.JobID]; ok || v.Status.Final() {
					t.Errorf("%s lists job %s as %s after it was shown as %s", member, v.JobID, v.Status, s)
				}
			}
			fin, err := c.Service(member).Finished(ctx, "")
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, v := range fin {
				if s, ok := ended[v.JobID]; ok && s != v.Status {
					t.Errorf("%s shows job %s as %s after %s", member, v.JobID, v.Status, s)
				}
				ended[v.JobID] = v.Status
			}
			for id := range over {
				if !slices.ContainsFunc(fin, func(v engine.JobView) bool { return v.JobID == id }) {
					t.Errorf("%s does not know any more that job %s ended", member, id)
				}
			}
		}
		done := make(chan struct{})
		var wg sync.WaitGroup
		for _, m := range append(c.Workers(), c.Master())[1:] { // the first lives until the end
			wg.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(7 * time.Millisecond):
						poll(m)
					}
				}
			})
		}
		for i := range 20 {
			c.submit(ctx, fmt.Sprint(900+i), enginetest.Spec{Rows: 5, Pause: 5 * ms, FailAt: 3, FailAttempts: i % 2 * 9, Retries: 0})
			time.Sleep(20 * time.Millisecond)
			if i == 7 || i == 14 {
				c.Depose()
			}
		}
		c.wantEmpty(ctx, time.Minute)
		close(done)
		wg.Wait()
		if len(ended) != 20 {
			t.Errorf("%d jobs were seen to end", len(ended))
		}
	})
}

// I17: a cleanup that fails is tried again, less and less often, for as long as it takes; how often and why is kept, whoever is master; it holds up
// neither other jobs nor a change of masters.
func TestSpecI17CleanupProgress(t *testing.T) {
	onGrid(t, enginetest.Options{Members: 4}, func(ctx context.Context, c *cluster) {
		c.Output.FailCleanups(1 << 20)
		c.submit(ctx, "65", enginetest.Spec{Rows: 5})
		c.waitFor(ctx, "65", engine.JobFinished)
		cleanups := func() engine.CleanupView {
			t.Helper()
			views := try(ctx, c, func(s *engine.Service) ([]engine.CleanupView, error) { return s.Cleanups(ctx) })
			if len(views) != 1 || views[0].LastError == "" {
				t.Fatalf("cleanups = %+v", views)
			}
			return views[0]
		}
		time.Sleep(time.Minute)
		early := cleanups().Attempts
		c.Kill(c.Master())
		time.Sleep(time.Second)
		if kept := cleanups().Attempts; kept < early {
			t.Errorf("%d attempts after the master's death, %d before", kept, early)
		}
		time.Sleep(10 * time.Minute)
		late := cleanups().Attempts
		if early < 4 || early > 60 || late-early < 9 || late-early > 25 {
			t.Errorf("%d attempts in the first minute, %d in the next ten: want growing pauses of at most a minute", early, late-early)
		}
		c.Output.FailCleanups(0)
		c.wantEmpty(ctx, 2*time.Minute)
	})
}
