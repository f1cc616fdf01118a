package imap

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"gridnode/grid"
)

// Data is a serialized key or value in Hazelcast's form, without the leading partition hash: a type id of four bytes, big-endian, and the
// payload. Two keys are the same if their Data are.
type Data []byte

// The type ids in use. Source: Hazelcast's built-in serializers; the last two are ours, of the range that is free for users.
const (
	TypeByte   int32 = -3
	TypeBool   int32 = -4
	TypeShort  int32 = -6
	TypeInt    int32 = -7
	TypeLong   int32 = -8
	TypeFloat  int32 = -9
	TypeDouble int32 = -10
	TypeString int32 = -11
	TypeBytes  int32 = -12
	TypeJSON   int32 = -130
	TypeMedia  int32 = 0x67726431 // a body with its content type
	TypeRaw    int32 = 0x67726432 // bytes without a length: msgpack of our own
)

const headLen = 4

func newData(typ int32, payload int) Data {
	d := make(Data, headLen, headLen+payload)
	binary.BigEndian.PutUint32(d, uint32(typ))
	return d
}

func sized(typ int32, body string) Data {
	d := newData(typ, 4+len(body))
	d = binary.BigEndian.AppendUint32(d, uint32(len(body)))
	return append(d, body...)
}

// String returns the Data of a string: its length in UTF-8 bytes, then the bytes.
func String(s string) Data { return sized(TypeString, s) }

// JSON returns the Data of a JSON text, which is not checked.
func JSON(text []byte) Data { return sized(TypeJSON, string(text)) }

// Bytes returns the Data of a byte array. b is copied.
func Bytes(b []byte) Data { return sized(TypeBytes, string(b)) }

// Media returns the Data of a body of any content type. The media type is at most 255 bytes.
func Media(mediaType string, body []byte) Data {
	d := newData(TypeMedia, 1+len(mediaType)+len(body))
	d = append(d, byte(len(mediaType)))
	d = append(d, mediaType...)
	return append(d, body...)
}

// Raw returns the Data of bytes that only our own code reads. b is copied.
func Raw(b []byte) Data { return append(newData(TypeRaw, len(b)), b...) }

// Type returns the type id; 0 for Data that is too short to have one.
func (d Data) Type() int32 {
	if len(d) < headLen {
		return 0
	}
	return int32(binary.BigEndian.Uint32(d))
}

// Payload returns what follows the type id. It shares d's memory.
func (d Data) Payload() []byte {
	if len(d) < headLen {
		return nil
	}
	return d[headLen:]
}

// Hash is what decides the partition of a key without an explicit placement. The type id is not part of it.
func (d Data) Hash() int32 { return grid.Hash(d.Payload()) }

// Text returns the body of a string, JSON text, byte array or media, and its media type. It shares d's memory.
func (d Data) Text() (body []byte, mediaType string, err error) {
	p := d.Payload()
	switch typ := d.Type(); typ {
	case TypeString, TypeJSON, TypeBytes:
		if len(p) < 4 || int(int32(binary.BigEndian.Uint32(p))) != len(p)-4 {
			return nil, "", fmt.Errorf("%w: data of type %d with a wrong length", grid.ErrBadMessage, typ)
		}
		return p[4:], defaultMedia(typ), nil
	case TypeMedia:
		if len(p) < 1 || len(p) < 1+int(p[0]) {
			return nil, "", fmt.Errorf("%w: media data with a wrong length", grid.ErrBadMessage)
		}
		return p[1+int(p[0]):], string(p[1 : 1+int(p[0])]), nil
	default:
		return p, "application/octet-stream", nil
	}
}

func defaultMedia(typ int32) string {
	switch typ {
	case TypeString:
		return "text/plain; charset=utf-8"
	case TypeJSON:
		return "application/json"
	}
	return "application/octet-stream"
}

// Literal returns a number or truth value as JSON; ok is false for data of another type. A number that JSON has not becomes a string: "NaN".
func (d Data) Literal() (text []byte, ok bool) {
	p := d.Payload()
	if n := literalSize[d.Type()]; n == 0 || len(p) != n {
		return nil, false
	}
	var bits uint64
	for _, b := range p {
		bits = bits<<8 | uint64(b)
	}
	switch d.Type() {
	case TypeByte:
		return strconv.AppendInt(nil, int64(int8(bits)), 10), true
	case TypeBool:
		return strconv.AppendBool(nil, bits != 0), true
	case TypeShort:
		return strconv.AppendInt(nil, int64(int16(bits)), 10), true
	case TypeInt:
		return strconv.AppendInt(nil, int64(int32(bits)), 10), true
	case TypeLong:
		return strconv.AppendInt(nil, int64(bits), 10), true
	case TypeFloat:
		return float(float64(math.Float32frombits(uint32(bits))), 32), true
	}
	return float(math.Float64frombits(bits), 64), true
}

// literalSize are the payloads' sizes of what Literal shows.
var literalSize = map[int32]int{TypeByte: 1, TypeBool: 1, TypeShort: 2, TypeInt: 4, TypeLong: 8, TypeFloat: 4, TypeDouble: 8}

func float(f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.AppendQuote(nil, strconv.FormatFloat(f, 'g', -1, bits))
	}
	return strconv.AppendFloat(nil, f, 'g', -1, bits)
}

// Foreign reports whether the data is of a type whose payload only those read who wrote it, a class of a client say.
func (d Data) Foreign() bool {
	switch d.Type() {
	case TypeString, TypeJSON, TypeBytes, TypeMedia:
		return false
	}
	return literalSize[d.Type()] == 0
}

// Show returns a key as text for people: the string itself, or type and hexadecimal payload.
func (d Data) Show() string {
	if body, _, err := d.Text(); err == nil && d.Type() != TypeMedia && utf8.Valid(body) {
		return string(body)
	}
	return fmt.Sprintf("(type %d) %x", d.Type(), d.Payload())
}
