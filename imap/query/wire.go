package query

import (
	"encoding/binary"
	"fmt"

	"gridnode/grid"
)

// The wire form: op | attribute | values | pattern | args, each list with its length in front, lengths as uvarints.

// Append appends the predicate's wire form to dst.
func (p Predicate) Append(dst []byte) []byte {
	dst = append(dst, byte(p.Op))
	dst = appendText(dst, p.Attribute)
	dst = AppendValues(dst, p.Values)
	dst = appendText(dst, p.Pattern)
	dst = binary.AppendUvarint(dst, uint64(len(p.Args)))
	for _, a := range p.Args {
		dst = a.Append(dst)
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendValues appends a list of values to dst.
func AppendValues(dst []byte, list []Value) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, v := range list {
		dst = append(dst, byte(v.kind), v.width)
		switch v.kind {
		case Bool, Int, Uint, Double:
			dst = binary.BigEndian.AppendUint64(dst, v.bits)
		case Null:
		default:
			dst = appendText(dst, v.text)
		}
	}
	return dst
}

// Decode reads a predicate of untrusted bytes. What it allocates is bounded by len(b) and the limits of a predicate.
func Decode(b []byte) (Predicate, error) {
	d := decoder{b: b, left: MaxNodes}
	p := d.predicate(1)
	return p, d.end()
}

// DecodeValues reads a list of values of untrusted bytes.
func DecodeValues(b []byte) ([]Value, error) {
	d := decoder{b: b, left: len(b)}
	list := d.values()
	return list, d.end()
}

// decoder reads from b until the first error; then everything it returns is empty.
type decoder struct {
	b    []byte
	left int // parts that may still come
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: query: %s", grid.ErrBadMessage, fmt.Sprintf(format, args...))
	}
	d.b = nil
}

func (d *decoder) end() error {
	if len(d.b) > 0 {
		d.fail("%d bytes follow", len(d.b))
	}
	return d.err
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.b) {
		d.fail("%d bytes of %d are there", len(d.b), n)
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) byte() byte {
	if p := d.bytes(1); len(p) == 1 {
		return p[0]
	}
	return 0
}

// length reads a length that takes at least that many bytes for each.
func (d *decoder) length(each int) int {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.fail("a length is malformed")
		return 0
	}
	d.b = d.b[size:]
	if n > uint64(len(d.b)/each) {
		d.fail("a length of %d in %d bytes", n, len(d.b))
		return 0
	}
	return int(n)
}

func (d *decoder) text(most int) string {
	n := d.length(1)
	if n > most {
		d.fail("a text of %d bytes, the limit is %d", n, most)
		return ""
	}
	return string(d.bytes(n))
}

// count takes n parts off what may still come.
func (d *decoder) count(n int) bool {
	if d.left -= n; d.left < 0 {
		d.fail("more than %d parts", MaxNodes)
		return false
	}
	return true
}

func (d *decoder) predicate(depth int) (p Predicate) {
	if depth > MaxDepth {
		d.fail("nested deeper than %d", MaxDepth)
		return p
	}
	if !d.count(1) {
		return p
	}
	p.Op = Op(d.byte())
	p.Attribute = d.text(MaxAttribute)
	p.Values = d.values()
	p.Pattern = d.text(MaxPattern)
	n := d.length(5) // the least bytes of a predicate
	if n == 0 || n > d.left {
		d.count(n)
		return p
	}
	p.Args = make([]Predicate, 0, n)
	for range n {
		if d.err != nil {
			return Predicate{}
		}
		p.Args = append(p.Args, d.predicate(depth+1))
	}
	return p
}

func (d *decoder) values() []Value {
	n := d.length(2)
	if n == 0 || !d.count(n) {
		return nil
	}
	list := make([]Value, 0, n)
	for range n {
		v := Value{kind: Kind(d.byte()), width: d.byte()}
		switch v.kind {
		case Null:
		case Bool, Int, Uint, Double:
			if p := d.bytes(8); len(p) == 8 {
				v.bits = binary.BigEndian.Uint64(p)
			}
		case Text, Binary, Composite:
			n := d.length(1)
			v.text = string(d.bytes(n))
		case Decimal, Date, Time, DateTime, OffsetDateTime, Instant, UUID:
			n := d.length(1)
			v.text = string(d.bytes(n))
			if v.checked().kind == Null {
				d.fail("a value of kind %d has %d bytes", v.kind, n)
			}
		default:
			d.fail("a value of kind %d", v.kind)
		}
		if d.err != nil {
			return nil
		}
		list = append(list, v)
	}
	return list
}
