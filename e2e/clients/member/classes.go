package main

import (
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
