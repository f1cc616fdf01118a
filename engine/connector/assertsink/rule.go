package assertsink

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gridnode/engine/connector/internal/value"
	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// fieldRule is one entry of field_rules.
type fieldRule struct {
	name     string
	declared *plugin.Field // nil: any type
	values   []valueRule
}

// valueRule is one entry of field_value: a rule, a value that the field must equal, or both.
type valueRule struct {
	kind   string   // "": none
	limit  *big.Rat // of MIN and MAX
	text   string   // the limit, as the config has it
	length int64    // of MIN_LENGTH and MAX_LENGTH
	equals *string  // JSON
}

func readFieldRule(r *option.Reader) fieldRule {
	f := fieldRule{name: r.Required("field_name")}
	if r.Has("field_type") {
		declared, err := value.ParseField(f.name, r.String("field_type", ""))
		if err != nil {
			r.Fail("field_type", "%s", err)
		}
		f.declared = &declared
	}
	if f.declared == nil && !r.Has("field_value") {
		r.Fail("field_value", "and \"field_type\" are both missing: there is nothing to assert")
	}
	for _, sub := range r.Objects("field_value") {
		f.values = append(f.values, readValueRule(sub))
	}
	return f
}

func readValueRule(r *option.Reader) valueRule {
	v := valueRule{kind: r.Choice("rule_type", "", "NOT_NULL", "NULL", "MIN", "MAX", "MIN_LENGTH", "MAX_LENGTH")}
	if r.Has("equals_to") {
		text := r.JSON("equals_to")
		v.equals = &text
	}
	switch v.kind {
	case "MIN", "MAX":
		r.Need("rule_value")
		r.Float("rule_value", 0, -math.MaxFloat64, math.MaxFloat64)
		v.text = strings.TrimSpace(r.Text("rule_value", "0"))
		v.limit = rational(v.text)
	case "MIN_LENGTH", "MAX_LENGTH":
		r.Need("rule_value")
		v.length = r.Int("rule_value", 0, 0, math.MaxInt32)
	case "":
		if v.equals == nil {
			r.Need("rule_type")
		}
		fallthrough
	default:
		if r.Has("rule_value") {
			r.Fail("rule_value", "has no effect with the rule %q", v.kind)
		}
	}
	return v
}

// bindError says which option of a rule does not fit the schema.
type bindError struct{ option, reason string }

// boundRule is a field rule that knows its field.
type boundRule struct {
	index  int
	field  plugin.Field
	values []valueRule
	equals []any // by value rule
}

var (
	numbers = []plugin.Type{plugin.TinyInt, plugin.SmallInt, plugin.Int, plugin.BigInt, plugin.Float, plugin.Double, plugin.Decimal}
	texts   = []plugin.Type{plugin.String, plugin.Bytes}
)

func (f fieldRule) bind(in plugin.Schema) (boundRule, *bindError) {
	b := boundRule{index: in.Index(f.name), values: slices.Clone(f.values)}
	if b.index < 0 {
		return b, &bindError{"field_name", fmt.Sprintf("names the field %q; there are: %s", f.name, value.FieldNames(in))}
	}
	b.field = in.Fields[b.index]
	if d := f.declared; d != nil && d.Type != b.field.Type {
		return b, &bindError{"field_type", fmt.Sprintf("is %s, but field %q is of type %s", d.Decl, f.name, b.field.Decl)}
	}
	for i, v := range f.values {
		wanted := texts
		switch v.kind {
		case "MIN", "MAX":
			wanted = numbers
		case "MIN_LENGTH", "MAX_LENGTH":
		default:
			wanted = nil
		}
		if wanted != nil && !slices.Contains(wanted, b.field.Type) {
			return b, &bindError{fmt.Sprintf("field_value[%d].rule_type", i), fmt.Sprintf("is %s, which does not apply to field %q of type %s", v.kind, f.name, b.field.Decl)}
		}
		b.values[i].limit = v.limitOf(b.field.Type)
		var equals any
		if v.equals != nil {
			var err error
			if equals, err = value.NewConverter(b.field, value.Formats{}).FromJSON([]byte(*v.equals)); err != nil {
				return b, &bindError{fmt.Sprintf("field_value[%d].equals_to", i), fmt.Sprintf("does not fit field %q: %s", f.name, err)}
			}
		}
		b.equals = append(b.equals, equals)
	}
	return b, nil
}

