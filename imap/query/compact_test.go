package query

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gridnode/grid"
)

// The number that Hazelcast's clients have for this schema.
func TestSchema_Fingerprint(t *testing.T) {
	s, err := NewSchema("student", []Field{{"name", 17}, {"age", 9}})
	if err != nil {
		t.Fatal(err)
	}
	if s.ID != 5500194539746463554 {
		t.Errorf("id %d", s.ID)
	}
}

func TestSchema_Refusals(t *testing.T) {
	for name, fields := range map[string][]Field{
		"twice": {{"twice", 9}, {"twice", 17}}, "kind 0": {{"kind 0", 0}}, "kind 47": {{"kind 47", 47}}, "kind 31": {{"kind 31", 31}},
		"large": {{"large" + strings.Repeat("x", MaxSchemaBytes), 9}},
	} {
		if _, err := NewSchema("T", fields); err == nil || !errors.Is(err, grid.ErrBadRequest) && !errors.Is(err, grid.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var known *Schemas
	for i := range MaxSchemas {
		s, _ := NewSchema(fmt.Sprint("T", i), nil)
		var err error
		if known, err = known.With(s); err != nil {
			t.Fatal(err)
		}
	}
	same, err := known.With(known.All()[0])
	if err != nil || same != known {
		t.Errorf("one that is there already: %v", err)
	}
	s, _ := NewSchema("one more", nil)
	if _, err := known.With(s); !errors.Is(err, grid.ErrTooLarge) {
		t.Errorf("beyond the bound: %v", err)
	}
}

// compactWriter writes compact values as the clients do, field by field.
type compactWriter struct {
	schema *Schema
	fixed  []byte
	data   []byte
	places map[int]int // of fields behind the fixed part
}

func newCompact(s *Schema) *compactWriter {
	return &compactWriter{schema: s, fixed: make([]byte, s.fixed), places: map[int]int{}}
}

func raw(v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return []byte{1}
		}
		return []byte{0}
	case int8:
		return []byte{byte(v)}
	case int16:
		return binary.BigEndian.AppendUint16(nil, uint16(v))
	case int32:
		return binary.BigEndian.AppendUint32(nil, uint32(v))
	case int64:
		return binary.BigEndian.AppendUint64(nil, uint64(v))
	case float32:
		return binary.BigEndian.AppendUint32(nil, math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64(nil, math.Float64bits(v))
	case string:
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(v))), v...)
	case []byte: // a compact value, from its schema on
		return v
	}
	panic(fmt.Sprintf("%T", v))
}

func (w *compactWriter) set(name string, v any) {
	at := w.schema.places[name]
	switch {
	case v == nil:
	case at.kind == kindBool:
		if v.(bool) {
			w.fixed[at.offset] |= 1 << at.bit
		}
	case at.index < 0:
		copy(w.fixed[at.offset:], raw(v))
	default:
		w.places[at.index] = len(w.data)
		if list, ok := v.([]any); ok {
			w.data = append(w.data, arrayOf(at.kind-1, list)...)
		} else {
			w.data = append(w.data, raw(v)...)
		}
	}
}

func arrayOf(kind int32, list []any) []byte {
	n := binary.BigEndian.AppendUint32(nil, uint32(len(list)))
	switch {
	case kind == kindBool:
		bits := make([]byte, (len(list)+7)/8)
		for i, v := range list {
			if v.(bool) {
				bits[i/8] |= 1 << (i % 8)
			}
		}
		return append(n, bits...)
	case kindSizes[kind] > 0:
		for _, v := range list {
			n = append(n, raw(v)...)
		}
		return n
	}
	var data []byte
	offsets := make([]int, len(list))
	for i, v := range list {
		offsets[i] = -1
		if v != nil {
			offsets[i] = len(data)
			data = append(data, raw(v)...)
		}
	}
	out := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), n...)
	return append(append(out, data...), offsetTable(offsets, len(data))...)
}

func offsetTable(offsets []int, size int) (out []byte) {
	for _, at := range offsets {
		switch {
		case size < 255:
			out = append(out, byte(at))
		case size < 65535:
			out = binary.BigEndian.AppendUint16(out, uint16(at))
		default:
			out = binary.BigEndian.AppendUint32(out, uint32(at))
		}
	}
	return out
}

func (w *compactWriter) bytes() []byte {
	out := binary.BigEndian.AppendUint64(nil, uint64(w.schema.ID))
	if w.schema.others == 0 {
		return append(out, w.fixed...)
	}
	offsets := make([]int, w.schema.others)
	for i := range offsets {
		offsets[i] = -1
		if at, ok := w.places[i]; ok {
			offsets[i] = len(w.fixed) + at
		}
	}
	size := len(w.fixed) + len(w.data)
	out = binary.BigEndian.AppendUint32(out, uint32(size))
	out = append(append(out, w.fixed...), w.data...)
	return append(out, offsetTable(offsets, size)...)
}

