package engine

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// SavepointView is a checkpoint from which a job can be started again, or from which its tasks go on while it lives.
type SavepointView struct {
	Pipeline int
	ID       uint64
	Kind     CheckpointKind
	TakenAt  time.Time
	Bytes    int
	Usable   bool // false: some of its output was lost before it became visible
}

// JobSavepoints are the checkpoints of a job that are stored, the oldest of each pipeline first.
type JobSavepoints struct {
	JobID       string
	Incarnation string
	Status      JobStatus // the job's end; empty while it lives
	Savepoints  []SavepointView
}

// Checkpoints returns the figures of a job's checkpoints, or ErrNotFound if there is no such job. A job without checkpoints has none.
func (s *Service) Checkpoints(ctx context.Context, jobID string) (JobCheckpoints, error) {
	n, err := parseJobID(jobID)
	if err != nil {
		return JobCheckpoints{}, err
	}
	return viaMaster(ctx, s, opCheckpoints, strconv.FormatInt(n, 10), reading, checkpointsLocal)
}

// Savepoints returns what is stored of a job's checkpoints, or ErrNotFound if nothing is and there is no such job.
func (s *Service) Savepoints(ctx context.Context, jobID string) (JobSavepoints, error) {
	n, err := parseJobID(jobID)
	if err != nil {
		return JobSavepoints{}, err
	}
	return viaMaster(ctx, s, opSavepoints, strconv.FormatInt(n, 10), reading, savepointsLocal)
}

func checkpointsLocal(ctx context.Context, c *coordinator, jobID string) (JobCheckpoints, error) {
	e, err := c.s.cfg.Store.Get(ctx, keyOf(MapCheckpointMonitor, jobID))
	if err != nil {
		return JobCheckpoints{}, err
	}
	var m *JobCheckpoints
	if err := load(e, &m); err != nil {
		return JobCheckpoints{}, err
	}
	if m == nil {
		v, err := infoLocal(ctx, c, jobID)
		return JobCheckpoints{JobID: jobID, Incarnation: v.Incarnation}, err
	}
	if d := c.driver(jobID); d != nil && d.incarnation == m.Incarnation {
		for i := range m.Pipelines {
			if o := m.Pipelines[i].Open; o != nil {
				if id, n := d.book.acknowledged(m.Pipelines[i].Pipeline); id == o.ID {
					o.Acknowledged = n
				}
			}
		}
	}
	return *m, nil
}

func savepointsLocal(ctx context.Context, c *coordinator, jobID string) (JobSavepoints, error) {
	e, err := c.s.cfg.Store.Get(ctx, keyOf(MapCheckpointID, jobID))
	if err != nil {
		return JobSavepoints{}, err
	}
	out := JobSavepoints{JobID: jobID}
	var index *checkpointIndex
	if err := load(e, &index); err != nil {
		return out, err
	}
	if index != nil {
		out.Incarnation, out.Status = index.Incarnation, index.Status
		for _, p := range index.Pipelines {
			for _, k := range p.Kept {
				out.Savepoints = append(out.Savepoints, SavepointView{Pipeline: p.ID, ID: k.ID, Kind: k.Kind, TakenAt: timeOf(k.TakenMs), Bytes: k.Bytes, Usable: !k.Broken})
			}
		}
		return out, nil
	}
	if files := c.s.cfg.Checkpoint.Storage; files != nil {
		refs, err := files.List(ctx, jobID)
		if err != nil {
			return out, fmt.Errorf("list the stored checkpoints of job %s: %w", jobID, err)
		}
		for _, r := range refs {
			out.Savepoints = append(out.Savepoints, storedView(ctx, files, r))
			out.Incarnation = r.Incarnation
		}
		if len(refs) > 0 {
			return out, nil
		}
	}
	v, err := infoLocal(ctx, c, jobID)
	if out.Incarnation = v.Incarnation; v.Status.Final() {
		out.Status = v.Status
	}
	return out, err
}

// storedView shows a checkpoint of the storage; one that cannot be read is not usable.
func storedView(ctx context.Context, files CheckpointStorage, r CheckpointRef) SavepointView {
	v := SavepointView{Pipeline: r.Pipeline, ID: r.ID}
	if raw, _, err := files.Get(ctx, r); err == nil {
		if data, err := unseal(raw); err == nil {
			v.Kind, v.TakenAt, v.Bytes, v.Usable = data.Kind, timeOf(data.TakenMs), len(raw), true
		}
	}
	return v
}
