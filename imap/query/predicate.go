package query

import (
	"strings"
)

// Op is what a [Predicate] does. The numbers are part of the wire form: they are never used twice.
type Op uint8

// The predicates.
const (
	OpTrue Op = iota + 1
	OpFalse
	OpAnd // of Args; true without any
	OpOr  // of Args; false without any
	OpNot // of the one of Args
	OpEqual
	OpNotEqual
	OpLess
	OpLessEqual
	OpGreater
	OpGreaterEqual
	OpBetween // Values: from, to, both inclusive
	OpIn      // any of Values
	OpLike    // Pattern with % and _, escaped by a backslash
	OpILike   // OpLike in any case
	OpRegex   // Pattern in RE2's syntax matches the whole text
	OpIsNull
	OpType // the entry's value has one of Values as its type id, whatever the attribute
)

// Predicate is a condition on entries, as plain data. Logic has two values: a comparison with what is absent, or of another class, is false,
// and its negation true. An attribute with [any] satisfies a comparison if one of its values does; [NotEqual] is the negation of [EqualTo].
type Predicate struct {
	Op        Op
	Attribute string
	Values    []Value
	Pattern   string
	Args      []Predicate
}

// True holds for every entry.
func True() Predicate { return Predicate{Op: OpTrue} }

// False holds for none.
func False() Predicate { return Predicate{Op: OpFalse} }

// And holds if all do.
func And(args ...Predicate) Predicate { return Predicate{Op: OpAnd, Args: args} }

// Or holds if one does.
func Or(args ...Predicate) Predicate { return Predicate{Op: OpOr, Args: args} }

// Not holds if p does not.
func Not(p Predicate) Predicate { return Predicate{Op: OpNot, Args: []Predicate{p}} }

func compare(op Op, attribute string, v ...Value) Predicate {
	return Predicate{Op: op, Attribute: attribute, Values: v}
}

// EqualTo holds if the attribute is worth v; with null, if it is absent.
func EqualTo(attribute string, v Value) Predicate { return compare(OpEqual, attribute, v) }

// NotEqual is the negation of [EqualTo].
func NotEqual(attribute string, v Value) Predicate { return compare(OpNotEqual, attribute, v) }

// Less holds if the attribute is below v.
func Less(attribute string, v Value) Predicate { return compare(OpLess, attribute, v) }

// LessEqual holds if the attribute is v or below.
func LessEqual(attribute string, v Value) Predicate { return compare(OpLessEqual, attribute, v) }

// Greater holds if the attribute is above v.
func Greater(attribute string, v Value) Predicate { return compare(OpGreater, attribute, v) }

// GreaterEqual holds if the attribute is v or above.
func GreaterEqual(attribute string, v Value) Predicate { return compare(OpGreaterEqual, attribute, v) }

// Between holds if the attribute is from..to, both inclusive.
func Between(attribute string, from, to Value) Predicate {
	return compare(OpBetween, attribute, from, to)
}

// In holds if the attribute is worth one of the values.
func In(attribute string, values ...Value) Predicate { return compare(OpIn, attribute, values...) }

// Like holds if the whole text fits the pattern: % stands for any run of characters, _ for one, a backslash takes the next for itself.
func Like(attribute, pattern string) Predicate {
	return Predicate{Op: OpLike, Attribute: attribute, Pattern: pattern}
}

// ILike is [Like] that takes upper and lower case as the same.
func ILike(attribute, pattern string) Predicate {
	return Predicate{Op: OpILike, Attribute: attribute, Pattern: pattern}
}

// Regex holds if the regular expression, in RE2's syntax, matches the whole text.
func Regex(attribute, pattern string) Predicate {
	return Predicate{Op: OpRegex, Attribute: attribute, Pattern: pattern}
}

// IsNull holds if the attribute is absent or null.
func IsNull(attribute string) Predicate { return Predicate{Op: OpIsNull, Attribute: attribute} }

// Typed holds if the value of the entry is of one of those type ids. No where text says that.
func Typed(ids ...int32) Predicate {
	p := Predicate{Op: OpType, Attribute: "this"}
	for _, id := range ids {
		p.Values = append(p.Values, IntOf(int64(id)))
	}
	return p
}

var signs = map[Op]string{
	OpEqual: "=", OpNotEqual: "<>", OpLess: "<", OpLessEqual: "<=", OpGreater: ">", OpGreaterEqual: ">=", OpLike: "LIKE", OpILike: "ILIKE",
	OpRegex: "REGEX",
}

// String returns the predicate as a where text; [Parse] reads it back.
func (p Predicate) String() string {
	switch p.Op {
	case OpTrue:
		return "TRUE"
	case OpFalse:
		return "FALSE"
	case OpAnd:
		return join(p.Args, " AND ", "TRUE")
	case OpOr:
		return join(p.Args, " OR ", "FALSE")
	case OpNot:
		return "NOT " + join(p.Args, " AND ", "TRUE")
	case OpIsNull:
		return name(p.Attribute) + " IS NULL"
	case OpLike, OpILike, OpRegex:
		return name(p.Attribute) + " " + signs[p.Op] + " " + quote(p.Pattern)
	}
	values := make([]string, len(p.Values))
	for i, v := range p.Values {
		values[i] = v.String()
	}
	switch p.Op {
	case OpType:
		return "type of " + name(p.Attribute) + " IN (" + strings.Join(values, ", ") + ")"
	case OpIn:
		return name(p.Attribute) + " IN (" + strings.Join(values, ", ") + ")"
	case OpBetween:
		return name(p.Attribute) + " BETWEEN " + strings.Join(values, " AND ")
	}
	return name(p.Attribute) + " " + signs[p.Op] + " " + strings.Join(values, ", ")
}

func join(args []Predicate, by, none string) string {
	if len(args) == 0 {
		return none
	}
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = "(" + a.String() + ")"
	}
	return strings.Join(list, by)
}

// name returns an attribute as a where text has it: in double quotes unless it is plain.
func name(attribute string) string {
	for i, c := range attribute {
		if !pathRune(c) || i == 0 && !pathStart(c) {
			return `"` + strings.ReplaceAll(attribute, `"`, `""`) + `"`
		}
	}
	if keywords[strings.ToUpper(attribute)] || attribute == "" {
		return `"` + attribute + `"`
	}
	return attribute
}
