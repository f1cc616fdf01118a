package query

import (
	"fmt"
	"strconv"
	"strings"

	"gridnode/grid"
)

// Limits of an attribute's path.
const (
	MaxAttribute = 1 << 10 // bytes
	maxSteps     = 32
)

const (
	keyName  = "__key"
	selfName = "this"
)

// step goes from a value to one inside: by the name of a field, or to one element of an array or all.
type step struct {
	name  string
	index int // name is empty: the element; below 0: all
}

const anyIndex = -1

// attribute is a path that was read.
type attribute struct {
	key   bool // starts at the key
	steps []step
	multi bool // may have several values
}

func badPath(text, why string) error {
	return fmt.Errorf("%w: attribute %q: %s", grid.ErrBadRequest, text, why)
}

// parsePath reads the text of an attribute.
func parsePath(text string) (a attribute, err error) {
	switch {
	case text == "":
		return a, badPath(text, "it is empty")
	case len(text) > MaxAttribute:
		return a, badPath(text[:32]+"...", fmt.Sprintf("%d bytes, the limit is %d", len(text), MaxAttribute))
	}
	for i, part := range strings.Split(text, ".") {
		name, index, _ := strings.Cut(part, "[")
		switch {
		case i == 0 && (name == keyName || name == selfName):
			a.key = name == keyName
		case name == "":
			return a, badPath(text, "a name is missing")
		case strings.Contains(name, "]"):
			return a, badPath(text, "] without [")
		default:
			a.steps = append(a.steps, step{name: name})
		}
		if name != part {
			if err := a.indexes(text, index); err != nil {
				return a, err
			}
		}
	}
	if len(a.steps) > maxSteps {
		return a, badPath(text, fmt.Sprintf("%d steps, the limit is %d", len(a.steps), maxSteps))
	}
	return a, nil
}

// indexes reads what follows the first opening bracket of a part.
func (a *attribute) indexes(text, rest string) error {
	for {
		inside, after, ok := strings.Cut(rest, "]")
		if !ok {
			return badPath(text, "[ without ]")
		}
		if inside == "any" {
			a.steps = append(a.steps, step{index: anyIndex})
			a.multi = true
		} else {
			n, err := strconv.ParseUint(inside, 10, 31)
			if err != nil {
				return badPath(text, fmt.Sprintf("[%s] is neither a number from 0 nor any", inside))
			}
			a.steps = append(a.steps, step{index: int(n)})
		}
		if after == "" {
			return nil
		}
		if after[0] != '[' {
			return badPath(text, "a dot is missing behind ]")
		}
		rest = after[1:]
	}
}

// each calls fn with every value that the attribute has in the record, until fn returns true, and reports whether it did. An attribute that
// is not there is null, once.
func (a *attribute) each(r *Record, fn func(Value) bool) bool {
	d := &r.value
	if a.key {
		d = &r.key
	}
	some := false
	done := walk(d.tree(), a.steps, func(v Value) bool {
		some = true
		return fn(v)
	})
	return done || !some && fn(Value{})
}

// first returns the attribute's only value; with several, the first.
func (a *attribute) first(r *Record) (v Value) {
	a.each(r, func(x Value) bool { v = x; return true })
	return v
}

func walk(n node, steps []step, fn func(Value) bool) bool {
	if r, ok := n.(rawJSON); ok {
		return walkJSON(r, steps, fn)
	}
	if len(steps) == 0 {
		return fn(leaf(n))
	}
	s := steps[0]
	if s.name != "" {
		obj, ok := n.(map[string]node)
		if !ok {
			return fn(Value{})
		}
		return walk(obj[s.name], steps[1:], fn)
	}
	list, ok := n.([]node)
	switch {
	case !ok:
		return fn(Value{})
	case s.index >= 0:
		if s.index >= len(list) {
			return fn(Value{})
		}
		return walk(list[s.index], steps[1:], fn)
	}
	for _, e := range list {
		if walk(e, steps[1:], fn) {
			return true
		}
	}
	return false
}
