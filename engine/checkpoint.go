package engine

import "fmt"

// maxCheckpoint bounds one checkpoint of one pipeline: an entry of the store may have 4 MiB.
const maxCheckpoint = 3 << 20

// CheckpointKind tells why a checkpoint was taken. The names are SeaTunnel Zeta's.
type CheckpointKind string

// The kinds of checkpoint.
const (
	RegularCheckpoint CheckpointKind = "CHECKPOINT_TYPE"
	SavepointKind     CheckpointKind = "SAVEPOINT_TYPE"
	CompletedPoint    CheckpointKind = "COMPLETED_POINT_TYPE" // the end of a batch pipeline
)

// ckptState is what the state of a pipeline says about its checkpoints. One is in flight at most, and the next begins only when all output of
// the last is visible.
type ckptState struct {
	Next      uint64 // the id of the next checkpoint, 0 counts as 1; it only rises, also from one incarnation to the next
	Open      uint64 // in flight; 0: none
	Done      uint64 // the newest complete one, from which tasks go on; 0: none
	Committed bool   // all output that was prepared for Done is visible
	Broken    bool   // some output that was prepared for Done can never become visible
	Final     uint64 // the savepoint or completed point that the commit decision wrote; 0: none
	Rescaled  bool   // Done was taken with another parallelism: it tells where all tasks together are, not where each one is
}

// take returns a new id.
func (c *ckptState) take() uint64 {
	id := max(c.Next, 1)
	c.Next = id + 1
	return id
}

// settled reports whether nothing of the newest complete checkpoint is still to be committed.
func (c ckptState) settled() bool { return c.Done == 0 || c.Committed || c.Broken }

// taskPoint is where a task group is at a checkpoint: everything that a new attempt needs to go on from there.
type taskPoint struct {
	Source, Subtask int
	Done            bool          // it has read all rows
	Position        []byte        // of the reader, unless Done
	States          []vertexState // of the writers that have any
	Tallies         []tally
	Prepared        []preparedOutput // becomes visible when the checkpoint is complete
	Worker          string           // who prepared it
}

// vertexState is what one vertex of a task group has to remember.
type vertexState struct {
	Vertex int
	Data   []byte
}

// bytes estimates the size of a point.
func (t taskPoint) bytes() int {
	n := 64 + len(t.Position) + sizeOf(t.Prepared)
	for _, s := range t.States {
		n += 16 + len(s.Data)
	}
	for _, x := range t.Tallies {
		n += 64 + len(x.Table)
	}
	return n
}

// checkpointData is a complete checkpoint of one pipeline.
type checkpointData struct {
	JobID, Incarnation string
	JobCreatedMs       int64 // orders the incarnations of a job, where only files tell of them
	Pipeline           int
	ID                 uint64
	Kind               CheckpointKind
	TakenMs            int64
	Vertices           []vertexSpec // of the pipeline, in its order
	Tasks              []taskPoint
}

// vertexSpec says which plugin a vertex was, so that a changed config is noticed.
type vertexSpec struct {
	ID          int
	Kind        string // source, transform, sink
	Plugin      string
	Parallelism int // of a source
}

// point returns the point of a task group, or nil.
func (c *checkpointData) point(source, subtask int) *taskPoint {
	if c == nil {
		return nil
	}
	return pointIn(c.Tasks, source, subtask)
}

func pointIn(list []taskPoint, source, subtask int) *taskPoint {
	for i := range list {
		if t := &list[i]; t.Source == source && t.Subtask == subtask {
			return t
		}
	}
	return nil
}

// prepared reports whether there is any output to commit.
func (c *checkpointData) prepared() bool {
	for _, t := range c.Tasks {
		if len(t.Prepared) > 0 {
			return true
		}
	}
	return false
}

// dataKey is where a complete checkpoint is stored.
func dataKey(jobID, incarnation string, pipeline int, id uint64) Key {
	return Key{Map: MapCheckpointData, Place: jobID, Key: fmt.Sprintf("%s/%s/%d/%d", jobID, incarnation, pipeline, id)}
}

// size is bytes of a point that may be absent.
func (t *taskPoint) size() int {
	if t == nil {
		return 0
	}
	return t.bytes()
}

// pointsOf lists where the tasks of a pipeline are at the checkpoint that became complete. A task that had ended stays where the checkpoint before
// had it, because its output is not visible before the pipeline's end; one that no checkpoint has begins at its start.
func pointsOf(before *checkpointData, p *pipelineState) []taskPoint {
	var out []taskPoint
	for i := range p.Tasks {
		t := &p.Tasks[i]
		if pt := pointIn(p.answered, t.Source, t.Subtask); pt != nil {
			out = append(out, *pt)
		} else if old := before.point(t.Source, t.Subtask); old != nil {
			kept := *old
			kept.Prepared = nil
			out = append(out, kept)
		}
	}
	return out
}

// finalPointsOf lists where the tasks of a pipeline are whose output is about to be committed for good.
func finalPointsOf(before *checkpointData, p *pipelineState) []taskPoint {
	var out []taskPoint
	for i := range p.Tasks {
		t := &p.Tasks[i]
		switch old := before.point(t.Source, t.Subtask); {
		case t.Status == TaskFinished && t.End != nil:
			pt := *t.End
			pt.Source, pt.Subtask, pt.Tallies = t.Source, t.Subtask, t.Tallies
			out = append(out, pt)
		case old != nil:
			kept := *old
			kept.Prepared = nil
			out = append(out, kept)
		}
	}
	return out
}
