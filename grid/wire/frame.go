package wire

import (
	"encoding/binary"
	"fmt"
	"io"

	"gridnode/grid"
)

// Sizes of a frame.
const (
	MaxBody = 64 << 20 // the longest body

	lengthSize = 4
	headSize   = 1 + 1 + 8 // kind, flag, correlation id
	// Overhead is what a frame adds to its body.
	Overhead = lengthSize + headSize
)

// Frame is one message.
type Frame struct {
	Kind Kind
	Flag Flag
	ID   uint64 // correlation id: chosen by who asks, repeated by who answers
	Body []byte
}

// Append appends the encoded frame to dst. The body must not be longer than [MaxBody].
func Append(dst []byte, f Frame) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(headSize+len(f.Body)))
	dst = append(dst, byte(f.Kind), byte(f.Flag))
	dst = binary.BigEndian.AppendUint64(dst, f.ID)
	return append(dst, f.Body...)
}

// Decode reads the frame at the start of src and says how many bytes it took; n is 0 if src does not hold a whole frame yet. The body
// aliases src.
func Decode(src []byte) (f Frame, n int, err error) {
	if len(src) < lengthSize {
		return Frame{}, 0, nil
	}
	n, err = frameLen(src)
	if err != nil || len(src) < n {
		return Frame{}, 0, err
	}
	f = Frame{Kind: Kind(src[4]), Flag: Flag(src[5]), ID: binary.BigEndian.Uint64(src[6:])}
	if f.Flag > OneWay {
		return Frame{}, 0, fmt.Errorf("flag %d: %w", f.Flag, grid.ErrBadMessage)
	}
	if n > Overhead {
		f.Body = src[Overhead:n:n]
	}
	return f, n, nil
}

// frameLen returns the length of the whole frame that begins with the four bytes of head.
func frameLen(head []byte) (int, error) {
	length := binary.BigEndian.Uint32(head)
	if length < headSize {
		return 0, fmt.Errorf("frame of %d bytes: %w", length, grid.ErrBadMessage)
	}
	if length > headSize+MaxBody {
		return 0, fmt.Errorf("frame of %d bytes: %w", length, grid.ErrTooLarge)
	}
	return lengthSize + int(length), nil
}

// Read reads exactly one frame from r, whose body must not be longer than maxBody. It takes nothing from r beyond the frame.
func Read(r io.Reader, maxBody int) (Frame, error) {
	var head [lengthSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	n, err := frameLen(head[:])
	if err != nil {
		return Frame{}, err
	}
	if n > Overhead+maxBody {
		return Frame{}, fmt.Errorf("frame of %d bytes: %w", n, grid.ErrTooLarge)
	}
	buf := make([]byte, n)
	copy(buf, head[:])
	if _, err := io.ReadFull(r, buf[lengthSize:]); err != nil {
		return Frame{}, err
	}
	f, _, err := Decode(buf)
	return f, err
}

// chunkSize is how much a Reader asks for at once: big enough that a system call brings many small frames.
const (
	chunkSize = 64 << 10
	minRead   = 512 // no system call is made for less room than this
)

// Reader reads frames from a stream. It never writes again over bytes that it has handed out, so a body may be kept; but a small body that is
// kept for long should be copied, for it keeps its whole chunk of 64 KiB from being freed.
type Reader struct {
	src   io.Reader
	buf   []byte // unread bytes are buf[start:end]
	start int
	end   int
}

// NewReader returns a Reader of src.
func NewReader(src io.Reader) *Reader { return &Reader{src: src} }

// Next returns the next frame. At a clean end of the stream the error is io.EOF, inside a frame io.ErrUnexpectedEOF.
func (r *Reader) Next() (Frame, error) {
	for {
		f, n, err := Decode(r.buf[r.start:r.end])
		if err != nil {
			return Frame{}, err
		}
		if n > 0 {
			r.start += n
			return f, nil
		}
		if err := r.fill(); err != nil {
			return Frame{}, err
		}
	}
}

// Buffered reports whether Next will return a frame without reading from the stream.
func (r *Reader) Buffered() bool {
	_, n, err := Decode(r.buf[r.start:r.end])
	return n > 0 || err != nil
}

// fill reads once, after making room. The buffer grows with what has arrived, not with what a length claims is coming.
func (r *Reader) fill() error {
	if len(r.buf)-r.end < minRead {
		have := r.end - r.start
		next := make([]byte, max(chunkSize, 2*have))
		copy(next, r.buf[r.start:r.end])
		r.buf, r.start, r.end = next, 0, have
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	if n > 0 {
		return nil
	}
	if err == io.EOF && r.end > r.start {
		return io.ErrUnexpectedEOF
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}
