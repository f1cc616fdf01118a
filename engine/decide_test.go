package engine

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawState makes the state of a job with a few pipelines that was just accepted.
func testState(pipelines, tasks int) *jobState {
	st := &jobState{Incarnation: "a", Term: 1, Status: JobCreated, CreatedMs: 1}
	for p := range pipelines {
		ps := pipelineState{ID: p + 1, Status: TaskCreated}
		for i := range tasks {
			ps.Tasks = append(ps.Tasks, taskState{Source: p + 1, Subtask: i, Status: TaskCreated})
		}
		st.Pipelines = append(st.Pipelines, ps)
	}
	return st
}

// testWorld has three members, and gives tasks to them in turn.
func testWorld(retries int) world {
	members := map[string]bool{"m0": true, "m1": true, "m2": true}
	return world{
		members: members, retryTimes: retries, nowMs: 2, checkpointDue: func(*pipelineState) bool { return true },
		held: func(*pipelineState) bool { return false },
		place: func(n int, _ bool) placement {
			var ids []string
			for id := range members {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			if len(ids) == 0 {
				return placement{reason: "no worker"}
			}
			var p placement
			for i := range n {
				p.workers = append(p.workers, ids[i%len(ids)])
			}
			return p
		},
	}
}

// answer makes an observation that some component could send in this state, or could have sent before.
func answer(t *rapid.T, st *jobState) observation {
	p := rapid.SampledFrom(st.Pipelines).Draw(t, "pipeline")
	task := rapid.SampledFrom(p.Tasks).Draw(t, "task")
	o := observation{kind: obsKind(rapid.IntRange(0, int(obsCkptCommitFailed)).Draw(t, "kind")), ref: p.ref(&task)}
	if rapid.IntRange(0, 4).Draw(t, "late") == 0 {
		o.ref.Attempt = max(o.ref.Attempt-1, 0)
	}
	switch o.kind {
	case obsEnded:
		o.status = rapid.SampledFrom([]TaskStatus{TaskFinished, TaskFinished, TaskFailed, TaskCanceled}).Draw(t, "status")
		o.permanent = rapid.IntRange(0, 9).Draw(t, "permanent") == 0
		o.prepared = []preparedOutput{{Vertex: 9, Data: []byte("x")}}
	case obsChecked:
		o.ref = taskRef{Pipeline: p.ID}
		if rapid.IntRange(0, 9).Draw(t, "bad") == 0 {
			o.err = "bad"
		}
	case obsCkptDone, obsCkptLate, obsCkptAbort, obsCkptCommitted, obsCkptCommitFailed:
		answerCheckpoint(t, &p, &o)
	}
	return o
}

// answerCheckpoint completes an observation about a checkpoint, mostly of the one that the state has.
func answerCheckpoint(t *rapid.T, p *pipelineState, o *observation) {
	o.ref = taskRef{Pipeline: p.ID}
	o.ckpt = p.Ckpt.Open
	if o.kind == obsCkptCommitted || o.kind == obsCkptCommitFailed {
		o.ckpt = p.Ckpt.Done
	}
	if rapid.IntRange(0, 9).Draw(t, "other checkpoint") == 0 {
		o.ckpt++
	}
	o.points = map[taskRef]taskPoint{}
	for i := range p.Tasks {
		ref := p.ref(&p.Tasks[i])
		if rapid.IntRange(0, 9).Draw(t, "answered") > 0 {
			o.points[ref] = taskPoint{Prepared: []preparedOutput{{Vertex: 9, Data: []byte("y")}}}
		} else {
			o.late = append(o.late, ref)
		}
	}
}

// checkCheckpoints: ids only rise, the newest complete one never goes back, one is in flight at most, and the next begins only when the last is
// done with. A pipeline that has ended owes nothing to a checkpoint.
func checkCheckpoints(t *rapid.T, next *jobState, p, q *pipelineState) {
	a, b := p.Ckpt, q.Ckpt
	switch {
	case b.Next < a.Next, b.Done < a.Done, b.Final < a.Final, b.Open != 0 && b.Open < a.Open:
		t.Fatalf("checkpoints go back: %+v -> %+v", a, b)
	case b.Done != a.Done && b.Done != a.Open:
		t.Fatalf("complete without having been in flight: %+v -> %+v", a, b)
	case b.Open != 0 && (!b.settled() || next.Savepoint || next.Cancel || q.Committing || !steady(q)):
		t.Fatalf("in flight in %+v", q)
	case q.Status.ended() && !b.settled():
		t.Fatalf("pipeline %s with output to commit: %+v", q.Status, b)
	}
}

func allFinished(st *jobState) bool {
	return !slices.ContainsFunc(st.Pipelines, func(p pipelineState) bool { return p.Status != TaskFinished })
}

// Whatever is observed in whatever order: only edges of the tables are used, attempts only rise, a canceled job starts nothing, an end is an end,
// and the same observations twice are the same as once.
func TestDecideKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := testWorld(rapid.IntRange(0, 3).Draw(t, "retries"))
		st := testState(rapid.IntRange(1, 3).Draw(t, "pipelines"), rapid.IntRange(1, 3).Draw(t, "tasks"))
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.IntRange(0, 19).Draw(t, "cancel") == 0 {
				st.Cancel = true
			}
			if rapid.IntRange(0, 19).Draw(t, "savepoint") == 0 && st.Status == JobRunning {
				st.Savepoint = true
			}
			if len(w.members) > 1 && rapid.IntRange(0, 19).Draw(t, "death") == 0 {
				delete(w.members, rapid.SampledFrom([]string{"m0", "m1", "m2"}).Draw(t, "who"))
			}
			var obs []observation
			for range rapid.IntRange(0, 3).Draw(t, "observations") {
				obs = append(obs, answer(t, st))
			}
			before := encode(st)
			next := decide(st, obs, w)
			if !bytes.Equal(before, encode(st)) {
				t.Fatal("decide changed the state that it was given")
			}
			checkStep(t, st, next)
			if st.Status.Final() && !bytes.Equal(before, encode(next)) {
				t.Fatalf("a job that is %s changed", st.Status)
			}
			st = next
			if len(obs) > 0 {
				checkRepeat(t, st, obs, w)
			}
		}
	})
}

