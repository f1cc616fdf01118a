package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"gridnode/engine/config"
	"gridnode/engine/plugin"
)

// restart is what a job can be started with again: the newest checkpoint of each pipeline that has one.
type restart struct {
	index    checkpointIndex
	version  uint64 // of the index's entry; 0: what follows comes from the storage
	data     []*checkpointData
	settled  map[int]bool // by pipeline: all output of the checkpoint is visible
	warnings []string
}

// resumeLocal submits a job that has ended once more, to go on from its savepoint, or from the newest checkpoints that were kept of it.
func resumeLocal(ctx context.Context, c *coordinator, req SubmitRequest, plan *config.Job) (SubmitResult, error) {
	s, id := c.s, req.JobID
	snap, err := read(ctx, s.cfg.Store, id)
	if err != nil {
		return SubmitResult{}, err
	}
	if name, status, ok := resumedBefore(snap, req.SubmitKey); ok {
		return SubmitResult{JobID: id, JobName: name, Status: status, Warnings: plan.Warnings}, nil
	}
	if why := c.tooLarge(newState(jobInfo{}, plan, c.term), plan.Tags); why != "" {
		return SubmitResult{}, fmt.Errorf("%w: job %s cannot run here: %s", ErrConflict, id, why)
	}
	if err := c.finishCleanup(ctx, snap); err != nil {
		return SubmitResult{}, err
	}
	info := jobInfo{Incarnation: uuid.NewString(), SubmitKey: req.SubmitKey, Name: cmp.Or(req.JobName, plan.Name), Config: req.Config,
		CreatedMs: time.Now().UnixMilli(), Savepoint: true}
	res := SubmitResult{JobID: id, JobName: info.Name, Status: JobCreated, Warnings: plan.Warnings}
	var told []string // what the user should know of where the job goes on
	err = update(ctx, s.cfg.Store, id, func(snap snapshot) (Txn, error) {
		if name, status, ok := resumedBefore(snap, req.SubmitKey); ok {
			res.JobName, res.Status = name, status
			return Txn{}, errNothing
		}
		from, err := c.findRestart(ctx, id)
		if err != nil {
			return Txn{}, err
		}
		told = slices.Concat(from.warnings, from.fresh(plan))
		res.Warnings = slices.Concat(plan.Warnings, told)
		return c.resumeTxn(ctx, snap, info, plan, from)
	})
	if err := ignoring(err, errNothing); err != nil {
		if !errors.Is(err, ErrIndeterminate) {
			c.unstore(id, info.Incarnation)
		}
		return SubmitResult{}, err
	}
	s.cfg.Logger.Info("job accepted, to go on from a checkpoint", "job", id, "name", res.JobName, "term", c.term)
	for _, text := range told {
		s.cfg.Logger.Warn("job does not go on from where it was", "job", id, "because", text)
	}
	c.adoptSoon(id)
	return res, nil
}

// unstore removes what a start that was refused has put into the storage.
func (c *coordinator) unstore(id, incarnation string) {
	files := c.s.cfg.Checkpoint.Storage
	if files == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.s.cfg.CommitTimeout)
	defer cancel()
	if err := files.Clean(ctx, id, incarnation, nil); err != nil {
		c.s.cfg.Logger.Warn("a job was not started again, and its copy of the checkpoint stays in the storage", "job", id, "error", err)
	}
}

// resumedBefore returns the status of the job that is live, or of the one that the same submit has made.
func resumedBefore(snap snapshot, submitKey string) (name string, status JobStatus, ok bool) {
	switch {
	case shown(snap.state) && snap.info != nil:
		return snap.info.Name, snap.state.Status, true
	case snap.info != nil && snap.info.Savepoint && submitKey != "" && snap.info.SubmitKey == submitKey:
		if snap.state != nil {
			return snap.info.Name, snap.state.Status, true
		}
		return snap.info.Name, JobCreated, snap.record == nil
	case snap.history != nil && snap.history.View.Savepoint && submitKey != "" && snap.history.SubmitKey == submitKey:
		return snap.history.View.JobName, snap.history.View.Status, true
	}
	return "", "", false
}

