package query

import (
	"encoding/binary"
	"math"

	"gridnode/grid/pack"
)

// decodePack reads one msgpack value; nil if it is malformed. A struct that was written as an array has elements, not fields; keys of maps
// that are no strings are left out; extensions are bytes.
func decodePack(b []byte) node {
	if pack.Check(b) != nil {
		return nil
	}
	r := packReader{b: b}
	return r.next()
}

// packReader reads a value that was checked: every length in it is covered by bytes that are there.
type packReader struct{ b []byte }

func (r *packReader) take(n int) []byte {
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

// number reads a number of n bytes, big-endian.
func (r *packReader) number(n int) uint64 {
	var wide [8]byte
	copy(wide[8-n:], r.take(n))
	return binary.BigEndian.Uint64(wide[:])
}

func (r *packReader) next() node {
	c := r.take(1)[0]
	switch {
	case c < 0x80:
		return IntOf(int64(c))
	case c < 0x90:
		return r.object(int(c & 0x0f))
	case c < 0xa0:
		return r.list(int(c & 0x0f))
	case c < 0xc0:
		return string(r.take(int(c & 0x1f)))
	case c >= 0xe0:
		return IntOf(int64(int8(c)))
	}
	switch c {
	case 0xc2, 0xc3:
		return c == 0xc3
	case 0xc4, 0xc5, 0xc6:
		return BinaryOf(r.take(int(r.number(1 << (c - 0xc4)))))
	case 0xc7, 0xc8, 0xc9:
		return BinaryOf(r.take(1 + int(r.number(1<<(c-0xc7)))))
	case 0xca:
		return DoubleOf(float64(math.Float32frombits(uint32(r.number(4)))))
	case 0xcb:
		return DoubleOf(math.Float64frombits(r.number(8)))
	case 0xcc, 0xcd, 0xce, 0xcf:
		return UintOf(r.number(1 << (c - 0xcc)))
	case 0xd0, 0xd1, 0xd2, 0xd3:
		n := 1 << (c - 0xd0)
		return IntOf(int64(r.number(n)<<(64-8*n)) >> (64 - 8*n))
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return BinaryOf(r.take(1 + 1<<(c-0xd4)))
	case 0xd9, 0xda, 0xdb:
		return string(r.take(int(r.number(1 << (c - 0xd9)))))
	case 0xdc, 0xdd:
		return r.list(int(r.number(2 << (c - 0xdc))))
	case 0xde, 0xdf:
		return r.object(int(r.number(2 << (c - 0xde))))
	}
	return nil
}

func (r *packReader) list(n int) node {
	list := make([]node, n)
	for i := range list {
		list[i] = r.next()
	}
	return list
}

func (r *packReader) object(n int) node {
	m := make(map[string]node, n)
	for range n {
		key, ok := r.next().(string)
		value := r.next()
		if ok {
			m[key] = value
		}
	}
	return m
}
