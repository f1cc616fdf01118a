package rest

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gridnode/engine"
)

// maxStops bounds the jobs that one request may stop.
const maxStops = 1000

func (s *Server) registerJobs(rs *routes) {
	for _, prefix := range []string{"", v1} {
		rs.handle(prefix+"/overview", methods{"GET": s.limited(s.overview)})
		rs.handle(prefix+"/running-jobs", methods{"GET": s.limited(s.runningJobs)})
		rs.handle(prefix+"/finished-jobs", methods{"GET": s.limited(s.finishedJobs)})
		rs.handle(prefix+"/finished-jobs/{state}", methods{"GET": s.limited(s.finishedJobs)})
		for _, name := range []string{"/job-info", "/running-job"} {
			rs.handle(prefix+name, methods{"GET": noJobID})
			rs.handle(prefix+name+"/{jobId}", methods{"GET": s.limited(s.jobInfo)})
		}
		rs.handle(prefix+"/stop-job", methods{"POST": s.limited(s.stopJob)})
		rs.handle(prefix+"/stop-jobs", methods{"POST": s.counted(s.stopJobs)})
	}
	rs.handle("/api/v1/jobs/cleanup", methods{"GET": s.limited(s.cleanups)})
}

// overviewShape counts workers, slots and jobs. SeaTunnel's code says workers, its documentation works: both are there.
type overviewShape struct {
	ProjectVersion   string `json:"projectVersion"`
	GitCommitAbbrev  string `json:"gitCommitAbbrev"`
	TotalSlot        string `json:"totalSlot"`
	UnassignedSlot   string `json:"unassignedSlot"`
	Works            string `json:"works"`
	Workers          string `json:"workers"`
	RunningJobs      string `json:"runningJobs"`
	PendingJobs      string `json:"pendingJobs"`
	FinishedJobs     string `json:"finishedJobs"`
	FailedJobs       string `json:"failedJobs"`
	CancelledJobs    string `json:"cancelledJobs"`
	SavepointDone    string `json:"savepointDoneJobs"`
	MasterID         string `json:"master"`
	CoordinationTerm string `json:"term"`
}

func (s *Server) overview(w http.ResponseWriter, r *http.Request) error {
	tags, err := queryOf(r)
	if err != nil {
		return err
	}
	o, err := s.cfg.Jobs.Overview(r.Context())
	if err != nil {
		return err
	}
	workers, total, free := o.Workers, o.TotalSlots, o.FreeSlots
	if len(tags) > 0 {
		if workers, total, free, err = taggedWorkers(o, tags); err != nil {
			return err
		}
	}
	s.answer(w, r, http.StatusOK, overviewShape{
		ProjectVersion: s.cfg.Version, GitCommitAbbrev: s.cfg.Revision, TotalSlot: whole(total), UnassignedSlot: whole(free),
		Works: whole(workers), Workers: whole(workers), RunningJobs: whole(o.Running), PendingJobs: whole(o.Pending),
		FinishedJobs: whole(o.Finished), FailedJobs: whole(o.Failed), CancelledJobs: whole(o.Canceled),
		SavepointDone: whole(o.SavepointDone), MasterID: o.MasterID, CoordinationTerm: whole(o.Term),
	})
	return nil
}

// taggedWorkers counts the workers that have all these tags, and their slots.
func taggedWorkers(o engine.Overview, tags query) (workers, total, free int, err error) {
	for _, w := range o.Slots {
		has := true
		for name := range tags {
			want, err := tags.get(name)
			if err != nil {
				return 0, 0, 0, err
			}
			got, ok := w.Tags[name]
			has = has && ok && got == want
		}
		if has {
			workers, total, free = workers+1, total+w.Total, free+w.Free()
		}
	}
	return workers, total, free, nil
}

func (s *Server) runningJobs(w http.ResponseWriter, r *http.Request) error {
	p, err := pageOf(r)
	if err != nil {
		return err
	}
	jobs, err := s.cfg.Jobs.Running(r.Context())
	if err != nil {
		return err
	}
	return s.answerJobs(w, r, jobs, p, func(v engine.JobView) any { return liveShape(v) })
}

func (s *Server) finishedJobs(w http.ResponseWriter, r *http.Request) error {
	p, err := pageOf(r)
	if err != nil {
		return err
	}
	text, err := pathVar(r, "state")
	if err != nil {
		return err
	}
	status := engine.JobStatus(strings.ToUpper(text))
	if status != "" && !slices.Contains(jobStatuses(), status) {
		return badRequest("%q is not a job state", shorten(text))
	}
	shape := func(v engine.JobView) any { return endedShape(v) }
	some := status == "" || status.Final() // else no job has ended so
	switch {
	case p.wanted && some:
		return s.finishedPage(w, r, status, p, shape)
	case some:
		jobs, err := s.cfg.Jobs.Finished(r.Context(), status)
		if err != nil {
			return err
		}
		return s.answerJobs(w, r, jobs, p, shape)
	}
	return s.answerJobs(w, r, nil, p, shape)
}

// finishedPage asks for the one page only.
func (s *Server) finishedPage(w http.ResponseWriter, r *http.Request, status engine.JobStatus, p page, shape func(engine.JobView) any) error {
	part, err := s.cfg.Jobs.FinishedPage(r.Context(), status, p.from(), p.rows)
	if err != nil {
		return err
	}
	if _, _, err := p.slice(part.Total); err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, pageShape{Data: shapesOf(part.Jobs, shape), Total: part.Total})
	return nil
}

