package engine

import (
	"context"
	"fmt"
	"time"

	"gridnode/engine/config"
)

// staged is what a step would make of the book. A step may be built several times before its transaction is done, so nothing of it counts before
// that.
type staged struct {
	index   checkpointIndex
	monitor JobCheckpoints
	data    map[int]*checkpointData
	opened  map[int]uint64

	put     []Put
	delete  []Key
	settled []CheckpointRef
	dropped []CheckpointRef
}

// stage works out what a step from prev to next means for the stored checkpoints. A checkpoint that the step makes complete is put into the
// storage first. If that fails it is given up, or, if it is a pipeline's last one, the step is to be decided anew without it: errUnstored.
func (b *book) stage(ctx context.Context, prev, next *jobState, obs []observation) error {
	s := staged{index: b.index.clone(), monitor: b.monitor.clone(), data: mapsClone(b.data), opened: mapsClone(b.opened)}
	indexed, noted := false, false
	for i := range next.Pipelines {
		p, q := &prev.Pipelines[i], &next.Pipelines[i]
		bytes, reason := 0, ""
		for _, c := range b.completed(p, q, kindOf(next)) {
			n, err := b.store(ctx, &s, c)
			if err != nil && c.Kind == RegularCheckpoint {
				b.d.log.Warn("checkpoint given up: it cannot be stored", "pipeline", p.ID, "checkpoint", c.ID, "error", err)
				q.Ckpt.Open, q.Ckpt.Done, q.Ckpt.Committed = 0, p.Ckpt.Done, p.Ckpt.Committed
				reason = err.Error()
				continue
			}
			if err != nil {
				return b.refused(c, err)
			}
			bytes, indexed = n, true
		}
		if k := s.index.pipeline(q.ID); len(k.Kept) > 0 && k.settle(q.Ckpt) {
			indexed = true
			s.settled = append(s.settled, CheckpointRef{JobID: b.d.jobID, Incarnation: b.d.incarnation, Pipeline: q.ID, ID: q.Ckpt.Done})
		}
		if q.Ckpt.Open != p.Ckpt.Open && q.Ckpt.Open != 0 {
			s.opened[q.ID] = q.Ckpt.Open
		}
		noted = s.monitor.note(p, q, kindOf(next), bytes, reasonOf(p, q, obs, reason), time.Now()) || noted
	}
	if indexed {
		s.put = append(s.put, Put{Key: keyOf(MapCheckpointID, b.d.jobID), Value: encode(s.index)})
	}
	if noted {
		s.put = append(s.put, Put{Key: keyOf(MapCheckpointMonitor, b.d.jobID), Value: encode(s.monitor)})
	}
	b.next = s
	return nil
}

// errUnstored says that the storage has not taken a pipeline's last checkpoint.
var errUnstored = fmt.Errorf("%w: the storage does not take a checkpoint", ErrRetryable)

// After the storage has refused a pipeline's last checkpoint, it is asked again after so long; each time the wait doubles.
const (
	firstStoreRetry = 500 * time.Millisecond
	maxStoreRetry   = 10 * time.Second
)

// refusal is what the storage said about a pipeline's last checkpoint.
type refusal struct {
	why   string
	tries int
	until time.Time // nobody asks before
}

// refused notes that the storage did not take a pipeline's last checkpoint. The pipeline does not end until it has.
func (b *book) refused(c *checkpointData, err error) error {
	r := b.refusals[c.Pipeline]
	r.why = err.Error()
	r.until = time.Now().Add(min(firstStoreRetry<<min(r.tries, 10), maxStoreRetry))
	r.tries++
	b.refusals[c.Pipeline] = r
	b.d.log.Warn("a pipeline does not end until its last checkpoint is stored", "pipeline", c.Pipeline, "checkpoint", c.ID, "tries", r.tries, "error", err)
	return errUnstored
}

// unstorable reports whether the storage is not asked about a pipeline's last checkpoint for now.
func (b *book) unstorable(pipeline int) bool { return time.Now().Before(b.refusals[pipeline].until) }

// add puts what was staged into the transaction of the step.
func (b *book) add(t Txn) Txn {
	t.Put = append(t.Put, b.next.put...)
	t.Delete = append(t.Delete, b.next.delete...)
	return t
}

