package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Bounds on what is decoded, whatever the bytes claim. One job has to fit into a few entries of the store; a list of jobs travels as one message.
const (
	maxRecordValues  = 1 << 20 // values in one stored entry, names of fields included
	maxMessageValues = 1 << 24 // values in one request or answer
	maxNesting       = 24
)

// errMalformed is what bytes are that are not one msgpack value within the bounds.
var errMalformed = errors.New("malformed record")

// checkRecord reports whether b is exactly one msgpack value with at most most values inside. It allocates nothing. Every length in b is covered by
// bytes that are there, so what decodes b afterwards allocates no more than a small multiple of its size.
func checkRecord(b []byte, most int) error {
	var due [maxNesting]int // values still to come, by depth
	depth, total := 0, 0
	for {
		head, inside, err := valueAt(b)
		if err != nil {
			return err
		}
		b = b[head:]
		if total++; total > most {
			return fmt.Errorf("%w: more than %d values", errMalformed, most)
		}
		if inside > len(b) {
			return fmt.Errorf("%w: %d values are claimed in %d bytes", errMalformed, inside, len(b))
		}
		if inside > 0 {
			if depth == maxNesting {
				return fmt.Errorf("%w: nested deeper than %d", errMalformed, maxNesting)
			}
			due[depth] = inside
			depth++
			continue
		}
		for depth > 0 {
			due[depth-1]--
			if due[depth-1] > 0 {
				break
			}
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes follow the value", errMalformed, len(b))
	}
	return nil
}

// valueAt looks at the first value of b: how many bytes it takes, up to the first value inside it, and how many values are inside.
func valueAt(b []byte) (head, inside int, err error) {
	if len(b) == 0 {
		return 0, 0, fmt.Errorf("%w: it ends too soon", errMalformed)
	}
	switch c := b[0]; {
	case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3: // small number, nil, boolean
		head = 1
	case c <= 0x8f:
		return 1, 2 * int(c&0x0f), nil
	case c <= 0x9f:
		return 1, int(c & 0x0f), nil
	case c <= 0xbf: // short text
		head = 1 + int(c&0x1f)
	default:
		return longValue(b, c)
	}
	return held(b, head)
}

// longValue is valueAt for values whose first byte says how wide the rest is.
func longValue(b []byte, c byte) (head, inside int, err error) {
	switch c {
	case 0xca, 0xcb: // floating point
		return held(b, 1+4<<(c-0xca))
	case 0xcc, 0xcd, 0xce, 0xcf: // unsigned
		return held(b, 1+1<<(c-0xcc))
	case 0xd0, 0xd1, 0xd2, 0xd3: // signed
		return held(b, 1+1<<(c-0xd0))
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8: // extension of fixed size
		return held(b, 2+1<<(c-0xd4))
	case 0xc4, 0xc5, 0xc6: // bytes
		return counted(b, 1<<(c-0xc4), 0)
	case 0xc7, 0xc8, 0xc9: // extension
		return counted(b, 1<<(c-0xc7), 1)
	case 0xd9, 0xda, 0xdb: // text
		return counted(b, 1<<(c-0xd9), 0)
	case 0xdc, 0xdd: // array
		return elements(b, 2<<(c-0xdc), 1)
	case 0xde, 0xdf: // map
		return elements(b, 2<<(c-0xde), 2)
	}
	return 0, 0, fmt.Errorf("%w: byte %#x", errMalformed, c)
}

// held returns a size if b has as many bytes.
func held(b []byte, size int) (head, inside int, err error) {
	if size > len(b) {
		return 0, 0, fmt.Errorf("%w: %d bytes are needed and %d there", errMalformed, size, len(b))
	}
	return size, 0, nil
}

// counted is a value of as many bytes as the number of some width says, and more.
func counted(b []byte, width, more int) (head, inside int, err error) {
	if _, _, err := held(b, 1+width); err != nil {
		return 0, 0, err
	}
	return held(b, 1+width+more+number(b[1:1+width]))
}

// elements is an array or map of as many entries as the number of some width says.
func elements(b []byte, width, each int) (head, inside int, err error) {
	if _, _, err := held(b, 1+width); err != nil {
		return 0, 0, err
	}
	return 1 + width, each * number(b[1:1+width]), nil
}

// number reads up to four bytes, the highest first.
func number(b []byte) int {
	var wide [8]byte
	copy(wide[8-len(b):], b)
	return int(binary.BigEndian.Uint64(wide[:]))
}
