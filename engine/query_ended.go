package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// endedJob is a job that has ended, in a list that may be long: only what orders and counts it is decoded.
type endedJob struct {
	id, incarnation string
	status          JobStatus
	finish          time.Time
	history         []byte   // its entry; nil: view has it
	view            *JobView // nil: history has it
}

// historyBrief is what a list needs of a [historyEntry].
type historyBrief struct {
	View struct {
		Incarnation string
		Status      JobStatus
		FinishTime  time.Time
	}
}

// show decodes the rest.
func (j endedJob) show() JobView {
	if j.view != nil {
		return *j.view
	}
	var h historyEntry
	if err := decodeWithin(j.history, &h, maxRecordValues); err != nil {
		return JobView{JobID: j.id, Incarnation: j.incarnation, Status: JobUnknowable}
	}
	return h.View.listed()
}

// history scans the jobs that have a history, in no order. One that cannot be read is listed as UNKNOWABLE.
func (c *coordinator) history(ctx context.Context) ([]endedJob, error) {
	var out []endedJob
	err := c.s.cfg.Store.Scan(ctx, MapFinishedJobState, func(e Entry) error {
		j := endedJob{id: e.Key.Key, status: JobUnknowable, history: e.Value}
		var h *historyBrief
		if err := load(e, &h); err != nil {
			c.s.cfg.Logger.Error("a job's history cannot be read", "job", e.Key.Key, "error", err)
		} else {
			j.incarnation, j.status, j.finish = h.View.Incarnation, h.View.Status, h.View.FinishTime
		}
		out = append(out, j)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("scan %s: %w", MapFinishedJobState, err)
	}
	return out, nil
}

// allEnded lists every job that has ended exactly once, the one that ended last first: from its history, or from its tombstone while that has none. The
// states are scanned first, so that a job whose tombstone goes meanwhile is found in the history.
func (c *coordinator) allEnded(ctx context.Context) ([]endedJob, error) {
	states, err := c.states(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.history(ctx)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(out)) // incarnations
	for _, j := range out {
		seen[j.incarnation] = true
	}
	graves, err := c.views(ctx, states, func(st *jobState) bool { return !shown(st) && !seen[st.Incarnation] })
	for i := range graves {
		v := &graves[i]
		out = append(out, endedJob{id: v.JobID, incarnation: v.Incarnation, status: v.Status, finish: v.FinishTime, view: v})
	}
	slices.SortFunc(out, func(a, b endedJob) int { return cmp.Or(b.finish.Compare(a.finish), cmp.Compare(b.id, a.id)) })
	return out, err
}

// endedOf returns those that ended with a status, or all if it is empty; a list of the caller's own.
func (c *coordinator) endedOf(ctx context.Context, status JobStatus) ([]endedJob, error) {
	all, err := c.endedJobs.get(ctx, c.allEnded)
	return slices.DeleteFunc(slices.Clone(all), func(j endedJob) bool { return status != "" && j.status != status }), err
}

func finishedLocal(ctx context.Context, c *coordinator, status JobStatus) ([]JobView, error) {
	list, err := c.endedOf(ctx, status)
	if err != nil {
		return nil, err
	}
	return showAll(list), nil
}

func showAll(list []endedJob) []JobView {
	out := make([]JobView, len(list))
	for i, j := range list {
		out[i] = j.show()
	}
	return out
}

func finishedPageLocal(ctx context.Context, c *coordinator, req pageRequest) (JobsPage, error) {
	list, err := c.endedOf(ctx, req.Status)
	if err != nil {
		return JobsPage{}, err
	}
	return req.part(list), nil
}

// part shows the part of a list that is asked for.
func (r pageRequest) part(list []endedJob) JobsPage {
	from := min(max(r.From, 0), len(list))
	return JobsPage{Jobs: showAll(list[from : from+min(max(r.Rows, 0), len(list)-from)]), Total: len(list)}
}

// jobsLocal lists all jobs, each once. The live ones are looked for first, so that one that ends meanwhile is in both lists, and not in none.
func jobsLocal(ctx context.Context, c *coordinator, req pageRequest) (JobsPage, error) {
	live, err := runningLocal(ctx, c, struct{}{})
	if err != nil {
		return JobsPage{}, err
	}
	ended, err := c.endedOf(ctx, "")
	if err != nil {
		return JobsPage{}, err
	}
	over := make(map[string]bool, len(ended))
	for _, j := range ended {
		over[j.incarnation] = true
	}
	var all []endedJob
	for i := range live {
		if v := &live[i]; !over[v.Incarnation] {
			all = append(all, endedJob{id: v.JobID, status: v.Status, view: v})
		}
	}
	all = append(all, ended...)
	counts := map[JobStatus]int{}
	for _, j := range all {
		counts[j.status]++
	}
	page := req.part(slices.DeleteFunc(all, func(j endedJob) bool { return req.Status != "" && j.status != req.Status }))
	page.Counts = counts
	return page, nil
}
