package query

import (
	"encoding/binary"
)

const typePortable int32 = -1

const (
	maxPortableDepth = 32
	wholeHead        = 8 // bytes of serialized data before the payload: offsets in a portable count them
)

// The field types of a portable that are more than one primitive.
const (
	portableObject  = 0
	portableString  = 9
	portableObjects = 10
	portableStrings = 19
)

// portableScalars are the type ids of primitive fields, by field type; those of their arrays are ten further on.
var portableScalars = map[byte]int32{1: typeByte, 2: typeBool, 3: typeChar, 4: typeShort, 5: typeInt, 6: typeLong, 7: typeFloat, 8: typeDouble}

// portableTyped are the type ids of fields of decimals and times, by field type; arrays of them have the next one.
var portableTyped = map[byte]int32{20: typeBigDecimal, 22: typeLocalTime, 24: typeLocalDate, 26: typeLocalDateTime, 28: typeOffsetDateTime}

const portableYear = 2 // bytes

// portableReader reads what Hazelcast's portable serialization wrote. Source: its reference manual, "Portable Serialization". The data says
// itself what its fields are.
type portableReader struct {
	p    []byte // the payload: factory and class, then the body
	left int    // values that may still be read, for offsets may point anywhere
}

// decodePortable returns the fields by name; nil if the data is malformed.
func decodePortable(p []byte) node {
	r := &portableReader{p: p, left: len(p)}
	m, ok := r.body(8, 0)
	if !ok {
		return nil
	}
	return m
}

func (r *portableReader) number(at int) (int, bool) {
	if at < 0 || at > len(r.p)-4 {
		return 0, false
	}
	return int(int32(binary.BigEndian.Uint32(r.p[at:]))), true
}

// body reads version, final offset, the number of fields and where each is.
func (r *portableReader) body(at, depth int) (map[string]node, bool) {
	n, ok := r.number(at + 8)
	if !ok || depth > maxPortableDepth || n < 0 || n > (len(r.p)-at)/4 || n > r.left {
		return nil, false
	}
	r.left -= n
	m := make(map[string]node, n)
	for i := range n {
		offset, ok := r.number(at + 12 + 4*i)
		if !ok {
			return nil, false
		}
		name, value, ok := r.field(offset-wholeHead, depth)
		if !ok {
			return nil, false
		}
		m[name] = value
	}
	return m, true
}

func (r *portableReader) field(at, depth int) (string, node, bool) {
	if at < 0 || at > len(r.p)-2 {
		return "", nil, false
	}
	size := int(binary.BigEndian.Uint16(r.p[at:]))
	at += 2
	if size > len(r.p)-at-1 {
		return "", nil, false
	}
	name, kind := string(r.p[at:at+size]), r.p[at+size]
	v, ok := r.value(at+size+1, kind, depth)
	return name, v, ok
}

func (r *portableReader) value(at int, kind byte, depth int) (node, bool) {
	switch {
	case kind == portableObject:
		if at >= len(r.p) || r.p[at] != 0 { // null
			return nil, at < len(r.p)
		}
		m, ok := r.body(at+1+8, depth+1)
		return m, ok
	case kind == portableObjects:
		return r.objects(at, depth)
	case at > len(r.p):
		return nil, false
	}
	rest := r.p[at:]
	switch {
	case kind == portableString, kind == portableStrings, kind > 10 && kind < 19:
		if n, ok := r.number(at); !ok || n == -1 {
			return nil, ok
		}
	}
	switch {
	case kind == portableString:
		body, _, ok := sized(rest)
		return string(body), ok
	case kind == portableStrings:
		return stringList(rest), true
	case portableScalars[kind] != 0:
		v, _, ok := scalar(portableScalars[kind], rest)
		return v, ok
	case kind == 11:
		body, _, ok := sized(rest)
		return BinaryOf(body), ok
	case kind > 11 && kind < 19:
		return array(portableScalars[kind-10]-9, rest), true // an array's type id is nine below that of its elements
	}
	if typ := portableTyped[kind]; typ != 0 {
		if len(rest) < 1 || rest[0] != 0 { // null
			return nil, len(rest) > 0
		}
		v, _, ok := readTyped(typ, rest[1:], portableYear)
		return v, ok
	}
	if typ := portableTyped[kind-1]; typ != 0 && kind > portableStrings {
		return r.typedList(typ, at)
	}
	return nil, true // a kind that is not known
}

// typedList reads an array of decimals or times: their number, and where each lies.
func (r *portableReader) typedList(typ int32, at int) (node, bool) {
	n, ok := r.number(at)
	if !ok || n > (len(r.p)-at)/4 || n > r.left {
		return nil, false
	}
	if n < 0 { // null
		return nil, true
	}
	r.left -= n
	list := make([]node, n)
	for i := range list {
		offset, ok := r.number(at + 4 + 4*i)
		if offset -= wholeHead; !ok || offset < 0 || offset > len(r.p) {
			return nil, false
		}
		if list[i], _, ok = readTyped(typ, r.p[offset:], portableYear); !ok {
			return nil, false
		}
	}
	return list, true
}

func (r *portableReader) objects(at, depth int) (node, bool) {
	n, ok := r.number(at)
	if !ok || n > (len(r.p)-at)/4 || n > r.left {
		return nil, false
	}
	r.left -= max(n, 0)
	list := make([]node, 0, max(n, 0))
	for i := range n {
		offset, ok := r.number(at + 12 + 4*i)
		if !ok {
			return nil, false
		}
		m, ok := r.body(offset-wholeHead, depth+1)
		if !ok {
			return nil, false
		}
		list = append(list, m)
	}
	return list, true
}
