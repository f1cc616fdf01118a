package transform

import (
	"slices"

	"gridnode/engine/plugin"
)

// Filter keeps the fields of include_fields (old name: fields), in that order, or all but those of exclude_fields.
type Filter struct {
	where            string
	include, exclude []string
}

// NewFilter returns the transform Filter. Exactly one of its two options must be given.
func NewFilter(o plugin.Options) (plugin.Transform, error) {
	r := start(o)
	r.Alias("include_fields", "fields")
	f := &Filter{where: o.Where, include: r.Strings("include_fields"), exclude: r.Strings("exclude_fields")}
	switch included := r.Has("include_fields"); {
	case included && r.Has("exclude_fields"):
		r.Fail("exclude_fields", "and \"include_fields\" are both given; give one of them")
	case !included && !r.Has("exclude_fields"):
		r.Need("include_fields")
	}
	if n, found := twice(f.include); found {
		r.Fail("include_fields", "names the field %q twice", n)
	}
	return f, r.Done()
}

// Bind implements [plugin.Transform].
func (f *Filter) Bind(in plugin.Schema) (plugin.Schema, plugin.Mapper, error) {
	var keep projection
	for _, name := range f.include {
		i, err := position(f.where, "include_fields", in, name)
		if err != nil {
			return plugin.Schema{}, nil, err
		}
		keep = append(keep, i)
	}
	if f.exclude != nil {
		for _, name := range f.exclude {
			if _, err := position(f.where, "exclude_fields", in, name); err != nil {
				return plugin.Schema{}, nil, err
			}
		}
		for i, field := range in.Fields {
			if !slices.Contains(f.exclude, field.Name) {
				keep = append(keep, i)
			}
		}
		if len(keep) == 0 {
			return plugin.Schema{}, nil, bindError(f.where, "exclude_fields", "leaves no field")
		}
	}
	out := plugin.Schema{Table: in.Table}
	for _, i := range keep {
		out.Fields = append(out.Fields, in.Fields[i])
	}
	return out, keep, nil
}
