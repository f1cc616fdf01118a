package transform

import (
	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// FieldMapper keeps the fields that field_mapper lists, in that order, each under its new name.
type FieldMapper struct {
	where string
	pairs []option.Pair // old name, new name
}

// NewFieldMapper returns the transform FieldMapper.
func NewFieldMapper(o plugin.Options) (plugin.Transform, error) {
	r := start(o)
	r.Need("field_mapper")
	f := &FieldMapper{where: o.Where, pairs: r.Pairs("field_mapper")}
	var names []string
	for _, p := range f.pairs {
		names = append(names, p.Value)
	}
	if n, found := twice(names); found {
		r.Fail("field_mapper", "gives the name %q to two fields", n)
	}
	return f, r.Done()
}

// Bind implements [plugin.Transform].
func (f *FieldMapper) Bind(in plugin.Schema) (plugin.Schema, plugin.Mapper, error) {
	out := plugin.Schema{Table: in.Table}
	var from projection
	for _, p := range f.pairs {
		i, err := position(f.where, "field_mapper", in, p.Key)
		if err != nil {
			return plugin.Schema{}, nil, err
		}
		field := in.Fields[i]
		field.Name = p.Value
		out.Fields = append(out.Fields, field)
		from = append(from, i)
	}
	return out, from, nil
}
