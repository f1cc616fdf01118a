package assertsink

import (
	"context"
	"errors"
	"math"
	"testing"

	"gridnode/engine/connector/internal/connectortest"
	"gridnode/engine/plugin"
)

var schema = plugin.Schema{Fields: []plugin.Field{
	{Name: "id", Type: plugin.Int, Decl: "int"}, {Name: "s", Type: plugin.String, Decl: "string"},
	{Name: "d", Type: plugin.Decimal, Decl: "decimal(10,2)"}, {Name: "b", Type: plugin.Bytes, Decl: "bytes"},
}}

func build(t *testing.T, rules string) plugin.Sink {
	t.Helper()
	s, err := New(connectortest.Options(t, `{"rules":`+rules+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run writes rows in one task and returns what was prepared.
func run(t *testing.T, s plugin.Sink, rows ...plugin.Row) ([]byte, error) {
	t.Helper()
	w, err := s.Open(t.Context(), connectortest.Context(0, 1), schema)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), rows); err != nil {
		return nil, err
	}
	b, err := w.Prepare(t.Context())
	return b, errors.Join(err, w.Close(), s.Commit(t.Context(), b), s.Cleanup(t.Context(), "1", "i"))
}

func TestRowRules_JudgeAllTasksTogether(t *testing.T) {
	for _, tc := range []struct {
		rules string
		want  []string
	}{
		{`{"row_rules":[{"rule_type":"MIN_ROW","rule_value":100},{"rule_type":"MAX_ROW","rule_value":"100"}]}`, nil},
		{`{"row_rules":[{"rule_type":"min_row","rule_value":101}]}`, []string{"MIN_ROW", "100 rows", "101"}},
		{`{"row_rules":[{"rule_type":"MAX_ROW","rule_value":99}]}`, []string{"MAX_ROW", "100 rows", "99"}},
	} {
		t.Run(tc.rules, func(t *testing.T) {
			s := build(t, tc.rules)
			for range 2 { // nothing is carried from one run to the next
				var all [][]byte
				for range 4 {
					b, err := run(t, s, make([]plugin.Row, 25)...)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, b)
				}
				err := s.Check(all)
				if tc.want == nil && err != nil {
					t.Fatal(err)
				}
				if tc.want != nil {
					connectortest.WantPermanent(t, err, tc.want...)
				}
			}
		})
	}
}

func TestRowRules_OneTaskWithTooMany(t *testing.T) {
	_, err := run(t, build(t, `{"row_rules":[{"rule_type":"MAX_ROW","rule_value":2}]}`), make([]plugin.Row, 3)...)
	connectortest.WantPermanent(t, err, "MAX_ROW", "3 rows", "at most 2")
}

func TestCheck_NoTasks(t *testing.T) {
	connectortest.WantPermanent(t, build(t, `{"row_rules":[{"rule_type":"MIN_ROW","rule_value":1}]}`).Check(nil), "0 rows")
	connectortest.WantPermanent(t, build(t, `{"row_rules":[{"rule_type":"MIN_ROW","rule_value":1}]}`).Check([][]byte{[]byte("?")}), "cannot be read")
}

