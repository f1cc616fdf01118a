package clientproto

import (
	"encoding/binary"
	"math"

	"gridnode/imap"
	"gridnode/imap/query"
)

// Type ids of serialized data that requests carry. Source: Hazelcast's built-in serializers.
const (
	typeNull       int32 = 0
	typeIdentified int32 = -2
	typeByte       int32 = -3
	typeBool       int32 = -4
	typeShort      int32 = -6
	typeInt        int32 = -7
	typeLong       int32 = -8
	typeFloat      int32 = -9
	typeDouble     int32 = -10
	typeChar       int32 = -5
	typeStringList int32 = -20
	typeJava       int32 = -100
)

const maxObjects = 1 << 16 // in one predicate or aggregation

// objectReader reads what clients serialize for members: big-endian, without trusting a length.
type objectReader struct {
	b    []byte
	left int // objects that may still be read
	err  error
}

func newObjectReader(d data) *objectReader { return &objectReader{b: d.Data, left: maxObjects} }

func (r *objectReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fail(codeSerialization, format, args...)
	}
}

func (r *objectReader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)) {
		r.fail("%d bytes are missing in an object", n-len(r.b))
	}
	if r.err != nil {
		return make([]byte, 8)
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *objectReader) int() int32   { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *objectReader) long() int64  { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *objectReader) byte() byte   { return r.take(1)[0] }
func (r *objectReader) bool() bool   { return r.byte() != 0 }
func (r *objectReader) count() int   { return r.bounded(int(r.int())) }
func (r *objectReader) short() int16 { return int16(binary.BigEndian.Uint16(r.take(2))) }

// bounded refuses a number of things for which there are not even the bytes.
func (r *objectReader) bounded(n int) int {
	if n < 0 || n > len(r.b) || n > r.left {
		r.fail("%d things in an object", n)
		return 0
	}
	return n
}

// text reads a string; null is empty.
func (r *objectReader) text() string {
	n := r.int()
	if n == -1 || r.err != nil {
		return ""
	}
	return string(r.take(int(n)))
}

// texts reads an array of strings; null is empty.
func (r *objectReader) texts() []string {
	n := r.int()
	if n == -1 {
		return nil
	}
	out := make([]string, 0, r.bounded(int(n)))
	for range cap(out) {
		out = append(out, r.text())
	}
	return out
}

// identified reads the head of an object of one of Hazelcast's own classes.
func (r *objectReader) identified() (factory, class int32) {
	if typ := r.int(); typ != typeIdentified {
		r.fail("an object of type %d where one of the members' own classes should be", typ)
		return 0, 0
	}
	if !r.bool() {
		r.fail("an object that is not identified")
	}
	return r.int(), r.int()
}

// named reports whether an object is next that was written under the name of its class, and goes behind its head.
func (r *objectReader) named() bool {
	const head = 5
	if r.err != nil || len(r.b) < head || int32(binary.BigEndian.Uint32(r.b)) != typeIdentified || r.b[head-1] != 0 {
		return false
	}
	r.b = r.b[head:]
	return true
}

// absent reports whether a text that is null is next, and goes behind it.
func (r *objectReader) absent() bool {
	if r.err != nil || len(r.b) < 4 || int32(binary.BigEndian.Uint32(r.b)) != -1 {
		return false
	}
	r.b = r.b[4:]
	return true
}

// enum reads a constant of one of Java's enumerations, which Java itself has written: it is compared by its name.
func (r *objectReader) enum() query.Value {
	const constant, description, noFields, end, noSuper, text = '~', 'r', 0, 'x', 'p', 't'
	ok := uint32(r.int()) == javaVersion && r.byte() == constant
	next := r.byte()
	for ; ok && next == description; next = r.byte() { // of the class, and of that above it
		r.take(int(uint16(r.short())))
		r.take(8 + 1) // version and flags
		ok = r.short() == noFields && r.byte() == end
	}
	if ok = ok && next == noSuper && r.byte() == text; !ok {
		r.fail("a value that Java serialized cannot be compared with, except constants of enumerations")
		return query.Value{}
	}
	return query.TextOf(string(r.take(int(uint16(r.short())))))
}

// value reads an object to compare with.
func (r *objectReader) value() query.Value {
	if r.left--; r.left < 0 {
		r.fail("more than %d objects", maxObjects)
	}
	switch typ := r.int(); typ {
	case typeNull:
		return query.Value{}
	case typeByte:
		return query.IntOf(int64(int8(r.byte())))
	case typeBool:
		return query.BoolOf(r.bool())
	case typeChar:
		return query.TextOf(string(rune(uint16(r.short()))))
	case typeJava:
		return r.enum()
	case typeShort:
		return query.IntOf(int64(r.short()))
	case typeInt:
		return query.IntOf(int64(r.int()))
	case typeLong:
		return query.IntOf(r.long())
	case typeFloat:
		return query.DoubleOf(float64(math.Float32frombits(uint32(r.int()))))
	case typeDouble:
		return query.DoubleOf(math.Float64frombits(uint64(r.long())))
	case imap.TypeString:
		return query.TextOf(r.text())
	default:
		if v, rest, ok := query.TypedOf(typ, r.b); ok && r.err == nil {
			r.b = rest
			return v
		}
		r.fail("a value of type %d cannot be compared with", typ)
		return query.Value{}
	}
}

// serialized is the Data of a result, in the type that its number had where it was stored.
func serialized(v query.Value) imap.Data {
	b := func(typ int32) imap.Data { return imap.Data(binary.BigEndian.AppendUint32(nil, uint32(typ))) }
	switch v.Kind() {
	case query.Null:
		return nil
	case query.Bool:
		return append(b(typeBool), map[bool]byte{true: 1}[v.Bool()])
	case query.Int:
		switch v.Width() {
		case 1:
			return append(b(typeByte), byte(v.Int()))
		case 2:
			return binary.BigEndian.AppendUint16(b(typeShort), uint16(v.Int()))
		case 4:
			return binary.BigEndian.AppendUint32(b(typeInt), uint32(v.Int()))
		}
		return binary.BigEndian.AppendUint64(b(typeLong), uint64(v.Int()))
	case query.Uint, query.Double:
		if v.Kind() == query.Double && v.Width() == 4 {
			return binary.BigEndian.AppendUint32(b(typeFloat), math.Float32bits(float32(v.Double())))
		}
		return binary.BigEndian.AppendUint64(b(typeDouble), math.Float64bits(v.Double()))
	case query.Text:
		return imap.String(v.Text())
	case query.Binary:
		return imap.Bytes([]byte(v.Text()))
	}
	if typ, payload, ok := v.Serialized(); ok {
		return append(b(typ), payload...)
	}
	return imap.JSON([]byte(v.Text()))
}

func longData(n int64) imap.Data { return serialized(query.IntOf(n)) }

func doubleData(f float64) imap.Data { return serialized(query.DoubleOf(f)) }

// errNoClass says that a class of the client's own is not known here.
func errNoClass(what string, factory, class int32) error {
	return fail(codeSerialization, "%s of factory %d, class %d is not known to the members", what, factory, class)
}
