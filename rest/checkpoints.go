package rest

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gridnode/engine"
)

// defaultHistory is how many checkpoints a history shows that was not asked for a number.
const defaultHistory = 20

func (s *Server) registerCheckpoints(rs *routes) {
	overview, history := methods{"GET": s.limited(s.checkpoints)}, methods{"GET": s.limited(s.checkpointHistory)}
	rs.handle("/jobs/checkpoints/{jobId}", overview)
	rs.handle("/jobs/checkpoints/history/{jobId}", history)
	rs.handle("/api/v1/jobs/{jobId}/checkpoints", overview)
	rs.handle("/api/v1/jobs/{jobId}/savepoints", methods{"GET": s.limited(s.savepoints), "DELETE": s.limited(s.dropSavepoints)})
}

// checkpointShape is a checkpoint that has ended, as SeaTunnel shows it: numbers are numbers here, and times milliseconds.
type checkpointShape struct {
	CheckpointID       uint64                  `json:"checkpointId"`
	CheckpointType     engine.CheckpointKind   `json:"checkpointType"`
	Status             engine.CheckpointStatus `json:"status"`
	TriggerTimestamp   int64                   `json:"triggerTimestamp"`
	CompletedTimestamp int64                   `json:"completedTimestamp"`
	DurationMillis     int64                   `json:"durationMillis"`
	StateSize          int                     `json:"stateSize"`
	FailureReason      *string                 `json:"failureReason"`
}

type openCheckpointShape struct {
	CheckpointID     uint64                `json:"checkpointId"`
	CheckpointType   engine.CheckpointKind `json:"checkpointType"`
	TriggerTimestamp int64                 `json:"triggerTimestamp"`
	Acknowledged     int                   `json:"acknowledged"`
	Total            int                   `json:"total"`
}

type checkpointCounts struct {
	Triggered  int `json:"triggered"`
	Completed  int `json:"completed"`
	Failed     int `json:"failed"`
	Canceled   int `json:"canceled"` // ours: given up, because a task was lost or the master changed
	InProgress int `json:"inProgress"`
	Restored   int `json:"restored"`
}

type historyShape struct {
	PipelineID int             `json:"pipelineId"`
	Checkpoint checkpointShape `json:"checkpoint"`
}

type pipelineCheckpointsShape struct {
	PipelineID      int                   `json:"pipelineId"`
	Counts          checkpointCounts      `json:"counts"`
	LatestCompleted *checkpointShape      `json:"latestCompleted"`
	LatestFailed    *checkpointShape      `json:"latestFailed"`
	LatestSavepoint *checkpointShape      `json:"latestSavepoint"`
	InProgress      []openCheckpointShape `json:"inProgress"`
	History         []historyShape        `json:"history"`
}

