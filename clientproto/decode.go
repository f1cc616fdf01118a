package clientproto

import (
	"encoding/binary"
	"fmt"

	"gridnode/imap"
)

// maxNesting bounds how deep structures in a message may lie in each other.
const maxNesting = 32

// dataHead is what precedes the payload of serialized data: the partition hash and the type id.
const dataHead = 8

// data is a serialized key or value as clients send it.
type data struct {
	hash int32 // that the client has chosen; 0: the payload decides
	imap.Data
}

// isNull reports whether it stands for null: some clients write null as a value of type 0.
func (d data) isNull() bool { return len(d.Data) == 0 || d.Type() == 0 }

// reader goes through the frames of a message behind the initial one.
type reader struct {
	frames []frame
	at     int
}

func (r *reader) more() bool { return r.at < len(r.frames) }

func (r *reader) next() (frame, error) {
	if !r.more() {
		return frame{}, fmt.Errorf("%w: a frame is missing", errMalformed)
	}
	r.at++
	return r.frames[r.at-1], nil
}

// nextIs takes the next frame if it has the flag.
func (r *reader) nextIs(flag uint16) bool {
	if r.more() && r.frames[r.at].is(flag) {
		r.at++
		return true
	}
	return false
}

// plain takes a frame that is neither null nor a mark.
func (r *reader) plain() ([]byte, error) {
	f, err := r.next()
	if err == nil && f.flags&(flagNull|flagBegin|flagEnd) != 0 {
		err = fmt.Errorf("%w: a frame with flags %#x where a value should be", errMalformed, f.flags)
	}
	return f.body, err
}

// list calls item until the end of the structure that begins here.
func (r *reader) list(item func() error) error {
	if !r.nextIs(flagBegin) {
		return fmt.Errorf("%w: a list does not begin", errMalformed)
	}
	for !r.nextIs(flagEnd) {
		if !r.more() {
			return fmt.Errorf("%w: a list does not end", errMalformed)
		}
		if err := item(); err != nil {
			return err
		}
	}
	return nil
}

// skip goes behind the end of the structure that one is in.
func (r *reader) skip() error {
	for depth := 0; ; {
		f, err := r.next()
		switch {
		case err != nil:
			return err
		case f.is(flagBegin):
			if depth++; depth > maxNesting {
				return fmt.Errorf("%w: nested too deep", errMalformed)
			}
		case f.is(flagEnd):
			if depth == 0 {
				return nil
			}
			depth--
		}
	}
}

func (r *reader) text() (string, error) {
	b, err := r.plain()
	return string(b), err
}

func (r *reader) value() (data, error) {
	b, err := r.plain()
	if err != nil {
		return data{}, err
	}
	if len(b) < dataHead {
		return data{}, fmt.Errorf("%w: serialized data of %d bytes", errMalformed, len(b))
	}
	return data{hash: int32(binary.BigEndian.Uint32(b)), Data: imap.Data(b[4:])}, nil
}

// variable reads one field of the kinds that are frames.
func (r *reader) variable(k kind) (any, error) {
	if k.nullable() && r.nextIs(flagNull) {
		return nil, nil
	}
	switch k.plain() {
	case kString:
		return r.text()
	case kData:
		return r.value()
	case kBytes:
		return r.plain()
	case kStrings:
		var out []string
		err := r.list(func() error {
			s, err := r.text()
			out = append(out, s)
			return err
		})
		return out, err
	}
	return r.structure(k.plain())
}

func (r *reader) structure(k kind) (any, error) {
	var err error
	switch k {
	case kDataList:
		var out []data
		err = r.list(func() error {
			d, err := r.value()
			out = append(out, d)
			return err
		})
		return out, err
	case kEntries:
		var out []entry
		err = r.list(func() error {
			k, err := r.value()
			if err != nil {
				return err
			}
			v, err := r.value()
			out = append(out, entry{k, v})
			return err
		})
		return out, err
	case kPairs:
		b, err := r.plain()
		if err == nil && len(b)%8 != 0 {
			err = fmt.Errorf("%w: a list of pairs of %d bytes", errMalformed, len(b))
		}
		out := make([][2]int32, 0, len(b)/8)
		for ; len(b) >= 8; b = b[8:] {
			out = append(out, [2]int32{int32(binary.LittleEndian.Uint32(b)), int32(binary.LittleEndian.Uint32(b[4:]))})
		}
		return out, err
	case kSkipped:
		if !r.nextIs(flagBegin) {
			return nil, fmt.Errorf("%w: a structure does not begin", errMalformed)
		}
		from := r.at
		err = r.skip()
		return r.frames[from:r.at], err
	}
	return nil, fmt.Errorf("%w: unknown kind of field %d", errMalformed, k)
}

// entry is a key and a value.
type entry struct{ key, value data }

// fixedSize are the bytes that a field of the initial frame takes.
func fixedSize(k kind) int {
	switch k {
	case kBool, kByte:
		return 1
	case kInt:
		return 4
	case kLong:
		return 8
	case kUUID:
		return 17
	}
	return 0
}

// fixed reads a field of the initial frame. b has its size.
func fixed(b []byte, k kind) any {
	switch k {
	case kBool, kByte:
		return int64(b[0])
	case kInt:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case kLong:
		return int64(binary.LittleEndian.Uint64(b))
	}
	var u uuidValue
	if b[0] == 0 {
		binary.BigEndian.PutUint64(u[:8], binary.LittleEndian.Uint64(b[1:]))
		binary.BigEndian.PutUint64(u[8:], binary.LittleEndian.Uint64(b[9:]))
	}
	return u
}

// parse reads the fields of a request in the order in which they lie: those of fixed size in the initial frame, then the others. Fields that an
// older client does not send stay nil; what a newer one adds is passed over.
func parse(s *spec, m message) ([]any, error) {
	out := make([]any, len(s.fields))
	at := requestHead
	head := m[0].body
	for i, f := range s.fields {
		n := fixedSize(f.kind)
		if n == 0 {
			continue
		}
		if at+n > len(head) {
			if f.since {
				continue
			}
			return nil, fmt.Errorf("%w: %s of %s is missing", errMalformed, f.name, s.name)
		}
		out[i] = fixed(head[at:at+n], f.kind)
		at += n
	}
	r := &reader{frames: m[1:]}
	for i, f := range s.fields {
		if fixedSize(f.kind) != 0 {
			continue
		}
		if f.since && !r.more() {
			continue
		}
		v, err := r.variable(f.kind)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", f.name, s.name, err)
		}
		out[i] = v
	}
	return out, nil
}