// findRestart looks for what a job can go on from: in the grid, and if that has nothing, in the storage.
func (c *coordinator) findRestart(ctx context.Context, id string) (restart, error) {
	store := c.s.cfg.Store
	e, err := store.Get(ctx, keyOf(MapCheckpointID, id))
	if err != nil {
		return restart{}, fmt.Errorf("read the checkpoints of job %s: %w", id, err)
	}
	r := restart{version: e.Version, settled: map[int]bool{}}
	var index *checkpointIndex
	if err := load(e, &index); err != nil {
		return r, err
	}
	if index == nil {
		return c.findStored(ctx, id)
	}
	r.index = *index
	for _, p := range index.Pipelines {
		k := p.newest()
		if k == nil {
			continue
		}
		if k.Broken {
			return r, fmt.Errorf("%w: some output of checkpoint %d of pipeline %d of job %s was lost before it became visible: the job cannot go on from it", ErrInvalid, k.ID, p.ID, id)
		}
		data, err := loadCheckpoint(ctx, store, id, index.Incarnation, p.ID, k.ID)
		if err != nil && !again(asRetry(ctx, err)) {
			return r, fmt.Errorf("%w: %v", ErrInvalid, err)
		}
		if err != nil {
			return r, asRetry(ctx, err)
		}
		r.data = append(r.data, data)
		r.settled[p.ID] = k.Settled || k.Kind != RegularCheckpoint
	}
	if len(r.data) == 0 {
		return r, noSavepoint(id)
	}
	return r, nil
}

func noSavepoint(id string) error {
	return fmt.Errorf("%w: isStartWithSavePoint is true, and there is no savepoint of job %s, nor any checkpoint that was kept", ErrInvalid, id)
}

// findStored looks into the storage: for the newest incarnation, and there for the newest checkpoint of each pipeline that can be read. One that is
// passed over is told: then rows can come twice.
func (c *coordinator) findStored(ctx context.Context, id string) (restart, error) {
	r := restart{settled: map[int]bool{}}
	files := c.s.cfg.Checkpoint.Storage
	if files == nil {
		return r, noSavepoint(id)
	}
	refs, err := files.List(ctx, id)
	if err != nil {
		return r, fmt.Errorf("list the stored checkpoints of job %s: %w", id, err)
	}
	slices.SortFunc(refs, func(a, b CheckpointRef) int { return cmp.Or(a.Pipeline-b.Pipeline, -cmp.Compare(a.ID, b.ID)) })
	found := map[CheckpointRef]*checkpointData{}
	bad := map[CheckpointRef]error{}
	newest := ""
	var newestMs int64
	for _, ref := range refs {
		data, settled, err := readStored(ctx, files, ref)
		if err != nil {
			bad[ref] = err
			continue
		}
		found[ref] = data
		if newest == "" || data.JobCreatedMs > newestMs {
			newest, newestMs = ref.Incarnation, data.JobCreatedMs
		}
		if settled {
			data.settle()
		}
	}
	if len(found) == 0 && len(refs) > 0 {
		return r, fmt.Errorf("%w: job %s cannot go on: %v", ErrInvalid, id, bad[refs[0]])
	}
	if len(found) == 0 {
		return r, noSavepoint(id)
	}
	return r.choose(refs, newest, found, bad)
}

func readStored(ctx context.Context, files CheckpointStorage, ref CheckpointRef) (*checkpointData, bool, error) {
	raw, settled, err := files.Get(ctx, ref)
	if err != nil {
		return nil, false, err
	}
	data, err := unseal(raw)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", files.Where(ref), err)
	}
	return data, settled, nil
}

// settle takes out what is visible already.
func (c *checkpointData) settle() {
	for i := range c.Tasks {
		c.Tasks[i].Prepared = nil
	}
}

// choose takes the newest of each pipeline. refs are ordered so.
func (r restart) choose(refs []CheckpointRef, incarnation string, found map[CheckpointRef]*checkpointData, bad map[CheckpointRef]error) (restart, error) {
	r.index.Incarnation = incarnation
	chosen := map[int]bool{}
	for _, ref := range refs {
		if ref.Incarnation != incarnation || chosen[ref.Pipeline] {
			continue
		}
		if err := bad[ref]; err != nil {
			r.warnings = append(r.warnings, fmt.Sprintf("%v is passed over, and rows since an older one may come twice: %v", ref, err))
			continue
		}
		data := found[ref]
		chosen[ref.Pipeline] = true
		r.data = append(r.data, data)
		r.settled[ref.Pipeline] = !data.prepared()
	}
	told := map[string]bool{}
	for _, ref := range refs {
		if err := bad[ref]; err != nil && ref.Incarnation != incarnation && !told[ref.Incarnation] {
			told[ref.Incarnation] = true
			r.warnings = append(r.warnings, fmt.Sprintf("%v of another run is passed over, and if that run was the last one, rows since the one before may come twice: %v", ref, err))
		}
		if ref.Incarnation == incarnation && !chosen[ref.Pipeline] {
			return r, fmt.Errorf("%w: pipeline %d of job %s cannot go on, and does not begin anew: %v", ErrInvalid, ref.Pipeline, ref.JobID, bad[ref])
		}
	}
	return r, nil
}

