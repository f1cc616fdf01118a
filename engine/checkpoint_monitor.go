package engine

import (
	"cmp"
	"slices"
	"time"
)

// CheckpointStatus tells how a checkpoint ended.
type CheckpointStatus string

// How a checkpoint can end.
const (
	CheckpointCompleted CheckpointStatus = "COMPLETED"
	CheckpointFailed    CheckpointStatus = "FAILED"
	CheckpointCanceled  CheckpointStatus = "CANCELED" // it was given up: a task was lost, the master changed, the job is being stopped
)

// CheckpointView is a checkpoint that has ended.
type CheckpointView struct {
	ID      uint64
	Kind    CheckpointKind
	Status  CheckpointStatus
	BeganAt time.Time
	EndedAt time.Time
	Bytes   int    // of what is stored
	Reason  string // why it did not complete
}

// OpenCheckpoint is a checkpoint in flight.
type OpenCheckpoint struct {
	ID           uint64
	Kind         CheckpointKind
	BeganAt      time.Time
	Acknowledged int // tasks that have answered
	Total        int // tasks that are asked
}

// PipelineCheckpoints are the figures of one pipeline.
type PipelineCheckpoints struct {
	Pipeline                                       int
	Triggered, Completed, Failed, Canceled         int
	Restored                                       int // times that tasks went on from one
	LatestCompleted, LatestFailed, LatestSavepoint *CheckpointView
	Open                                           *OpenCheckpoint
	History                                        []CheckpointView // the newest first, at most maxHistoryRing
}

// JobCheckpoints are the figures of a job.
type JobCheckpoints struct {
	JobID       string
	Incarnation string
	UpdatedAt   time.Time
	Pipelines   []PipelineCheckpoints
	Ended       bool // the job has ended, and these go with its history
}

// maxHistoryRing bounds the history of a pipeline.
const maxHistoryRing = 32

// pipeline returns the figures of a pipeline; it makes them if there are none.
func (m *JobCheckpoints) pipeline(id int) *PipelineCheckpoints {
	i, found := slices.BinarySearchFunc(m.Pipelines, id, func(p PipelineCheckpoints, id int) int { return cmp.Compare(p.Pipeline, id) })
	if !found {
		m.Pipelines = slices.Insert(m.Pipelines, i, PipelineCheckpoints{Pipeline: id})
	}
	return &m.Pipelines[i]
}

// clone returns a copy whose parts may be changed.
func (m JobCheckpoints) clone() JobCheckpoints {
	m.Pipelines = slices.Clone(m.Pipelines)
	for i := range m.Pipelines {
		m.Pipelines[i].History = slices.Clone(m.Pipelines[i].History)
	}
	return m
}

// note takes from one step of a pipeline what became of its checkpoints. bytes is the size of the one that was stored, if one was; reason is why
// the one in flight failed, empty if it was only given up. It reports whether there was anything.
func (m *JobCheckpoints) note(a, b *pipelineState, kind CheckpointKind, bytes int, reason string, now time.Time) bool {
	again := b.Ckpt.Done != 0 && restarted(a, b)
	if a.Ckpt == b.Ckpt && !again {
		return false
	}
	p := m.pipeline(b.ID)
	if a.Ckpt.Open != 0 && a.Ckpt.Open != b.Ckpt.Open {
		v := CheckpointView{ID: a.Ckpt.Open, Kind: RegularCheckpoint, Status: CheckpointCanceled, EndedAt: now, Reason: reason}
		if p.Open != nil && p.Open.ID == v.ID {
			v.BeganAt = p.Open.BeganAt
		}
		switch {
		case b.Ckpt.Done == v.ID:
			v.Status, v.Bytes, v.Reason = CheckpointCompleted, bytes, ""
		case reason != "":
			v.Status = CheckpointFailed
		}
		p.Open = nil
		p.end(v)
	}
	if b.Ckpt.Open != 0 && b.Ckpt.Open != a.Ckpt.Open {
		p.Triggered++
		p.Open = &OpenCheckpoint{ID: b.Ckpt.Open, Kind: RegularCheckpoint, BeganAt: now, Total: count(b, TaskRunning)}
	}
	if b.Ckpt.Final != 0 && b.Ckpt.Final != a.Ckpt.Final {
		p.Triggered++
		p.end(CheckpointView{ID: b.Ckpt.Final, Kind: kind, Status: CheckpointCompleted, BeganAt: now, EndedAt: now, Bytes: bytes})
	}
	if again {
		p.Restored++
	}
	m.UpdatedAt = now
	return true
}

func (p *PipelineCheckpoints) end(v CheckpointView) {
	switch v.Status {
	case CheckpointCompleted:
		p.Completed++
		p.LatestCompleted = &v
		if v.Kind == SavepointKind {
			p.LatestSavepoint = &v
		}
	case CheckpointFailed:
		p.Failed++
		p.LatestFailed = &v
	case CheckpointCanceled:
		p.Canceled++
	}
	p.History = slices.Insert(p.History, 0, v)
	p.History = p.History[:min(len(p.History), maxHistoryRing)]
}

// restarted reports whether an attempt was raised.
func restarted(a, b *pipelineState) bool {
	for i := range b.Tasks {
		if b.Tasks[i].Attempt > a.Tasks[i].Attempt {
			return true
		}
	}
	return false
}

func count(p *pipelineState, s TaskStatus) int {
	n := 0
	for _, t := range p.Tasks {
		if t.Status == s {
			n++
		}
	}
	return n
}
