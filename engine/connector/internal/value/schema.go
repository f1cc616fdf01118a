// Package value holds what connectors share about fields: their declaration in a config, and their values as text and as JSON.
package value

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// maxPrecision is the largest number of digits of a decimal.
const maxPrecision = 38

var decimalForm = regexp.MustCompile(`^decimal\s*\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)$`)

var plainTypes = []plugin.Type{
	plugin.Boolean, plugin.TinyInt, plugin.SmallInt, plugin.Int, plugin.BigInt, plugin.Float, plugin.Double, plugin.Decimal, plugin.String,
	plugin.Bytes, plugin.Date, plugin.Time, plugin.Timestamp,
}

// ParseField reads the declaration of a field's type, for example "bigint" or "decimal(10,2)", in any case.
func ParseField(name, decl string) (plugin.Field, error) {
	f := plugin.Field{Name: name, Decl: strings.TrimSpace(decl)}
	lower := strings.ToLower(f.Decl)
	for _, t := range plainTypes {
		if lower == string(t) {
			f.Type = t
			return f, nil
		}
	}
	if m := decimalForm.FindStringSubmatch(lower); m != nil {
		f.Type = plugin.Decimal
		p, s := Precision(f)
		if p < 1 || p > maxPrecision || s > p {
			return f, fmt.Errorf("gives field %q the type %s; a decimal has 1 to %d digits and no more of them after the point", name, f.Decl, maxPrecision)
		}
		return f, nil
	}
	return f, fmt.Errorf("gives field %q the type %q; supported: %s", name, decl, typeNames())
}

func typeNames() string {
	var b strings.Builder
	for _, t := range plainTypes {
		if t == plugin.Decimal {
			t = "decimal(p,s)"
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(t))
	}
	return b.String()
}

// Precision returns the digits of a decimal in all and after the point, or 0, 0 for one that is declared without.
func Precision(f plugin.Field) (digits, scale int) {
	m := decimalForm.FindStringSubmatch(strings.ToLower(f.Decl))
	if m == nil {
		return 0, 0
	}
	digits, _ = strconv.Atoi(m[1]) // at most three digits each, by the form
	scale, _ = strconv.Atoi(m[2])
	return digits, scale
}

// ReadSchema reads the option "schema": its fields, as an object or as a list of columns, and its table. found is false if it is not given.
func ReadSchema(r *option.Reader) (s plugin.Schema, found bool) {
	if !r.Has("schema") {
		return s, false
	}
	sub := r.Sub("schema", r.Object("schema"))
	s.Table = sub.String("table", "")
	sub.Text("comment", "")
	option := "fields"
	switch fields, columns := sub.Has("fields"), sub.Has("columns"); {
	case fields && columns:
		sub.Fail("columns", "and \"fields\" are both given; give one of them")
	case columns:
		option = "columns"
		s.Fields = readColumns(sub)
	default:
		sub.Need("fields")
		s.Fields = readFields(sub)
	}
	seen := map[string]bool{}
	for _, f := range s.Fields {
		if seen[f.Name] {
			sub.Fail(option, "has the field %q twice", f.Name)
		}
		seen[f.Name] = true
	}
	readPrimaryKey(sub, s)
	return s, true
}

func readFields(sub *option.Reader) []plugin.Field {
	var out []plugin.Field
	for _, p := range sub.Object("fields") {
		decl, ok := p.Value.(string)
		if !ok {
			sub.Fail("fields", "gives field %q no type name; nested rows are not supported; supported: %s", p.Key, typeNames())
			continue
		}
		f, err := ParseField(p.Key, decl)
		if err != nil {
			sub.Fail("fields", "%s", err)
		}
		out = append(out, f)
	}
	return out
}

func readColumns(sub *option.Reader) []plugin.Field {
	var out []plugin.Field
	for _, c := range sub.Objects("columns") {
		f, err := ParseField(c.Required("name"), c.Required("type"))
		if err != nil {
			c.Fail("type", "%s", err)
		}
		c.Bool("nullable", true)
		c.Text("comment", "")
		c.Refuse("defaultValue", "columnLength", "columnScale")
		out = append(out, f)
	}
	return out
}

// readPrimaryKey checks a primary key, which no connector here needs.
func readPrimaryKey(sub *option.Reader, s plugin.Schema) {
	if !sub.Has("primaryKey") {
		return
	}
	key := sub.Sub("primaryKey", sub.Object("primaryKey"))
	key.String("name", "")
	for _, name := range key.Strings("columnNames") {
		if s.Index(name) < 0 {
			key.Fail("columnNames", "names the field %q, which the schema does not have", name)
		}
	}
}

// Columns returns the positions of named fields in a schema.
func Columns(s plugin.Schema, names []string) ([]int, error) {
	seen := map[string]bool{}
	out := make([]int, 0, len(names))
	for _, n := range names {
		i := s.Index(n)
		if i < 0 {
			return nil, fmt.Errorf("names the field %q; there are: %s", n, FieldNames(s))
		}
		if seen[n] {
			return nil, fmt.Errorf("names the field %q twice", n)
		}
		seen[n] = true
		out = append(out, i)
	}
	if len(out) == 0 {
		return nil, errors.New("leaves no field")
	}
	return out, nil
}

// FieldNames returns the names of a schema's fields for an error message.
func FieldNames(s plugin.Schema) string {
	names := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}
