package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gridnode/engine/config"
	"gridnode/engine/plugin"
)

// maxPreparedOutput is the most that one writer may prepare.
const maxPreparedOutput = 64 << 10

// chain is one task group at work: a source's reader and everything downstream of it.
type chain struct {
	reader plugin.Reader
	head   *stage
	sinks  []*stage // in topological order
	meter  *meter

	ended bool         // the source has no more rows
	held  []heldOutput // the oldest first
}

// stage is one vertex of a chain.
type stage struct {
	vertex config.Vertex
	writer plugin.Writer // of a sink
	next   []*stage
}

// openChain opens the writers and then the reader of a task group, where the restore point has them. On an error everything that was opened is
// closed again.
func openChain(ctx context.Context, p config.Pipeline, source int, tc plugin.TaskContext, at restorePoint) (*chain, error) {
	c := &chain{meter: newMeter()}
	c.meter.restore(at.tallies)
	stages := map[int]*stage{}
	c.head = c.link(p, source, stages)
	if c.head == nil || c.head.vertex.Source == nil {
		return nil, plugin.Permanentf("pipeline %d has no source %d", p.ID, source)
	}
	for _, v := range p.Vertices {
		s := stages[v.ID]
		if s == nil || v.Sink == nil {
			continue
		}
		w, err := v.Sink.Open(ctx, sinkContext(tc, p, source, v.ID), v.Schema)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", v.Name, err), c.close())
		}
		s.writer = w
		c.sinks = append(c.sinks, s)
		if err := restoreWriter(v, w, at); err != nil {
			return nil, errors.Join(fmt.Errorf("restore %s: %w", v.Name, err), c.close())
		}
	}
	tc.Vertex = source
	r, err := openReader(ctx, c.head.vertex, tc, at)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", c.head.vertex.Name, err), c.close())
	}
	c.reader = r
	return c, nil
}

// link makes the stage of a vertex and of all that follows it; one that is reached on two ways is made once and gets the rows of both.
func (c *chain) link(p config.Pipeline, id int, stages map[int]*stage) *stage {
	if s := stages[id]; s != nil {
		return s
	}
	i := slices.IndexFunc(p.Vertices, func(v config.Vertex) bool { return v.ID == id })
	if i < 0 {
		return nil
	}
	s := &stage{vertex: p.Vertices[i]}
	stages[id] = s
	for _, e := range p.Edges {
		if e.From != id {
			continue
		}
		if n := c.link(p, e.To, stages); n != nil {
			s.next = append(s.next, n)
		}
	}
	return s
}

// sinkContext numbers the writers of a sink through over all sources of the pipeline, so that two sources that feed one sink never open
// writers of the same name.
func sinkContext(tc plugin.TaskContext, p config.Pipeline, source, sink int) plugin.TaskContext {
	before, all := 0, 0
	for _, v := range p.Vertices {
		if v.Kind != config.SourceVertex {
			continue
		}
		if v.ID == source {
			before = all
		}
		all += v.Parallelism
	}
	tc.Vertex = sink
	tc.Subtask += before
	tc.Parallelism = all
	return tc
}

// push hands rows of a table to what follows a stage.
func (c *chain) push(ctx context.Context, from *stage, table string, rows []plugin.Row) error {
	for _, s := range from.next {
		table := tableAt(s.vertex, table)
		if s.vertex.Mapper != nil {
			out, err := mapRows(s.vertex, rows)
			if err != nil {
				return err
			}
			if err := c.push(ctx, s, table, out); err != nil {
				return err
			}
			continue
		}
		if len(rows) == 0 {
			continue
		}
		if err := s.writer.Write(ctx, rows); err != nil {
			return fmt.Errorf("%s: %w", s.vertex.Name, err)
		}
		c.meter.wrote(table, rows)
	}
	return nil
}

func mapRows(v config.Vertex, rows []plugin.Row) ([]plugin.Row, error) {
	out := make([]plugin.Row, 0, len(rows))
	for _, r := range rows {
		m, keep, err := v.Mapper.Map(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		if keep {
			out = append(out, m)
		}
	}
	return out, nil
}

// prepare ends the output of all sinks.
func (c *chain) prepare(ctx context.Context) ([]preparedOutput, error) {
	var out []preparedOutput
	for _, s := range c.sinks {
		b, err := s.writer.Prepare(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: prepare: %w", s.vertex.Name, err)
		}
		if err := checkPrepared(s.vertex, b); err != nil {
			return nil, err
		}
		out = append(out, preparedOutput{Vertex: s.vertex.ID, Data: b})
	}
	return out, nil
}

// close releases everything; output that was not prepared is discarded.
func (c *chain) close() error {
	var errs []error
	if c.reader != nil {
		errs = append(errs, c.reader.Close())
	}
	for _, s := range c.sinks {
		errs = append(errs, s.writer.Close())
	}
	return errors.Join(errs...)
}

// tableAt is the table of rows that came to a vertex as those of another: the same, unless the vertex makes a table of its own of them. What has
// several inputs has the tables of all of them.
func tableAt(v config.Vertex, from string) string {
	if slices.Contains(v.Tables, from) {
		return from
	}
	return tableOf(v)
}

func tableOf(v config.Vertex) string {
	switch {
	case v.Schema.Table != "":
		return v.Schema.Table
	case len(v.Tables) > 0:
		return v.Tables[0]
	}
	return v.Name
}
