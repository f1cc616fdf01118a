package clientproto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Flags of a frame.
const (
	flagBeginFragment = 0x8000
	flagEndFragment   = 0x4000
	flagFinal         = 0x2000
	flagBegin         = 0x1000
	flagEnd           = 0x0800
	flagNull          = 0x0400
	flagEvent         = 0x0200
	unfragmented      = flagBeginFragment | flagEndFragment
)

const (
	frameHead   = 6
	maxFrames   = 1 << 20 // of one message
	readAtOnce  = 64 << 10
	usualFrames = 6   // of a message, ...
	usualBytes  = 256 // ... and their bytes: more of either costs another piece of memory
	typeOffset  = 0
	correlation = 4
	partitionAt = 12
	requestHead = 16 // where the fixed-size fields of a request or an event begin
	answerHead  = 13 // and those of an answer
)

var (
	errTooLarge  = errors.New("the message is larger than the limit")
	errMalformed = errors.New("malformed message")
)

// frame is one frame of a message.
type frame struct {
	flags uint16
	body  []byte
}

func (f frame) is(flag uint16) bool { return f.flags&flag != 0 }

// message is what one run of frames says; the first frame is the initial one.
type message []frame

// inbox reads messages. One goroutine uses it.
type inbox struct {
	r    io.Reader
	head [frameHead]byte
	part bool // a message has begun, and there is more of it
}

// message reads one message of at most limit bytes. Nothing is allocated for a length that a header claims before its bytes have come, beyond a fixed
// amount. One that is too large is read to its end, and its initial frame is returned beside the error, so that it can be answered; an initial frame
// that is too large is not.
func (in *inbox) message(limit int) (message, error) {
	in.part = false
	m := make(message, 0, usualFrames)
	room := make([]byte, 0, usualBytes)
	tooLarge := false
	for total := 0; ; {
		if _, err := io.ReadFull(in.r, in.head[:]); err != nil {
			return nil, err
		}
		in.part = true
		n := int(int32(binary.LittleEndian.Uint32(in.head[:])))
		f := frame{flags: binary.LittleEndian.Uint16(in.head[4:])}
		if n < frameHead {
			return nil, fmt.Errorf("%w: a frame of %d bytes", errMalformed, n)
		}
		if tooLarge = tooLarge || n > limit-total || len(m) >= maxFrames; tooLarge && len(m) == 0 {
			return nil, fmt.Errorf("%w of %d bytes", errTooLarge, limit)
		}
		if tooLarge {
			m = m[:1:1]
			if _, err := io.CopyN(io.Discard, in.r, int64(n-frameHead)); err != nil {
				return nil, unexpected(err)
			}
		} else {
			total += n
			var err error
			if f.body, room, err = in.body(n-frameHead, room); err != nil {
				return nil, err
			}
			m = append(m, f)
		}
		if f.is(flagFinal) {
			break
		}
	}
	if m[0].flags&unfragmented != unfragmented {
		return nil, fmt.Errorf("%w: fragments are not taken", errMalformed)
	}
	if len(m[0].body) < requestHead {
		return nil, fmt.Errorf("%w: an initial frame of %d bytes", errMalformed, len(m[0].body))
	}
	if tooLarge {
		return m, fmt.Errorf("%w of %d bytes, or of %d frames", errTooLarge, limit, maxFrames)
	}
	return m, nil
}

// body reads n bytes, into what is left of room if there is enough, and returns what is left then.
func (in *inbox) body(n int, room []byte) (body, left []byte, err error) {
	if n > cap(room) {
		body, err = readBody(in.r, n)
		return body, room, err
	}
	body = room[:n:n]
	if _, err = io.ReadFull(in.r, body); err != nil {
		err = unexpected(err)
	}
	return body, room[n:cap(room)][:0], err
}

// readBody reads n bytes, growing as they come.
func readBody(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, min(n, readAtOnce))
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, unexpected(err)
	}
	for len(b) < n {
		more := make([]byte, min(n-len(b), len(b)))
		if _, err := io.ReadFull(r, more); err != nil {
			return nil, unexpected(err)
		}
		b = append(b, more...)
	}
	return b, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (m message) kind() uint32        { return binary.LittleEndian.Uint32(m[0].body[typeOffset:]) }
func (m message) correlation() uint64 { return binary.LittleEndian.Uint64(m[0].body[correlation:]) }
func (m message) partition() int32 {
	return int32(binary.LittleEndian.Uint32(m[0].body[partitionAt:]))
}

// encoder builds one message. The fixed-size fields of the initial frame come first, then frames.
type encoder struct {
	buf  []byte
	last int // where the header of the last frame is
}

// newAnswer begins the answer to a request.
func newAnswer(kind uint32, id uint64) *encoder {
	e := &encoder{buf: make([]byte, 0, 128)}
	e.begin(unfragmented)
	e.int32(int32(kind))
	e.int64(int64(id))
	e.byte(0) // backup acknowledgements to wait for: members have waited for all of them
	return e
}

// newEvent begins an event of the registration that had the correlation id.
func newEvent(kind uint32, id uint64, partition int32) *encoder {
	e := &encoder{buf: make([]byte, 0, 128)}
	e.begin(unfragmented | flagEvent)
	e.int32(int32(kind))
	e.int64(int64(id))
	e.int32(partition)
	return e
}

// begin starts a frame; it ends where the next one starts.
func (e *encoder) begin(flags uint16) {
	e.end()
	e.last = len(e.buf)
	e.buf = append(e.buf, 0, 0, 0, 0, byte(flags), byte(flags>>8))
}

func (e *encoder) end() {
	if len(e.buf) > 0 {
		binary.LittleEndian.PutUint32(e.buf[e.last:], uint32(len(e.buf)-e.last))
	}
}

// bytes ends the message.
func (e *encoder) bytes() []byte {
	e.end()
	flags := binary.LittleEndian.Uint16(e.buf[e.last+4:])
	binary.LittleEndian.PutUint16(e.buf[e.last+4:], flags|flagFinal)
	return e.buf
}

func (e *encoder) byte(b byte)   { e.buf = append(e.buf, b) }
func (e *encoder) int32(v int32) { e.buf = binary.LittleEndian.AppendUint32(e.buf, uint32(v)) }
func (e *encoder) int64(v int64) { e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(v)) }
func (e *encoder) bool(b bool) {
	if b {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

// uuid appends a UUID; the zero one is null.
func (e *encoder) uuid(u uuidValue) {
	e.bool(u == uuidValue{})
	e.buf = binary.LittleEndian.AppendUint64(e.buf, binary.BigEndian.Uint64(u[:8]))
	e.buf = binary.LittleEndian.AppendUint64(e.buf, binary.BigEndian.Uint64(u[8:]))
}

func (e *encoder) null()  { e.begin(flagNull) }
func (e *encoder) open()  { e.begin(flagBegin) }
func (e *encoder) close() { e.begin(flagEnd) }

func (e *encoder) string(s string) {
	e.begin(0)
	e.buf = append(e.buf, s...)
}

// raw writes a frame of bytes.
func (e *encoder) raw(b []byte) {
	e.begin(0)
	e.buf = append(e.buf, b...)
}
