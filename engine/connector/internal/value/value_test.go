package value

import (
	"strings"
	"testing"

	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"

	"github.com/google/go-cmp/cmp"
)

func field(t *testing.T, decl string) plugin.Field {
	t.Helper()
	f, err := ParseField("x", decl)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFromText(t *testing.T) {
	for _, tc := range []struct {
		decl, in string
		want     any
		err      string
	}{
		{decl: "string", in: "007", want: "007"},
		{decl: "STRING", in: "", want: ""},
		{decl: "int", in: "-2147483648", want: int64(-2147483648)},
		{decl: "int", in: "2147483648", err: `"2147483648" is out of the range of int`},
		{decl: "bigint", in: "9223372036854775808", err: "out of the range of bigint"},
		{decl: "tinyint", in: "128", err: "out of the range of tinyint"},
		{decl: "smallint", in: "-32769", err: "out of the range of smallint"},
		{decl: "int", in: "", err: `"" is not a value of type int`},
		{decl: "int", in: "1.0", err: "not a value of type int"},
		{decl: "int", in: "0x1", err: "not a value of type int"},
		{decl: "boolean", in: "True", want: true},
		{decl: "boolean", in: "1", err: "not a value of type boolean"},
		{decl: "double", in: "-1.5e3", want: -1500.0},
		{decl: "double", in: "NaN", err: "not a value of type double"},
		{decl: "double", in: "0x1p4", err: "not a value of type double"},
		{decl: "float", in: "1e39", err: "out of the range of float"},
		{decl: "decimal(10,2)", in: "70.00", want: "70.00"},
		{decl: "decimal(10,2)", in: "-0.50", want: "-0.50"},
		{decl: "decimal(10,2)", in: "+007.5", want: "7.5"},
		{decl: "decimal(10,2)", in: "7E+1", want: "70"},
		{decl: "decimal(10,2)", in: "125e-2", want: "1.25"},
		{decl: "decimal(10,2)", in: "5e-3", err: `"5e-3" does not fit decimal(10,2)`},
		{decl: "decimal(10,2)", in: "1.005", err: "does not fit decimal(10,2)"},
		{decl: "decimal(10,2)", in: "1.5000", want: "1.5000"},
		{decl: "decimal(4,2)", in: "100", err: "does not fit"},
		{decl: "decimal(38,18)", in: "0.000000000000000001", want: "0.000000000000000001"},
		{decl: "decimal", in: ".5", want: "0.5"},
		{decl: "decimal", in: "1e999999999", err: "not a value"},
		{decl: "decimal", in: "-", err: "not a value"},
		{decl: "bytes", in: "AQI=", want: []byte{1, 2}},
		{decl: "bytes", in: "?", err: "is not base64"},
		{decl: "date", in: "2024-02-29", want: "2024-02-29"},
		{decl: "date", in: "2024-02-30", err: `"2024-02-30" is not a date of the form yyyy-MM-dd`},
		{decl: "date", in: "2024-2-3", err: "not a date"},
		{decl: "time", in: "09:08:07", want: "09:08:07"},
		{decl: "timestamp", in: "2024-07-15 09:08:07.125", want: "2024-07-15 09:08:07.125"},
		{decl: "timestamp", in: "2024-07-15T09:08:07", want: "2024-07-15T09:08:07"},
		{decl: "timestamp", in: "2024-07-15", err: "not a timestamp"},
	} {
		t.Run(tc.decl+" "+tc.in, func(t *testing.T) {
			got, err := NewConverter(field(t, tc.decl), Formats{}).FromText(tc.in)
			compare(t, got, err, tc.want, tc.err)
		})
	}
}

func compare(t *testing.T, got any, err error, want any, wantErr string) {
	t.Helper()
	if wantErr != "" {
		if err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Fatalf("got %v, %v, want an error with %q", got, err, wantErr)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestFromJSON(t *testing.T) {
	for _, tc := range []struct {
		decl, in string
		want     any
		err      string
	}{
		{decl: "bigint", in: "null", want: nil},
		{decl: "bigint", in: "9007199254740993", want: int64(9007199254740993)},
		{decl: "bigint", in: "9223372036854775808", err: "out of the range"},
		{decl: "bigint", in: "10.0", want: int64(10)},
		{decl: "bigint", in: "9007199254740993.0", want: int64(9007199254740993)},
		{decl: "bigint", in: "9.223372036854775807e18", want: int64(9223372036854775807)},
		{decl: "bigint", in: "9223372036854775808.0", err: "out of the range of bigint"},
		{decl: "bigint", in: "1.00000000000000000001", err: "not a value of type bigint"},
		{decl: "bigint", in: "0.99999999999999999999", err: "not a value of type bigint"},
		{decl: "int", in: "2e9", want: int64(2000000000)},
		{decl: "int", in: "3e9", err: "out of the range of int"},
		{decl: "tinyint", in: "1e-999999999999", err: "not a value"},
		{decl: "bigint", in: "10.5", err: "not a value of type bigint"},
		{decl: "bigint", in: `"12"`, want: int64(12)},
		{decl: "bigint", in: "true", err: "not a value"},
		{decl: "string", in: "1.50", want: "1.50"},
		{decl: "string", in: "false", want: "false"},
		{decl: "string", in: `{ "a" : [1, 2] }`, want: `{"a":[1,2]}`},
		{decl: "string", in: `"a\u00e4"`, want: "aä"},
		{decl: "decimal(10,2)", in: "70.00", want: "70.00"},
		{decl: "double", in: "true", err: "not a value"},
		{decl: "boolean", in: "1", err: "not a value"},
		{decl: "date", in: "20240101", err: "not a value of type date"},
		{decl: "int", in: "[1]", err: "not a value"},
	} {
		t.Run(tc.decl+" "+tc.in, func(t *testing.T) {
			got, err := NewConverter(field(t, tc.decl), Formats{}).FromJSON([]byte(tc.in))
			compare(t, got, err, tc.want, tc.err)
		})
	}
}

// formats reads the options of formats from key, pattern, key, pattern, ...
func formats(t *testing.T, options ...string) Formats {
	t.Helper()
	values := map[string]any{}
	for i := 0; i < len(options); i += 2 {
		values[options[i]] = options[i+1]
	}
	r := option.New(plugin.Options{Where: "x", Values: values})
	f := ReadFormats(r)
	if err := r.Done(); err != nil {
		t.Fatal(err)
	}
	return f
}

// Rows hold the default forms, whatever the form in the file is, and what was read in a form is the same text again when it is written in it.
func TestFormats(t *testing.T) {
	for _, tc := range []struct {
		key, pattern      string
		typ               plugin.Type
		text, inRows, bad string
		written           string // if it is not the text again
	}{
		{"datetime_format", "yyyy-MM-dd HH:mm:ss.SSS", plugin.Timestamp, "2024-07-15 09:08:07.120", "2024-07-15 09:08:07.120", "2024-07-15 09:08:07", ""},
		{"datetime_format", "yyyy/MM/dd HH:mm", plugin.Timestamp, "2001/02/14 15:12", "2001-02-14 15:12:00", "2001/2/14 15:12", ""},
		{"datetime_format", "yyyy-MM-dd'T'HH:mm:ss", plugin.Timestamp, "2024-07-15T09:08:07", "2024-07-15 09:08:07", "2024-07-15 09:08:07", ""},
		{"datetime_format", "M/d/yyyy H:mm", plugin.Timestamp, "7/5/2024 9:08", "2024-07-05 09:08:00", "7/5/2024 9:8", ""},
		{"datetime_format", "M/d/yyyy H:mm", plugin.Timestamp, "12/25/2024 13:08", "2024-12-25 13:08:00", "13/5/2024 9:08", ""},
		{"datetime_format", "M/d/yyyy H:mm:ss", plugin.Timestamp, "7/5/2024 09:08:07", "2024-07-05 09:08:07", "7/5/2024 9:08:07.5", "7/5/2024 9:08:07"},
		{"datetime_format", "hh:mm a, dd.MM.yy", plugin.Timestamp, "12:08 AM, 15.07.24", "2024-07-15 00:08:00", "13:08 PM, 15.07.24", ""},
		{"datetime_format", "yyyyMMddHHmmss", plugin.Timestamp, "20240715090807", "2024-07-15 09:08:07", "2024071509080", ""},
		{"datetime_format", "yyyy年MM月dd日 HH:mm", plugin.Timestamp, "2024年07月15日 09:08", "2024-07-15 09:08:00", "2024年7月15日 09:08", ""},
		{"date_format", "dd/MM/yyyy", plugin.Date, "15/07/2024", "2024-07-15", "30/02/2024", ""},
		{"date_format", "MMM dd yyyy", plugin.Date, "Jun 12 1998", "1998-06-12", "June 12 1998", ""},
		{"date_format", "yyyy-DDD", plugin.Date, "2024-060", "2024-02-29", "2024-367", ""},
		{"time_format", "HHmmss", plugin.Time, "090807", "09:08:07", "9:8:7", ""},
		{"time_format", "HH:mm:ss.SSSSSS", plugin.Time, "09:08:07.000120", "09:08:07.000120", "09:08:07.12", ""},
		// What these say is less or more than a value of the type: it stays as it is.
		{"datetime_format", "yyyy-MM-dd'T'HH:mm:ssXXX", plugin.Timestamp, "2024-07-15T09:08:07+02:00", "2024-07-15T09:08:07+02:00", "2024-07-15 09:08:07+02:00", ""},
		{"datetime_format", "yyyy-MM-dd", plugin.Timestamp, "2024-07-15", "2024-07-15", "2024-07-15 09:08:07", ""},
		{"date_format", "MM-dd", plugin.Date, "07-15", "07-15", "7-15", ""},
		{"date_format", "yyyy-MM-dd HH:mm", plugin.Date, "2024-07-15 09:08", "2024-07-15 09:08", "2024-07-15", ""},
		{"time_format", "hh:mm", plugin.Time, "09:08", "09:08", "13:08", ""},
	} {
		t.Run(tc.pattern, func(t *testing.T) {
			f := formats(t, tc.key, tc.pattern)
			got, err := f.Read(tc.typ, tc.text)
			compare(t, got, err, tc.inRows, "")
			want := tc.text
			if tc.written != "" {
				want = tc.written
			}
			got, err = f.Write(tc.typ, tc.inRows)
			compare(t, got, err, want, "")
			if _, err := f.Read(tc.typ, tc.bad); err == nil || !strings.Contains(err.Error(), tc.pattern) {
				t.Errorf("%s: got %v, want an error that names the pattern", tc.bad, err)
			}
		})
	}
}

// Other types and other formats' types are not touched, and what no row should hold is not written.
func TestFormats_Write(t *testing.T) {
	f := formats(t, "date_format", "dd/MM/yyyy", "datetime_format", "yyyyMMddHHmmss")
	for _, tc := range []struct {
		typ           plugin.Type
		in, want, err string
	}{
		{plugin.Date, "2024-07-15", "15/07/2024", ""},
		{plugin.Date, "15/07/2024", "", "dd/MM/yyyy"},
		{plugin.Timestamp, "2024-07-15T09:08:07.5", "20240715090807", ""},
		{plugin.Time, "09:08:07", "09:08:07", ""},
		{plugin.String, "2024-07-15", "2024-07-15", ""},
	} {
		got, err := f.Write(tc.typ, tc.in)
		compare(t, got, err, tc.want, tc.err)
	}
}

func TestFormats_Refused(t *testing.T) {
	for _, pattern := range []string{"yyyy-QQ", "'open", "yyyySSS", "2006", "'Jan'"} {
		if _, err := newLayout(pattern); err == nil {
			t.Errorf("%s is accepted", pattern)
		}
	}
}

func TestAppend(t *testing.T) {
	for _, tc := range []struct {
		typ        plugin.Type
		v          any
		text, json string
	}{
		{plugin.BigInt, int64(-9223372036854775808), "-9223372036854775808", "-9223372036854775808"},
		{plugin.Double, 40.922326, "40.922326", "40.922326"},
		{plugin.Double, 1e21, "1e+21", "1e+21"},
		{plugin.Float, float64(float32(0.1)), "0.1", "0.1"},
		{plugin.Decimal, "70.00", "70.00", "70.00"},
		{plugin.String, "a\"\\\n\t\x01<ä", "a\"\\\n\t\x01<ä", `"a\"\\\n\t\u0001<ä"`},
		{plugin.Bytes, []byte{1, 2}, "AQI=", `"AQI="`},
		{plugin.Boolean, true, "true", "true"},
		{plugin.Date, "2024-01-02", "2024-01-02", `"2024-01-02"`},
	} {
		if got := string(AppendText(nil, tc.typ, tc.v)); got != tc.text {
			t.Errorf("text: got %s, want %s", got, tc.text)
		}
		if got := string(AppendJSON(nil, tc.typ, tc.v)); got != tc.json {
			t.Errorf("JSON: got %s, want %s", got, tc.json)
		}
	}
	if got := string(AppendJSON(nil, plugin.Int, nil)); got != "null" {
		t.Error(got)
	}
}

func TestReadSchema(t *testing.T) {
	for _, tc := range []struct{ name, in, err string }{
		{"fields", `{"schema":{"table":"t","fields":{"b":"int","a":"decimal(10, 2)"}}}`, ""},
		{"columns", `{"schema":{"table":"t","columns":[{"name":"b","type":"int","nullable":true,"comment":"c"},{"name":"a","type":"decimal(10, 2)"}],"primaryKey":{"name":"pk","columnNames":["b"]}}}`, ""},
		{"type", `{"schema":{"fields":{"a":"uuid"}}}`, `option "schema.fields" gives field "a" the type "uuid"; supported: boolean,`},
		{"nested", `{"schema":{"fields":{"a":{"b":"int"}}}}`, "nested rows are not supported"},
		{"digits", `{"schema":{"fields":{"a":"decimal(39,2)"}}}`, "a decimal has 1 to 38 digits"},
		{"no fields", `{"schema":{"table":"t"}}`, `option "schema.fields" is missing`},
		{"no object", `{"schema":"id"}`, `option "schema" must be an object`},
		{"both", `{"schema":{"fields":{"a":"int"},"columns":[{"name":"a","type":"int"}]}}`, `option "schema.columns" and "fields" are both given`},
		{"twice", `{"schema":{"columns":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}}`, `has the field "a" twice`},
		{"column default", `{"schema":{"columns":[{"name":"a","type":"int","defaultValue":1}]}}`, `option "schema.columns[0].defaultValue" is not supported`},
		{"key", `{"schema":{"fields":{"a":"int"},"primaryKey":{"columnNames":["z"]}}}`, `option "schema.primaryKey.columnNames" names the field "z"`},
		{"unknown", `{"schema":{"fields":{"a":"int"},"tabel":"x"}}`, `option "schema.tabel" is unknown; did you mean "table"?`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := plugin.DecodeJSON([]byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			schema, _ := v.(plugin.Object).Get("schema")
			r := option.New(plugin.Options{Where: "x", Values: map[string]any{"schema": schema}})
			s, _ := ReadSchema(r)
			want := plugin.Schema{Table: "t", Fields: []plugin.Field{{Name: "b", Type: plugin.Int, Decl: "int"}, {Name: "a", Type: plugin.Decimal, Decl: "decimal(10, 2)"}}}
			compare(t, s, r.Done(), want, tc.err)
		})
	}
}
