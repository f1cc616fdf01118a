package query

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"gridnode/grid"
)

// Limits of a predicate.
const (
	MaxDepth   = 64
	MaxNodes   = 1 << 16 // predicates and values in one
	MaxPattern = 1 << 10 // bytes of a pattern
	MaxValue   = 64 << 10
)

// Matcher is a predicate that was checked and can be asked. It is never changed and may be used by several goroutines.
type Matcher struct {
	p    Predicate
	hold func(*Record) bool
}

// Predicate returns what the matcher was made of.
func (m *Matcher) Predicate() Predicate { return m.p }

// Match reports whether the predicate holds for the record.
func (m *Matcher) Match(r *Record) bool { return m.hold(r) }

// Compile checks a predicate against the limits and makes it ready to be asked. Errors are of kind Definite and name what is wrong.
func Compile(p Predicate) (*Matcher, error) {
	c := compiler{left: MaxNodes}
	hold, err := c.compile(p, 1)
	if err != nil {
		return nil, err
	}
	return &Matcher{p: p, hold: hold}, nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: predicate: %s", grid.ErrBadRequest, fmt.Sprintf(format, args...))
}

type compiler struct{ left int }

type test = func(*Record) bool

func (c *compiler) compile(p Predicate, depth int) (test, error) {
	if c.left -= 1 + len(p.Values); c.left < 0 {
		return nil, bad("more than %d parts", MaxNodes)
	}
	if depth > MaxDepth {
		return nil, bad("nested deeper than %d", MaxDepth)
	}
	switch p.Op {
	case OpTrue, OpFalse:
		return func(*Record) bool { return p.Op == OpTrue }, nil
	case OpAnd, OpOr, OpNot:
		return c.logic(p, depth)
	case OpType:
		return typed(p), nil
	}
	a, err := parsePath(p.Attribute)
	if err != nil {
		return nil, err
	}
	holds, err := comparison(p)
	if err != nil {
		return nil, err
	}
	if p.Op == OpNotEqual {
		return func(r *Record) bool { return !a.each(r, holds) }, nil
	}
	return func(r *Record) bool { return a.each(r, holds) }, nil
}

func typed(p Predicate) test {
	ids := make(map[int64]bool, len(p.Values))
	for _, v := range p.Values {
		ids[v.Int()] = true
	}
	return func(r *Record) bool {
		return len(r.value.data) >= 4 && ids[int64(int32(binary.BigEndian.Uint32(r.value.data)))]
	}
}

func (c *compiler) logic(p Predicate, depth int) (test, error) {
	if p.Op == OpNot && len(p.Args) != 1 {
		return nil, bad("NOT of %d predicates", len(p.Args))
	}
	tests := make([]test, 0, min(len(p.Args), MaxNodes))
	for _, arg := range p.Args {
		t, err := c.compile(arg, depth+1)
		if err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	if p.Op == OpNot {
		return func(r *Record) bool { return !tests[0](r) }, nil
	}
	end := p.Op == OpOr // what one test has to say to decide
	return func(r *Record) bool {
		for _, t := range tests {
			if t(r) == end {
				return end
			}
		}
		return !end
	}, nil
}

// comparison returns the test of one value. For OpNotEqual it is that of OpEqual.
func comparison(p Predicate) (func(Value) bool, error) {
	for _, v := range p.Values {
		if len(v.text) > MaxValue {
			return nil, bad("a value of %d bytes, the limit is %d", len(v.text), MaxValue)
		}
	}
	switch p.Op {
	case OpLike, OpILike, OpRegex:
		return pattern(p)
	case OpIsNull:
		return Value.IsNull, nil
	case OpIn:
		set := make(map[Value]bool, len(p.Values))
		for _, v := range p.Values {
			set[v.norm()] = v.kind != Composite
		}
		return func(v Value) bool { return set[v.norm()] }, nil
	}
	want := 1
	if p.Op == OpBetween {
		want = 2
	}
	if len(p.Values) != want {
		return nil, bad("%d values, not %d, for attribute %q", len(p.Values), want, p.Attribute)
	}
	a := p.Values[0]
	switch p.Op {
	case OpEqual, OpNotEqual:
		return func(v Value) bool { return Equal(v, a) }, nil
	case OpLess:
		return func(v Value) bool { return ordered(v, a) && Compare(v, a) < 0 }, nil
	case OpLessEqual:
		return func(v Value) bool { return ordered(v, a) && Compare(v, a) <= 0 }, nil
	case OpGreater:
		return func(v Value) bool { return ordered(v, a) && Compare(v, a) > 0 }, nil
	case OpGreaterEqual:
		return func(v Value) bool { return ordered(v, a) && Compare(v, a) >= 0 }, nil
	case OpBetween:
		b := p.Values[1]
		return func(v Value) bool { return ordered(v, a) && ordered(v, b) && Compare(v, a) >= 0 && Compare(v, b) <= 0 }, nil
	}
	return nil, bad("operation %d is not known", p.Op)
}

func pattern(p Predicate) (func(Value) bool, error) {
	if len(p.Pattern) > MaxPattern {
		return nil, bad("a pattern of %d bytes, the limit is %d", len(p.Pattern), MaxPattern)
	}
	switch p.Op {
	case OpRegex:
		re, err := wholeText(p.Pattern)
		if err != nil {
			return nil, bad("regular expression for attribute %q: %v", p.Attribute, err)
		}
		return func(v Value) bool { return v.kind == Text && re.MatchString(v.text) }, nil
	case OpILike:
		l := newLike(strings.ToLower(p.Pattern))
		return func(v Value) bool { return v.kind == Text && l.match(strings.ToLower(v.text)) }, nil
	}
	l := newLike(p.Pattern)
	return func(v Value) bool { return v.kind == Text && l.match(v.text) }, nil
}

// wholeText is a regular expression that has to fit all of a text.
func wholeText(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil { // by itself: what is put around it would close a parenthesis that it lacks
		return nil, err
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}
