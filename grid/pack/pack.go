// Package pack is msgpack with bounds: bytes from elsewhere are looked through before anything is allocated for them.
package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// Limits of a message, whatever its size.
const (
	MaxElements = 1 << 20 // of one array or map
	MaxDepth    = 32
)

// ErrMalformed is what [Unmarshal] returns, wrapped, for bytes that are not one msgpack value within the limits.
var ErrMalformed = errors.New("malformed msgpack")

// Marshal writes structs as arrays of their fields, in the order of declaration: a field is only ever added at the end.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(&buf)
	enc.UseArrayEncodedStructs(true)
	err := enc.Encode(v)
	return buf.Bytes(), err
}

// MarshalNamed writes structs as maps from the names of their fields, or their msgpack tags: for what outlives one version of a struct, or
// is looked into by others.
func MarshalNamed(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(&buf)
	err := enc.Encode(v)
	return buf.Bytes(), err
}

// Unmarshal reads one value, structs from arrays or from maps. It never allocates more than a small multiple of len(b): the library alone
// would make room for as many elements as the bytes claim to have.
func Unmarshal(b []byte, v any) error {
	if err := Check(b); err != nil {
		return err
	}
	return msgpack.Unmarshal(b, v)
}

// Check reports whether b is one complete msgpack value within the limits. Every length in it is covered by bytes that are there.
func Check(b []byte) error {
	var open [MaxDepth]int // elements still to come, for each array or map that is open
	depth := 0
	for {
		n, size, err := element(b)
		if err != nil {
			return err
		}
		b = b[size:]
		if n > len(b) || n > 2*MaxElements {
			return fmt.Errorf("%w: %d elements in %d bytes", ErrMalformed, n, len(b))
		}
		if n > 0 {
			if depth == MaxDepth {
				return fmt.Errorf("%w: deeper than %d", ErrMalformed, MaxDepth)
			}
			open[depth] = n
			depth++
			continue
		}
		for depth > 0 {
			if open[depth-1]--; open[depth-1] > 0 {
				break
			}
			depth--
		}
		if depth == 0 {
			if len(b) > 0 {
				return fmt.Errorf("%w: %d bytes follow the value", ErrMalformed, len(b))
			}
			return nil
		}
	}
}

// scalars gives the size of a value by its first byte, from 0xc0 on, where that alone decides it; 0 elsewhere.
var scalars = [64]int{
	0x00: 1, 0x02: 1, 0x03: 1, // nil, false, true
	0x0a: 5, 0x0b: 9, // floats
	0x0c: 2, 0x0d: 3, 0x0e: 5, 0x0f: 9, 0x10: 2, 0x11: 3, 0x12: 5, 0x13: 9, // integers
	0x14: 3, 0x15: 4, 0x16: 6, 0x17: 10, 0x18: 18, // extensions of fixed size
}

// lengths describes the values that begin with a length: its width, what to add to it, and whether it counts elements.
var lengths = map[byte]struct {
	width, more int
	elements    int // elements for each counted: 1 in an array, 2 in a map, 0 where it counts bytes
}{
	0xc4: {1, 0, 0}, 0xc5: {2, 0, 0}, 0xc6: {4, 0, 0}, // bytes
	0xc7: {1, 1, 0}, 0xc8: {2, 1, 0}, 0xc9: {4, 1, 0}, // extensions
	0xd9: {1, 0, 0}, 0xda: {2, 0, 0}, 0xdb: {4, 0, 0}, // strings
	0xdc: {2, 0, 1}, 0xdd: {4, 0, 1}, // arrays
	0xde: {2, 0, 2}, 0xdf: {4, 0, 2}, // maps
}

// element returns how many elements the first value of b has inside, and the size of the rest of it.
func element(b []byte) (inside, size int, err error) {
	if len(b) == 0 {
		return 0, 0, fmt.Errorf("%w: it ends too soon", ErrMalformed)
	}
	c := b[0]
	switch {
	case c < 0x80 || c >= 0xe0: // small integers
		return 0, 1, nil
	case c < 0x90:
		return 2 * int(c&0x0f), 1, nil
	case c < 0xa0:
		return int(c & 0x0f), 1, nil
	case c < 0xc0:
		return 0, 1 + int(c&0x1f), fits(b, 1+int(c&0x1f))
	case scalars[c-0xc0] > 0:
		return 0, scalars[c-0xc0], fits(b, scalars[c-0xc0])
	}
	l, ok := lengths[c]
	if !ok {
		return 0, 0, fmt.Errorf("%w: byte %#x", ErrMalformed, c)
	}
	if err := fits(b, 1+l.width); err != nil {
		return 0, 0, err
	}
	var wide [8]byte
	copy(wide[8-l.width:], b[1:1+l.width])
	n := int(binary.BigEndian.Uint64(wide[:]))
	if l.elements > 0 {
		return l.elements * n, 1 + l.width, nil
	}
	return 0, 1 + l.width + l.more + n, fits(b, 1+l.width+l.more+n)
}

func fits(b []byte, size int) error {
	if size > len(b) {
		return fmt.Errorf("%w: %d bytes of %d are there", ErrMalformed, len(b), size)
	}
	return nil
}
