// Package console holds the sink Console, which logs the rows that it gets.
package console

import (
	"context"
	"math"
	"time"

	"gridnode/engine/connector/internal/value"
	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// Sink is the sink Console. It logs each row at level info, or none if log.print.data is false. What was logged stays logged: a task that runs
// again logs its rows again.
type Sink struct {
	print bool
	delay time.Duration // behind each row
}

// New returns the sink Console.
func New(o plugin.Options) (plugin.Sink, error) {
	r := option.New(o)
	s := &Sink{
		print: r.Bool("log.print.data", true),
		delay: time.Duration(r.Int("log.print.delay.ms", 0, 0, math.MaxInt32)) * time.Millisecond,
	}
	return s, r.Done()
}

// Bind implements [plugin.Sink]; any row will do.
func (s *Sink) Bind(plugin.Schema) error { return nil }

// Open implements [plugin.Sink].
func (s *Sink) Open(_ context.Context, tc plugin.TaskContext, schema plugin.Schema) (plugin.Writer, error) {
	return &writer{sink: s, tc: tc, schema: schema}, nil
}

// Commit implements [plugin.Sink]; there is nothing to commit.
func (s *Sink) Commit(context.Context, []byte) error { return nil }

// Check implements [plugin.Sink]; there is nothing to check.
func (s *Sink) Check([][]byte) error { return nil }

// Cleanup implements [plugin.Sink]; nothing is ever left.
func (s *Sink) Cleanup(context.Context, string, string) error { return nil }

type writer struct {
	sink   *Sink
	tc     plugin.TaskContext
	schema plugin.Schema
	rows   int64
}

// Write implements [plugin.Writer].
func (w *writer) Write(ctx context.Context, rows []plugin.Row) error {
	for _, row := range rows {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.rows++
		if w.sink.print {
			w.tc.Logger.InfoContext(ctx, "row", "table", w.schema.Table, "subtask", w.tc.Subtask, "row", w.rows, "fields", w.text(row))
		}
		if w.sink.delay > 0 {
			if err := plugin.Sleep(ctx, w.sink.delay); err != nil {
				return err
			}
		}
	}
	return nil
}

// text writes a row as a JSON object, so that null, numbers and texts can be told apart.
func (w *writer) text(row plugin.Row) string {
	b := []byte{'{'}
	for i, f := range w.schema.Fields {
		if i >= len(row) {
			break
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(value.AppendQuoted(b, f.Name), ':')
		b = value.AppendJSON(b, f.Type, row[i])
	}
	return string(append(b, '}'))
}

// Prepare implements [plugin.Writer].
func (w *writer) Prepare(context.Context) ([]byte, error) { return nil, nil }

// Cut implements [plugin.Cutter]; there is nothing to commit.
func (w *writer) Cut(context.Context) ([]byte, error) { return nil, nil }

// State implements [plugin.Cutter]; there is none.
func (w *writer) State() ([]byte, error) { return nil, nil }

// Restore implements [plugin.Cutter].
func (w *writer) Restore([][]byte) error { return nil }

// Forget implements [plugin.Cutter].
func (w *writer) Forget([]byte) error { return nil }

// Close implements [plugin.Writer].
func (w *writer) Close() error { return nil }