func TestFieldRules(t *testing.T) {
	good := plugin.Row{int64(5), "äbc", "1.50", []byte{1, 2}}
	for _, tc := range []struct {
		field, rule string
		bad         plugin.Row
		want        []string
	}{
		{"id", `{"rule_type":"NOT_NULL"}`, plugin.Row{nil, "", "0", nil}, []string{"NOT_NULL", `"id"`, "null"}},
		{"id", `{"rule_type":"MIN","rule_value":5}`, plugin.Row{int64(4), "", "0", nil}, []string{"MIN 5", `"id"`, "4"}},
		{"id", `{"rule_type":"MAX","rule_value":"5.5"}`, plugin.Row{int64(6), "", "0", nil}, []string{"MAX 5.5", `"id"`, "6"}},
		{"id", `{"rule_type":"MAX","rule_value":5}`, plugin.Row{nil, "", "0", nil}, []string{"MAX 5", "null"}},
		{"id", `{"equals_to":"5"}`, plugin.Row{int64(6), "", "0", nil}, []string{"equals_to", `"id"`, "6"}},
		{"id", `{"rule_type":"NOT_NULL","equals_to":5}`, plugin.Row{int64(6), "", "0", nil}, []string{"equals_to 5", "6"}},
		{"d", `{"rule_type":"MIN","rule_value":1.5}`, plugin.Row{nil, "", "1.49", nil}, []string{"MIN 1.5", `"d"`, "1.49"}},
		{"d", `{"equals_to":1.5}`, plugin.Row{nil, "", "1.51", nil}, []string{"equals_to 1.5", "1.51"}},
		{"s", `{"rule_type":"MIN_LENGTH","rule_value":3}`, plugin.Row{nil, "ab", "0", nil}, []string{"MIN_LENGTH 3", `"s"`, `"ab"`}},
		{"s", `{"rule_type":"MAX_LENGTH","rule_value":3}`, plugin.Row{nil, "abcd", "0", nil}, []string{"MAX_LENGTH 3", `"abcd"`}},
		{"s", `{"rule_type":"MAX_LENGTH","rule_value":3}`, plugin.Row{nil, nil, "0", nil}, []string{"MAX_LENGTH 3", "null"}},
		{"s", `{"equals_to":"äbc"}`, plugin.Row{nil, "abc", "0", nil}, []string{"equals_to", `"abc"`}},
		{"b", `{"rule_type":"MIN_LENGTH","rule_value":2}`, plugin.Row{nil, "", "0", []byte{1}}, []string{"MIN_LENGTH 2", `"AQ=="`}},
		{"b", `{"equals_to":"AQI="}`, plugin.Row{nil, "", "0", []byte{1}}, []string{"equals_to"}},
	} {
		t.Run(tc.field+" "+tc.rule, func(t *testing.T) {
			s := build(t, `{"field_rules":[{"field_name":"`+tc.field+`","field_value":[`+tc.rule+`]}]}`)
			if err := s.Bind(schema); err != nil {
				t.Fatal(err)
			}
			if _, err := run(t, s, good); err != nil {
				t.Errorf("a good row is refused: %v", err)
			}
			_, err := run(t, s, good, tc.bad)
			connectortest.WantPermanent(t, err, append(tc.want, "row 2")...)
		})
	}
	s := build(t, `{"field_rules":[{"field_name":"s","field_type":"string","field_value":[{"rule_type":"NULL"}]}]}`)
	_, err := run(t, s, plugin.Row{nil, nil, nil, nil}, good)
	connectortest.WantPermanent(t, err, "row 2", "NULL", `"äbc"`)
}

