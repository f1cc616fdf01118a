package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// parallelReads bounds how many jobs a list reads at once.
const parallelReads = 16

// Info returns a job, live or ended, or ErrNotFound.
func (s *Service) Info(ctx context.Context, jobID string) (JobView, error) {
	n, err := parseJobID(jobID)
	if err != nil {
		return JobView{}, err
	}
	return viaMaster(ctx, s, opInfo, strconv.FormatInt(n, 10), reading, infoLocal)
}

// Running returns the live jobs, those that wait and those that are being canceled included, the newest first.
func (s *Service) Running(ctx context.Context) ([]JobView, error) {
	return viaMaster(ctx, s, opRunning, struct{}{}, reading, runningLocal)
}

// Finished returns the jobs that ended with a status, or all that ended if it is empty; the one that ended last is first.
func (s *Service) Finished(ctx context.Context, status JobStatus) ([]JobView, error) {
	return viaMaster(ctx, s, opFinished, status, reading, finishedLocal)
}

// FinishedPage is a part of what [Service.Finished] returns: at most rows jobs from one on. Only these travel between members.
func (s *Service) FinishedPage(ctx context.Context, status JobStatus, from, rows int) (JobsPage, error) {
	return viaMaster(ctx, s, opFinishedPage, pageRequest{status, from, rows}, reading, finishedPageLocal)
}

// Jobs returns a part of the list of all jobs of a status, or of all if it is empty: the live ones first, each kind the newest first. Counts and list are
// made of the same look.
func (s *Service) Jobs(ctx context.Context, status JobStatus, from, rows int) (JobsPage, error) {
	return viaMaster(ctx, s, opJobs, pageRequest{status, from, rows}, reading, jobsLocal)
}

// Overview counts workers, slots and jobs.
func (s *Service) Overview(ctx context.Context) (Overview, error) {
	return viaMaster(ctx, s, opOverview, struct{}{}, reading, overviewLocal)
}

// Cleanups returns the pending cleanups, the one that is due first first.
func (s *Service) Cleanups(ctx context.Context) ([]CleanupView, error) {
	return viaMaster(ctx, s, opCleanups, struct{}{}, reading, cleanupsLocal)
}

func infoLocal(ctx context.Context, c *coordinator, jobID string) (JobView, error) {
	snap, err := read(ctx, c.s.cfg.Store, jobID)
	if err != nil {
		return JobView{}, err
	}
	if shown(snap.state) {
		return c.view(snap), nil
	}
	if snap.history != nil && (snap.state == nil || snap.history.View.Incarnation == snap.state.Incarnation) {
		return snap.history.View, nil
	}
	if snap.state == nil && snap.info == nil {
		return JobView{}, fmt.Errorf("%w: %s", ErrNotFound, jobID)
	}
	return c.view(snap), nil
}

// view shows a job from its info and state, with the progress that its driver knows.
func (c *coordinator) view(snap snapshot) JobView {
	var figures func(taskRef) []tally
	if d := c.driver(snap.jobID); d != nil && snap.state != nil && d.incarnation == snap.state.Incarnation {
		figures = d.figures
	}
	if snap.state == nil {
		return view(c.s.defs.of(snap.jobID, *snap.info), nil, nil, time.Now())
	}
	v := view(c.definitionOf(snap), snap.state, figures, time.Now())
	v.Times = snap.times.view(snap.state)
	v.Checks, v.CheckedAt = c.slots.checked(snap.jobID)
	return v
}

// historyOf returns the history entry of a job that has ended, as its tombstone has it.
func (s *Service) historyOf(snap snapshot) historyEntry {
	h := historyEntry{SubmitKey: snap.record.SubmitKey}
	def := &definition{jobID: snap.jobID, info: jobInfo{Incarnation: snap.record.Incarnation}}
	if snap.info != nil && snap.info.Incarnation == snap.record.Incarnation {
		def = s.defs.of(snap.jobID, *snap.info)
	}
	h.View = view(def, snap.state, nil, time.Now())
	h.View.Status = snap.record.Status
	h.View.Times = snap.times.view(snap.state)
	return h
}

// listed returns the view without what only the view of one job has.
func (v JobView) listed() JobView {
	v.Failures, v.Times = nil, Times{}
	return v
}

