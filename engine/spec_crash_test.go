package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
)

// crashPoint is a place in the life of a job right after which the master dies.
type crashPoint struct {
	id, what string
	at       func(engine.Txn) bool // a transaction that was applied
	before   bool                  // the master dies before it is applied instead
	ended    bool                  // the end is stored by then: nothing may run any more
}

func puts(t engine.Txn, maps ...string) bool {
	for _, m := range maps {
		if !slices.ContainsFunc(t.Put, func(p engine.Put) bool { return p.Key.Map == m }) {
			return false
		}
	}
	return true
}

func deletes(mapName string) func(engine.Txn) bool {
	return func(t engine.Txn) bool {
		return slices.ContainsFunc(t.Delete, func(k engine.Key) bool { return k.Map == mapName })
	}
}

func isSubmit(t engine.Txn) bool { return puts(t, engine.MapRunningJobInfo) }

// crashPoints are K0 to K10. Info and state are written in one step here, and so are the commit and the cleanup record; K6 where they are apart is
// in TestSpecK6EntriesApart.
func crashPoints() []crashPoint {
	writes := func(want engine.JobStatus, decided bool) func(engine.Txn) bool {
		return func(t engine.Txn) bool {
			status, committing, ok := engine.StateIn(t)
			return ok && status == want && committing == decided
		}
	}
	onlyRecord := func(t engine.Txn) bool { return len(t.Put) == 1 && puts(t, engine.MapPendingJobCleanup) }
	return []crashPoint{
		{id: "K0", what: "submit received", at: isSubmit, before: true},
		{id: "K1", what: "submit written", at: isSubmit},
		{id: "K2", what: "RUNNING written", at: writes(engine.JobRunning, false)},
		{id: "K3", what: "decision written, end not", at: writes(engine.JobRunning, true)},
		{id: "K4", what: "end written", at: commitsEnd, ended: true},
		{id: "K5", what: "history written", at: func(t engine.Txn) bool { return puts(t, engine.MapFinishedJobState) }, ended: true},
		{id: "K7", what: "artefacts removed", at: onlyRecord, ended: true},
		{id: "K8", what: "timestamps removed", at: deletes(engine.MapStateTimestamps), ended: true},
		{id: "K8", what: "state removed", at: deletes(engine.MapRunningJobState), ended: true},
		{id: "K9", what: "info removed", at: deletes(engine.MapRunningJobInfo), ended: true},
		{id: "K10", what: "record removed", at: deletes(engine.MapPendingJobCleanup), ended: true},
	}
}

// killer kills the master that reaches the crash point, and then, if second is above 0, the next one that takes its second-th step on the job.
type killer struct {
	p      crashPoint
	second int

	mu       sync.Mutex
	c        *cluster
	victim   string
	steps    int
	attempts int // that were started when the first master died
}

func (k *killer) bind(c *cluster) { k.mu.Lock(); k.c = c; k.mu.Unlock() }

func (k *killer) before(member string, t engine.Txn) enginetest.Fault {
	if k.p.before && k.p.at(t) && k.strike(member) {
		return enginetest.LostBefore
	}
	return enginetest.NoFault
}

func (k *killer) after(member string, t engine.Txn, done bool) {
	if done && !k.p.before && k.p.at(t) && k.strike(member) {
		return
	}
	k.mu.Lock()
	again := done && k.victim != "" && member != k.victim && k.second > 0
	if again {
		k.steps++
		again = k.steps == k.second
	}
	c := k.c
	k.mu.Unlock()
	if again {
		c.Kill(member)
	}
}

// strike kills the first master, once.
func (k *killer) strike(member string) bool {
	k.mu.Lock()
	if k.victim != "" {
		k.mu.Unlock()
		return false
	}
	k.victim = member
	c := k.c
	k.attempts = c.Output.Attempts("50")
	k.mu.Unlock()
	c.Kill(member)
	return true
}

