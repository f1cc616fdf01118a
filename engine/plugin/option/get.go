package option

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"gridnode/engine/plugin"
)

// Text returns a text option, which may be empty or blank. A number or a boolean counts as its text.
func (r *Reader) Text(name, def string) string {
	if !r.Has(name) {
		return def
	}
	s, ok := scalar(r.values[name])
	if !ok {
		r.Fail(name, "must be a text, not %s", show(r.values[name]))
		return def
	}
	return s
}

// String returns a text option that must not be blank.
func (r *Reader) String(name, def string) string {
	s := r.Text(name, def)
	if r.Has(name) && strings.TrimSpace(s) == "" {
		r.Fail(name, "is blank")
	}
	return s
}

// Required returns a text option that must be given and not be blank.
func (r *Reader) Required(name string) string {
	r.Need(name)
	return r.String(name, "")
}

// Choice returns an option that must be one of a few values, in any case, as the list spells it.
func (r *Reader) Choice(name, def string, allowed ...string) string {
	s := r.String(name, def)
	for _, a := range allowed {
		if strings.EqualFold(a, strings.TrimSpace(s)) {
			return a
		}
	}
	if r.Has(name) {
		r.Fail(name, "is %q; supported: %s", s, strings.Join(allowed, ", "))
	}
	return def
}

// Int returns a whole number option within low and high, both included. It may be given as a number or as a text of one.
func (r *Reader) Int(name string, def, low, high int64) int64 {
	if !r.Has(name) {
		return def
	}
	n, err := parseInt(r.values[name])
	if err != nil {
		r.Fail(name, "%s", err)
		return def
	}
	if n < low || n > high {
		r.Fail(name, "is %d; it must be %s", n, bounds(low, high))
		return def
	}
	return n
}

// Float returns a finite number option within low and high, both included.
func (r *Reader) Float(name string, def, low, high float64) float64 {
	if !r.Has(name) {
		return def
	}
	s, ok := scalar(r.values[name])
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	switch {
	case !ok || err != nil || !numberParts.MatchString(strings.TrimSpace(s)):
		r.Fail(name, "must be a number, not %s", show(r.values[name]))
		return def
	case f < low || f > high:
		r.Fail(name, "is %s; it must be from %g to %g", s, low, high)
		return def
	}
	return f
}

// Bool returns a boolean option; the texts "true" and "false" count in any case.
func (r *Reader) Bool(name string, def bool) bool {
	if !r.Has(name) {
		return def
	}
	switch s, _ := scalar(r.values[name]); strings.ToLower(strings.TrimSpace(s)) {
	case "true":
		return true
	case "false":
		return false
	}
	r.Fail(name, "must be true or false, not %s", show(r.values[name]))
	return def
}

// Strings returns a list of texts, none of them blank, or nil if it is not given. An empty list is an error.
func (r *Reader) Strings(name string) []string {
	var out []string
	for i, s := range r.Texts(name) {
		if strings.TrimSpace(s) == "" {
			r.Fail(name, "has a blank text at position %d", i)
		}
		out = append(out, s)
	}
	return out
}

// Texts is [Reader.Strings] with blank texts allowed.
func (r *Reader) Texts(name string) []string {
	var out []string
	for i, v := range r.List(name) {
		s, ok := scalar(v)
		if !ok {
			r.Fail(name, "must be a list of texts; at position %d is %s", i, show(v))
		}
		out = append(out, s)
	}
	return out
}

// List returns a list, or nil if it is not given. An empty list is an error.
func (r *Reader) List(name string) []any {
	if !r.Has(name) {
		return nil
	}
	list, ok := r.values[name].([]any)
	switch {
	case !ok:
		r.Fail(name, "must be a list, not %s", show(r.values[name]))
	case len(list) == 0:
		r.Fail(name, "is an empty list")
	}
	return list
}

// Object returns an object, or nil if it is not given. An empty object is an error.
func (r *Reader) Object(name string) plugin.Object {
	if !r.Has(name) {
		return nil
	}
	o, ok := r.values[name].(plugin.Object)
	switch {
	case !ok:
		r.Fail(name, "must be an object, not %s", show(r.values[name]))
	case len(o) == 0:
		r.Fail(name, "is an empty object")
	}
	return o
}

// Objects returns a reader for each object of a list. Errors name them as name[position].
func (r *Reader) Objects(name string) []*Reader {
	var out []*Reader
	for i, v := range r.List(name) {
		o, ok := v.(plugin.Object)
		if !ok {
			r.Fail(name, "must be a list of objects; at position %d is %s", i, show(v))
			continue
		}
		out = append(out, r.Sub(fmt.Sprintf("%s[%d]", name, i), o))
	}
	return out
}

// Pair is one member of an object whose values are texts.
type Pair struct{ Key, Value string }

// Pairs returns the members of an object of texts, in the order of the config.
func (r *Reader) Pairs(name string) []Pair {
	var out []Pair
	for _, m := range r.Object(name) {
		s, ok := scalar(m.Value)
		if !ok || strings.TrimSpace(s) == "" {
			r.Fail(name, "needs a text for %q, not %s", m.Key, show(m.Value))
		}
		out = append(out, Pair{m.Key, s})
	}
	return out
}

// parseInt reads a whole number. 10.0 and 1e1 are 10.
func parseInt(v any) (int64, error) {
	s, ok := scalar(v)
	s = strings.TrimSpace(s)
	if _, isBool := v.(bool); !ok || isBool || !numberParts.MatchString(s) {
		return 0, fmt.Errorf("must be a whole number, not %s", show(v))
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	if digits, whole := Whole(s); whole {
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("must be a whole number of 64 bits, not %s", show(v))
}

func bounds(low, high int64) string {
	if high == math.MaxInt64 {
		return fmt.Sprintf("at least %d", low)
	}
	return fmt.Sprintf("from %d to %d", low, high)
}

// scalar returns the text of a value that is neither an object nor a list.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// show writes a value for an error message, cut to a readable length.
func show(v any) string {
	b, err := plugin.EncodeJSON(v)
	if err != nil {
		return fmt.Sprintf("%v", v)
	}
	if s := []rune(string(b)); len(s) > 80 {
		return string(s[:80]) + "..."
	}
	return string(b)
}

// JSON returns an option of any kind as its JSON text.
func (r *Reader) JSON(name string) string {
	if !r.Has(name) {
		return ""
	}
	b, err := plugin.EncodeJSON(r.values[name])
	if err != nil {
		r.Fail(name, "is no JSON: %s", err)
	}
	return string(b)
}

// Names returns what may be one text or a list of texts, none of them blank, or nil if it is not given.
func (r *Reader) Names(name string) []string {
	if !r.Has(name) {
		return nil
	}
	if _, isList := r.values[name].([]any); isList {
		return r.Strings(name)
	}
	return []string{r.String(name, "")}
}
