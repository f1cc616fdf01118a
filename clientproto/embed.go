package clientproto

import (
	"encoding/binary"
	"fmt"

	"gridnode/imap"
	"gridnode/imap/query"
)

const (
	typePortable   int32 = -1
	factoryEntries int32 = -4 // and the class of an entry of a map
	classEntry     int32 = 120
	maxPortable          = 32 // portables in portables
	portableField        = 0  // types of fields that hold portables
	portablesField       = 10

	// Arrays of decimals and times: where each of their elements lies comes first.
	decimalsField   = 21
	timesField      = 23
	datesField      = 25
	timestampsField = 27
	zonedField      = 29
)

// object begins an object of one of the members' own classes.
func object(factory, class int32) imap.Data {
	identified := typeIdentified
	d := imap.Data(binary.BigEndian.AppendUint32(nil, uint32(identified)))
	d = append(d, 1)
	d = binary.BigEndian.AppendUint32(d, uint32(factory))
	return binary.BigEndian.AppendUint32(d, uint32(class))
}

// resultSet is a set of values as the members' own class for it writes them.
func resultSet(values []imap.Data) (imap.Data, error) {
	d := object(factoryAggregators, classResultSet)
	d = binary.BigEndian.AppendUint32(d, uint32(len(values)))
	var err error
	for _, v := range values {
		if d, err = embed(d, v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// mapEntry is an entry of a map as the members' own class for it writes it.
func mapEntry(key, value imap.Data) (imap.Data, error) {
	d, err := embed(object(factoryEntries, classEntry), key)
	if err != nil {
		return nil, err
	}
	return embed(d, value)
}

// embed appends a value within an object; null is a type of its own.
func embed(d, value imap.Data) (imap.Data, error) {
	if len(value) == 0 {
		return binary.BigEndian.AppendUint32(d, 0), nil
	}
	at := len(d)
	d = append(d, value...)
	if value.Type() != typePortable {
		return d, nil
	}
	s := shifter{p: d[at:], by: at, left: len(value)}
	if !s.body(4+8, 0) { // behind type, factory and class
		return nil, fmt.Errorf("%w: a portable value is malformed", errMalformed)
	}
	return d, nil
}

// appendObject appends a result within an object.
func appendObject(d imap.Data, v query.Value) imap.Data {
	d, _ = embed(d, serialized(v)) // never a portable
	return d
}

// shifter moves a portable. Its offsets are those of the whole data that it lies in, from before the partition hash.
type shifter struct {
	p    []byte // from its type on
	by   int
	left int // fields that may still be met, for offsets may point anywhere
}

// number reads one that lies at a place in p.
func (s *shifter) number(at int) (int, bool) {
	if at < 0 || at > len(s.p)-4 {
		return 0, false
	}
	return int(int32(binary.BigEndian.Uint32(s.p[at:]))), true
}

// shift moves the offset that lies at a place, and returns where in p it points.
func (s *shifter) shift(at int) (int, bool) {
	n, ok := s.number(at)
	if !ok {
		return 0, false
	}
	binary.BigEndian.PutUint32(s.p[at:], uint32(n+s.by))
	return n - 4, true
}

// body moves what begins with a version: the end, the number of fields, and where each of them is, and the raw part if there is one.
func (s *shifter) body(at, depth int) bool {
	n, ok := s.number(at + 8)
	if s.left -= n + 1; !ok || n < 0 || s.left < 0 || depth > maxPortable {
		return false
	}
	if _, ok := s.shift(at + 4); !ok {
		return false
	}
	for i := range n {
		field, ok := s.shift(at + 12 + 4*i)
		if !ok || !s.field(field, depth) {
			return false
		}
	}
	if raw, ok := s.number(at + 12 + 4*n); ok && raw > 0 {
		_, ok = s.shift(at + 12 + 4*n)
		return ok
	}
	return true
}

// field moves what a field holds: nothing of it but portables, and arrays of decimals and times, knows where it lies.
func (s *shifter) field(at, depth int) bool {
	if at < 0 || at > len(s.p)-3 {
		return false
	}
	at += 2 + int(binary.BigEndian.Uint16(s.p[at:]))
	if at >= len(s.p) {
		return false
	}
	switch s.p[at] {
	case portableField:
		return at+1 < len(s.p) && (s.p[at+1] != 0 || s.body(at+2+8, depth+1))
	case portablesField:
		n, ok := s.number(at + 1)
		for i := range max(n, 0) {
			to, ok := s.shift(at + 1 + 12 + 4*i)
			if !ok || !s.body(to, depth+1) {
				return false
			}
		}
		return ok
	case decimalsField, timesField, datesField, timestampsField, zonedField:
		n, ok := s.number(at + 1)
		for i := range max(n, 0) {
			if _, ok := s.shift(at + 1 + 4 + 4*i); !ok {
				return false
			}
		}
		return ok
	}
	return true
}
