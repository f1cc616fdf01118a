package localfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"gridnode/engine/plugin"
)

// maxRecord bounds one line, one CSV record and one JSON value.
const maxRecord = 16 << 20

// lines cuts a file into lines. It strips a byte order mark at the start.
type lines struct {
	path      string
	in        *bufio.Reader
	delimiter []byte
	number    int   // of the line that next returned last; the first is 1
	offset    int64 // of the byte behind that line
	long      []byte
}

func newLines(path string, in io.Reader, delimiter string) (*lines, error) {
	l := &lines{path: path, in: bufio.NewReaderSize(in, 64<<10), delimiter: []byte(delimiter)}
	start, err := l.in.Peek(len(byteOrderMark))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, l.readError(err)
	}
	if string(start) == byteOrderMark {
		n, err := l.in.Discard(len(byteOrderMark))
		l.offset = int64(n)
		return l, err
	}
	return l, nil
}

// next returns the next line with its delimiter, which the last line may lack, or io.EOF. The line is valid until the following call.
func (l *lines) next() ([]byte, error) {
	last := l.delimiter[len(l.delimiter)-1]
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice(last)
		whole := part
		if len(l.long) > 0 || errors.Is(err, bufio.ErrBufferFull) || err == nil && !bytes.HasSuffix(part, l.delimiter) {
			l.long = append(l.long, part...)
			whole = l.long
		}
		if len(whole) > maxRecord {
			l.number++
			return nil, l.errorf(l.number, "the line is longer than %d bytes", maxRecord)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull), err == nil && !bytes.HasSuffix(whole, l.delimiter):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, l.readError(err)
		case len(whole) == 0:
			return nil, io.EOF
		}
		l.number++
		if !utf8.Valid(whole) {
			return nil, l.errorf(l.number, "the line is not UTF-8")
		}
		l.offset += int64(len(whole))
		return whole, nil
	}
}

// trim cuts the delimiter off a line; where that is a line feed, also a carriage return in front of it.
func (l *lines) trim(line []byte) []byte {
	line = bytes.TrimSuffix(line, l.delimiter)
	if string(l.delimiter) == "\n" {
		line = bytes.TrimSuffix(line, []byte("\r"))
	}
	return line
}

// errorf makes the permanent error for a bad line.
func (l *lines) errorf(number int, format string, args ...any) error {
	return plugin.Permanentf("file %s, line %d: %w", l.path, number, fmt.Errorf(format, args...))
}

func (l *lines) readError(err error) error { return fmt.Errorf("read file %s: %w", l.path, err) }