func checkStep(t *rapid.T, st, next *jobState) {
	if st.Status != next.Status && !reaches(st.Status, jobNext, next.Status) {
		t.Fatalf("job %s -> %s", st.Status, next.Status)
	}
	for i := range next.Pipelines {
		p, q := &st.Pipelines[i], &next.Pipelines[i]
		if q.Restarts < p.Restarts || q.Restarts > p.Restarts+1 {
			t.Fatalf("pipeline %d: restarts %d -> %d in one step", q.ID, p.Restarts, q.Restarts)
		}
		if next.Status.Final() && !q.Status.ended() {
			t.Fatalf("the job is %s and pipeline %d is %s", next.Status, q.ID, q.Status)
		}
		for j := range q.Tasks {
			a, b := &p.Tasks[j], &q.Tasks[j]
			if b.Attempt < a.Attempt || b.Attempt > a.Attempt+1 || b.Attempt > a.Attempt && (st.Cancel || st.Savepoint && !p.Ckpt.Rescaled && p.Ckpt.Done != 0) {
				t.Fatalf("task %v: attempt %d -> %d, canceled %v, savepoint %v", q.ref(b), a.Attempt, b.Attempt, st.Cancel, st.Savepoint)
			}
			if q.Status == TaskFinished && !b.Committed && !(st.Savepoint && b.Status == TaskCanceled) || b.Committed && b.Status != TaskFinished {
				t.Fatalf("pipeline %s, task %s, committed %v", q.Status, b.Status, b.Committed)
			}
			if q.Status.ended() && !b.Status.ended() {
				t.Fatalf("pipeline %d is %s with a task that is %s", q.ID, q.Status, b.Status)
			}
		}
	}
	for i := range next.Pipelines {
		checkCheckpoints(t, next, &st.Pipelines[i], &next.Pipelines[i])
	}
	if (next.Status == JobSavepointDone) != (next.Savepoint && next.Status.Final() && allFinished(next)) && next.Status != JobFailed {
		t.Fatalf("the job is %s, savepoint %v", next.Status, next.Savepoint)
	}
	if next.Status == JobFailed && next.Cause == "" {
		t.Fatal("FAILED without a cause")
	}
}

// checkRepeat applies reports a second time: they are late then, and no-ops.
func checkRepeat(t *rapid.T, st *jobState, obs []observation, w world) {
	settledState := decide(st, nil, w)
	again := decide(settledState, slices.DeleteFunc(slices.Clone(obs), func(o observation) bool {
		_, task := settledState.task(o.ref)
		return o.kind != obsEnded || task == nil || task.Attempt == o.ref.Attempt && task.active()
	}), w)
	if once := decide(settledState, nil, w); !bytes.Equal(encode(once), encode(again)) {
		t.Fatalf("late reports changed the state:\n%+v\n%+v", once, again)
	}
}

