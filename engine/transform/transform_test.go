package transform

import (
	"errors"
	"strings"
	"testing"

	"gridnode/engine/plugin"

	"github.com/google/go-cmp/cmp"
)

var people = plugin.Schema{Table: "people", Fields: []plugin.Field{
	{Name: "id", Type: plugin.BigInt, Decl: "bigint"},
	{Name: "name", Type: plugin.String, Decl: "string"},
	{Name: "city", Type: plugin.String, Decl: "string"},
}}

func options(t *testing.T, text string) plugin.Options {
	t.Helper()
	v, err := plugin.DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := plugin.Options{Where: "transform[0] (X)", Values: map[string]any{}}
	for _, m := range v.(plugin.Object) {
		o.Values[m.Key] = m.Value
	}
	return o
}

// apply returns the names and the values of what a transform makes of one row of people.
func apply(build func(plugin.Options) (plugin.Transform, error), o plugin.Options, row plugin.Row) (string, plugin.Row, error) {
	tr, err := build(o)
	if err != nil {
		return "", nil, err
	}
	out, m, err := tr.Bind(people)
	if err != nil {
		return "", nil, err
	}
	var names []string
	for _, f := range out.Fields {
		names = append(names, f.Name)
	}
	got, keep, err := m.Map(row)
	if err == nil && !keep {
		err = errors.New("the row was dropped")
	}
	return strings.Join(names, ","), got, err
}