type checkpointsShape struct {
	JobID     string                     `json:"jobId"`
	UpdatedAt int64                      `json:"updatedAt"`
	Pipelines []pipelineCheckpointsShape `json:"pipelines"`
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func checkpointShapeOf(v engine.CheckpointView) checkpointShape {
	c := checkpointShape{CheckpointID: v.ID, CheckpointType: v.Kind, Status: v.Status, TriggerTimestamp: millis(v.BeganAt),
		CompletedTimestamp: millis(v.EndedAt), StateSize: v.Bytes}
	if !v.BeganAt.IsZero() {
		c.DurationMillis = v.EndedAt.Sub(v.BeganAt).Milliseconds()
	}
	if v.Reason != "" {
		c.FailureReason = &v.Reason
	}
	return c
}

func latest(v *engine.CheckpointView) *checkpointShape {
	if v == nil {
		return nil
	}
	return new(checkpointShapeOf(*v))
}

// jobOf reads the job's id of a path. An id that no job can have is that of no job.
func jobOf(r *http.Request) (string, error) {
	text, err := pathVar(r, "jobId")
	if err != nil {
		return "", err
	}
	id, possible, err := jobID(text)
	if err == nil && !possible {
		err = failf(http.StatusNotFound, "there is no job %s", id)
	}
	return id, err
}

func (s *Server) figures(r *http.Request) (engine.JobCheckpoints, error) {
	id, err := jobOf(r)
	if err != nil {
		return engine.JobCheckpoints{}, err
	}
	m, err := s.cfg.Jobs.Checkpoints(r.Context(), id)
	if errors.Is(err, engine.ErrNotFound) {
		err = failf(http.StatusNotFound, "there is no job %s", id)
	}
	m.JobID = id
	return m, err
}

func (s *Server) checkpoints(w http.ResponseWriter, r *http.Request) error {
	m, err := s.figures(r)
	if err != nil {
		return err
	}
	shape := checkpointsShape{JobID: m.JobID, UpdatedAt: millis(m.UpdatedAt), Pipelines: []pipelineCheckpointsShape{}}
	for _, p := range m.Pipelines {
		x := pipelineCheckpointsShape{PipelineID: p.Pipeline, InProgress: []openCheckpointShape{}, History: historyOf(p),
			Counts:          checkpointCounts{Triggered: p.Triggered, Completed: p.Completed, Failed: p.Failed, Canceled: p.Canceled, Restored: p.Restored},
			LatestCompleted: latest(p.LatestCompleted), LatestFailed: latest(p.LatestFailed), LatestSavepoint: latest(p.LatestSavepoint)}
		if o := p.Open; o != nil {
			x.Counts.InProgress = 1
			x.InProgress = append(x.InProgress, openCheckpointShape{CheckpointID: o.ID, CheckpointType: o.Kind, TriggerTimestamp: millis(o.BeganAt),
				Acknowledged: o.Acknowledged, Total: o.Total})
		}
		shape.Pipelines = append(shape.Pipelines, x)
	}
	s.answer(w, r, http.StatusOK, shape)
	return nil
}

func historyOf(p engine.PipelineCheckpoints) []historyShape {
	out := []historyShape{}
	for _, v := range p.History {
		out = append(out, historyShape{PipelineID: p.Pipeline, Checkpoint: checkpointShapeOf(v)})
	}
	return out
}

// checkpointHistory lists the checkpoints of all pipelines, or of one, that have ended, the newest first.
func (s *Server) checkpointHistory(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	pipeline, err := countOf(q, "pipelineId", 0)
	if err != nil {
		return err
	}
	limit, err := countOf(q, "limit", defaultHistory)
	if err != nil {
		return err
	}
	status, err := q.get("status")
	if err != nil {
		return err
	}
	want := engine.CheckpointStatus(strings.ToUpper(status))
	if !slices.Contains([]engine.CheckpointStatus{"", engine.CheckpointCompleted, engine.CheckpointFailed, engine.CheckpointCanceled}, want) {
		return badRequest("status %q is not one of COMPLETED, FAILED, CANCELED", shorten(status))
	}
	m, err := s.figures(r)
	if err != nil {
		return err
	}
	out := []historyShape{}
	for _, p := range m.Pipelines {
		if pipeline == 0 || p.Pipeline == pipeline {
			out = append(out, historyOf(p)...)
		}
	}
	out = slices.DeleteFunc(out, func(h historyShape) bool { return want != "" && h.Checkpoint.Status != want })
	slices.SortStableFunc(out, func(a, b historyShape) int {
		return cmp.Compare(b.Checkpoint.CompletedTimestamp, a.Checkpoint.CompletedTimestamp)
	})
	s.answer(w, r, http.StatusOK, out[:min(len(out), limit)])
	return nil
}

// countOf reads a number above 0 of the query.
func countOf(q query, name string, def int) (int, error) {
	text, err := q.get(name)
	if err != nil || text == "" {
		return def, err
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, badRequest("Parameter '%s' must be a whole number above 0, but was: %s", name, shorten(text))
	}
	return n, nil
}

// savepointShape is a stored checkpoint; our own shape.
type savepointShape struct {
	PipelineID     int                   `json:"pipelineId"`
	CheckpointID   uint64                `json:"checkpointId"`
	CheckpointType engine.CheckpointKind `json:"checkpointType"`
	TakenAt        *time.Time            `json:"takenAt"` // null: it cannot be read
	StateSize      int                   `json:"stateSize"`
	Usable         bool                  `json:"usable"`
}

// savepoints lists what a job can be started again from, and, while it lives, what its tasks go on from.
func (s *Server) savepoints(w http.ResponseWriter, r *http.Request) error {
	id, err := jobOf(r)
	if err != nil {
		return err
	}
	m, err := s.cfg.Jobs.Savepoints(r.Context(), id)
	if errors.Is(err, engine.ErrNotFound) {
		err = failf(http.StatusNotFound, "there is no job %s", id)
	}
	if err != nil {
		return err
	}
	shapes := make([]savepointShape, 0, len(m.Savepoints))
	for _, v := range m.Savepoints {
		shapes = append(shapes, savepointShape{PipelineID: v.Pipeline, CheckpointID: v.ID, CheckpointType: v.Kind, TakenAt: moment(v.TakenAt), StateSize: v.Bytes, Usable: v.Usable})
	}
	s.answer(w, r, http.StatusOK, map[string]any{"jobId": id, "jobStatus": m.Status, "savepoints": shapes, "total": len(shapes)})
	return nil
}

// dropSavepoints removes what an ended job can be started again from.
func (s *Server) dropSavepoints(w http.ResponseWriter, r *http.Request) error {
	id, err := jobOf(r)
	if err != nil {
		return err
	}
	n, err := s.cfg.Jobs.DropSavepoints(r.Context(), id)
	if errors.Is(err, engine.ErrNotFound) {
		err = failf(http.StatusNotFound, "there is no job %s, and no savepoint of it", id)
	}
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, map[string]any{"jobId": id, "removed": n})
	return nil
}