// fresh tells of the pipelines of which there is no checkpoint: those that the config has got since, or that had not come to one.
func (r restart) fresh(plan *config.Job) []string {
	var out []string
	for _, p := range plan.Pipelines {
		if !slices.ContainsFunc(r.data, func(c *checkpointData) bool { return c.Pipeline == p.ID }) {
			out = append(out, fmt.Sprintf("pipeline %d begins at its start: there is no checkpoint of it", p.ID))
		}
	}
	return out
}

// resumeTxn stores a new incarnation of the job that begins where the checkpoints are. They become its own: the old ones go.
func (c *coordinator) resumeTxn(ctx context.Context, snap snapshot, info jobInfo, plan *config.Job, from restart) (Txn, error) {
	now := time.Now().UnixMilli()
	free := snap
	free.history = nil // it may be there: that is the run that this one goes on from
	if err := submitGuard(free, now, c.s.cfg.StateCleanupDelay); err != nil {
		return Txn{}, err
	}
	st := newState(info, plan, c.term)
	index := checkpointIndex{Incarnation: info.Incarnation, From: from.index.Incarnation, Name: info.Name, JobCreatedMs: info.CreatedMs}
	id := snap.jobID
	txn := Txn{If: append(snap.conds(MapRunningJobInfo, MapRunningJobState, MapStateTimestamps, MapPendingJobCleanup, MapFinishedJobState),
		Cond{Key: keyOf(MapCheckpointID, id), Version: from.version})}
	for _, old := range from.data {
		data, err := fit(old, info, plan, from.settled[old.Pipeline])
		if err != nil {
			return Txn{}, fmt.Errorf("%w: job %s cannot go on from checkpoint %d of pipeline %d: %v", ErrInvalid, id, old.ID, old.Pipeline, err)
		}
		data.JobID = id
		raw := sealed(data)
		if files := c.s.cfg.Checkpoint.Storage; files != nil {
			if err := files.Put(ctx, data.ref(), raw); err != nil {
				return Txn{}, fmt.Errorf("store %v: %w", data.ref(), err)
			}
		}
		txn.Put = append(txn.Put, Put{Key: dataKey(id, info.Incarnation, data.Pipeline, data.ID), Value: raw})
		index.pipeline(data.Pipeline).keep(keptCheckpoint{ID: data.ID, Kind: data.Kind, TakenMs: data.TakenMs, Bytes: len(raw), Settled: !data.prepared()}, 1)
		for i := range st.Pipelines {
			if p := &st.Pipelines[i]; p.ID == data.Pipeline {
				p.inherit(data)
				p.Ckpt = ckptState{Next: data.ID + 1, Done: data.ID, Committed: !data.prepared(), Rescaled: rescaled(data, plan)}
			}
		}
	}
	txn.Put = append(txn.Put, snap.put(MapRunningJobInfo, info), snap.put(MapRunningJobState, st), snap.put(MapStateTimestamps, newTimestamps(st, now)),
		snap.put(MapCheckpointID, index))
	txn.Delete = append(from.index.missing(id, index), keyOf(MapCheckpointMonitor, id))
	if snap.history != nil {
		txn.Delete = append(txn.Delete, keyOf(MapFinishedJobState, id))
	}
	return txn, nil
}

// inherit gives the tasks of a new run the figures of what is visible of the old one; those of a subtask that is no more go to the first one.
func (p *pipelineState) inherit(c *checkpointData) {
	for _, pt := range c.Tasks {
		var heir *taskState
		for i := range p.Tasks {
			if t := &p.Tasks[i]; t.Source == pt.Source && (heir == nil || t.Subtask == pt.Subtask) {
				heir = t
			}
		}
		if heir != nil {
			m := newMeter()
			m.restore([][]tally{heir.Visible, pt.Tallies})
			heir.Visible = m.tallies()
		}
	}
}

