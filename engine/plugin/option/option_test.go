package option

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"gridnode/engine/plugin"

	"github.com/google/go-cmp/cmp"
)

func reader(t *testing.T, text string) *Reader {
	t.Helper()
	v, err := plugin.DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	for _, m := range v.(plugin.Object) {
		values[m.Key] = m.Value
	}
	return New(plugin.Options{Where: "sink[0] (X)", Values: values})
}

func TestInt(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want int64
		err  string
	}{
		{in: `10`, want: 10},
		{in: `"10"`, want: 10},
		{in: `"10 "`, want: 10},
		{in: `10.0`, want: 10},
		{in: `1e1`, want: 10},
		{in: `null`, want: 7},
		{in: `10.5`, err: `sink[0] (X): option "n" must be a whole number of 64 bits, not 10.5`},
		{in: `"ten"`, err: `option "n" must be a whole number, not "ten"`},
		{in: `"0x10"`, err: "must be a whole number"},
		{in: `true`, err: "must be a whole number, not true"},
		{in: `[1]`, err: "must be a whole number, not [1]"},
		{in: `1e400`, err: "must be a whole number"},
		{in: `9223372036854775808`, err: "64 bits"},
		{in: `-1`, err: "is -1; it must be from 0 to 100"},
		{in: `101`, err: "is 101; it must be from 0 to 100"},
	} {
		t.Run(tc.in, func(t *testing.T) {
			r := reader(t, `{"n":`+tc.in+`}`)
			got := r.Int("n", 7, 0, 100)
			checkError(t, r.Done(), tc.err)
			if tc.err == "" && got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// Whatever way a whole number is written, it is that number or refused, and never the one next to it that a double can hold.
func TestInt_NothingIsRounded(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want int64
		err  string
	}{
		{in: `9007199254740993.0`, want: 9007199254740993},
		{in: `"9007199254740993.000"`, want: 9007199254740993},
		{in: `9.007199254740993e15`, want: 9007199254740993},
		{in: `9223372036854775807.0`, want: math.MaxInt64},
		{in: `-922337203685477580.8e1`, want: math.MinInt64},
		{in: `0.0000e-5`, want: 0},
		{in: `-0.0`, want: 0},
		{in: `120e-1`, want: 12},
		{in: `0.0001e4`, want: 1},
		{in: `1.00000000000000000001`, err: "must be a whole number of 64 bits, not 1.00000000000000000001"},
		{in: `0.99999999999999999999`, err: "must be a whole number"},
		{in: `125e-1`, err: "must be a whole number"},
		{in: `1e-999999999999`, err: "must be a whole number"},
		{in: `9223372036854775808.0`, err: "must be a whole number of 64 bits"},
		{in: `1e999999999`, err: "must be a whole number of 64 bits"},
	} {
		t.Run(tc.in, func(t *testing.T) {
			r := reader(t, `{"n":`+tc.in+`}`)
			got := r.Int("n", 7, math.MinInt64, math.MaxInt64)
			checkError(t, r.Done(), tc.err)
			if tc.err == "" && got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if _, ok := errors.AsType[*plugin.OptionError](err); !ok || !strings.Contains(err.Error(), want) {
		t.Fatalf("got error %v, want one with %q", err, want)
	}
}

func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		read     func(*Reader)
		err      string
	}{
		{"unknown with a near name", `{"row.nmu":1}`, func(r *Reader) { r.Int("row.num", 5, 0, 9) }, `option "row.nmu" is unknown; did you mean "row.num"?`},
		{"unknown with no near name", `{"zebra":1}`, func(r *Reader) { r.Int("row.num", 5, 0, 9) }, `option "zebra" is unknown`},
		{"unknown explains missing", `{"pth":"/x"}`, func(r *Reader) { r.Required("path") }, `option "pth" is unknown; did you mean "path"?`},
		{"missing", `{}`, func(r *Reader) { r.Required("path") }, `option "path" is missing`},
		{"null is missing", `{"path":null}`, func(r *Reader) { r.Required("path") }, `option "path" is missing`},
		{"blank", `{"path":"  "}`, func(r *Reader) { r.Required("path") }, `option "path" is blank`},
		{"not a text", `{"path":{}}`, func(r *Reader) { r.Required("path") }, `option "path" must be a text, not {}`},
		{"bool", `{"b":"yes"}`, func(r *Reader) { r.Bool("b", true) }, `option "b" must be true or false, not "yes"`},
		{"choice", `{"c":"lzo"}`, func(r *Reader) { r.Choice("c", "none", "none") }, `option "c" is "lzo"; supported: none`},
		{"refused", `{"x":[1]}`, func(r *Reader) { r.Refuse("x") }, `option "x" is not supported (its value is [1])`},
		{"list", `{"l":"a,b"}`, func(r *Reader) { r.Strings("l") }, `option "l" must be a list, not "a,b"`},
		{"empty list", `{"l":[]}`, func(r *Reader) { r.Strings("l") }, `option "l" is an empty list`},
		{"object", `{"o":[]}`, func(r *Reader) { r.Object("o") }, `option "o" must be an object, not []`},
		{"pairs", `{"o":{"a":{}}}`, func(r *Reader) { r.Pairs("o") }, `option "o" needs a text for "a", not {}`},
		{"nested", `{"o":[{"k":1}]}`, func(r *Reader) { r.Objects("o") }, `option "o[0].k" is unknown`},
		{"alias disagrees", `{"new":1,"old":2}`, func(r *Reader) { r.Alias("new", "old"); r.Int("new", 0, 0, 9) }, `option "old" says something else`},
		{"alias names what was written", `{"old":"x"}`, func(r *Reader) { r.Alias("new", "old"); r.Int("new", 0, 0, 9) }, `option "old" must be a whole number`},
		{"float", `{"f":"NaN"}`, func(r *Reader) { r.Float("f", 0, 0, 1) }, `option "f" must be a number, not "NaN"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := reader(t, tc.in)
			tc.read(r)
			checkError(t, r.Done(), tc.err)
		})
	}
}

func TestValues(t *testing.T) {
	r := reader(t, `{"s":"x","n":1.50,"b":"TRUE","l":["a",2],"o":{"z":"1","a":"2"},"old":"v","e":""}`)
	r.Alias("new", "old")
	got := []any{r.Required("s"), r.Text("n", ""), r.Bool("b", false), r.Strings("l"), r.Pairs("o"), r.String("new", ""), r.Text("e", "d"), r.Text("none", "d")}
	want := []any{"x", "1.50", true, []string{"a", "2"}, []Pair{{"z", "1"}, {"a", "2"}}, "v", "", "d"}
	if err := r.Done(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestShow(t *testing.T) {
	if got := show(strings.Repeat("ä", 500)); len([]rune(got)) != 83 {
		t.Errorf("%d characters", len([]rune(got)))
	}
	if got := show(plugin.Object{{Key: "a&b", Value: []any{"<ü>"}}}); got != `{"a&b":["<ü>"]}` {
		t.Error(got)
	}
	if got := show(json.Number("1")); got != "1" {
		t.Error(got)
	}
}
