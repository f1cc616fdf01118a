package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"gridnode/engine/config"
	"gridnode/engine/plugin"
)

// book is what a driver knows about the checkpoints of its job: what is in flight, the newest complete ones, the figures and the index. It belongs to
// the goroutine of the driver's run, except for rounds.
type book struct {
	d     *driver
	start time.Time

	mu     sync.Mutex
	rounds map[int]*rounds // by pipeline id

	loaded  bool
	index   checkpointIndex
	monitor JobCheckpoints
	data    map[int]*checkpointData // the newest complete one of each pipeline
	opened  map[int]uint64          // by this master
	looked  time.Duration           // when the step under way looked at the time
	broken  string                  // a checkpoint that must be there cannot be read
	doing   time.Time               // since when the job is being stopped with a savepoint, as this master saw it

	refusals map[int]refusal // by pipeline id: what the storage did not take

	// What the step under way would make of these. The step may be built several times before it is done.
	next staged
}

func newBook(d *driver) *book {
	b := &book{d: d, start: time.Now(), rounds: map[int]*rounds{}, data: map[int]*checkpointData{}, opened: map[int]uint64{}, refusals: map[int]refusal{}}
	if d.def.plan == nil {
		return b
	}
	for _, p := range d.def.plan.Pipelines {
		b.rounds[p.ID] = newRounds(d.def.plan, d.c.s.cfg.Checkpoint)
	}
	return b
}

// newRounds applies the job's own options, and the engine's where it has none.
func newRounds(plan *config.Job, cfg CheckpointConfig) *rounds {
	r := &rounds{interval: plan.Checkpoint.Interval, timeout: cmp.Or(plan.Checkpoint.Timeout, cfg.Timeout), minPause: plan.Checkpoint.MinPause}
	if plan.Mode == plugin.Streaming {
		r.interval = cmp.Or(r.interval, cfg.Interval)
	}
	return r
}

func (b *book) now() time.Duration { return time.Since(b.start) }

// load reads what an earlier master has stored. Whatever cannot be read keeps the job from going on.
func (b *book) load(ctx context.Context, st *jobState) error {
	store := b.d.c.s.cfg.Store
	if !b.loaded {
		entries, err := store.GetAll(ctx, []Key{keyOf(MapCheckpointID, b.d.jobID), keyOf(MapCheckpointMonitor, b.d.jobID)})
		if err != nil {
			return fmt.Errorf("read the checkpoints of job %s: %w", b.d.jobID, err)
		}
		var index *checkpointIndex
		var figures *JobCheckpoints
		if err := cmp.Or(load(entries[0], &index), load(entries[1], &figures)); err != nil {
			return err
		}
		b.index = checkpointIndex{Incarnation: b.d.incarnation, Name: b.d.def.info.Name, JobCreatedMs: b.d.def.info.CreatedMs}
		b.monitor = JobCheckpoints{JobID: b.d.jobID, Incarnation: b.d.incarnation}
		if index != nil && index.Incarnation == b.d.incarnation {
			b.index = *index
		}
		if figures != nil && figures.Incarnation == b.d.incarnation {
			b.monitor = *figures
		}
		b.loaded = true
	}
	for i := range st.Pipelines {
		p := &st.Pipelines[i]
		if c := b.data[p.ID]; p.Ckpt.Done == 0 || c != nil && c.ID == p.Ckpt.Done || b.broken != "" {
			continue
		}
		c, err := loadCheckpoint(ctx, store, b.d.jobID, b.d.incarnation, p.ID, p.Ckpt.Done)
		switch {
		case err != nil && again(asRetry(ctx, err)):
			return asRetry(ctx, err)
		case err != nil:
			b.broken = err.Error()
		default:
			b.data[p.ID] = c
		}
	}
	return nil
}

