// Package pack is msgpack with bounds: bytes from elsewhere are looked through before anything is allocated for them.
package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// Limits of a message, whatever its size.
const (
	MaxElements = 1 << 20 // of one array or map
	MaxDepth    = 32
)

const keep = 64 << 10 // bytes of a buffer that is kept for the next message

// ErrMalformed is what [Unmarshal] returns, wrapped, for bytes that are not one msgpack value within the limits.
var ErrMalformed = errors.New("malformed msgpack")

// Marshal writes structs as arrays of their fields, in the order of declaration: a field is only ever added at the end. What implements the
// library's CustomEncoder, as messages do that are sent for every call, has to write the same.
func Marshal(v any) ([]byte, error) {
	w := writers.Get().(*writer)
	defer w.free()
	w.enc.Reset(&w.buf)
	w.enc.UseArrayEncodedStructs(true)
	if err := w.encode(v); err != nil {
		return nil, err
	}
	return bytes.Clone(w.buf.Bytes()), nil
}

// writer is an encoder and what it writes to.
type writer struct {
	enc *msgpack.Encoder
	buf bytes.Buffer
}

var writers = sync.Pool{New: func() any { return &writer{enc: msgpack.NewEncoder(nil)} }}

// encode spares what encodes itself the library's look at its type.
func (w *writer) encode(v any) error {
	if c, ok := v.(msgpack.CustomEncoder); ok {
		return c.EncodeMsgpack(w.enc)
	}
	return w.enc.Encode(v)
}

func (w *writer) free() {
	if w.buf.Cap() <= keep {
		w.buf.Reset()
		writers.Put(w)
	}
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
	r := readers.Get().(*reader)
	defer r.free()
	r.src.Reset(b)
	r.dec.Reset(&r.src)
	if c, ok := v.(msgpack.CustomDecoder); ok {
		return c.DecodeMsgpack(r.dec)
	}
	return r.dec.Decode(v)
}

// reader is a decoder and what it reads from.
type reader struct {
	dec *msgpack.Decoder
	src bytes.Reader
}

var readers = sync.Pool{New: func() any { return &reader{dec: msgpack.NewDecoder(nil)} }}

func (r *reader) free() {
	r.src.Reset(nil)
	readers.Put(r)
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

// lengths describes the values that begin with a length, by their first byte, from 0xc0 on: its width, what to add to it, and whether it counts
// elements.
var lengths = [64]struct {
	width, more int
	elements    int // elements for each counted: 1 in an array, 2 in a map, 0 where it counts bytes
}{
	0x04: {1, 0, 0}, 0x05: {2, 0, 0}, 0x06: {4, 0, 0}, // bytes
	0x07: {1, 1, 0}, 0x08: {2, 1, 0}, 0x09: {4, 1, 0}, // extensions
	0x19: {1, 0, 0}, 0x1a: {2, 0, 0}, 0x1b: {4, 0, 0}, // strings
	0x1c: {2, 0, 1}, 0x1d: {4, 0, 1}, // arrays
	0x1e: {2, 0, 2}, 0x1f: {4, 0, 2}, // maps
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
	l := lengths[(c-0xc0)&63]
	if l.width == 0 {
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