func shapesOf(jobs []engine.JobView, shape func(engine.JobView) any) []any {
	shapes := make([]any, 0, len(jobs))
	for _, v := range jobs {
		shapes = append(shapes, shape(v))
	}
	return shapes
}

func jobStatuses() []engine.JobStatus {
	return []engine.JobStatus{
		engine.JobInitializing, engine.JobCreated, engine.JobPending, engine.JobScheduled, engine.JobRunning, engine.JobFailing,
		engine.JobFailed, engine.JobDoingSavepoint, engine.JobSavepointDone, engine.JobCanceling, engine.JobCanceled,
		engine.JobFinished, engine.JobUnknowable,
	}
}

func (s *Server) answerJobs(w http.ResponseWriter, r *http.Request, jobs []engine.JobView, p page, shape func(engine.JobView) any) error {
	jobs = newestFirst(jobs)
	from, to, err := p.slice(len(jobs))
	if err != nil {
		return err
	}
	shapes := shapesOf(jobs[from:to], shape)
	if p.wanted {
		s.answer(w, r, http.StatusOK, pageShape{Data: shapes, Total: len(jobs)})
	} else {
		s.answer(w, r, http.StatusOK, shapes)
	}
	return nil
}

func noJobID(http.ResponseWriter, *http.Request) error {
	return badRequest("The jobId must not be empty.")
}

func (s *Server) jobInfo(w http.ResponseWriter, r *http.Request) error {
	text, err := pathVar(r, "jobId")
	if err != nil {
		return err
	}
	id, possible, err := jobID(text)
	if err != nil {
		return err
	}
	unknown := map[string]string{"jobId": id}
	if !possible {
		s.answer(w, r, http.StatusOK, unknown)
		return nil
	}
	switch v, err := s.cfg.Jobs.Info(r.Context(), id); {
	case errors.Is(err, engine.ErrNotFound):
		s.answer(w, r, http.StatusOK, unknown)
	case err != nil:
		return err
	default:
		s.answer(w, r, http.StatusOK, jobShape(v))
	}
	return nil
}

// cleanupShape is what still has to be cleaned up after a job.
type cleanupShape struct {
	JobID       string              `json:"jobId"`
	Incarnation string              `json:"incarnation"`
	Status      engine.JobStatus    `json:"status"`
	Stage       engine.CleanupStage `json:"stage"`
	DueAt       time.Time           `json:"dueAt"`
	NextTry     time.Time           `json:"nextTry"`
	Attempts    int                 `json:"attempts"`
	LastError   string              `json:"lastError,omitempty"`
}

func (s *Server) cleanups(w http.ResponseWriter, r *http.Request) error {
	views, err := s.cfg.Jobs.Cleanups(r.Context())
	if err != nil {
		return err
	}
	shapes := make([]cleanupShape, 0, len(views))
	for _, v := range views {
		v.DueAt, v.NextTry = v.DueAt.UTC(), v.NextTry.UTC()
		shapes = append(shapes, cleanupShape(v))
	}
	s.answer(w, r, http.StatusOK, map[string]any{"cleanups": shapes, "total": len(shapes)})
	return nil
}

type jobIDShape struct {
	JobID string `json:"jobId"`
}

func (s *Server) stopJob(w http.ResponseWriter, r *http.Request) error {
	data, err := jsonBody(w, r)
	if err != nil {
		return err
	}
	obj, err := objectOf(data, "The request body")
	if err != nil {
		return err
	}
	req, err := stopRequest(obj)
	if err != nil {
		return err
	}
	if err := s.stop(r, req); err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, jobIDShape{req.JobID})
	return nil
}

// stopJobs stops several jobs. Nothing is stopped if one of the requests is malformed; a later failure says what was stopped before it.
func (s *Server) stopJobs(w http.ResponseWriter, r *http.Request) error {
	data, err := jsonBody(w, r)
	if err != nil {
		return err
	}
	objs, err := arrayOf(data, "stop request", maxStops)
	if err != nil {
		return err
	}
	reqs := make([]engine.StopRequest, len(objs))
	for i, obj := range objs {
		if reqs[i], err = stopRequest(obj); err != nil {
			return withFields(err, at(i), nil)
		}
	}
	stopped := make([]jobIDShape, 0, len(reqs))
	for i, req := range reqs {
		if err := s.stop(r, req); err != nil {
			return withFields(err, at(i), map[string]any{"stopped": stopped})
		}
		stopped = append(stopped, jobIDShape{req.JobID})
	}
	s.answer(w, r, http.StatusOK, stopped)
	return nil
}

func at(i int) string { return "index " + strconv.Itoa(i) + ": " }

func (s *Server) stop(r *http.Request, req engine.StopRequest) error {
	if strings.HasPrefix(req.JobID, "-") || req.JobID == "0" {
		return failf(http.StatusNotFound, "there is no job %s", req.JobID)
	}
	ctx, cancel := s.oneCall(r)
	defer cancel()
	err := s.cfg.Jobs.Stop(ctx, req)
	if errors.Is(err, engine.ErrNotFound) {
		return failf(http.StatusNotFound, "there is no job %s", req.JobID)
	}
	return err
}
