package query

import (
	"bytes"
	"encoding/json"
)

// rawJSON is a JSON text that is valid, without space around it. It is walked, not decoded: most queries need little of a value.
type rawJSON []byte

// readJSON returns the text as a node; nil if it is not exactly one JSON value.
func readJSON(text []byte) node {
	if !json.Valid(text) {
		return nil
	}
	return rawJSON(bytes.Trim(text, " \t\r\n"))
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// past returns where what is no space begins, from i on.
func (r rawJSON) past(i int) int {
	for i < len(r) && space(r[i]) {
		i++
	}
	return i
}

// end returns where the value that begins at i ends.
func (r rawJSON) end(i int) int {
	switch r[i] {
	case '"':
		return r.endText(i)
	case '{', '[':
		depth := 0
		for ; i < len(r); i++ {
			switch r[i] {
			case '"':
				i = r.endText(i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(r) && r[i] != ',' && r[i] != '}' && r[i] != ']' && !space(r[i]) {
		i++
	}
	return i
}

func (r rawJSON) endText(i int) int {
	for i++; i < len(r) && r[i] != '"'; i++ {
		if r[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// inside calls fn with every member of an object, its name still quoted, or element of an array, until fn returns false.
func (r rawJSON) inside(fn func(name, value rawJSON) bool) {
	object := r[0] == '{'
	for i := r.past(1); i < len(r)-1; {
		var name rawJSON
		if object {
			end := r.end(i)
			name = r[i:end]
			i = r.past(r.past(end) + 1) // behind the colon
		}
		end := r.end(i)
		if !fn(name, r[i:end]) {
			return
		}
		i = r.past(r.past(end) + 1) // behind the comma
	}
}

// field returns the member of that name, the last of several; nil if there is none.
func (r rawJSON) field(name string) (value rawJSON) {
	if r[0] != '{' {
		return nil
	}
	r.inside(func(n, v rawJSON) bool {
		if n.is(name) {
			value = v
		}
		return true
	})
	return value
}

// is reports whether a quoted text says that.
func (r rawJSON) is(text string) bool {
	plain := r[1 : len(r)-1]
	for _, c := range plain {
		if c == '\\' || c >= 0x80 {
			return r.text() == text
		}
	}
	return string(plain) == text
}

func (r rawJSON) text() (s string) {
	_ = json.Unmarshal(r, &s) // it is a valid string
	return s
}

// elements calls fn with the elements of an array and their numbers, until it returns false, and reports whether it is one.
func (r rawJSON) elements(fn func(i int, value rawJSON) bool) bool {
	if r[0] != '[' {
		return false
	}
	i := -1
	r.inside(func(_, v rawJSON) bool {
		i++
		return fn(i, v)
	})
	return true
}

// value is what the text says where a path ends.
func (r rawJSON) value() Value {
	switch r[0] {
	case 'n':
		return Value{}
	case 't', 'f':
		return BoolOf(r[0] == 't')
	case '"':
		return TextOf(r.text())
	case '{', '[':
		return leaf(decodeJSON(r))
	}
	v, _ := numberOf(string(r))
	return v
}

// walkJSON is [walk] from a JSON text on.
func walkJSON(r rawJSON, steps []step, fn func(Value) bool) bool {
	switch {
	case len(r) == 0:
		return fn(Value{})
	case len(steps) == 0:
		return fn(r.value())
	}
	s := steps[0]
	if s.name != "" {
		return walkJSON(r.field(s.name), steps[1:], fn)
	}
	var at rawJSON
	done := false
	isArray := r.elements(func(i int, v rawJSON) bool {
		switch {
		case s.index < 0:
			done = walkJSON(v, steps[1:], fn)
			return !done
		case i == s.index:
			at = v
			return false
		}
		return true
	})
	if !isArray || s.index >= 0 {
		return walkJSON(at, steps[1:], fn)
	}
	return done
}