// K0 to K10, each once with the next master left alone and with it killed in the middle of its work; I1, I7, I8, I16. The job ends FINISHED, its
// rows are there once, what had ended never runs again, and nothing is left.
func TestSpecKMasterDiesAfterEachStep(t *testing.T) {
	for _, p := range crashPoints() {
		for second := range 5 {
			if testing.Short() && second > 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s/%d", p.id, p.what, second), func(t *testing.T) {
				k := &killer{p: p, second: second}
				opts := enginetest.Options{Members: 4, Txn: k.before, OnTxn: k.after}
				onGrid(t, opts, func(ctx context.Context, c *cluster) {
					k.bind(c)
					c.crashAndFinish(ctx, k)
				})
			})
		}
	}
}

func (c *cluster) crashAndFinish(ctx context.Context, k *killer) {
	c.t.Helper()
	spec := enginetest.Spec{Pipelines: 2, Parallelism: 2, Rows: 10, Pause: 2 * ms, Retries: 9, RetryAfter: 10 * ms}
	c.submit(ctx, "50", spec)
	v := c.waitFor(ctx, "50", engine.JobFinished)
	c.wantEmpty(ctx, 10*time.Minute)
	last, o := c.info(ctx, "50"), c.overview(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.victim == "" {
		c.t.Fatalf("nobody died: no transaction is %s", k.p.what)
	}
	c.wantRows("50", spec.Want())
	if n := c.Output.Attempts("50"); k.p.ended && n != k.attempts {
		c.t.Errorf("%d attempts began after the end was stored", n-k.attempts)
	}
	if last.Status != engine.JobFinished || !last.FinishTime.Equal(v.FinishTime) || last.Metrics.SinkRows != int64(spec.Want()) {
		c.t.Errorf("the history says %s at %v with %d rows; shown first was %v", last.Status, last.FinishTime, last.Metrics.SinkRows, v.FinishTime)
	}
	if o.Finished != 1 || o.Running+o.Pending+o.Failed+o.Canceled != 0 {
		c.t.Errorf("overview %+v", o)
	}
	if got := c.rules.Ends(); got != 1 {
		c.t.Errorf("%d incarnations came of one submit", got)
	}
}

// K6, I9: where the entries of one step are apart after all, whichever of them is there alone leads a new master to the job: a state without an
// info, an end without a record, a record alone. (An info without a state: TestJobWithoutStateIsRepaired.)
func TestSpecK6EntriesApart(t *testing.T) {
	running := enginetest.Spec{Rows: 10, Pause: 100 * ms, Retries: 3, RetryAfter: 10 * ms}
	for name, test := range map[string]struct {
		ended bool
		gone  []string
		want  engine.JobStatus
	}{
		"state without info":    {false, []string{engine.MapRunningJobInfo}, engine.JobFailed},
		"state alone":           {false, []string{engine.MapRunningJobInfo, engine.MapStateTimestamps}, engine.JobFailed},
		"end without record":    {true, []string{engine.MapPendingJobCleanup}, engine.JobFinished},
		"end without the rest":  {true, []string{engine.MapPendingJobCleanup, engine.MapRunningJobInfo, engine.MapFinishedJobState}, engine.JobFinished},
		"record and state":      {true, []string{engine.MapRunningJobInfo, engine.MapStateTimestamps}, engine.JobFinished},
		"record alone":          {true, []string{engine.MapRunningJobInfo, engine.MapStateTimestamps, engine.MapRunningJobState}, engine.JobFinished},
		"record, no state left": {true, []string{engine.MapRunningJobState, engine.MapStateTimestamps}, engine.JobFinished},
	} {
		t.Run(name, func(t *testing.T) {
			onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
				c.submit(ctx, "51", running)
				if test.ended {
					c.waitFor(ctx, "51", engine.JobFinished)
					time.Sleep(time.Second)
				} else {
					c.waitFor(ctx, "51", engine.JobRunning)
				}
				c.remove(ctx, "51", test.gone...)
				for range 2 {
					c.Kill(c.Master())
					time.Sleep(800 * time.Millisecond)
				}
				c.waitFor(ctx, "51", test.want)
				c.wantEmpty(ctx, 5*time.Minute)
				if v := c.info(ctx, "51"); v.Status != test.want {
					t.Errorf("the history says %s, want %s", v.Status, test.want)
				}
			})
		})
	}
}
