package localfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"gridnode/engine/plugin"
)

// openJSON returns the reader for a list of objects if the file begins with a bracket, or else for lines.
func (s *Source) openJSON(path string, in io.Reader) (rowReader, error) {
	l, err := newLines(path, in, "\n")
	if err != nil {
		return nil, err
	}
	for n := 1; n <= l.in.Size(); n++ {
		start, err := l.in.Peek(n)
		if len(start) < n {
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, l.readError(err)
			}
			break
		}
		if c := start[n-1]; c == '[' {
			return newJSONList(s, l)
		} else if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			break
		}
	}
	return &jsonLines{source: s, lines: l}, nil
}

// jsonLines reads one object per line.
type jsonLines struct {
	source *Source
	lines  *lines
}

// next implements rowReader.
func (j *jsonLines) next() (plugin.Row, error) {
	for {
		line, err := j.lines.next()
		if err != nil {
			return nil, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		row, err := j.source.fromObject(line)
		if err != nil {
			return nil, j.lines.errorf(j.lines.number, "%w", err)
		}
		return row, nil
	}
}

// fromObject makes a row of one JSON object.
func (s *Source) fromObject(text []byte) (plugin.Row, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, errors.New("the value is not an object")
		}
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if object == nil {
		return nil, errors.New("the value is null, not an object")
	}
	row := make(plugin.Row, len(s.columns))
	for i, col := range s.columns {
		raw, found := object[col.name]
		if !found {
			continue
		}
		v, err := col.convert.FromJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", col.name, err)
		}
		row[i] = v
	}
	return row, nil
}

// jsonList reads the objects of one list.
type jsonList struct {
	source *Source
	lines  *lines
	bound  *bounded
	dec    *json.Decoder
	done   bool
	count  int
}

func newJSONList(s *Source, l *lines) (rowReader, error) {
	b := &bounded{in: l.in, left: maxRecord}
	j := &jsonList{source: s, lines: l, bound: b, dec: json.NewDecoder(b)}
	_, err := j.dec.Token()
	return j, err
}

// next implements rowReader.
func (j *jsonList) next() (plugin.Row, error) {
	raw, err := j.value()
	if err != nil {
		return nil, err
	}
	row, err := j.source.fromObject(raw)
	if err != nil {
		return nil, j.errorf("%w", err)
	}
	return row, nil
}

// value returns the next value of the list, or io.EOF.
func (j *jsonList) value() (json.RawMessage, error) {
	if j.done {
		return nil, io.EOF
	}
	j.bound.left = maxRecord
	if !j.dec.More() {
		j.done = true
		if _, err := j.dec.Token(); err != nil {
			return nil, j.decodeError(err)
		}
		if _, err := j.dec.Token(); !errors.Is(err, io.EOF) {
			return nil, j.errorf("there is text behind the end of the list")
		}
		return nil, io.EOF
	}
	j.count++
	var raw json.RawMessage
	if err := j.dec.Decode(&raw); err != nil {
		return nil, j.decodeError(err)
	}
	if len(raw) > maxRecord {
		return nil, j.errorf("%w", errTooLong)
	}
	if !utf8.Valid(raw) {
		return nil, j.errorf("the value is not UTF-8")
	}
	return raw, nil
}

func (j *jsonList) decodeError(err error) error {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case syntax || errors.Is(err, errTooLong):
		return j.errorf("%w", err)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return j.errorf("the file ends within the list")
	}
	return j.lines.readError(err)
}

func (j *jsonList) errorf(format string, args ...any) error {
	return plugin.Permanentf("file %s, value %d: %w", j.lines.path, j.count, fmt.Errorf(format, args...))
}

var errTooLong = fmt.Errorf("the value is longer than %d bytes", maxRecord)

// bounded lets one value of a list be only so long.
type bounded struct {
	in   *bufio.Reader
	left int
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