// drawField draws a value of a kind, and what a query sees of it.
func drawField(t *rapid.T, kind int32, long bool) (any, node) {
	switch kind {
	case kindBool, kindBoolean:
		b := rapid.Bool().Draw(t, "bool")
		return b, BoolOf(b)
	case 3, 35:
		n := rapid.Int8().Draw(t, "int8")
		return n, sizedInt(int64(n), 1)
	case 7, 37:
		n := rapid.Int16().Draw(t, "int16")
		return n, sizedInt(int64(n), 2)
	case 9, 39:
		n := rapid.Int32().Draw(t, "int32")
		return n, sizedInt(int64(n), 4)
	case 11, 41:
		n := rapid.Int64().Draw(t, "int64")
		return n, IntOf(n)
	case 15, kindLastOfAll:
		f := rapid.Float64().Draw(t, "double")
		return f, DoubleOf(f)
	}
	if typ := typedKinds[kind]; typ != 0 {
		v := rapid.Custom(func(t *rapid.T) Value { return drawTyped().Draw(t, "typed") }).Filter(func(v Value) bool {
			is, _, _ := v.Serialized()
			return is == typ
		}).Draw(t, "typed")
		_, payload, _ := v.Serialized()
		return payload, v
	}
	s := rapid.StringN(0, 12, 40).Draw(t, "string")
	if long {
		s = strings.Repeat(s, rapid.SampledFrom([]int{1, 30, 9000}).Draw(t, "times"))
	}
	return s, s
}

// Whatever fields a compact value has, queries see each of them as it was written.
func TestProperty_CompactIsReadAsItWasWritten(t *testing.T) {
	kinds := []int32{1, 3, 7, 9, 11, 15, kindString, kindBoolean, 35, 37, 39, 41, kindLastOfAll, 19, 21, 23, 25, 27}
	rapid.Check(t, func(t *rapid.T) {
		inner, _ := NewSchema("inner", []Field{{"n", 9}, {"s", kindString}})
		names := rapid.SliceOfNDistinct(rapid.StringMatching("[a-z]{1,4}"), 0, 20, rapid.ID).Draw(t, "names")
		fields := make([]Field, len(names))
		for i, n := range names {
			fields[i] = Field{n, rapid.SampledFrom(append(kinds, kindCompact)).Draw(t, "kind")}
			if fields[i].Kind != kindCompact && rapid.Bool().Draw(t, "array") {
				fields[i].Kind++
			}
		}
		s, err := NewSchema("T", fields)
		if err != nil {
			t.Fatal(err)
		}
		w, want := newCompact(s), map[string]node{}
		for _, f := range fields {
			var v any
			switch {
			case kindSizes[f.Kind] == 0 && f.Kind != kindBool && rapid.Bool().Draw(t, "null"):
				want[f.Name] = nil
			case f.Kind == kindCompact:
				x := newCompact(inner)
				x.set("n", int32(7))
				x.set("s", "in")
				v, want[f.Name] = x.bytes(), map[string]node{"n": sizedInt(7, 4), "s": "in"}
			case f.Kind%2 == 0:
				list, seen := []any{}, []node{}
				for range rapid.IntRange(0, 20).Draw(t, "n") {
					e, n := drawField(t, f.Kind-1, false)
					if kindSizes[f.Kind-1] == 0 && f.Kind-1 != kindBool && rapid.Bool().Draw(t, "null element") {
						e, n = nil, nil
					}
					list, seen = append(list, e), append(seen, n)
				}
				v, want[f.Name] = list, seen
			default:
				v, want[f.Name] = drawField(t, f.Kind, true)
			}
			w.set(f.Name, v)
		}
		known, err := (*Schemas)(nil).With(s, inner)
		if err != nil {
			t.Fatal(err)
		}
		got, missing := decodeCompact(w.bytes(), known)
		if missing != 0 || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Fatalf("read\n%#v\nwritten\n%#v", got, want)
		}
		if _, missing := decodeCompact(w.bytes(), nil); missing != s.ID {
			t.Fatalf("missing %d, want %d", missing, s.ID)
		}
	})
}

func TestRecord_Compact(t *testing.T) {
	s, _ := NewSchema("Employee", []Field{{"age", 9}, {"name", kindString}, {"tags", kindString + 1}})
	w := newCompact(s)
	w.set("age", int32(30))
	w.set("name", "Ann")
	w.set("tags", []any{"a", nil, "b"})
	value := append(binary.BigEndian.AppendUint32(nil, ^uint32(54)), w.bytes()...)
	known, _ := (*Schemas)(nil).With(s)
	for text, want := range map[string]bool{"age > 29": true, "age = 29": false, "name LIKE 'A%'": true, "tags[any] = 'b'": true, "tags[0] = 'b'": false, "none IS NULL": true} {
		p, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		if r := NewRecordOf(nil, value, known); m.Match(r) != want || r.Missing() != 0 {
			t.Errorf("%s: %v", text, !want)
		}
		if r := NewRecord(nil, value); m.Match(r) && text != "none IS NULL" || r.Missing() != s.ID {
			t.Errorf("%s without the schema: missing %d", text, r.Missing())
		}
	}
}

// Whatever the bytes are, reading them ends, and takes no more than they do.
func FuzzCompact(f *testing.F) {
	s, _ := NewSchema("T", []Field{{"a", 1}, {"b", 9}, {"c", kindString}, {"d", kindString + 1}, {"e", kindCompact}, {"f", kindCompact + 1}, {"g", 2}, {"h", 10}})
	known, _ := (*Schemas)(nil).With(s)
	w := newCompact(s)
	w.set("c", "x")
	w.set("d", []any{"y", nil})
	w.set("g", []any{true, false})
	w.set("h", []any{int32(1)})
	inner := w.bytes()
	w.set("e", inner)
	w.set("f", []any{inner, inner})
	for _, b := range [][]byte{inner, w.bytes(), slices.Repeat(inner, 3)} {
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) { decodeCompact(b, known) })
}
