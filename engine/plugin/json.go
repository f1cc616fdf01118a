package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxDepth bounds how deep the objects and lists of a config may be nested.
const maxDepth = 64

// Object is a JSON object whose members stand in the order of the text: the order of a schema's fields is the order of a row's values.
type Object []Member

// Member is one key of an [Object] with its value.
type Member struct {
	Key   string
	Value any
}

// Get returns the value of a key; found is false if there is none.
func (o Object) Get(key string) (value any, found bool) {
	for _, m := range o {
		if m.Key == key {
			return m.Value, true
		}
	}
	return nil, false
}

// MarshalJSON writes the members in their order.
func (o Object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		key, err := EncodeJSON(m.Key)
		if err != nil {
			return nil, err
		}
		value, err := EncodeJSON(m.Value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}

// EncodeJSON writes what [DecodeJSON] reads, with <, > and & as they are: people compare it with their config.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeJSON reads one JSON text as configs hold it: objects become [Object], lists []any, numbers [json.Number], and the rest nil, bool
// and string. A byte order mark in front is skipped. Errors name line and column. It refuses what a config never means: a key that appears
// twice in one object, an empty key, more than 64 levels, text after the value, and text that is not UTF-8.
func DecodeJSON(data []byte) (any, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	d := decoder{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	d.dec.UseNumber()
	if i := invalidUTF8(data); i >= 0 {
		return nil, d.errorAt(int64(i), "the text is not UTF-8")
	}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := d.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, d.errorAt(d.dec.InputOffset(), "there is text after the end of the JSON value")
	}
	return v, nil
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

type decoder struct {
	data []byte
	dec  *json.Decoder
}

func (d *decoder) errorAt(offset int64, format string, args ...any) error {
	offset = min(max(offset, 0), int64(len(d.data)))
	before := d.data[:offset]
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return fmt.Errorf("line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
}

func (d *decoder) token() (json.Token, error) {
	t, err := d.dec.Token()
	if err == nil {
		return t, nil
	}
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, d.errorAt(s.Offset-1, "%s", s.Error())
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, d.errorAt(int64(len(d.data)), "the JSON text ends too early")
	}
	return nil, d.errorAt(d.dec.InputOffset(), "%s", err.Error())
}

func (d *decoder) value(depth int) (any, error) {
	t, err := d.token()
	if err != nil {
		return nil, err
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return t, nil
	}
	if depth >= maxDepth {
		return nil, d.errorAt(d.dec.InputOffset(), "more than %d levels of objects and lists", maxDepth)
	}
	if delim == '[' {
		return d.list(depth)
	}
	return d.object(depth)
}

func (d *decoder) list(depth int) (any, error) {
	out := []any{}
	for d.dec.More() {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.token()
	return out, err
}

func (d *decoder) object(depth int) (any, error) {
	out := Object{}
	seen := map[string]bool{}
	for d.dec.More() {
		t, err := d.token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, d.errorAt(d.dec.InputOffset(), "a key must be a text")
		}
		switch {
		case key == "":
			return nil, d.errorAt(d.dec.InputOffset(), `the key "" is empty`)
		case seen[key]:
			return nil, d.errorAt(d.dec.InputOffset(), "the key %q appears twice", key)
		}
		seen[key] = true
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, Member{Key: key, Value: v})
	}
	_, err := d.token()
	return out, err
}
