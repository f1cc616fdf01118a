// Package assertsink holds the sink Assert, which fails a job whose rows are not as they should be.
package assertsink

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// Sink is the sink Assert. Field rules are judged row by row. Row rules are judged once, over the rows of all tasks of the pipeline together,
// except that one task alone can already have too many.
type Sink struct {
	where            string
	minRows, maxRows int64 // -1: no rule
	fields           []fieldRule
}

// New returns the sink Assert.
func New(o plugin.Options) (plugin.Sink, error) {
	r := option.New(o)
	s := &Sink{where: o.Where, minRows: -1, maxRows: -1}
	r.Refuse("tables_configs", "table-names", "catalog_table_rule")
	r.Need("rules")
	if rules := r.Object("rules"); rules != nil {
		s.readRules(r.Sub("rules", rules))
	}
	return s, r.Done()
}

func (s *Sink) readRules(r *option.Reader) {
	r.Refuse("tables_configs", "table-names", "catalog_table_rule")
	if !r.Has("row_rules") && !r.Has("field_rules") {
		r.Fail("row_rules", "and \"field_rules\" are both missing: there is nothing to assert")
	}
	for _, sub := range r.Objects("row_rules") {
		rule := sub.Choice("rule_type", "", "MAX_ROW", "MIN_ROW")
		sub.Need("rule_type")
		sub.Need("rule_value")
		n := sub.Int("rule_value", 0, 0, math.MaxInt64)
		target := &s.minRows
		if rule == "MAX_ROW" {
			target = &s.maxRows
		}
		if *target >= 0 {
			sub.Fail("rule_type", "is %s for the second time", rule)
		}
		*target = n
	}
	for _, sub := range r.Objects("field_rules") {
		s.fields = append(s.fields, readFieldRule(sub))
	}
}

// Bind implements [plugin.Sink].
func (s *Sink) Bind(in plugin.Schema) error {
	_, err := s.bind(in)
	return err
}

// Open implements [plugin.Sink].
func (s *Sink) Open(_ context.Context, _ plugin.TaskContext, schema plugin.Schema) (plugin.Writer, error) {
	rules, err := s.bind(schema)
	if err != nil {
		return nil, &plugin.PermanentError{Err: err}
	}
	return &writer{sink: s, rules: rules}, nil
}

// bind fits the field rules to a schema.
func (s *Sink) bind(in plugin.Schema) ([]boundRule, error) {
	var out []boundRule
	for i, f := range s.fields {
		b, err := f.bind(in)
		if err != nil {
			return nil, &plugin.OptionError{Where: s.where, Option: fmt.Sprintf("rules.field_rules[%d].%s", i, err.option), Reason: err.reason}
		}
		out = append(out, b)
	}
	return out, nil
}

// Commit implements [plugin.Sink]; there is nothing to commit.
func (s *Sink) Commit(context.Context, []byte) error { return nil }

// counted is what a writer prepares.
type counted struct {
	Rows int64 `json:"rows"`
}

// Check implements [plugin.Sink]: it judges the row rules.
func (s *Sink) Check(prepared [][]byte) error {
	var total int64
	for _, p := range prepared {
		var c counted
		if err := json.Unmarshal(p, &c); err != nil {
			return plugin.Permanentf("assert: what was prepared cannot be read: %w", err)
		}
		total += c.Rows
	}
	if s.minRows >= 0 && total < s.minRows {
		return plugin.Permanentf("assert: row rule MIN_ROW is violated: %d rows came, at least %d are wanted", total, s.minRows)
	}
	return s.checkMost(total)
}

func (s *Sink) checkMost(rows int64) error {
	if s.maxRows >= 0 && rows > s.maxRows {
		return plugin.Permanentf("assert: row rule MAX_ROW is violated: %d rows came, at most %d are wanted", rows, s.maxRows)
	}
	return nil
}

// Cleanup implements [plugin.Sink]; nothing is ever left.
func (s *Sink) Cleanup(context.Context, string, string) error { return nil }

type writer struct {
	sink  *Sink
	rules []boundRule
	rows  int64
}

// Write implements [plugin.Writer]. The first row that violates a rule is a permanent error.
func (w *writer) Write(ctx context.Context, rows []plugin.Row) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, row := range rows {
		w.rows++
		for _, r := range w.rules {
			if err := r.check(row); err != nil {
				return plugin.Permanentf("assert: row %d: %w", w.rows, err)
			}
		}
	}
	return w.sink.checkMost(w.rows)
}

// Prepare implements [plugin.Writer].
func (w *writer) Prepare(context.Context) ([]byte, error) { return json.Marshal(counted{Rows: w.rows}) }

// Cut implements [plugin.Cutter]; there is nothing to commit.
func (w *writer) Cut(context.Context) ([]byte, error) { return nil, nil }

// State implements [plugin.Cutter]: row rules count the rows of all runs.
func (w *writer) State() ([]byte, error) { return json.Marshal(counted{Rows: w.rows}) }

// Restore implements [plugin.Cutter].
func (w *writer) Restore(states [][]byte) error {
	for _, s := range states {
		var c counted
		if err := json.Unmarshal(s, &c); err != nil {
			return plugin.Permanentf("assert: the state of a checkpoint cannot be read: %w", err)
		}
		w.rows += c.Rows
	}
	return nil
}

// Forget implements [plugin.Cutter].
func (w *writer) Forget([]byte) error { return nil }

// Close implements [plugin.Writer].
func (w *writer) Close() error { return nil }
