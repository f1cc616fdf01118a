package query

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"gridnode/grid"
)

// Field is a field of a compact value: its name, and its kind by Hazelcast's number.
type Field struct {
	Name string
	Kind int32
}

// Schema says what lies where in the compact values of one type. It is made by [NewSchema] and never changed.
type Schema struct {
	ID     int64
	Type   string
	Fields []Field // by name

	places map[string]place
	fixed  int // bytes of the fields that lie at fixed places
	others int // fields that do not
	bytes  int
}

// Size is about what the schema takes when it travels.
func (s *Schema) Size() int { return s.bytes }

// place is where a field lies: at an offset of the fixed part, a bit of it for truth values, or at one that the index leads to.
type place struct {
	kind   int32
	offset int
	bit    uint
	index  int // -1: at a fixed place
}

// Limits of schemas.
const (
	MaxSchemas     = 1024
	MaxSchemaBytes = 64 << 10 // of the names in one
	maxKind        = 46
)

// The kinds of fields that lie at fixed places, and their bytes; all others lie behind. A truth value takes a bit.
const kindBool = 1

// strange are kinds that compact values do not have: characters and portables.
var strange = map[int32]bool{5: true, 6: true, 31: true, 32: true}

var kindSizes = map[int32]int{3: 1, 7: 2, 9: 4, 11: 8, 13: 4, 15: 8}

// NewSchema returns the schema of a type with those fields. The error names what is wrong.
func NewSchema(typeName string, fields []Field) (*Schema, error) {
	s := &Schema{Type: typeName, Fields: slices.Clone(fields), places: make(map[string]place, len(fields))}
	slices.SortFunc(s.Fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	bytes := len(typeName)
	for i, f := range s.Fields {
		bytes += len(f.Name) + 8
		switch {
		case f.Kind < 1 || f.Kind > maxKind || strange[f.Kind]:
			return nil, fmt.Errorf("%w: schema of %.100q: field %.100q is of kind %d, which is not known", grid.ErrBadRequest, typeName, f.Name, f.Kind)
		case i > 0 && s.Fields[i-1].Name == f.Name:
			return nil, fmt.Errorf("%w: schema of %.100q: field %.100q is there twice", grid.ErrBadRequest, typeName, f.Name)
		case bytes > MaxSchemaBytes:
			return nil, fmt.Errorf("%w: the schema of %.100q has more than %d bytes of names", grid.ErrTooLarge, typeName, MaxSchemaBytes)
		}
	}
	s.ID, s.bytes = fingerprint(typeName, s.Fields), bytes
	s.lay()
	return s, nil
}

// lay finds where each field is: the large ones first, then truth values as bits, then those of any size, each by its name.
func (s *Schema) lay() {
	wide := slices.Clone(s.Fields)
	slices.SortStableFunc(wide, func(a, b Field) int { return cmp.Compare(kindSizes[b.Kind], kindSizes[a.Kind]) })
	for _, f := range wide {
		if n := kindSizes[f.Kind]; n > 0 {
			s.places[f.Name] = place{kind: f.Kind, offset: s.fixed, index: -1}
			s.fixed += n
		}
	}
	bits := 0
	for _, f := range s.Fields {
		switch {
		case f.Kind == kindBool:
			s.places[f.Name] = place{kind: f.Kind, offset: s.fixed + bits/8, bit: uint(bits % 8), index: -1}
			bits++
		case kindSizes[f.Kind] == 0:
			s.places[f.Name] = place{kind: f.Kind, index: s.others}
			s.others++
		}
	}
	s.fixed += (bits + 7) / 8
}

// fingerprintOf is where the fingerprint begins. Source: Rabin's, with the polynomial of Avro's and Hazelcast's schemas.
const fingerprintOf uint64 = 0xc15d213aa4d7a795

var fingerprintTable = func() (t [256]uint64) {
	for i := range t {
		f := uint64(i)
		for range 8 {
			f = f>>1 ^ fingerprintOf&-(f&1)
		}
		t[i] = f
	}
	return t
}()

func fingerprint(typeName string, fields []Field) int64 {
	f := fingerprintOf
	add := func(b byte) { f = f>>8 ^ fingerprintTable[byte(f)^b] }
	number := func(n int32) {
		for i := range 4 {
			add(byte(n >> (8 * i)))
		}
	}
	text := func(s string) {
		number(int32(len(s)))
		for i := range len(s) {
			add(s[i])
		}
	}
	text(typeName)
	number(int32(len(fields)))
	for _, d := range fields {
		text(d.Name)
		number(d.Kind)
	}
	return int64(f)
}

// Schemas are the schemas that a member knows. They are never changed; nil knows none.
type Schemas struct{ list map[int64]*Schema }

// Of returns the schema with that id, or nil.
func (s *Schemas) Of(id int64) *Schema {
	if s == nil {
		return nil
	}
	return s.list[id]
}

// All returns the schemas, by their ids.
func (s *Schemas) All() []*Schema {
	if s == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(s.list), func(a, b *Schema) int { return cmp.Compare(a.ID, b.ID) })
}

// With returns the schemas with others beside them: itself if it has them all.
func (s *Schemas) With(more ...*Schema) (*Schemas, error) {
	next := &Schemas{list: map[int64]*Schema{}}
	if s != nil {
		maps.Copy(next.list, s.list)
	}
	had := len(next.list)
	for _, m := range more {
		next.list[m.ID] = m
	}
	if len(next.list) == had {
		return s, nil
	}
	if len(next.list) > MaxSchemas {
		return s, fmt.Errorf("%w: the cluster has %d schemas of compact values already", grid.ErrTooLarge, had)
	}
	return next, nil
}
