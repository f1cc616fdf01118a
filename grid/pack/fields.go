package pack

import (
	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Messages that are sent with every call write and read their fields themselves, with [Out] and [In]: the library would look at their types each
// time. They write the same bytes as it would, but for shorter numbers. A field that is seldom set may be left to the library: Any.

// The library's own, for methods of messages that write and read themselves.
type (
	Encoder = msgpack.Encoder
	Decoder = msgpack.Decoder
	Writes  = msgpack.CustomEncoder
	Reads   = msgpack.CustomDecoder
)

// Out writes the fields of one struct. It keeps the first error, and does nothing after one.
type Out struct {
	e   *Encoder
	Err error
}

// Into begins a struct of so many fields; as many must follow.
func Into(e *Encoder, fields int) Out { return Out{e, e.EncodeArrayLen(fields)} }

func (o *Out) Uint(n uint64) {
	if o.Err == nil {
		o.Err = o.e.EncodeUint(n)
	}
}

func (o *Out) Int(n int64) {
	if o.Err == nil {
		o.Err = o.e.EncodeInt(n)
	}
}

func (o *Out) Bool(v bool) {
	if o.Err == nil {
		o.Err = o.e.EncodeBool(v)
	}
}

func (o *Out) String(s string) {
	if o.Err == nil {
		o.Err = o.e.EncodeString(s)
	}
}

// Bytes writes b; nil stays nil.
func (o *Out) Bytes(b []byte) {
	if o.Err == nil {
		o.Err = o.e.EncodeBytes(b)
	}
}

// Nil writes what [Optional] and [List] read as nothing.
func (o *Out) Nil() {
	if o.Err == nil {
		o.Err = o.e.EncodeNil()
	}
}

// Len begins a list of so many elements.
func (o *Out) Len(n int) {
	if o.Err == nil {
		o.Err = o.e.EncodeArrayLen(n)
	}
}

// Struct writes a struct that writes itself.
func (o *Out) Struct(v Writes) {
	if o.Err == nil {
		o.Err = v.EncodeMsgpack(o.e)
	}
}

// Any leaves a field to the library.
func (o *Out) Any(v any) {
	if o.Err == nil {
		o.Err = o.e.Encode(v)
	}
}

// In reads the fields of one struct. It keeps the first error; after one, all that is read is zero.
type In struct {
	d   *Decoder
	Err error
}

// Fields reads a struct: it calls field with the number of each, from 0, which has to read exactly that one. known is how many there are: those that
// a later version has added are passed over, and those that an earlier one did not have stay as they are.
func Fields(d *Decoder, known int, field func(in *In, i int)) error {
	n, err := d.DecodeArrayLen()
	in := In{d, err}
	for i := 0; i < n && in.Err == nil; i++ {
		if i < known {
			field(&in, i)
		} else {
			in.Err = d.Skip()
		}
	}
	return in.Err
}

func (in *In) Uint() (n uint64) {
	if in.Err == nil {
		n, in.Err = in.d.DecodeUint64()
	}
	return n
}

func (in *In) Int() (n int64) {
	if in.Err == nil {
		n, in.Err = in.d.DecodeInt64()
	}
	return n
}

func (in *In) Bool() (v bool) {
	if in.Err == nil {
		v, in.Err = in.d.DecodeBool()
	}
	return v
}

func (in *In) String() (s string) {
	if in.Err == nil {
		s, in.Err = in.d.DecodeString()
	}
	return s
}

// Bytes returns a copy, which is the caller's.
func (in *In) Bytes() (b []byte) {
	if in.Err == nil {
		b, in.Err = in.d.DecodeBytes()
	}
	return b
}

// Struct reads a struct that reads itself.
func (in *In) Struct(v Reads) {
	if in.Err == nil {
		in.Err = v.DecodeMsgpack(in.d)
	}
}

// Any leaves a field to the library; v is a pointer to what is zero, and stays so if nil was written.
func (in *In) Any(v any) {
	if !in.absent() {
		in.Err = in.d.Decode(v)
	}
}

// absent reports whether nil was written, and reads it then.
func (in *In) absent() bool {
	if in.Err != nil {
		return true
	}
	c, err := in.d.PeekCode()
	if in.Err = err; err != nil || c != msgpcode.Nil {
		return err != nil
	}
	in.Err = in.d.DecodeNil()
	return true
}

type decoding[T any] interface {
	*T
	Reads
}

// Optional reads a struct that reads itself, or nil if that was written.
func Optional[T any, P decoding[T]](in *In) *T {
	if in.absent() {
		return nil
	}
	v := new(T)
	in.Struct(P(v))
	return v
}

// List reads a list of such structs, or nil if that was written.
func List[T any, P decoding[T]](in *In) []T {
	if in.absent() {
		return nil
	}
	n, err := in.d.DecodeArrayLen()
	in.Err = err
	list := make([]T, 0, max(0, min(n, 16))) // what claims to be longer has to show it
	for i := 0; i < n && in.Err == nil; i++ {
		list = append(list, *new(T))
		in.Struct(P(&list[len(list)-1]))
	}
	return list
}
