package imap

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"gridnode/grid"
	"gridnode/grid/pack"
)

// EncodeValue returns the Data of a Go value, of the type that every Hazelcast client reads where there is one:
//
//	string           String (-11)        int, int64   Long (-8)       float64  Double (-10)
//	[]byte           byte array (-12)    int32        Integer (-7)    float32  Float (-9)
//	json.RawMessage  JSON (-130)         int16        Short (-6)      bool     Boolean (-4)
//	Data             itself              int8, uint8  Byte (-3)
//
// Anything else, a struct say, becomes msgpack with the names of its fields, which our own code and queries read. As everywhere in the
// grid, keys are the same only if type and bytes are: a 1 of int32 and a 1 of int64 are two keys, and so are those of one map[string]int
// that is encoded twice.
func EncodeValue(v any) (Data, error) {
	switch v := v.(type) {
	case Data:
		return v, nil
	case string:
		return String(v), nil
	case []byte:
		return Bytes(v), nil
	case json.RawMessage:
		if !json.Valid(v) {
			return nil, fmt.Errorf("%w: a value that is not JSON", grid.ErrBadRequest)
		}
		return JSON(v), nil
	case bool:
		if v {
			return append(newData(TypeBool, 1), 1), nil
		}
		return append(newData(TypeBool, 1), 0), nil
	case int8:
		return append(newData(TypeByte, 1), byte(v)), nil
	case uint8:
		return append(newData(TypeByte, 1), v), nil
	case int16:
		return binary.BigEndian.AppendUint16(newData(TypeShort, 2), uint16(v)), nil
	case int32:
		return binary.BigEndian.AppendUint32(newData(TypeInt, 4), uint32(v)), nil
	case int64:
		return binary.BigEndian.AppendUint64(newData(TypeLong, 8), uint64(v)), nil
	case int:
		return binary.BigEndian.AppendUint64(newData(TypeLong, 8), uint64(v)), nil
	case float32:
		return binary.BigEndian.AppendUint32(newData(TypeFloat, 4), math.Float32bits(v)), nil
	case float64:
		return binary.BigEndian.AppendUint64(newData(TypeDouble, 8), math.Float64bits(v)), nil
	}
	b, err := pack.MarshalNamed(v)
	if err != nil {
		return nil, fmt.Errorf("%w: a value of type %T: %v", grid.ErrBadRequest, v, err)
	}
	return Raw(b), nil
}

// DecodeValue reads what [EncodeValue] wrote of a T. Data of another type is an error that names both; a float64 is not read as an int64.
func DecodeValue[T any](d Data) (v T, err error) {
	switch p := any(&v).(type) {
	case *Data:
		*p = d
		return v, nil
	case *string:
		b, err := d.sized(TypeString)
		*p = string(b)
		return v, err
	case *[]byte:
		*p, err = d.sized(TypeBytes)
		return v, err
	case *json.RawMessage:
		*p, err = d.sized(TypeJSON)
		return v, err
	}
	if done, err := d.number(&v); done {
		return v, err
	}
	if d.Type() != TypeRaw {
		return v, fmt.Errorf("%w: data of type %d is no %T", grid.ErrBadRequest, d.Type(), v)
	}
	if err := pack.Unmarshal(d.Payload(), &v); err != nil {
		return v, fmt.Errorf("%w: %T: %v", grid.ErrBadMessage, v, err)
	}
	return v, nil
}

// sized returns the body of data of that type, which begins with its length. It shares d's memory.
func (d Data) sized(typ int32) ([]byte, error) {
	if d.Type() != typ {
		return nil, fmt.Errorf("%w: data of type %d, not %d", grid.ErrBadRequest, d.Type(), typ)
	}
	body, _, err := d.Text()
	return body, err
}

// number reads a number or truth value into p, if p points to one.
func (d Data) number(p any) (done bool, err error) {
	var typ int32
	var set func(bits uint64)
	size := 8
	switch p := p.(type) {
	case *bool:
		typ, size, set = TypeBool, 1, func(b uint64) { *p = b != 0 }
	case *int8:
		typ, size, set = TypeByte, 1, func(b uint64) { *p = int8(b) }
	case *uint8:
		typ, size, set = TypeByte, 1, func(b uint64) { *p = uint8(b) }
	case *int16:
		typ, size, set = TypeShort, 2, func(b uint64) { *p = int16(b) }
	case *int32:
		typ, size, set = TypeInt, 4, func(b uint64) { *p = int32(b) }
	case *int64:
		typ, set = TypeLong, func(b uint64) { *p = int64(b) }
	case *int:
		typ, set = TypeLong, func(b uint64) { *p = int(b) }
	case *float32:
		typ, size, set = TypeFloat, 4, func(b uint64) { *p = math.Float32frombits(uint32(b)) }
	case *float64:
		typ, set = TypeDouble, func(b uint64) { *p = math.Float64frombits(b) }
	default:
		return false, nil
	}
	body := d.Payload()
	if d.Type() != typ || len(body) != size {
		return true, fmt.Errorf("%w: data of type %d and %d bytes, not type %d", grid.ErrBadRequest, d.Type(), len(body), typ)
	}
	var bits uint64
	for _, b := range body {
		bits = bits<<8 | uint64(b)
	}
	set(bits)
	return true, nil
}