func kindOf(st *jobState) CheckpointKind {
	if st.Savepoint {
		return SavepointKind
	}
	return CompletedPoint
}

// reasonOf says why the checkpoint in flight failed, if it did.
func reasonOf(p, q *pipelineState, obs []observation, stored string) string {
	if stored != "" || p.Ckpt.Open == 0 || q.Ckpt.Open == p.Ckpt.Open {
		return stored
	}
	for _, o := range obs {
		if o.kind == obsCkptLate && o.ref.Pipeline == p.ID && o.ckpt == p.Ckpt.Open {
			return fmt.Sprintf("not complete within checkpoint.timeout: no answer of %v", o.late)
		}
	}
	return ""
}

// completed returns the checkpoints of a pipeline that the step makes complete.
func (b *book) completed(p, q *pipelineState, end CheckpointKind) []*checkpointData {
	var out []*checkpointData
	vertices := b.vertices(q.ID)
	c := checkpointData{JobID: b.d.jobID, Incarnation: b.d.incarnation, JobCreatedMs: b.d.def.info.CreatedMs, Pipeline: q.ID,
		TakenMs: time.Now().UnixMilli(), Vertices: vertices}
	if q.Ckpt.Done != p.Ckpt.Done {
		regular := c
		regular.ID, regular.Kind, regular.Tasks = q.Ckpt.Done, RegularCheckpoint, pointsOf(b.data[q.ID], q)
		out = append(out, &regular)
	}
	if q.Ckpt.Final != p.Ckpt.Final {
		final := c
		final.ID, final.Kind, final.Tasks = q.Ckpt.Final, end, finalPointsOf(b.data[q.ID], q)
		out = append(out, &final)
	}
	return out
}

func (b *book) vertices(pipeline int) []vertexSpec {
	p, _ := b.d.def.pipeline(pipeline)
	return specsOf(p)
}

func specsOf(p config.Pipeline) []vertexSpec {
	var out []vertexSpec
	for _, v := range p.Vertices {
		out = append(out, vertexSpec{ID: v.ID, Kind: string(v.Kind), Plugin: v.Plugin, Parallelism: v.Parallelism})
	}
	return out
}

// store stages a complete checkpoint, and what it makes superfluous.
func (b *book) store(ctx context.Context, s *staged, c *checkpointData) (bytes int, err error) {
	raw := sealed(c)
	if files := b.d.c.s.cfg.Checkpoint.Storage; files != nil {
		if err := files.Put(ctx, c.ref(), raw); err != nil {
			return 0, err
		}
		if c.Kind != RegularCheckpoint {
			delete(b.refusals, c.Pipeline)
		}
	}
	s.put = append(s.put, Put{Key: dataKey(c.JobID, c.Incarnation, c.Pipeline, c.ID), Value: raw})
	kept := keptCheckpoint{ID: c.ID, Kind: c.Kind, TakenMs: c.TakenMs, Bytes: len(raw)}
	for _, id := range s.index.pipeline(c.Pipeline).keep(kept, b.d.c.s.cfg.Checkpoint.MaxRetained+b.extra(c)) {
		s.delete = append(s.delete, dataKey(c.JobID, c.Incarnation, c.Pipeline, id))
		s.dropped = append(s.dropped, CheckpointRef{JobID: c.JobID, Incarnation: c.Incarnation, Pipeline: c.Pipeline, ID: id})
	}
	if c.Kind == RegularCheckpoint {
		s.data[c.Pipeline] = c
	}
	return len(raw), nil
}

// extra keeps one checkpoint more than allowed while a pipeline's last point is on its way: if its output is lost, tasks go on from the one before.
func (b *book) extra(c *checkpointData) int {
	if c.Kind == RegularCheckpoint {
		return 0
	}
	return 1
}

func (c *checkpointData) ref() CheckpointRef {
	return CheckpointRef{JobID: c.JobID, Incarnation: c.Incarnation, Pipeline: c.Pipeline, ID: c.ID}
}

// mapsClone is maps.Clone, but never nil.
func mapsClone[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