// world tells decide what it has to know about checkpoints.
func (b *book) world(st *jobState, w *world) {
	if b.broken != "" && w.fatal == "" {
		w.fatal = b.broken
	}
	if b.d.def.plan == nil || len(st.Pipelines) == 0 {
		return
	}
	first := b.rounds[st.Pipelines[0].ID]
	if first == nil {
		return
	}
	if first.interval > 0 {
		w.checkpointDue = func(p *pipelineState) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			r := b.rounds[p.ID]
			return r != nil && r.ready(b.looked)
		}
	}
	w.unstorable, w.refused = b.unstorable, map[int]string{}
	last := ""
	for id, r := range b.refusals {
		last, w.refused[id] = r.why, r.why
	}
	if !st.Savepoint {
		return
	}
	if b.doing.IsZero() {
		b.doing = time.Now()
	}
	if time.Since(b.doing) >= first.timeout {
		w.savepointLate = fmt.Sprintf("the savepoint was not complete within checkpoint.timeout, which is %v", first.timeout)
		if last != "" {
			w.savepointLate += "; it " + cannotStore + last
		}
	}
}

// results tells what became of the checkpoints in flight.
func (b *book) results(st *jobState) []observation {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looked = b.now()
	var out []observation
	for i := range st.Pipelines {
		p := &st.Pipelines[i]
		if r := b.rounds[p.ID]; r != nil {
			if o := r.result(b.looked, p); o != nil {
				out = append(out, *o)
			}
		}
	}
	return out
}

// follow takes over what a step has made true. It returns observations about checkpoints that nobody collects.
func (b *book) follow(ctx context.Context, st *jobState) []observation {
	b.index, b.monitor, b.data, b.opened = b.next.index, b.next.monitor, b.next.data, b.next.opened
	b.tidy(ctx, b.next.settled, b.next.dropped)
	b.next = staged{}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []observation
	for i := range st.Pipelines {
		p := &st.Pipelines[i]
		r := b.rounds[p.ID]
		if r == nil {
			continue
		}
		if orphan := r.follow(b.now(), p, b.opened[p.ID]); orphan != 0 {
			out = append(out, observation{kind: obsCkptAbort, ref: taskRef{Pipeline: p.ID}, ckpt: orphan})
		}
	}
	return out
}

// tidy tells the storage what has changed. It keeps more than it must if that fails, and a commit may be repeated.
func (b *book) tidy(ctx context.Context, settled, dropped []CheckpointRef) {
	files := b.d.c.s.cfg.Checkpoint.Storage
	if files == nil {
		return
	}
	for _, r := range settled {
		if err := files.Settle(ctx, r); err != nil {
			b.d.log.Warn("checkpoint not marked as settled in the storage", "checkpoint", r.ID, "pipeline", r.Pipeline, "error", err)
		}
	}
	for _, r := range dropped {
		if err := files.Delete(ctx, r); err != nil {
			b.d.log.Warn("old checkpoint not removed from the storage", "checkpoint", r.ID, "pipeline", r.Pipeline, "error", err)
		}
	}
}

// wakeAt is when time alone will change something about the job's checkpoints that the last step has not seen; zero: never.
func (b *book) wakeAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := time.Time{}
	earlier := func(t time.Time) {
		if t.After(b.start.Add(b.looked)) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, r := range b.rounds {
		if r.interval > 0 || r.id != 0 {
			earlier(b.start.Add(r.next()))
		}
		if !b.doing.IsZero() {
			earlier(b.doing.Add(r.timeout))
		}
	}
	for _, r := range b.refusals {
		earlier(r.until)
	}
	return at
}

// acked takes the answer of a task.
func (b *book) acked(id uint64, ref taskRef, pt taskPoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.rounds[ref.Pipeline]; r != nil {
		r.answer(id, ref, pt)
	}
}

// wants reports whether an answer to a checkpoint is still awaited here.
func (b *book) wants(id uint64, ref taskRef) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.rounds[ref.Pipeline]
	if r == nil || r.id != id {
		return false
	}
	_, answered := r.acks[ref]
	return !answered
}

// acknowledged counts the answers to the checkpoint in flight.
func (b *book) acknowledged(pipeline int) (id uint64, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.rounds[pipeline]; r != nil {
		return r.id, len(r.acks)
	}
	return 0, 0
}
