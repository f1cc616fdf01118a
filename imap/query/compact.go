package query

import (
	"encoding/binary"
)

const typeCompact int32 = -55

const maxCompactDepth = 32

// compactReader reads what Hazelcast's compact serialization wrote. Source: its reference manual, "Compact Serialization".
type compactReader struct {
	schemas *Schemas
	left    int // values that may still be read, for offsets may point anywhere
	missing int64
}

// decodeCompact returns the fields by name; nil if the data is malformed or of a schema that is not known: then missing is its id.
func decodeCompact(p []byte, schemas *Schemas) (n node, missing int64) {
	r := compactReader{schemas: schemas, left: len(p)}
	m, ok := r.value(p, 0)
	if !ok {
		return nil, r.missing
	}
	return m, r.missing
}

// value reads a value from its schema's id on.
func (r *compactReader) value(p []byte, depth int) (node, bool) {
	if len(p) < 8 || depth > maxCompactDepth {
		return nil, false
	}
	id := int64(binary.BigEndian.Uint64(p))
	s := r.schemas.Of(id)
	if s == nil {
		r.missing = id
		return nil, false
	}
	p = p[8:]
	var offsets table
	if s.others > 0 {
		body, rest, ok := sized(p)
		if !ok || len(rest) < s.others*offsetSize(len(body)) {
			return nil, false
		}
		offsets = table{rest, offsetSize(len(body))}
		p = body
	}
	if len(p) < s.fixed {
		return nil, false
	}
	if r.left -= len(s.Fields) + 1; r.left < -1 {
		return nil, false
	}
	m := make(map[string]node, len(s.Fields))
	for name, at := range s.places {
		var v node
		ok := true
		switch {
		case at.kind == kindBool:
			v = BoolOf(p[at.offset]>>at.bit&1 == 1)
		case at.index < 0:
			v, _, ok = scalar(scalarKinds[at.kind], p[at.offset:])
		default:
			v, ok = r.placed(at.kind, p, offsets.at(at.index), depth)
		}
		if !ok {
			return nil, false
		}
		m[name] = v
	}
	return m, true
}

// table is a table of offsets, each of so many bytes.
type table struct {
	p    []byte
	size int
}

// offsetSize is how many bytes an offset takes in data of that length.
func offsetSize(n int) int {
	switch {
	case n < 1<<8-1:
		return 1
	case n < 1<<16-1:
		return 2
	}
	return 4
}

// at returns an offset; -1 is null.
func (t table) at(i int) int {
	switch t.size {
	case 1:
		if n := t.p[i]; n != 1<<8-1 {
			return int(n)
		}
	case 2:
		if n := binary.BigEndian.Uint16(t.p[2*i:]); n != 1<<16-1 {
			return int(n)
		}
	case 4:
		return int(int32(binary.BigEndian.Uint32(t.p[4*i:])))
	}
	return -1
}

// The kinds of fields that are more than one primitive. That of an array is one above that of its elements.
const (
	kindInt8      = 3
	kindString    = 17
	kindCompact   = 29
	kindBoolean   = 33 // that may be null; those of numbers follow
	kindLastOfAll = 45
)

// scalarKinds are the type ids of primitive fields.
var scalarKinds = map[int32]int32{
	kindInt8: typeByte, 7: typeShort, 9: typeInt, 11: typeLong, 13: typeFloat, 15: typeDouble,
	kindBoolean: typeBool, 35: typeByte, 37: typeShort, 39: typeInt, 41: typeLong, 43: typeFloat, kindLastOfAll: typeDouble,
}

// typedKinds are the type ids of fields of decimals and times.
var typedKinds = map[int32]int32{19: typeBigDecimal, 21: typeLocalTime, 23: typeLocalDate, 25: typeLocalDateTime, 27: typeOffsetDateTime}

// placed reads what lies at an offset.
func (r *compactReader) placed(kind int32, p []byte, offset, depth int) (node, bool) {
	switch {
	case offset == -1:
		return nil, true
	case offset < 0 || offset > len(p):
		return nil, false
	}
	p = p[offset:]
	if kind%2 == 0 {
		return r.array(kind-1, p, depth)
	}
	return r.element(kind, p, depth)
}

// element reads one value that does not lie at a fixed place.
func (r *compactReader) element(kind int32, p []byte, depth int) (node, bool) {
	switch {
	case kind == kindString:
		body, _, ok := sized(p)
		return string(body), ok
	case kind == kindCompact:
		return r.value(p, depth+1)
	case scalarKinds[kind] != 0:
		v, _, ok := scalar(scalarKinds[kind], p)
		return v, ok
	}
	v, _, ok := typedValue(typedKinds[kind], p)
	return v, ok
}

func (r *compactReader) array(kind int32, p []byte, depth int) (node, bool) {
	if kind == kindBool {
		return r.bits(p)
	}
	if n := kindSizes[kind]; n > 0 {
		return r.numbers(kind, n, p)
	}
	if len(p) < 8 {
		return nil, false
	}
	size, n := int(int32(binary.BigEndian.Uint32(p))), int(int32(binary.BigEndian.Uint32(p[4:])))
	if p = p[8:]; size < 0 || size > len(p) {
		return nil, false
	}
	body, offsets := p[:size], table{p[size:], offsetSize(size)}
	if r.left -= n; n < 0 || n > len(offsets.p)/offsets.size || r.left < 0 {
		return nil, false
	}
	list := make([]node, n)
	for i := range list {
		switch at := offsets.at(i); {
		case at == -1:
		case at < 0 || at > len(body):
			return nil, false
		default:
			var ok bool
			if list[i], ok = r.element(kind, body[at:], depth); !ok {
				return nil, false
			}
		}
	}
	return list, true
}

func (r *compactReader) numbers(kind int32, size int, p []byte) (node, bool) {
	if len(p) < 4 {
		return nil, false
	}
	n := int(int32(binary.BigEndian.Uint32(p)))
	if p = p[4:]; n < 0 || n > len(p)/size {
		return nil, false
	}
	list := make([]node, n)
	for i := range list {
		list[i], _, _ = scalar(scalarKinds[kind], p[i*size:])
	}
	return list, true
}

func (r *compactReader) bits(p []byte) (node, bool) {
	if len(p) < 4 {
		return nil, false
	}
	n := int(int32(binary.BigEndian.Uint32(p)))
	if p = p[4:]; n < 0 || n > 8*len(p) {
		return nil, false
	}
	list := make([]node, n)
	for i := range list {
		list[i] = BoolOf(p[i/8]>>(i%8)&1 == 1)
	}
	return list, true
}
