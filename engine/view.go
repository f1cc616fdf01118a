package engine

import (
	"time"

	"gridnode/engine/config"
)

// view shows a job as its state has it. figures gives the progress of a running attempt; nil if there is none.
func view(def *definition, st *jobState, figures func(taskRef) []tally, now time.Time) JobView {
	v := JobView{
		JobID: def.jobID, JobName: def.info.Name, Incarnation: def.info.Incarnation, Savepoint: def.info.Savepoint,
		Status: JobCreated, CreateTime: timeOf(def.info.CreatedMs), DAG: DAG{Edges: map[int][]Edge{}},
	}
	if def.plan != nil {
		v.Mode, v.Env, v.TagFilter = def.plan.Mode, def.plan.Env, def.plan.Tags
		v.DAG = dagOf(def.plan)
	}
	if st == nil {
		return v
	}
	v.Incarnation, v.Status, v.Term = st.Incarnation, st.Status, st.Term
	v.CreateTime, v.StartTime, v.FinishTime = timeOf(st.CreatedMs), timeOf(st.StartedMs), timeOf(st.EndedMs)
	v.Restarts, v.PendingFor, v.Overtaken = st.restarts(), st.PendingFor, st.Overtaken
	if def.unreadable() && shown(st) {
		v.Unreadable = true
		v.PendingFor = "the master cannot read the config: " + def.err.Error()
	}
	v.Failures, v.FailureSum = st.failureViews(), st.FailureSum
	if st.Status == JobFailed || st.Status == JobFailing {
		v.ErrorMsg = st.Cause
	}
	if st.Cancel && !st.Status.Final() {
		v.Status = JobCanceling // the intent is durable, whether or not the master has acted on it
	} else if st.Savepoint && st.Status == JobRunning {
		v.Status = JobDoingSavepoint
	}
	v.addTasks(st, figures, now)
	return v
}

func (v *JobView) addTasks(st *jobState, figures func(taskRef) []tally, now time.Time) {
	var all, visible [][]tally
	for i := range st.Pipelines {
		p := &st.Pipelines[i]
		for j := range p.Tasks {
			t := &p.Tasks[j]
			tallies := t.Tallies
			if t.active() && figures != nil {
				tallies = figures(p.ref(t))
			}
			tallies = atLeast(tallies, t.Visible) // progress is told now and then, and what is visible was read and written
			all, visible = append(all, tallies), append(visible, t.Visible)
			if !st.Status.Final() {
				v.Tasks = append(v.Tasks, TaskView{Pipeline: p.ID, Source: t.Source, Subtask: t.Subtask, Status: t.Status,
					Attempt: t.Attempt, Member: t.Worker})
			}
		}
	}
	seconds := 0.0
	if st.StartedMs > 0 {
		end := now
		if st.EndedMs > 0 {
			end = timeOf(st.EndedMs)
		}
		seconds = end.Sub(timeOf(st.StartedMs)).Seconds()
	}
	v.Metrics = sumTallies(all, visible, seconds)
}

func dagOf(plan *config.Job) DAG {
	dag := DAG{Edges: make(map[int][]Edge, len(plan.Pipelines))}
	for _, p := range plan.Pipelines {
		edges := make([]Edge, len(p.Edges))
		for i, e := range p.Edges {
			edges[i] = Edge{From: e.From, To: e.To}
		}
		dag.Edges[p.ID] = edges
		for _, v := range p.Vertices {
			dag.Vertices = append(dag.Vertices, VertexView{ID: v.ID, Pipeline: p.ID, Type: string(v.Kind), Name: v.Name, Tables: v.Tables})
		}
	}
	return dag
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// shown is the one predicate for "shown as running": it asks the state entry alone.
func shown(st *jobState) bool { return st != nil && !st.Status.Final() }
