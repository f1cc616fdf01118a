package engine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An attempt on a member that leaves: what is told to its worker, and what follows from each answer.
func TestDecideMoves(t *testing.T) {
	const leaver = "m1"
	for name, test := range map[string]struct {
		deploying bool // the attempt is not known to run yet
		nowhere   bool // no other worker is there
		gone      bool // the leaver is not a member any more
		canceled  bool
		savepoint bool // the job is being stopped with one
		answer    *observation
		status    TaskStatus // of the task in the end
		attempt   int
		worker    string
		restarts  int
		failures  int
		stop      bool // its worker is still told to stop it
	}{
		"is told to stop":                {status: TaskRunning, attempt: 1, worker: leaver, stop: true},
		"is told to stop before it runs": {deploying: true, status: TaskDeploying, attempt: 1, worker: leaver, stop: true},
		"has stopped":                    {answer: &observation{kind: obsEnded, status: TaskCanceled}, status: TaskDeploying, attempt: 2, worker: "m0"},
		"was never started":              {deploying: true, answer: &observation{kind: obsUnknown}, status: TaskDeploying, attempt: 2, worker: "m0"},
		"is not there any more":          {answer: &observation{kind: obsUnknown}, status: TaskDeploying, attempt: 2, worker: "m0"},
		"finished first":                 {answer: &observation{kind: obsEnded, status: TaskFinished}, status: TaskFinished, attempt: 1, worker: leaver},
		"failed first": {answer: &observation{kind: obsEnded, status: TaskFailed, err: "bad"}, status: TaskDeploying, attempt: 2, worker: "m0",
			restarts: 1, failures: 1},
		"went with its member":         {gone: true, status: TaskDeploying, attempt: 2, worker: "m0"},
		"has nowhere to go":            {nowhere: true, status: TaskRunning, attempt: 1, worker: leaver},
		"had nowhere to go":            {nowhere: true, gone: true, status: TaskDeploying, attempt: 2, worker: "m0"},
		"is canceled":                  {canceled: true, status: TaskCanceling, attempt: 1, worker: leaver, stop: true},
		"is canceled and has stopped":  {canceled: true, answer: &observation{kind: obsEnded, status: TaskCanceled}, status: TaskCanceled, attempt: 1, worker: leaver},
		"is canceled and went with it": {canceled: true, gone: true, status: TaskCanceled, attempt: 1, worker: leaver},
		"ends at a savepoint":          {savepoint: true, status: TaskRunning, attempt: 1, worker: leaver},
		"went before a savepoint":      {savepoint: true, gone: true, status: TaskCanceled, attempt: 1, worker: leaver, failures: 1},
	} {
		st := testState(1, 1)
		st.Status, st.Savepoint = JobRunning, test.savepoint
		p := &st.Pipelines[0]
		p.Status = TaskRunning
		p.Ckpt = ckptState{Next: 2, Done: 1, Committed: true}
		p.Tasks[0].Status, p.Tasks[0].Worker, p.Tasks[0].Attempt = TaskRunning, leaver, 1
		if test.deploying {
			p.Tasks[0].Status = TaskDeploying
		}
		w := testWorld(3)
		w.leaving, w.elsewhere = map[string]bool{leaver: true}, !test.nowhere
		w.place = func(n int, _ bool) placement { return placement{workers: slices.Repeat([]string{"m0"}, n)} }
		st = decide(st, nil, w)
		if test.canceled {
			st.Cancel = true
			st = decide(st, nil, w)
		}
		if m := st.Pipelines[0].Tasks[0]; !test.canceled && startable(st, "a", st.Pipelines[0].ref(&m), leaver) != (test.deploying && test.nowhere) {
			t.Errorf("%s: its worker may start it", name)
		}
		if test.gone {
			delete(w.members, leaver)
			delete(w.leaving, leaver)
		}
		var obs []observation
		if test.answer != nil {
			o := *test.answer
			o.ref = st.Pipelines[0].ref(&st.Pipelines[0].Tasks[0])
			obs = append(obs, o)
		}
		st = decide(st, obs, w)
		got := st.Pipelines[0].Tasks[0]
		if got.Status != test.status || got.Attempt != test.attempt || got.Worker != test.worker || st.Pipelines[0].Restarts != test.restarts || st.FailureSum != test.failures {
			t.Errorf("%s: %s attempt %d on %s, %d restarts, %d failures", name, got.Status, got.Attempt, got.Worker, st.Pipelines[0].Restarts, st.FailureSum)
		}
		if (got.Attempt == 2 || test.savepoint) && (got.Moving || got.Parting) {
			t.Errorf("%s: attempt %d is to be moved", name, got.Attempt)
		}
		calls := dueCalls(st, true, func(taskRef) bool { return false })
		if stop := len(calls) == 1 && calls[0].kind == callCancel && calls[0].worker == leaver; !st.Status.Final() && stop != test.stop {
			t.Errorf("%s: calls %+v", name, calls)
		}
	}
}