// A rule means the value that its field has when it is written so, and an error repeats what the config says.
func TestFieldRules_OfTheFieldsType(t *testing.T) {
	for _, tc := range []struct {
		decl  string
		typ   plugin.Type
		value any
		rule  string
		err   string
	}{
		{"double", plugin.Double, 0.1, `"rule_type":"MAX","rule_value":0.1`, ""},
		{"double", plugin.Double, 0.1, `"rule_type":"MIN","rule_value":"0.1"`, ""},
		{"double", plugin.Double, math.Nextafter(0.1, 1), `"rule_type":"MAX","rule_value":0.1`, "MAX 0.1 is violated"},
		{"float", plugin.Float, float64(float32(0.1)), `"rule_type":"MAX","rule_value":0.1`, ""},
		{"float", plugin.Float, float64(float32(0.7)), `"rule_type":"MIN","rule_value":0.7`, ""},
		{"float", plugin.Float, float64(float32(0.7)), `"rule_type":"MIN","rule_value":1e300`, "MIN 1e300 is violated"},
		{"bigint", plugin.BigInt, int64(math.MaxInt64 - 1), `"rule_type":"MIN","rule_value":9223372036854775807`, "MIN 9223372036854775807 is violated"},
		{"decimal(38,18)", plugin.Decimal, "0.100000000000000000", `"rule_type":"MAX","rule_value":0.1`, ""},
		{"decimal(38,18)", plugin.Decimal, "0.100000000000000001", `"rule_type":"MAX","rule_value":0.1`, "MAX 0.1 is violated"},
		{"timestamp", plugin.Timestamp, "2024-01-01 00:00:00.500", `"equals_to":"2024-01-01T00:00:00.5"`, ""},
		{"timestamp", plugin.Timestamp, "2024-01-01T00:00:00.0", `"equals_to":"2024-01-01 00:00:00"`, ""},
		{"time", plugin.Time, "00:00:10", `"equals_to":"00:00:10.000"`, ""},
		{"time", plugin.Time, "00:00:10", `"equals_to":"00:00:01"`, "equals_to"},
		{"string", plugin.String, "1T", `"equals_to":"1 "`, "equals_to"},
	} {
		t.Run(tc.decl+" "+tc.rule, func(t *testing.T) {
			s := build(t, `{"field_rules":[{"field_name":"x","field_value":[{`+tc.rule+`}]}]}`)
			w, err := s.Open(t.Context(), connectortest.Context(0, 1), plugin.Schema{Fields: []plugin.Field{{Name: "x", Type: tc.typ, Decl: tc.decl}}})
			if err != nil {
				t.Fatal(err)
			}
			if err = w.Write(t.Context(), []plugin.Row{{tc.value}}); tc.err != "" {
				connectortest.WantPermanent(t, err, tc.err)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWriter_EndsWithContext(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	w, err := build(t, `{"row_rules":[{"rule_type":"MIN_ROW","rule_value":1}]}`).Open(ctx, connectortest.Context(0, 1), schema)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(ctx, make([]plugin.Row, 1)); !errors.Is(err, stop) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

func TestBind_Errors(t *testing.T) {
	for rule, want := range map[string]string{
		`{"field_name":"x","field_value":[{"rule_type":"NULL"}]}`:                       `option "rules.field_rules[0].field_name" names the field "x"; there are: id, s, d, b`,
		`{"field_name":"id","field_type":"string"}`:                                     `option "rules.field_rules[0].field_type" is string, but field "id" is of type int`,
		`{"field_name":"s","field_value":[{"rule_type":"MIN","rule_value":1}]}`:         `option "rules.field_rules[0].field_value[0].rule_type" is MIN, which does not apply to field "s" of type string`,
		`{"field_name":"id","field_value":[{"rule_type":"MAX_LENGTH","rule_value":1}]}`: `does not apply to field "id"`,
		`{"field_name":"id","field_value":[{"equals_to":"x"}]}`:                         `option "rules.field_rules[0].field_value[0].equals_to" does not fit field "id"`,
	} {
		t.Run(rule, func(t *testing.T) {
			s := build(t, `{"field_rules":[`+rule+`]}`)
			connectortest.WantOptionError(t, s.Bind(schema), want)
			_, err := s.Open(t.Context(), connectortest.Context(0, 1), schema)
			connectortest.WantPermanent(t, err, want)
		})
	}
}

func TestNew_Errors(t *testing.T) {
	for options, want := range map[string]string{
		`{}`:                         `option "rules" is missing`,
		`{"rules":{}}`:               `option "rules" is an empty object`,
		`{"rules":{"row_rules":[]}}`: `option "rules.row_rules" is an empty list`,
		`{"rules":{"row_rules":[{"rule_type":"MIN_ROWS","rule_value":1}]}}`:                                       `option "rules.row_rules[0].rule_type" is "MIN_ROWS"; supported: MAX_ROW, MIN_ROW`,
		`{"rules":{"row_rules":[{"rule_type":"MIN_ROW"}]}}`:                                                       `option "rules.row_rules[0].rule_value" is missing`,
		`{"rules":{"row_rules":[{"rule_type":"MIN_ROW","rule_value":1},{"rule_type":"MIN_ROW","rule_value":2}]}}`: `is MIN_ROW for the second time`,
		`{"rules":{"field_rules":[{"field_name":"a"}]}}`:                                                          `option "rules.field_rules[0].field_value"`,
		`{"rules":{"field_rules":[{"field_name":"a","field_type":"uuid"}]}}`:                                      `option "rules.field_rules[0].field_type" gives field "a" the type "uuid"`,
		`{"rules":{"field_rules":[{"field_name":"a","field_value":[{"rule_type":"MIN"}]}]}}`:                      `option "rules.field_rules[0].field_value[0].rule_value" is missing`,
		`{"rules":{"field_rules":[{"field_name":"a","field_value":[{"rule_type":"MIN","rule_value":"x"}]}]}}`:     `must be a number`,
		`{"rules":{"field_rules":[{"field_name":"a","field_value":[{"rule_type":"NULL","rule_value":1}]}]}}`:      `option "rules.field_rules[0].field_value[0].rule_value" has no effect`,
		`{"rules":{"field_rules":[{"field_name":"a","field_value":[{}]}]}}`:                                       `option "rules.field_rules[0].field_value[0].rule_type" is missing`,
		`{"rules":{"catalog_table_rule":{}}}`:                                                                     `option "rules.catalog_table_rule" is not supported`,
		`{"rules":{"row_rule":[]}}`:                                                                               `option "rules.row_rules" and "field_rules" are both missing`,
	} {
		t.Run(options, func(t *testing.T) {
			_, err := New(connectortest.Options(t, options))
			connectortest.WantOptionError(t, err, want)
		})
	}
}
