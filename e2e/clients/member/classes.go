package main

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"gridnode/clientproto"
	"gridnode/imap"
)

// processors are IdentifiedFactory, 66, of the suite: class 1 gives the entry the string that it was made with, and returns it.
var processors = map[string]imap.Processor{
	clientproto.ProcessorName(66, 1): func(p imap.Processing) (imap.Processed, error) {
		s, err := text(p.Arg)
		return imap.Processed{Put: imap.String(s), Reply: imap.String(s)}, err
	},
	// Of python/classes.py: it adds a number to the entry's, and returns the sum.
	clientproto.ProcessorName(67, 1): func(p imap.Processing) (imap.Processed, error) {
		n, err := number(p.Arg)
		if err == nil && p.Found() {
			var old int32
			old, err = imap.DecodeValue[int32](p.Value)
			n += old
		}
		if err != nil {
			return imap.Processed{}, err
		}
		sum, err := imap.EncodeValue(n)
		return imap.Processed{Put: sum, Reply: sum}, err
	},
}

// comparators are those of python/classes.py.
var comparators = map[string]clientproto.NewComparator{
	// By the rest of the value divided by a number, then the value.
	clientproto.ProcessorName(67, 2): func(arg imap.Data) (clientproto.Comparator, error) {
		n, err := number(arg)
		if err == nil && n < 1 {
			err = fmt.Errorf("%d is no number to divide by", n)
		}
		return func(a, b imap.Entry) int {
			x, y := value(a), value(b)
			return cmp.Or(cmp.Compare(x%n, y%n), cmp.Compare(x, y))
		}, err
	},
	// A portable class: by the value, downwards.
	clientproto.ProcessorName(68, 1): func(imap.Data) (clientproto.Comparator, error) {
		return func(a, b imap.Entry) int { return cmp.Compare(value(b), value(a)) }, nil
	},
	clientproto.ProcessorName(67, 3): func(imap.Data) (clientproto.Comparator, error) {
		return func(a, b imap.Entry) int { panic("it cannot compare") }, nil
	},
}

func value(e imap.Entry) int32 {
	n, _ := imap.DecodeValue[int32](e.Value)
	return n
}

// number reads the only field of a class.
func number(arg imap.Data) (int32, error) {
	b := arg.Payload()
	if len(b) != 4 {
		return 0, fmt.Errorf("a number should be all that the object wrote, not %d bytes", len(b))
	}
	return int32(binary.BigEndian.Uint32(b)), nil
}

// interceptors are IdentifiedDataSerializableFactory, 666, of the suite: class 6 puts a string before what is read, and before nothing.
var interceptors = map[string]imap.NewInterceptor{
	clientproto.ProcessorName(666, 6): func(arg imap.Data) (imap.Interceptor, error) {
		prefix, err := text(arg)
		return imap.Interceptor{Get: func(value imap.Data) (imap.Data, error) {
			if value == nil {
				return imap.String(prefix), nil
			}
			s, err := imap.DecodeValue[string](value)
			return imap.String(prefix + s), err
		}}, err
	},
}

// text reads the only field of a class: its length, and its bytes.
func text(arg imap.Data) (string, error) {
	b := arg.Payload()
	if len(b) < 4 || uint32(len(b)-4) != binary.BigEndian.Uint32(b) {
		return "", fmt.Errorf("a string should be all that the object wrote, not %d bytes", len(b))
	}
	return string(b[4:]), nil
}