// Left alone with workers that do as they are told, every job ends.
func TestDecideEnds(t *testing.T) {
	for pipelines := 1; pipelines <= 3; pipelines++ {
		for _, cancelAt := range []int{-1, 0, 1, 2, 3, 4, 5} {
			t.Run(fmt.Sprint(pipelines, "/", cancelAt), func(t *testing.T) {
				st, w := testState(pipelines, 2), testWorld(0)
				for step := 0; !st.Status.Final(); step++ {
					if step > 20 {
						t.Fatalf("no end: %+v", st)
					}
					if step == cancelAt {
						st.Cancel = true
					}
					st = decide(st, obey(st), w)
				}
				if st.Status != JobFinished && cancelAt < 0 || st.Status == JobFailed || st.EndedMs == 0 {
					t.Errorf("ended %s at %d", st.Status, st.EndedMs)
				}
			})
		}
	}
}

// obey answers each call that is due as a worker would.
func obey(st *jobState) []observation {
	var obs []observation
	for _, c := range dueCalls(st, true, func(taskRef) bool { return true }) {
		switch c.kind {
		case callDeploy:
			obs = append(obs, observation{kind: obsRunning, ref: c.ref}, observation{kind: obsEnded, ref: c.ref, status: TaskFinished})
		case callCancel:
			obs = append(obs, observation{kind: obsEnded, ref: c.ref, status: TaskCanceled})
		case callCheck:
			obs = append(obs, observation{kind: obsChecked, ref: c.ref})
		case callCommit:
			obs = append(obs, observation{kind: obsCommitted, ref: c.ref})
		}
	}
	return obs
}

// All losses found in one pass cost one restart, and without retries the first one fails the job.
func TestDecideLosses(t *testing.T) {
	for _, retries := range []int{0, 2} {
		w := testWorld(retries)
		st := decide(testState(2, 3), nil, w)
		delete(w.members, "m1")
		delete(w.members, "m2")
		next := decide(st, nil, w)
		switch {
		case retries == 0 && (next.Status != JobFailing || !strings.Contains(next.Cause, "member m1 is gone")):
			t.Errorf("without retries: %s, cause %q", next.Status, next.Cause)
		case retries > 0 && (next.Pipelines[0].Restarts != 1 || next.Pipelines[1].Restarts != 1 || next.Pipelines[0].Tasks[1].Attempt != 2):
			t.Errorf("with retries: %+v", next)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		n, slots int
		all      bool
		want     string
	}{
		{4, 0, true, "b,b,c,a"},
		{3, 2, true, "b,b,c"},
		{4, 2, true, ""},
		{4, 2, false, "b,b,c"},
		{1, 2, true, "b"},
	} {
		loads := []workerLoad{{worker: "a", tasks: 2, slots: test.slots}, {worker: "b", slots: test.slots}, {worker: "c", tasks: 1, slots: test.slots}}
		if got := strings.Join(spread(loads, test.n, test.all), ","); got != test.want {
			t.Errorf("spread(%d, %d, %v) = %q, want %q", test.n, test.slots, test.all, got, test.want)
		}
	}
}

// From the commit decision on a pipeline rolls forward: a stop does not win any more, but what was lost then cannot start again.
func TestDecideCommitRollsForward(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := testWorld(3)
		st := testState(1, 2)
		for !st.Pipelines[0].Committing {
			st = decide(st, obey(st), w)
		}
		st.Cancel = true
		st = decide(st, nil, w)
		if st.Status != JobCanceling || st.Pipelines[0].Status != TaskRunning || len(obey(st)) != 2 {
			t.Fatalf("after the stop: job %s, pipeline %s, calls %v", st.Status, st.Pipelines[0].Status, obey(st))
		}
		obs, want := obey(st), JobFinished
		if lost {
			obs[1].kind, want = obsPreparedLost, JobCanceled
		}
		if st = decide(st, obs, w); st.Status != want {
			t.Errorf("output lost %v: job %s, want %s", lost, st.Status, want)
		}
	}
}

