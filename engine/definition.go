package engine

import (
	"context"
	"fmt"
	"sync"

	"gridnode/engine/config"
)

// definition is what a job is: its info and the plan made of its config. Both never change for an incarnation.
type definition struct {
	jobID string
	info  jobInfo
	plan  *config.Job // nil if the config cannot be read here
	err   error       // why
	gone  bool        // the config is not stored: nobody can read it
	bytes int         // what the state can grow to without prepared output
}

// unreadable reports whether this member cannot read the config; another one, or this one later, may be able to.
func (d *definition) unreadable() bool { return d.plan == nil && d.err != nil && !d.gone }

// pipeline returns the pipeline with that id.
func (d *definition) pipeline(id int) (config.Pipeline, bool) {
	if d.plan != nil {
		for _, p := range d.plan.Pipelines {
			if p.ID == id {
				return p, true
			}
		}
	}
	return config.Pipeline{}, false
}

// tags returns what a worker must have to get tasks of the job.
func (d *definition) tags() map[string]string {
	if d.plan == nil {
		return nil
	}
	return d.plan.Tags
}

// These bound how many plans are remembered, and the bytes of their configs, for one may have 4 MiB. Beyond them any is dropped, and made again when it is
// asked for; so they should be above what the live jobs have, or every list of them makes most plans anew.
const (
	maxDefinitions     = 4096
	maxDefinitionBytes = 32 << 20
)

// definitions remembers the plans of jobs by incarnation.
type definitions struct {
	store Store
	parse func([]byte) (*config.Job, error)

	mu    sync.Mutex
	known map[string]*definition
	bytes int // of the configs of those
}

// get returns the definition of an incarnation, or errForeign if that is not stored any more.
func (d *definitions) get(ctx context.Context, jobID, incarnation string) (*definition, error) {
	if def := d.cached(incarnation); def != nil {
		return def, nil
	}
	e, err := d.store.Get(ctx, keyOf(MapRunningJobInfo, jobID))
	if err != nil {
		return nil, fmt.Errorf("read info of job %s: %w", jobID, err)
	}
	var info *jobInfo
	if err := load(e, &info); err != nil {
		return nil, err
	}
	if info == nil || info.Incarnation != incarnation {
		return nil, errForeign
	}
	return d.of(jobID, *info), nil
}

// of returns the definition that belongs to an info.
func (d *definitions) of(jobID string, info jobInfo) *definition {
	if def := d.cached(info.Incarnation); def != nil {
		return def
	}
	return d.read(jobID, info)
}

// read makes the definition that belongs to an info, in place of one that is remembered.
func (d *definitions) read(jobID string, info jobInfo) *definition {
	def := &definition{jobID: jobID, info: info}
	def.plan, def.err = d.parse(info.Config)
	if def.err != nil {
		def.plan = nil
	}
	def.bytes = stateBytes(def.plan)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(info.Incarnation)
	for k := range d.known {
		if len(d.known) < maxDefinitions && d.bytes+len(info.Config) <= maxDefinitionBytes {
			break
		}
		d.drop(k)
	}
	d.known[info.Incarnation] = def
	d.bytes += len(info.Config)
	return def
}

// forget drops the plan of a job that has ended. Who still asks for it has it made again.
func (d *definitions) forget(incarnation string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(incarnation)
}

// drop forgets one; the caller holds mu.
func (d *definitions) drop(incarnation string) {
	if def := d.known[incarnation]; def != nil {
		d.bytes -= len(def.info.Config)
		delete(d.known, incarnation)
	}
}

func (d *definitions) cached(incarnation string) *definition {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[incarnation]
}

// newState returns the state of a job that was just accepted.
func newState(info jobInfo, plan *config.Job, term uint64) *jobState {
	st := &jobState{Incarnation: info.Incarnation, Term: term, Status: JobCreated, CreatedMs: info.CreatedMs}
	if plan == nil {
		return st
	}
	for _, p := range plan.Pipelines {
		ps := pipelineState{ID: p.ID, Status: TaskCreated}
		for _, v := range p.Vertices {
			for i := 0; v.Kind == config.SourceVertex && i < v.Parallelism; i++ {
				ps.Tasks = append(ps.Tasks, taskState{Source: v.ID, Subtask: i, Status: TaskCreated})
			}
		}
		st.Pipelines = append(st.Pipelines, ps)
	}
	return st
}
