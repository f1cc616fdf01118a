package query

import (
	"fmt"
	"maps"
	"slices"

	"gridnode/grid"
)

// MaxAttributes is how many attributes a projection or an index may have.
const MaxAttributes = 64

// Projection takes attributes out of entries.
type Projection struct{ paths []attribute }

// NewProjection returns the projection of at least one attribute. The error names what is wrong.
func NewProjection(attributes ...string) (*Projection, error) {
	paths, err := parsePaths(attributes)
	return &Projection{paths: paths}, err
}

func parsePaths(attributes []string) ([]attribute, error) {
	if len(attributes) == 0 || len(attributes) > MaxAttributes {
		return nil, fmt.Errorf("%w: %d attributes, there may be 1 to %d", grid.ErrBadRequest, len(attributes), MaxAttributes)
	}
	paths := make([]attribute, len(attributes))
	for i, text := range attributes {
		var err error
		if paths[i], err = parsePath(text); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// Project returns the attributes of an entry, in their order; of an attribute with several values, the first.
func (p *Projection) Project(r *Record) []Value {
	out := make([]Value, len(p.paths))
	for i := range p.paths {
		out[i] = p.paths[i].first(r)
	}
	return out
}

// sortedValues returns the values of a set in their order.
func sortedValues(set map[Value]Value) []Value {
	return slices.SortedFunc(maps.Values(set), Compare)
}