// Whatever is observed while members leave and die: the rules of decide hold, and as long as no task fails by itself and only leavers go, no
// restart is counted.
func TestDecideKeepsItsRulesWhileMembersLeave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := testWorld(2)
		w.leaving = map[string]bool{}
		peaceful := rapid.Bool().Draw(t, "nothing fails")
		st := testState(rapid.IntRange(1, 2).Draw(t, "pipelines"), rapid.IntRange(1, 3).Draw(t, "tasks"))
		w.place = func(n int, _ bool) placement {
			var ids []string
			for _, id := range []string{"m0", "m1", "m2"} {
				if w.members[id] && !w.leaving[id] {
					ids = append(ids, id)
				}
			}
			if len(ids) == 0 {
				return placement{reason: "no worker"}
			}
			return placement{workers: slices.Repeat(ids, n)[:n]}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 29).Draw(t, "event") {
			case 0:
				st.Cancel = true
			case 1, 2:
				w.leaving[rapid.SampledFrom([]string{"m1", "m2"}).Draw(t, "leaver")] = true
			case 3, 4:
				if id := rapid.SampledFrom([]string{"m1", "m2"}).Draw(t, "gone"); w.leaving[id] {
					st = decide(st, nil, w) // it was seen leaving before
					delete(w.members, id)
					delete(w.leaving, id)
				}
			}
			w.elsewhere = w.members["m0"] && !w.leaving["m0"]
			var obs []observation
			for range rapid.IntRange(0, 3).Draw(t, "observations") {
				o := answer(t, st)
				_, task := st.task(o.ref)
				loss := o.kind == obsUnknown || o.kind == obsPreparedLost || o.kind == obsCommitFailed || o.kind == obsChecked && o.err != "" ||
					o.kind == obsCkptLate || o.kind == obsCkptCommitFailed ||
					o.kind == obsEnded && (o.status == TaskFailed || o.status == TaskCanceled && !task.Moving)
				if !peaceful || !loss {
					obs = append(obs, o)
				}
			}
			next := decide(st, obs, w)
			checkStep(t, st, next)
			if peaceful && (next.restarts() > 0 || next.FailureSum > 0) {
				t.Fatalf("%d restarts, failures %+v", next.restarts(), next.Failures)
			}
			for i := range next.Pipelines {
				for j := range next.Pipelines[i].Tasks {
					if task := next.Pipelines[i].Tasks[j]; task.Moving && !task.Parting || task.Status == TaskCreated && task.Moving {
						t.Fatalf("task %+v", task)
					}
				}
			}
			st = next
		}
	})
}

func TestLeaversOf(t *testing.T) {
	ssd := map[string]string{"disk": "ssd"}
	members := []Member{{ID: "a", Worker: true, Leaving: true, Tags: ssd}, {ID: "b", Tags: ssd}, {ID: "c", Worker: true}, {ID: "d", Leaving: true}}
	for _, test := range []struct {
		tags      map[string]string
		elsewhere bool
	}{{nil, true}, {ssd, false}} {
		leaving, elsewhere := leaversOf(members, test.tags)
		if len(leaving) != 2 || !leaving["a"] || !leaving["d"] || elsewhere != test.elsewhere {
			t.Errorf("tags %v: leaving %v, elsewhere %v", test.tags, leaving, elsewhere)
		}
	}
}