// check judges one row. The error names the rule, the field and the value.
func (b boundRule) check(row plugin.Row) error {
	v := row[b.index]
	for i, r := range b.values {
		if !r.holds(v) {
			return fmt.Errorf("rule %s is violated by field %q: its value is %s", r, b.field.Name, b.show(v))
		}
		if r.equals != nil && !equal(b.field.Type, v, b.equals[i]) {
			return fmt.Errorf("rule equals_to %s is violated by field %q: its value is %s", *r.equals, b.field.Name, b.show(v))
		}
	}
	return nil
}

func (b boundRule) show(v any) string {
	s := string(value.AppendJSON(nil, b.field.Type, v))
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}

// limitOf is the limit as a field of a type can hold it: the double next to 0.1 is more than 0.1, and still the 0.1 that the limit means.
func (r valueRule) limitOf(t plugin.Type) *big.Rat {
	bits := map[plugin.Type]int{plugin.Float: 32, plugin.Double: 64}[t]
	if r.limit == nil || bits == 0 {
		return r.limit
	}
	f, err := strconv.ParseFloat(r.text, bits)
	if err != nil { // beyond what the field can hold
		return r.limit
	}
	return new(big.Rat).SetFloat64(f)
}

// String names the rule for an error message.
func (r valueRule) String() string {
	switch r.kind {
	case "MIN", "MAX":
		return r.kind + " " + r.text
	case "MIN_LENGTH", "MAX_LENGTH":
		return fmt.Sprintf("%s %d", r.kind, r.length)
	}
	return r.kind
}

// holds judges a value by the rule alone. Null satisfies only NULL; a length counts characters, and bytes of bytes.
func (r valueRule) holds(v any) bool {
	switch r.kind {
	case "":
		return true
	case "NULL":
		return v == nil
	case "NOT_NULL":
		return v != nil
	case "MIN":
		n := number(v)
		return n != nil && n.Cmp(r.limit) >= 0
	case "MAX":
		n := number(v)
		return n != nil && n.Cmp(r.limit) <= 0
	}
	n := length(v)
	if r.kind == "MIN_LENGTH" {
		return n >= r.length
	}
	return n >= 0 && n <= r.length
}

// length returns the length of a text or of bytes, or -1.
func length(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(utf8.RuneCountInString(v))
	case []byte:
		return int64(len(v))
	}
	return -1
}

// number returns the exact value of a number, or nil.
func number(v any) *big.Rat {
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v)
	case float64:
		return new(big.Rat).SetFloat64(v)
	case string:
		return rational(v)
	}
	return nil
}

// rational reads a number. It is 0 for what is none: the option's own check has said so already.
func rational(s string) *big.Rat {
	s = strings.TrimSpace(s)
	if _, err := strconv.ParseFloat(s, 64); err != nil { // also bounds the exponent, and with it the size of the result
		return new(big.Rat)
	}
	if r, ok := new(big.Rat).SetString(s); ok {
		return r
	}
	return new(big.Rat)
}

// equal compares two values of one type; decimals by their number, so that 1.50 is 1.5, and times by what they say.
func equal(t plugin.Type, a, b any) bool {
	switch x := a.(type) {
	case []byte:
		y, ok := b.([]byte)
		return ok && slices.Equal(x, y)
	case string:
		y, ok := b.(string)
		switch {
		case !ok || x == y:
			return ok
		case t == plugin.Decimal:
			return number(x).Cmp(number(y)) == 0
		case t == plugin.Time || t == plugin.Timestamp:
			return plainTime(x) == plainTime(y)
		}
		return false
	}
	return a == b
}

// plainTime writes a time or a timestamp in the one of its default forms that has a blank and no zeros at the end of a fraction.
func plainTime(s string) string {
	s = strings.Replace(s, "T", " ", 1)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
