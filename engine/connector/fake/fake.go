// Package fake holds the source FakeSource, which makes rows up.
package fake

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"gridnode/engine/connector/internal/value"
	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// Limits of the options.
const (
	maxRows   = 1_000_000_000_000 // row.num
	maxSplits = 1_000_000         // split.num
	maxLength = 1 << 20           // string.length and bytes.length
)

// Source is FakeSource. It makes row.num rows in each of its subtasks, or the rows that the option rows lists, shared out among them. The
// rows of a subtask are the same each time that it runs.
//
// In the mode "sequence" the first field of an integer type counts: subtask i makes the ids i*row.num+1 to (i+1)*row.num, so all subtasks
// together make each id from 1 on once. The other fields depend on the id alone.
type Source struct {
	schema     plugin.Schema
	listed     []plugin.Row // not nil: these rows and no others
	rows       int64        // per subtask
	splits     int64
	interval   time.Duration // between two splits
	generators []generator   // one per field
	counter    int           // the field that counts in the mode sequence, or -1
}

// New returns the source FakeSource.
func New(o plugin.Options) (plugin.Source, error) {
	r := option.New(o)
	r.Refuse("tables_configs", "vector.dimension", "binary.vector.dimension", "vector.float.min", "vector.float.max")
	r.Need("schema")
	s := &Source{counter: -1}
	s.schema, _ = value.ReadSchema(r)
	s.splits = r.Int("split.num", 1, 1, maxSplits)
	s.interval = time.Duration(r.Int("split.read-interval", 1, 0, math.MaxInt32)) * time.Millisecond
	s.readRows(r)
	s.generators = readGenerators(r, s.schema)
	if r.Choice("mode", "random", "random", "sequence") == "sequence" {
		s.readSequence(r)
	}
	return s, r.Done()
}

// readRows reads how many rows there are, or which.
func (s *Source) readRows(r *option.Reader) {
	s.rows = r.Int("row.num", 5, 0, maxRows)
	if !r.Has("rows") {
		return
	}
	if r.Has("row.num") {
		r.Fail("row.num", "has no effect when \"rows\" lists the rows; give one of them")
	}
	s.listed = []plugin.Row{}
	for _, sub := range r.Objects("rows") {
		sub.Choice("kind", "INSERT", "INSERT")
		sub.Need("fields")
		s.listed = append(s.listed, s.readRow(sub))
	}
}

func (s *Source) readRow(sub *option.Reader) plugin.Row {
	values := sub.List("fields")
	if len(values) != len(s.schema.Fields) {
		sub.Fail("fields", "has %d values; the schema has %d fields", len(values), len(s.schema.Fields))
		return nil
	}
	row := make(plugin.Row, len(values))
	for i, v := range values {
		f := s.schema.Fields[i]
		x, err := convert(f, v)
		if err != nil {
			sub.Fail("fields", "has a wrong value for field %q: %s", f.Name, err)
		}
		row[i] = x
	}
	return row
}

// convert makes the value of a field from one of the config.
func convert(f plugin.Field, v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return value.NewConverter(f, value.Formats{}).FromJSON(raw)
}

func (s *Source) readSequence(r *option.Reader) {
	if s.listed != nil {
		r.Fail("mode", "is \"sequence\", but \"rows\" lists the rows")
	}
	for i, f := range s.schema.Fields {
		if isInteger(f.Type) {
			s.counter = i
			break
		}
	}
	if s.counter < 0 {
		r.Fail("mode", "is \"sequence\", but the schema has no field of an integer type to count in")
		return
	}
	if f := s.schema.Fields[s.counter]; s.rows > largest(f.Type) {
		r.Fail("row.num", "is %d; the field %q of type %s counts only to %d", s.rows, f.Name, f.Decl, largest(f.Type))
	}
}

func isInteger(t plugin.Type) bool {
	return t == plugin.TinyInt || t == plugin.SmallInt || t == plugin.Int || t == plugin.BigInt
}

func largest(t plugin.Type) int64 { return math.MaxInt64 >> (64 - value.Bits(t)) }

// Schema implements [plugin.Source].
func (s *Source) Schema() plugin.Schema { return s.schema }

// Open implements [plugin.Source].
func (s *Source) Open(_ context.Context, tc plugin.TaskContext) (plugin.Reader, error) {
	if s.counter >= 0 {
		if f := s.schema.Fields[s.counter]; s.rows > largest(f.Type)/int64(tc.Subtask+1) {
			return nil, plugin.Permanentf("option \"row.num\" is %d: with %d subtasks the field %q of type %s cannot count that far", s.rows, tc.Parallelism, f.Name, f.Decl)
		}
	}
	total := s.total(tc.Subtask, tc.Parallelism)
	return &reader{source: s, spans: []span{{Subtask: tc.Subtask, Of: tc.Parallelism, Total: total, End: total}}}, nil
}