// states scans the state map. Every list and every counter begins here, and none with what a process remembers.
func (c *coordinator) states(ctx context.Context) (map[string]*jobState, error) {
	out := map[string]*jobState{}
	err := c.s.cfg.Store.Scan(ctx, MapRunningJobState, func(e Entry) error {
		var st *jobState
		if err := load(e, &st); err != nil { // it holds up no list, and is not left out either
			c.s.cfg.Logger.Error("a job's state cannot be read", "job", e.Key.Key, "error", err)
			st = &jobState{Status: JobUnknowable}
		}
		out[e.Key.Key] = st
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("scan %s: %w", MapRunningJobState, err)
	}
	return out, nil
}

// views shows those jobs whose state pick wants.
func (c *coordinator) views(ctx context.Context, states map[string]*jobState, pick func(*jobState) bool) ([]JobView, error) {
	var (
		g   errgroup.Group
		mu  sync.Mutex
		out []JobView
	)
	g.SetLimit(parallelReads)
	for id, st := range states {
		if !pick(st) {
			continue
		}
		g.Go(func() error {
			snap := snapshot{jobID: id, state: st}
			def, err := c.s.defs.get(ctx, id, st.Incarnation)
			if ignoring(err, errForeign) != nil {
				return err
			}
			if err == nil {
				snap.info = &def.info
			}
			v := c.view(snap).listed()
			mu.Lock()
			defer mu.Unlock()
			out = append(out, v)
			return nil
		})
	}
	return out, g.Wait()
}

func runningLocal(ctx context.Context, c *coordinator, _ struct{}) ([]JobView, error) {
	states, err := c.states(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.views(ctx, states, shown)
	slices.SortFunc(out, func(a, b JobView) int {
		return cmp.Or(b.CreateTime.Compare(a.CreateTime), cmp.Compare(b.JobID, a.JobID))
	})
	return out, err
}

// pageRequest asks for a part of a list.
type pageRequest struct {
	Status     JobStatus
	From, Rows int
}

// JobsPage is a part of a list of jobs.
type JobsPage struct {
	Jobs   []JobView
	Total  int               // of the whole list
	Counts map[JobStatus]int // of all jobs, by status, whatever the list is about; of Jobs only
}

func overviewLocal(ctx context.Context, c *coordinator, _ struct{}) (Overview, error) {
	o, err := c.overviews.get(ctx, c.overview)
	o.Slots = slices.Clone(o.Slots)
	return o, err
}

func (c *coordinator) overview(ctx context.Context) (Overview, error) {
	states, err := c.states(ctx)
	if err != nil {
		return Overview{}, err
	}
	ended, err := c.history(ctx)
	if err != nil {
		return Overview{}, err
	}
	o := Overview{MasterID: c.s.cfg.Cluster.Self(), Term: c.term, Strategy: c.s.cfg.ScheduleStrategy}
	over := map[string]bool{}
	for _, j := range ended {
		over[j.incarnation] = true
		o.countEnded(j.status)
	}
	for _, st := range states {
		switch {
		case over[st.Incarnation]:
		case !shown(st):
			o.countEnded(st.Status) // a tombstone without a history yet
		case st.Status == JobPending || st.Status == JobCreated:
			o.Pending++
		default:
			o.Running++
		}
	}
	members, _ := c.s.cfg.Cluster.Members()
	for _, m := range members {
		if m.Worker {
			o.Workers++
		}
	}
	o.Slots = c.slots.counts(members, states)
	for _, w := range o.Slots {
		o.TotalSlots += w.Total
		o.FreeSlots += w.Free()
	}
	return o, nil
}

func (o *Overview) countEnded(s JobStatus) {
	switch s {
	case JobFinished:
		o.Finished++
	case JobFailed:
		o.Failed++
	case JobCanceled:
		o.Canceled++
	case JobSavepointDone:
		o.SavepointDone++
	}
}

func cleanupsLocal(ctx context.Context, c *coordinator, _ struct{}) ([]CleanupView, error) {
	now := time.Now()
	var out []CleanupView
	err := c.s.cfg.Store.Scan(ctx, MapPendingJobCleanup, func(e Entry) error {
		var r *cleanupRecord
		if err := load(e, &r); err != nil {
			out = append(out, CleanupView{JobID: e.Key.Key, LastError: err.Error()})
			return nil
		}
		out = append(out, r.view(e.Key.Key, now))
		return nil
	})
	slices.SortFunc(out, func(a, b CleanupView) int { return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.JobID, b.JobID)) })
	return out, err
}
