package transform

import (
	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// Copy adds copies of fields behind the others: fields {new = old}, or for one copy the old form src_field and dest_field.
type Copy struct {
	where  string
	option string        // the option that names the sources
	pairs  []option.Pair // new name, old name
}

// NewCopy returns the transform Copy.
func NewCopy(o plugin.Options) (plugin.Transform, error) {
	r := start(o)
	c := &Copy{where: o.Where, option: "fields"}
	switch oldForm := r.Has("src_field") || r.Has("dest_field"); {
	case oldForm && r.Has("fields"):
		r.Fail("fields", "and the old form \"src_field\", \"dest_field\" are both given; give one of them")
	case oldForm:
		c.option = "src_field"
		c.pairs = []option.Pair{{Key: r.Required("dest_field"), Value: r.Required("src_field")}}
	default:
		r.Need("fields")
		c.pairs = r.Pairs("fields")
	}
	return c, r.Done()
}

// Bind implements [plugin.Transform].
func (c *Copy) Bind(in plugin.Schema) (plugin.Schema, plugin.Mapper, error) {
	out := plugin.Schema{Table: in.Table, Fields: append([]plugin.Field(nil), in.Fields...)}
	from := make(projection, len(in.Fields))
	for i := range from {
		from[i] = i
	}
	for _, p := range c.pairs {
		i, err := position(c.where, c.option, in, p.Value)
		if err != nil {
			return plugin.Schema{}, nil, err
		}
		if in.Index(p.Key) >= 0 {
			return plugin.Schema{}, nil, bindError(c.where, c.option, "makes the field %q, which exists already", p.Key)
		}
		field := in.Fields[i]
		field.Name = p.Key
		out.Fields = append(out.Fields, field)
		from = append(from, i)
	}
	return out, from, nil
}
