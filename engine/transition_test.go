package engine

import (
	"slices"
	"testing"
)

// The tables of edges, written a second time as the facts that they must keep, over every pair of states.
func TestJobEdges(t *testing.T) {
	for _, from := range jobStatuses() {
		next := jobNext(from)
		for _, to := range jobStatuses() {
			st := &jobState{Status: from}
			allowed := slices.Contains(next, to)
			if got := st.turn(to); got != allowed || (st.Status == to) != (allowed || from == to) || (len(st.trail) == 1) != allowed {
				t.Errorf("turn(%s -> %s) = %v, state %s, trail %v", from, to, got, st.Status, st.trail)
			}
			switch {
			case allowed && from.Final():
				t.Errorf("%s is terminal and leads to %s", from, to)
			case allowed && (from == JobUnknowable || to == JobUnknowable || from == to):
				t.Errorf("edge %s -> %s", from, to)
			case allowed && to == JobFinished && from != JobRunning && from != JobCanceling:
				t.Errorf("%s leads to FINISHED", from)
			case allowed && to == JobFailed && from != JobFailing, allowed && to == JobCanceled && from != JobCanceling:
				t.Errorf("%s leads straight to %s", from, to)
			}
		}
		live := !from.Final() && from != JobUnknowable && from != JobInitializing
		if live && from != JobCanceling && !slices.Contains(next, JobCanceling) {
			t.Errorf("%s cannot be canceled", from)
		}
		if live && !reaches(from, jobNext, JobCanceled) {
			t.Errorf("%s never ends", from)
		}
	}
}

func TestPipelineAndTaskEdges(t *testing.T) {
	for _, from := range taskStatuses() {
		for _, to := range taskStatuses() {
			st := &jobState{Pipelines: []pipelineState{{Status: from}}}
			if got := st.turnPipeline(0, to); got != slices.Contains(pipelineNext(from), to) || got && from.ended() {
				t.Errorf("pipeline %s -> %s = %v", from, to, got)
			}
			task := &taskState{Status: from}
			got := task.turn(to)
			if got != slices.Contains(taskNext(from), to) {
				t.Errorf("task %s -> %s = %v", from, to, got)
			}
			if got && from.ended() && (to != TaskCreated || from == TaskCanceled) {
				t.Errorf("task %s -> %s: only a restart leaves an end", from, to)
			}
			if got && to == TaskRunning && from != TaskDeploying {
				t.Errorf("task %s -> RUNNING without a deploy", from)
			}
		}
		if !from.ended() && !reaches(from, pipelineNext, TaskCanceled) {
			t.Errorf("pipeline %s never ends", from)
		}
	}
}

// reaches reports whether a path of edges leads from a state to another.
func reaches[S comparable](from S, next func(S) []S, to S) bool {
	seen := map[S]bool{from: true}
	for todo := []S{from}; len(todo) > 0; todo = todo[1:] {
		for _, n := range next(todo[0]) {
			if n == to {
				return true
			}
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return false
}

func TestTimestampsFollowTheTrail(t *testing.T) {
	st := &jobState{Incarnation: "i", CreatedMs: 5, Status: JobCreated, Pipelines: []pipelineState{{Status: TaskCreated}, {Status: TaskCreated}}}
	before := newTimestamps(st, 10)
	next := st.clone()
	next.turn(JobScheduled)
	next.turnPipeline(1, TaskScheduled)
	after := before.stamp(next.trail, 20)
	if want := []int64{5, 10, 0, 20}; !slices.Equal(after.Job[:4], want) {
		t.Errorf("job = %v, want %v", after.Job, want)
	}
	if after.Pipelines[1][1] != 20 || after.Pipelines[0][1] != 0 || before.Job[3] != 0 || before.Pipelines[1][1] != 0 {
		t.Errorf("after = %v, before = %v", after, before)
	}
}
