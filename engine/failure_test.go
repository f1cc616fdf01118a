package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The first and the last failures are remembered, however many there are, and all are counted.
func TestFailuresAreBounded(t *testing.T) {
	st := testState(1, 2)
	const all = 1000
	for i := range all {
		st.noteFailure(&st.Pipelines[0], injury{task: &st.Pipelines[0].Tasks[1], cause: fmt.Sprint(i, strings.Repeat("x", 2000))}, int64(i))
	}
	if len(st.Failures) != firstFailures+lastFailures || st.FailureSum != all {
		t.Fatalf("%d failures of %d", len(st.Failures), st.FailureSum)
	}
	for i, f := range st.Failures {
		want := int64(i)
		if i >= firstFailures {
			want = int64(all - lastFailures - firstFailures + i)
		}
		if f.AtMs != want || len(f.Error) > maxFailureBytes || f.Ref.Subtask != 1 {
			t.Errorf("failure %d is of %d, want %d", i, f.AtMs, want)
		}
	}
	if n := len(encode(st)); n > 32<<10 {
		t.Errorf("the state has %d bytes", n)
	}
}

// What was remembered before a step is not changed by it.
func TestFailuresAreNotShared(t *testing.T) {
	st := testState(1, 1)
	for i := range 100 {
		next := st.clone()
		next.noteFailure(&next.Pipelines[0], injury{cause: fmt.Sprint(i)}, int64(i))
		other := st.clone()
		other.noteFailure(&other.Pipelines[0], injury{cause: "other"}, -1)
		if last := next.Failures[len(next.Failures)-1]; last.AtMs != int64(i) {
			t.Fatalf("failure %d was overwritten: %+v", i, last)
		}
		st = next
	}
}

// A wrong clock neither skips a wait nor makes it longer than it was to be.
func TestRestWait(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for untilMs, want := range map[int64]time.Duration{
		0: 0, 999_000: 0, 1_000_000: 0, 1_002_000: 2 * time.Second, 1_010_000: 10 * time.Second, 9_000_000: 10 * time.Second,
	} {
		if got := restWait(untilMs, now, 10*time.Second); got != want {
			t.Errorf("restWait(%d) = %v, want %v", untilMs, got, want)
		}
	}
}

// Each task group has a time for each state that it entered; a copy that was read before is not changed.
func TestTaskTimes(t *testing.T) {
	st := testState(2, 2)
	ts := newTimestamps(st, 10)
	if _, changed := ts.stampTasks(st, st.clone(), 20); changed {
		t.Error("nothing changed, and it was noted")
	}
	next := st.clone()
	next.Pipelines[1].Tasks[0].turn(TaskDeploying)
	first, changed := ts.stampTasks(st, next, 20)
	later := next.clone()
	later.Pipelines[1].Tasks[0].turn(TaskRunning)
	second, _ := first.stampTasks(next, later, 30)
	if !changed || ts.Tasks != nil {
		t.Errorf("changed %v, before %v", changed, ts.Tasks)
	}
	if v := first.view(next); len(v.Tasks) != 1 || len(v.Tasks[0].States) != 1 || v.Tasks[0].States[TaskDeploying] != timeOf(20) {
		t.Errorf("after the first step: %+v", v.Tasks)
	}
	if v := second.view(later); len(v.Tasks) != 1 || v.Tasks[0].Pipeline != 2 || v.Tasks[0].States[TaskDeploying] != timeOf(20) ||
		v.Tasks[0].States[TaskRunning] != timeOf(30) {
		t.Errorf("after the second step: %+v", v.Tasks)
	}
	var none *timestamps
	if v := none.view(st); v.Job != nil {
		t.Errorf("without timestamps: %+v", v)
	}
}
