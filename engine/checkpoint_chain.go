package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"gridnode/engine/config"
	"gridnode/engine/plugin"
)

// restorePoint is what a task group goes on from; the zero value is its start.
type restorePoint struct {
	from      uint64   // id of the checkpoint; 0: none
	positions [][]byte // of all subtasks of the source at the checkpoint; nil: it begins at the start
	done      bool     // it had read everything
	states    map[int][][]byte
	tallies   [][]tally
	err       error // why it cannot be told; the task fails for good
}

// restoreFrom picks out of a checkpoint what one task group of a pipeline goes on from. The parallelism may have changed since.
func restoreFrom(c *checkpointData, p config.Pipeline, ref taskRef) (restorePoint, error) {
	r := restorePoint{states: map[int][][]byte{}}
	old, now := 0, 0
	for _, v := range c.Vertices {
		if v.ID == ref.Source {
			old = v.Parallelism
		}
	}
	for _, v := range p.Vertices {
		if v.ID == ref.Source {
			now = v.Parallelism
		}
	}
	if old < 1 || now < 1 {
		return r, plugin.Permanentf("checkpoint %d of pipeline %d does not have source %d", c.ID, p.ID, ref.Source)
	}
	if old != now && old > len(c.Tasks) {
		return r, plugin.Permanentf("checkpoint %d of pipeline %d has no positions of all %d subtasks of source %d: leave the parallelism at %[3]d", c.ID, p.ID, old, ref.Source)
	}
	own := c.point(ref.Source, ref.Subtask)
	if old == now && own == nil {
		return restorePoint{}, nil // it was lost before any checkpoint of it was complete
	}
	r.from, r.done = c.ID, old == now && own.Done
	r.positions = make([][]byte, old)
	for i := range old {
		pt := c.point(ref.Source, i)
		if pt == nil && old != now {
			return r, plugin.Permanentf("checkpoint %d of pipeline %d has no position of subtask %d of source %d: leave the parallelism at %d", c.ID, p.ID, i, ref.Source, old)
		}
		if pt == nil {
			continue
		}
		if !pt.Done {
			r.positions[i] = pt.Position
		}
		if i%now != ref.Subtask {
			continue
		}
		for _, s := range pt.States {
			r.states[s.Vertex] = append(r.states[s.Vertex], s.Data)
		}
		r.tallies = append(r.tallies, pt.Tallies)
	}
	return r, nil
}

// endedReader is the reader of a task that had read everything before.
type endedReader struct{}

func (endedReader) Read(context.Context, int) ([]plugin.Row, error) { return nil, io.EOF }
func (endedReader) Position() ([]byte, error)                       { return nil, nil }
func (endedReader) Close() error                                    { return nil }

// openReader opens the source where the restore point has it.
func openReader(ctx context.Context, v config.Vertex, tc plugin.TaskContext, at restorePoint) (plugin.Reader, error) {
	switch {
	case at.done:
		return endedReader{}, nil
	case at.positions == nil:
		return v.Source.Open(ctx, tc)
	}
	s, ok := v.Source.(plugin.Restorable)
	if !ok {
		return nil, plugin.Permanentf("a %s cannot go on from a checkpoint", v.Plugin)
	}
	return s.Restore(ctx, tc, at.positions)
}

// restoreWriter gives a writer the states that it goes on from.
func restoreWriter(v config.Vertex, w plugin.Writer, at restorePoint) error {
	states := at.states[v.ID]
	if at.from == 0 || len(states) == 0 {
		return nil
	}
	c, ok := w.(plugin.Cutter)
	if !ok {
		return plugin.Permanentf("a %s cannot go on from a checkpoint", v.Plugin)
	}
	return c.Restore(states)
}

// heldOutput is output that was cut for a checkpoint, and is not known to be committed.
type heldOutput struct {
	id   uint64
	outs []preparedOutput
}

// barrier cuts the output of all sinks for a checkpoint and returns where the task is. What was cut for checkpoints that were given up goes into this one.
// Up to checkpoint committed everything is visible, so that much is forgotten first.
func (c *chain) barrier(ctx context.Context, id, committed uint64) (taskPoint, error) {
	if err := c.forget(committed); err != nil {
		return taskPoint{}, err
	}
	pt, err := c.point()
	if err != nil {
		return taskPoint{}, err
	}
	var outs []preparedOutput
	for _, s := range c.sinks {
		w, ok := s.writer.(plugin.Cutter)
		if !ok {
			return taskPoint{}, plugin.Permanentf("%s: a %s cannot take part in checkpoints", s.vertex.Name, s.vertex.Plugin)
		}
		b, err := w.Cut(ctx)
		if err != nil {
			return taskPoint{}, fmt.Errorf("%s: cut: %w", s.vertex.Name, err)
		}
		if err := checkPrepared(s.vertex, b); err != nil {
			return taskPoint{}, err
		}
		if b != nil {
			outs = append(outs, preparedOutput{Vertex: s.vertex.ID, Data: b})
		}
	}
	if outs != nil {
		c.held = append(c.held, heldOutput{id, outs})
	}
	pt.Prepared = c.heldOutputs()
	pt.Tallies = c.meter.tallies()
	return pt, nil
}

// point is where the task is: position and states, without output and figures.
func (c *chain) point() (taskPoint, error) {
	pt := taskPoint{Done: c.ended}
	if !c.ended {
		r, ok := c.reader.(plugin.Positioner)
		if !ok {
			return pt, plugin.Permanentf("%s: a %s cannot take part in checkpoints", c.head.vertex.Name, c.head.vertex.Plugin)
		}
		b, err := r.Position()
		if err != nil {
			return pt, fmt.Errorf("%s: position: %w", c.head.vertex.Name, err)
		}
		pt.Position = b
	}
	for _, s := range c.sinks {
		w, ok := s.writer.(plugin.Cutter)
		if !ok {
			continue
		}
		b, err := w.State()
		if err != nil {
			return pt, fmt.Errorf("%s: state: %w", s.vertex.Name, err)
		}
		if b != nil {
			pt.States = append(pt.States, vertexState{Vertex: s.vertex.ID, Data: b})
		}
	}
	return pt, nil
}

func (c *chain) heldOutputs() []preparedOutput {
	var out []preparedOutput
	for _, h := range c.held {
		out = append(out, h.outs...)
	}
	return out
}

// forget drops what was committed with checkpoints up to id.
func (c *chain) forget(id uint64) error {
	var errs []error
	for len(c.held) > 0 && c.held[0].id <= id {
		for _, o := range c.held[0].outs {
			for _, s := range c.sinks {
				if w, ok := s.writer.(plugin.Cutter); ok && s.vertex.ID == o.Vertex {
					errs = append(errs, w.Forget(o.Data))
				}
			}
		}
		c.held = c.held[1:]
	}
	return errors.Join(errs...)
}

func checkPrepared(v config.Vertex, b []byte) error {
	if len(b) > maxPreparedOutput {
		return plugin.Permanentf("%s: prepared %d bytes for its commit, at most %d are allowed", v.Name, len(b), maxPreparedOutput)
	}
	return nil
}

// finish ends the output of all sinks. What was cut for checkpoints that did not complete comes first.
func (c *chain) finish(ctx context.Context, committed uint64) ([]preparedOutput, *taskPoint, error) {
	if err := c.forget(committed); err != nil {
		return nil, nil, err
	}
	pt, err := c.point()
	if err != nil {
		return nil, nil, err
	}
	last, err := c.prepare(ctx)
	if err != nil {
		return nil, nil, err
	}
	return append(c.heldOutputs(), last...), &pt, nil
}