// A worker starts and keeps only what the state asks of it.
func TestStartableAndSettled(t *testing.T) {
	ref := taskRef{Pipeline: 1, Source: 1, Subtask: 0, Attempt: 2}
	base := testState(1, 1)
	base.Status = JobRunning
	base.Pipelines[0].Tasks[0] = taskState{Source: 1, Status: TaskDeploying, Attempt: 2, Worker: "m0"}
	for name, test := range map[string]struct {
		change           func(*jobState)
		startable, waits bool
	}{
		"as asked":            {func(*jobState) {}, true, true},
		"newer attempt":       {func(s *jobState) { s.Pipelines[0].Tasks[0].Attempt = 3 }, false, false},
		"older attempt":       {func(s *jobState) { s.Pipelines[0].Tasks[0].Attempt = 1 }, false, false},
		"other worker":        {func(s *jobState) { s.Pipelines[0].Tasks[0].Worker = "m1" }, false, true},
		"confirmed before":    {func(s *jobState) { s.Pipelines[0].Tasks[0].Status = TaskRunning }, false, true},
		"to be canceled":      {func(s *jobState) { s.Cancel = true }, false, true},
		"being canceled":      {func(s *jobState) { s.Pipelines[0].Tasks[0].Status = TaskCanceling }, false, true},
		"task has ended":      {func(s *jobState) { s.Pipelines[0].Tasks[0].Status = TaskFinished }, false, false},
		"job has ended":       {func(s *jobState) { s.Status = JobFailed }, false, false},
		"another incarnation": {func(s *jobState) { s.Incarnation = "b" }, false, false},
	} {
		st := base.clone()
		test.change(st)
		if got := startable(st, "a", ref, "m0"); got != test.startable {
			t.Errorf("%s: startable %v", name, got)
		}
		if got := settled(st, "a", ref); got == test.waits {
			t.Errorf("%s: settled %v", name, got)
		}
	}
	if startable(nil, "a", ref, "m0") || !settled(nil, "a", ref) {
		t.Error("a missing state asks for something")
	}
}

// A task is lost in a savepoint, and no worker can have it. With a checkpoint of its own it stays where that has it. Without any it is waited for, if there are
// retries, and left out when the time is over; with one of another parallelism it cannot be left out, and the job fails then.
func TestDecideSavepointWithoutAWorker(t *testing.T) {
	for name, test := range map[string]struct {
		ckpt    ckptState
		retries int
		at      bool // it is left out at once
		late    JobStatus
		left    TaskStatus // of the lost task, in the end
	}{
		"a checkpoint":             {ckptState{Next: 2, Done: 1, Committed: true}, 3, true, JobDoingSavepoint, TaskCanceled},
		"a checkpoint, no retries": {ckptState{Next: 2, Done: 1, Committed: true}, 0, true, JobDoingSavepoint, TaskCanceled},
		"none":                     {ckptState{}, 3, false, JobDoingSavepoint, TaskCanceled},
		"none, no retries":         {ckptState{}, 0, true, JobDoingSavepoint, TaskCanceled},
		"another parallelism":      {ckptState{Next: 2, Done: 1, Committed: true, Rescaled: true}, 3, false, JobFailed, TaskCanceled},
	} {
		st := testState(1, 2)
		st.Status, st.Savepoint = JobRunning, true
		p := &st.Pipelines[0]
		p.Status, p.Ckpt = TaskRunning, test.ckpt
		for i := range p.Tasks {
			p.Tasks[i].Status, p.Tasks[i].Worker, p.Tasks[i].Attempt = TaskRunning, fmt.Sprint("m", i), 1
		}
		w := testWorld(test.retries)
		w.place = func(int, bool) placement { return placement{reason: "no worker has the tags"} }
		delete(w.members, "m1")
		end := observation{kind: obsEnded, ref: st.Pipelines[0].ref(&p.Tasks[0]), status: TaskFinished, end: &taskPoint{}}
		st = decide(st, []observation{end}, w)
		if p := st.Pipelines[0]; st.Status != JobDoingSavepoint || p.Committing != test.at {
			t.Errorf("%s, before the time is over: %s, committing %v", name, st.Status, p.Committing)
		}
		w.savepointLate = "the savepoint was not complete in time"
		for range 3 {
			st = decide(st, nil, w)
		}
		p = &st.Pipelines[0]
		if st.Status != test.late || p.Committing != (test.late == JobDoingSavepoint) || p.Tasks[1].Status != test.left || p.Tasks[1].Attempt != 1 {
			t.Errorf("%s, after that: %s, committing %v, task %+v", name, st.Status, p.Committing, p.Tasks[1])
		}
		if p.Committing && (p.Ckpt.Final == 0 || pointIn(finalPointsOf(nil, p), 1, 1) != nil) {
			t.Errorf("%s: the savepoint %d says where the lost task is", name, p.Ckpt.Final)
		}
	}
}
