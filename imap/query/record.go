package query

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"mime"
	"strings"
	"unicode/utf8"
)

// The type ids of stored data that are understood. Source: Hazelcast's built-in serializers, and the two of package imap.
const (
	typeByte       int32 = -3
	typeBool       int32 = -4
	typeChar       int32 = -5
	typeShort      int32 = -6
	typeInt        int32 = -7
	typeLong       int32 = -8
	typeFloat      int32 = -9
	typeDouble     int32 = -10
	typeString     int32 = -11
	typeBytes      int32 = -12
	typeBools      int32 = -13
	typeChars      int32 = -14
	typeShorts     int32 = -15
	typeInts       int32 = -16
	typeLongs      int32 = -17
	typeFloats     int32 = -18
	typeDoubles    int32 = -19
	typeStringList int32 = -20
	typeJSON       int32 = -130
	typeMedia      int32 = 0x67726431
	typeRaw        int32 = 0x67726432
)

// node is a decoded value: nil, Value, string, bool, json.Number, rawJSON, []node or map[string]node.
type node = any

// Record is an entry to be asked. It reads key and value when they are first asked for, once. It is not safe for use by several goroutines.
type Record struct {
	key, value doc
}

// NewRecord returns the record of an entry. Both slices are a type id of four bytes and a payload, and must not change meanwhile.
func NewRecord(key, value []byte) *Record { return NewRecordOf(key, value, nil) }

// NewRecordOf is NewRecord for entries that may be compact values of those schemas.
func NewRecordOf(key, value []byte, schemas *Schemas) *Record {
	return &Record{key: doc{data: key, schemas: schemas}, value: doc{data: value, schemas: schemas}}
}

// Missing returns the id of a schema without which key or value could not be read when they were asked for; 0: none is missing.
func (r *Record) Missing() int64 { return cmp.Or(r.key.missing, r.value.missing) }

// doc is data that is read at most once.
type doc struct {
	data    []byte
	schemas *Schemas
	read    bool
	root    node
	missing int64
}

func (d *doc) tree() node {
	if !d.read {
		d.read = true
		if len(d.data) >= 4 && int32(binary.BigEndian.Uint32(d.data)) == typeCompact {
			d.root, d.missing = decodeCompact(d.data[4:], d.schemas)
		} else {
			d.root = decode(d.data)
		}
	}
	return d.root
}

// decode returns what data says that is not compact; nil if it cannot be read.
func decode(data []byte) node {
	if len(data) < 4 {
		return nil
	}
	typ, p := int32(binary.BigEndian.Uint32(data)), data[4:]
	switch typ {
	case typeString, typeJSON, typeBytes:
		body, rest, ok := sized(p)
		if !ok || len(rest) > 0 {
			return nil
		}
		return textual(typ, body)
	case typeMedia:
		if len(p) < 1 || len(p) < 1+int(p[0]) {
			return nil
		}
		return media(string(p[1:1+int(p[0])]), p[1+int(p[0]):])
	case typeRaw:
		return decodePack(p)
	case typePortable:
		return decodePortable(p)
	case typeStringList:
		return stringList(p)
	}
	if v, rest, ok := scalar(typ, p); ok && len(rest) == 0 {
		return v
	}
	if v, rest, ok := typedValue(typ, p); ok && len(rest) == 0 {
		return v
	}
	return array(typ, p)
}

func textual(typ int32, body []byte) node {
	switch {
	case typ == typeJSON:
		return readJSON(body)
	case typ == typeString && utf8.Valid(body):
		return string(body)
	}
	return BinaryOf(body)
}

func media(mediaType string, body []byte) node {
	typ, _, err := mime.ParseMediaType(mediaType)
	switch {
	case err == nil && (typ == "application/json" || strings.HasSuffix(typ, "+json")):
		return readJSON(body)
	case err == nil && strings.HasPrefix(typ, "text/") && utf8.Valid(body):
		return string(body)
	}
	return BinaryOf(body)
}

// sized cuts a body that has its length in front.
func sized(p []byte) (body, rest []byte, ok bool) {
	if len(p) < 4 {
		return nil, nil, false
	}
	n := int64(int32(binary.BigEndian.Uint32(p)))
	if n < 0 || n > int64(len(p)-4) {
		return nil, nil, false
	}
	return p[4 : 4+n], p[4+n:], true
}

// scalar reads one value of a primitive type.
func scalar(typ int32, p []byte) (v Value, rest []byte, ok bool) {
	width := map[int32]int{typeByte: 1, typeBool: 1, typeChar: 2, typeShort: 2, typeInt: 4, typeLong: 8, typeFloat: 4, typeDouble: 8}[typ]
	if width == 0 || len(p) < width {
		return v, nil, false
	}
	var wide [8]byte
	copy(wide[8-width:], p[:width])
	u := binary.BigEndian.Uint64(wide[:])
	switch typ {
	case typeByte:
		v = sizedInt(int64(int8(u)), 1)
	case typeBool:
		v = BoolOf(u != 0)
	case typeChar:
		v = TextOf(string(rune(u)))
	case typeShort:
		v = sizedInt(int64(int16(u)), 2)
	case typeInt:
		v = sizedInt(int64(int32(u)), 4)
	case typeLong:
		v = IntOf(int64(u))
	case typeFloat:
		v = DoubleOf(float64(math.Float32frombits(uint32(u))))
		v.width = 4
	case typeDouble:
		v = DoubleOf(math.Float64frombits(u))
	}
	return v, p[width:], true
}

var elementTypes = map[int32]int32{
	typeBools: typeBool, typeChars: typeChar, typeShorts: typeShort, typeInts: typeInt, typeLongs: typeLong, typeFloats: typeFloat,
	typeDoubles: typeDouble,
}

func array(typ int32, p []byte) node {
	element, ok := elementTypes[typ]
	if !ok || len(p) < 4 {
		return nil
	}
	n, p := int64(int32(binary.BigEndian.Uint32(p))), p[4:]
	if n < 0 || n > int64(len(p)) {
		return nil
	}
	list := make([]node, 0, n)
	for range n {
		v, rest, ok := scalar(element, p)
		if !ok {
			return nil
		}
		list, p = append(list, v), rest
	}
	return list
}

func stringList(p []byte) node {
	if len(p) < 4 {
		return nil
	}
	n, p := int64(int32(binary.BigEndian.Uint32(p))), p[4:]
	if n < 0 || n > int64(len(p)/4) {
		return nil
	}
	list := make([]node, 0, n)
	for range n {
		if len(p) >= 4 && int32(binary.BigEndian.Uint32(p)) == -1 {
			list, p = append(list, nil), p[4:]
			continue
		}
		body, rest, ok := sized(p)
		if !ok {
			return nil
		}
		list, p = append(list, string(body)), rest
	}
	return list
}

// decodeJSON reads a whole JSON text; nil if it is not exactly one.
func decodeJSON(text []byte) node {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var n node
	if err := d.Decode(&n); err != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil
	}
	return n
}

// leaf is the value of a node where a path ends.
func leaf(n node) Value {
	switch n := n.(type) {
	case nil:
		return Value{}
	case Value:
		return n
	case string:
		return TextOf(n)
	case bool:
		return BoolOf(n)
	case rawJSON:
		return n.value()
	case json.Number:
		v, _ := numberOf(string(n))
		return v
	}
	text, err := json.Marshal(n)
	if err != nil {
		return Value{}
	}
	return Value{kind: Composite, text: string(text)}
}
