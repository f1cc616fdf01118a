package engine

import (
	"cmp"
	"slices"
)

// checkpointIndex says which complete checkpoints of a job are stored. It is written together with them, and stays when the job has ended in a
// way in which it can be started again.
type checkpointIndex struct {
	Incarnation  string
	From         string // the incarnation from whose checkpoints this one was started
	Name         string // of the job
	JobCreatedMs int64
	Status       JobStatus // the end of the job; empty while it lives
	Pipelines    []keptPipeline
}

// keptPipeline lists the checkpoints of one pipeline that are stored, the oldest first.
type keptPipeline struct {
	ID   int
	Kept []keptCheckpoint
}

// keptCheckpoint is one of them.
type keptCheckpoint struct {
	ID      uint64
	Kind    CheckpointKind
	TakenMs int64
	Bytes   int
	Settled bool // all its output is visible
	Broken  bool // some of its output never will be
}

func (x checkpointIndex) clone() checkpointIndex {
	x.Pipelines = slices.Clone(x.Pipelines)
	for i := range x.Pipelines {
		x.Pipelines[i].Kept = slices.Clone(x.Pipelines[i].Kept)
	}
	return x
}

func (x *checkpointIndex) pipeline(id int) *keptPipeline {
	i, found := slices.BinarySearchFunc(x.Pipelines, id, func(p keptPipeline, id int) int { return cmp.Compare(p.ID, id) })
	if !found {
		x.Pipelines = slices.Insert(x.Pipelines, i, keptPipeline{ID: id})
	}
	return &x.Pipelines[i]
}

// keep adds a checkpoint, and returns the ids of those that are too many now. Of those that are left, one at least is settled or newer than all
// that are not.
func (p *keptPipeline) keep(k keptCheckpoint, most int) (drop []uint64) {
	p.Kept = append(p.Kept, k)
	for len(p.Kept) > most {
		drop = append(drop, p.Kept[0].ID)
		p.Kept = p.Kept[1:]
	}
	return drop
}

// settle notes what became of the output of a checkpoint. It reports whether that is news.
func (p *keptPipeline) settle(c ckptState) bool {
	news := false
	for i := range p.Kept {
		k := &p.Kept[i]
		if k.ID != c.Done {
			continue
		}
		news = news || k.Settled != c.Committed || k.Broken != c.Broken
		k.Settled, k.Broken = c.Committed, c.Broken
	}
	return news
}

// newest returns the checkpoint from which a pipeline can go on, or nil.
func (p keptPipeline) newest() *keptCheckpoint {
	if len(p.Kept) == 0 {
		return nil
	}
	return &p.Kept[len(p.Kept)-1]
}

// retained returns what is left of the index after the job's end: nothing, the savepoint, or up to most checkpoints of each pipeline.
// The point that a pipeline wrote at its commit decision counts only if the pipeline has come to that end.
func (x checkpointIndex) retained(st *jobState, retainCanceled bool, most int) checkpointIndex {
	out := x.clone()
	out.Status = st.Status
	if st.Status == JobFinished || st.Status == JobCanceled && !retainCanceled {
		out.Pipelines = nil
		return out
	}
	for i := range out.Pipelines {
		p := &out.Pipelines[i]
		finished, final := false, uint64(0)
		for _, s := range st.Pipelines {
			if s.ID == p.ID {
				finished, final = s.Status == TaskFinished, s.Ckpt.Final
			}
		}
		p.Kept = slices.DeleteFunc(p.Kept, func(k keptCheckpoint) bool { return k.ID == final && !finished })
		if st.Status == JobSavepointDone {
			most = 1
		}
		p.Kept = p.Kept[max(len(p.Kept)-most, 0):]
	}
	out.Pipelines = slices.DeleteFunc(out.Pipelines, func(p keptPipeline) bool { return len(p.Kept) == 0 })
	return out
}

// refs lists what is stored of an incarnation: nothing, unless the index is about that.
func (x checkpointIndex) refs(jobID, incarnation string) []CheckpointRef {
	var out []CheckpointRef
	if incarnation != x.Incarnation {
		return nil
	}
	for _, p := range x.Pipelines {
		for _, k := range p.Kept {
			out = append(out, CheckpointRef{JobID: jobID, Incarnation: incarnation, Pipeline: p.ID, ID: k.ID})
		}
	}
	return out
}

// missing lists the keys of what x has and y has not.
func (x checkpointIndex) missing(jobID string, y checkpointIndex) []Key {
	var out []Key
	for _, p := range x.Pipelines {
		other := y.pipeline(p.ID)
		for _, k := range p.Kept {
			if y.Incarnation != x.Incarnation || !slices.ContainsFunc(other.Kept, func(o keptCheckpoint) bool { return o.ID == k.ID }) {
				out = append(out, dataKey(jobID, x.Incarnation, p.ID, k.ID))
			}
		}
	}
	return out
}
