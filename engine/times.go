package engine

import (
	"slices"
	"time"
)

// maxTimedTasks is how many task groups the timestamps of a job are shown and kept in the history for.
const maxTimedTasks = 64

// stampTasks notes the states that task groups have entered between two states of their job; changed tells whether there are any. A task group
// that goes through several states in one step is noted with the last of them.
func (ts timestamps) stampTasks(from, to *jobState, nowMs int64) (out timestamps, changed bool) {
	out = ts
	for i := range to.Pipelines {
		for j := range to.Pipelines[i].Tasks {
			now := &to.Pipelines[i].Tasks[j]
			if was := &from.Pipelines[i].Tasks[j]; was.Status == now.Status && was.Attempt == now.Attempt {
				continue
			}
			if !changed {
				out.Tasks = ts.copyTasks(to)
				changed = true
			}
			states := make([]int64, len(taskStatuses()))
			copy(states, out.Tasks[i][j])
			states[slices.Index(taskStatuses(), now.Status)] = nowMs
			out.Tasks[i][j] = states
		}
	}
	return out, changed
}

// copyTasks returns the task groups' timestamps with a place for each; those of one task group are shared with ts.
func (ts timestamps) copyTasks(st *jobState) [][][]int64 {
	out := make([][][]int64, len(st.Pipelines))
	for i := range st.Pipelines {
		out[i] = make([][]int64, len(st.Pipelines[i].Tasks))
		if i < len(ts.Tasks) {
			copy(out[i], ts.Tasks[i])
		}
	}
	return out
}

// view shows the timestamps of a job with this state.
func (ts *timestamps) view(st *jobState) Times {
	if ts == nil || st == nil || ts.Incarnation != st.Incarnation {
		return Times{}
	}
	v := Times{Job: entered(ts.Job, jobStatuses()), Pipelines: map[int]map[TaskStatus]time.Time{}}
	for i := range st.Pipelines {
		p := &st.Pipelines[i]
		if i < len(ts.Pipelines) {
			v.Pipelines[p.ID] = entered(ts.Pipelines[i], taskStatuses())
		}
		for j := range p.Tasks {
			if t := &p.Tasks[j]; i < len(ts.Tasks) && j < len(ts.Tasks[i]) && ts.Tasks[i][j] != nil && len(v.Tasks) < maxTimedTasks {
				v.Tasks = append(v.Tasks, TaskTimes{Pipeline: p.ID, Source: t.Source, Subtask: t.Subtask, Attempt: t.Attempt, Member: t.Worker,
					States: entered(ts.Tasks[i][j], taskStatuses())})
			}
		}
	}
	return v
}

func entered[S ~string](ms []int64, states []S) map[S]time.Time {
	out := map[S]time.Time{}
	for i, at := range ms {
		if at > 0 && i < len(states) {
			out[states[i]] = timeOf(at)
		}
	}
	return out
}
