// Package transform holds the transforms that jobs can use. None of them keeps state from row to row.
package transform

import (
	"fmt"
	"slices"
	"strings"

	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// start returns a reader for the options of a transform, with what all of them refuse.
func start(o plugin.Options) *option.Reader {
	r := option.New(o)
	r.Refuse("table_match_regex", "table_transform")
	return r
}

// bindError says that an option does not fit the rows that reach the transform.
func bindError(where, name, format string, args ...any) error {
	return &plugin.OptionError{Where: where, Option: name, Reason: fmt.Sprintf(format, args...)}
}

// position finds a field or returns an error that lists those that exist.
func position(where, name string, in plugin.Schema, field string) (int, error) {
	if i := in.Index(field); i >= 0 {
		return i, nil
	}
	names := make([]string, len(in.Fields))
	for i, f := range in.Fields {
		names[i] = f.Name
	}
	return 0, bindError(where, name, "names the field %q, which does not reach it; there are: %s", field, strings.Join(names, ", "))
}

// twice returns the first text that appears a second time.
func twice(names []string) (name string, found bool) {
	for i, n := range names {
		if slices.Contains(names[:i], n) {
			return n, true
		}
	}
	return "", false
}

// projection is a mapper that builds each row from fields of the one before.
type projection []int

// Map implements [plugin.Mapper].
func (p projection) Map(in plugin.Row) (plugin.Row, bool, error) {
	out := make(plugin.Row, len(p))
	for i, from := range p {
		out[i] = in[from]
	}
	return out, true, nil
}