// fit makes a checkpoint the new incarnation's own: its vertices get the ids that they have in the config now. Sources must be the same plugins in
// the same order; sinks that are others now begin without the state of the old ones.
func fit(old *checkpointData, info jobInfo, plan *config.Job, settled bool) (*checkpointData, error) {
	i := slices.IndexFunc(plan.Pipelines, func(p config.Pipeline) bool { return p.ID == old.Pipeline })
	if i < 0 {
		return nil, fmt.Errorf("the config has no pipeline %d", old.Pipeline)
	}
	p := plan.Pipelines[i]
	ids, err := match(old.Vertices, specsOf(p))
	if err != nil {
		return nil, err
	}
	c := *old
	c.Incarnation, c.JobCreatedMs = info.Incarnation, info.CreatedMs
	c.Vertices, c.Tasks = slices.Clone(old.Vertices), slices.Clone(old.Tasks)
	c.Vertices = slices.DeleteFunc(c.Vertices, func(v vertexSpec) bool { return ids[v.ID] == 0 })
	for i := range c.Vertices {
		c.Vertices[i].ID = ids[c.Vertices[i].ID]
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		t.Source = ids[t.Source]
		var states []vertexState
		for _, s := range t.States {
			if v := ids[s.Vertex]; v != 0 {
				states = append(states, vertexState{Vertex: v, Data: s.Data})
			}
		}
		var outs []preparedOutput
		for _, o := range t.Prepared {
			if v := ids[o.Vertex]; v == 0 {
				return nil, fmt.Errorf("output for the sink %d is not visible yet, and that is another plugin now", o.Vertex)
			} else if !settled {
				outs = append(outs, preparedOutput{Vertex: v, Data: o.Data})
			}
		}
		t.States, t.Prepared = states, outs
	}
	return &c, tryRestore(&c, p)
}

// match finds the new id of each vertex: the n-th source is the n-th source, and the n-th sink the n-th sink.
func match(old, now []vertexSpec) (map[int]int, error) {
	ids := map[int]int{}
	for _, kind := range []config.VertexKind{config.SourceVertex, config.SinkVertex} {
		is := func(v vertexSpec) bool { return v.Kind != string(kind) }
		a, b := slices.DeleteFunc(slices.Clone(old), is), slices.DeleteFunc(slices.Clone(now), is)
		for i := range a {
			same := i < len(b) && a[i].Plugin == b[i].Plugin
			if same {
				ids[a[i].ID] = b[i].ID
			} else if kind == config.SourceVertex {
				return nil, fmt.Errorf("source %d of it was a %s; leave the sources as they were", i, a[i].Plugin)
			}
		}
		if kind == config.SourceVertex && len(b) != len(a) {
			return nil, fmt.Errorf("it has %d sources, and the config has %d; leave the sources as they were", len(a), len(b))
		}
	}
	return ids, nil
}

// tryRestore looks whether all tasks can go on.
func tryRestore(c *checkpointData, p config.Pipeline) error {
	for _, v := range p.Vertices {
		if v.Kind != config.SourceVertex {
			continue
		}
		if err := restorable(v); err != nil {
			return err
		}
		for i := range v.Parallelism {
			if _, err := restoreFrom(c, p, taskRef{Pipeline: p.ID, Source: v.ID, Subtask: i}); err != nil {
				return err
			}
		}
	}
	return nil
}

// restorable refuses a source that cannot go on from a checkpoint.
func restorable(v config.Vertex) error {
	if _, ok := v.Source.(plugin.Restorable); v.Kind == config.SourceVertex && !ok {
		return fmt.Errorf("%s: a %s cannot go on from a checkpoint", v.Name, v.Plugin)
	}
	return nil
}

func rescaled(c *checkpointData, plan *config.Job) bool {
	for _, p := range plan.Pipelines {
		for _, v := range p.Vertices {
			for _, old := range c.Vertices {
				if p.ID == c.Pipeline && v.Kind == config.SourceVertex && v.ID == old.ID && v.Parallelism != old.Parallelism {
					return true
				}
			}
		}
	}
	return false
}