func TestTransforms(t *testing.T) {
	for _, tc := range []struct {
		name, options string
		build         func(plugin.Options) (plugin.Transform, error)
		fields        string
		row           plugin.Row
		err           string
	}{
		{"filter includes in the order of the list", `{"include_fields":["city","id"]}`, NewFilter, "city,id", plugin.Row{"Rome", int64(1)}, ""},
		{"filter by its old name", `{"fields":["id"]}`, NewFilter, "id", plugin.Row{int64(1)}, ""},
		{"filter excludes", `{"exclude_fields":["name"]}`, NewFilter, "id,city", plugin.Row{int64(1), "Rome"}, ""},
		{"filter without options", `{}`, NewFilter, "", nil, `option "include_fields" is missing`},
		{"filter with both", `{"include_fields":["id"],"exclude_fields":["id"]}`, NewFilter, "", nil, `option "exclude_fields" and "include_fields" are both given`},
		{"filter of an unknown field", `{"include_fields":["nme"]}`, NewFilter, "", nil, `transform[0] (X): option "include_fields" names the field "nme", which does not reach it; there are: id, name, city`},
		{"filter excludes an unknown field", `{"exclude_fields":["nme"]}`, NewFilter, "", nil, `"nme"`},
		{"filter leaves nothing", `{"exclude_fields":["id","name","city"]}`, NewFilter, "", nil, "leaves no field"},
		{"filter twice", `{"include_fields":["id","id"]}`, NewFilter, "", nil, `names the field "id" twice`},
		{"filter multi-table", `{"fields":["id"],"table_transform":[]}`, NewFilter, "", nil, `option "table_transform" is not supported`},
		{"mapper keeps the order of the config", `{"field_mapper":{"city":"town","id":"id","name":"who"}}`, NewFieldMapper, "town,id,who", plugin.Row{"Rome", int64(1), "Ann"}, ""},
		{"mapper of an unknown field", `{"field_mapper":{"x":"y"}}`, NewFieldMapper, "", nil, `option "field_mapper" names the field "x"`},
		{"mapper makes one name twice", `{"field_mapper":{"id":"y","name":"y"}}`, NewFieldMapper, "", nil, `gives the name "y" to two fields`},
		{"mapper missing", `{}`, NewFieldMapper, "", nil, `option "field_mapper" is missing`},
		{"mapper with table_match_regex", `{"field_mapper":{"id":"y"},"table_match_regex":"a.*"}`, NewFieldMapper, "", nil, `option "table_match_regex" is not supported`},
		{"copy", `{"fields":{"n2":"name","n3":"name"}}`, NewCopy, "id,name,city,n2,n3", plugin.Row{int64(1), "Ann", "Rome", "Ann", "Ann"}, ""},
		{"copy in its old form", `{"src_field":"id","dest_field":"id2"}`, NewCopy, "id,name,city,id2", plugin.Row{int64(1), "Ann", "Rome", int64(1)}, ""},
		{"copy in half of its old form", `{"src_field":"id"}`, NewCopy, "", nil, `option "dest_field" is missing`},
		{"copy onto an existing field", `{"fields":{"id":"name"}}`, NewCopy, "", nil, `makes the field "id", which exists already`},
		{"copy of an unknown field", `{"fields":{"b":"x"}}`, NewCopy, "", nil, `names the field "x"`},
		{"replace of a number", `{"replace_field":"id","pattern":"a","replacement":"b"}`, NewReplace, "", nil, `option "replace_field" names the field "id" of type bigint`},
		{"replace with a bad pattern", `{"replace_field":"name","pattern":"(","replacement":"b","is_regex":"true"}`, NewReplace, "", nil, `option "pattern" is "("`},
		{"replace with a bad group", `{"replace_field":"name","pattern":"a","replacement":"$1","is_regex":true}`, NewReplace, "", nil, `option "replacement" is "$1": the pattern has no group 1`},
		{"replace without pattern", `{"replace_field":"name","replacement":"b"}`, NewReplace, "", nil, `option "pattern" is missing`},
		{"replace with an empty pattern", `{"replace_field":"name","pattern":"","replacement":"b"}`, NewReplace, "", nil, `option "pattern" is empty`},
		{"unknown option", `{"replace_field":"name","pattern":"a","replacement":"b","isregex":true}`, NewReplace, "", nil, `option "isregex" is unknown; did you mean "is_regex"?`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fields, row, err := apply(tc.build, options(t, tc.options), plugin.Row{int64(1), "Ann", "Rome"})
			if tc.err != "" {
				if _, ok := errors.AsType[*plugin.OptionError](err); !ok || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.fields, fields); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tc.row, row); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReplace(t *testing.T) {
	for _, tc := range []struct{ pattern, replacement, flags, in, want string }{
		{" ", "_", `,"is_regex":true,"replace_first":true`, "oak elm x", "oak_elm x"},
		{" ", "_", ``, "oak elm x", "oak_elm_x"},
		{" ", "_", `,"replace_first":"true"`, "oak elm x", "oak_elm x"},
		{".", "-", ``, "a.b$c", "a-b$c"},
		{"$", `\\`, ``, "a.b$c", `a.b\c`},
		{`(\\w+) (\\w+)`, "$2 $1", `,"is_regex":true`, "oak elm x", "elm oak x"},
		{`(?<a>o)(x)?`, "[${a}$2$11]", `,"is_regex":true`, "foo", "f[oo1][oo1]"},
		{`o`, `\\$0\\\\`, `,"is_regex":true`, "fo", `f$0\`},
		{`o`, `$0$0`, `,"is_regex":true`, "fo", "foo"},
		{`o`, ``, ``, "foo", "f"},
	} {
		t.Run(tc.pattern+" "+tc.replacement, func(t *testing.T) {
			text := `{"replace_field":"name","pattern":"` + tc.pattern + `","replacement":"` + tc.replacement + `"` + tc.flags + `}`
			in := plugin.Row{int64(1), tc.in, nil}
			_, row, err := apply(NewReplace, options(t, text), in)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(plugin.Row{int64(1), tc.want, nil}, row); d != "" {
				t.Error(d)
			}
			if in[1] != tc.in {
				t.Error("the row that was handed in was changed")
			}
			_, row, err = apply(NewReplace, options(t, text), plugin.Row{int64(1), nil, nil})
			if err != nil || row[1] != nil {
				t.Errorf("null became %v, %v", row, err)
			}
		})
	}
}

// A text may be long, but a transform does not make it so without bound; what it was before it may stay.
func TestReplace_DoesNotGrowWithoutBound(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	for _, flags := range []string{``, `,"is_regex":true`} {
		options := options(t, `{"replace_field":"name","pattern":"a","replacement":"`+strings.Repeat("b", 1000)+`"`+flags+`}`)
		_, _, err := apply(NewReplace, options, plugin.Row{int64(1), long, nil})
		if _, ok := errors.AsType[*plugin.PermanentError](err); !ok || !strings.Contains(err.Error(), `option "replacement"`) {
			t.Errorf("with %q: %v", flags, err)
		}
		if _, row, err := apply(NewReplace, options, plugin.Row{int64(1), strings.Repeat("c", maxGrown+1), nil}); err != nil || len(row[1].(string)) != maxGrown+1 {
			t.Errorf("a long text that does not grow, with %q: %v", flags, err)
		}
	}
}
