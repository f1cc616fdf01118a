package fake

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine/connector/internal/connectortest"
	"gridnode/engine/plugin"

	"github.com/google/go-cmp/cmp"
)

func build(t *testing.T, options string) plugin.Source {
	t.Helper()
	s, err := New(connectortest.Options(t, options))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRowNum_CountsPerSubtask(t *testing.T) {
	for _, tc := range []struct {
		options     string
		parallelism int
		want        int
	}{
		{`"row.num":10`, 1, 10},
		{`"row.num":10`, 3, 30},
		{`"row.num":10,"split.num":4`, 3, 30},
		{`"row.num":"10","split.num":4`, 1, 10},
		{`"row.num":0`, 2, 0},
		{`"row.num":7,"split.num":3`, 1, 7},
		{`"row.num":3,"split.num":10`, 1, 3},
		{`"string.length":2`, 2, 10},
	} {
		t.Run(tc.options, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := build(t, `{"schema":{"fields":{"id":"bigint","s":"string"}},`+tc.options+`}`)
				total := 0
				for i := range tc.parallelism {
					first := connectortest.MustReadAll(t, s, connectortest.Context(i, tc.parallelism))
					if d := cmp.Diff(first, connectortest.MustReadAll(t, s, connectortest.Context(i, tc.parallelism))); d != "" {
						t.Errorf("a restart gives other rows: %s", d)
					}
					total += len(first)
				}
				if total != tc.want {
					t.Errorf("got %d rows, want %d", total, tc.want)
				}
			})
		})
	}
}

func TestSequence_EachIDOnce(t *testing.T) {
	s := build(t, `{"mode":"sequence","row.num":25,"schema":{"fields":{"s":"string","id":"int","n":"bigint"}}}`)
	alone := build(t, `{"mode":"sequence","row.num":100,"schema":{"fields":{"s":"string","id":"int","n":"bigint"}}}`)
	var rows []plugin.Row
	for i := range 4 {
		rows = append(rows, connectortest.MustReadAll(t, s, connectortest.Context(i, 4))...)
	}
	for i, r := range rows {
		if r[1] != int64(i+1) {
			t.Fatalf("row %d has the id %v", i, r[1])
		}
	}
	if d := cmp.Diff(connectortest.MustReadAll(t, alone, connectortest.Context(0, 1)), rows); d != "" {
		t.Errorf("the other fields depend on more than the id: %s", d)
	}
}

func TestSequence_Overflow(t *testing.T) {
	s := build(t, `{"mode":"sequence","row.num":100,"schema":{"fields":{"id":"tinyint"}}}`)
	if got := len(connectortest.MustReadAll(t, s, connectortest.Context(0, 2))); got != 100 {
		t.Errorf("got %d rows", got)
	}
	_, err := s.Open(t.Context(), connectortest.Context(1, 2))
	connectortest.WantPermanent(t, err, "row.num", `"id"`, "tinyint")
}

// Whatever the bounds, no number is beyond them, and between equal ones there is no other.
func TestFloatRanges_HoldTheirBounds(t *testing.T) {
	for _, tc := range []struct{ low, high string }{{"123.456", "123.456"}, {"-123.456", "-123.456"}, {"0", "1e-300"}, {"123.456", "123.45600000000002"}} {
		low, _ := strconv.ParseFloat(tc.low, 64)
		high, _ := strconv.ParseFloat(tc.high, 64)
		s := build(t, `{"row.num":2000,"double.min":`+tc.low+`,"double.max":`+tc.high+`,"schema":{"fields":{"d":"double"}}}`)
		for _, row := range connectortest.MustReadAll(t, s, connectortest.Context(0, 1)) {
			if d := row[0].(float64); d < low || d > high {
				t.Fatalf("%v is not from %s to %s", d, tc.low, tc.high)
			}
		}
	}
}

// C201: every value of a template comes, and a range of one value has that alone.
func TestTemplatesAndRanges(t *testing.T) {
	s := build(t, `{"row.num":3000,"string.template":["a","b","c"],"int.template":[20,"21"],"bigint.min":5,"bigint.max":5,
		"smallint.min":-2,"smallint.max":2,"double.min":-1,"double.max":1,"bytes.length":3,
		"schema":{"fields":{"s":"string","i":"int","b":"bigint","m":"smallint","d":"double","x":"bytes","p":"decimal(4,2)"}}}`)
	seen := map[any]int{}
	for _, r := range connectortest.MustReadAll(t, s, connectortest.Context(0, 1)) {
		seen[r[0]]++
		seen[r[1]]++
		seen[r[3]]++
		if r[2] != int64(5) || len(r[5].([]byte)) != 3 || len(r[6].(string)) < 4 || len(r[6].(string)) > 5 {
			t.Fatalf("row %v", r)
		}
		if d := r[4].(float64); d < -1 || d > 1 {
			t.Fatalf("double %v", d)
		}
	}
	if len(seen) != 3+2+5 {
		t.Errorf("values seen: %v", seen)
	}
	for v, n := range seen {
		if n < 3000/6 {
			t.Errorf("%v came only %d times", v, n)
		}
	}
}

func TestRows_AreSharedOut(t *testing.T) {
	s := build(t, `{"schema":{"fields":{"id":"int","name":"string"}},"rows":[{"kind":"INSERT","fields":[1,"a"]},{"fields":[2,null]},{"fields":["3",""]}]}`)
	var got []plugin.Row
	for i := range 2 {
		got = append(got, connectortest.MustReadAll(t, s, connectortest.Context(i, 2))...)
	}
	want := []plugin.Row{{int64(1), "a"}, {int64(3), ""}, {int64(2), nil}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAllTypes_HaveValues(t *testing.T) {
	s := build(t, `{"row.num":50,"schema":{"fields":{"a":"boolean","b":"tinyint","c":"float","d":"decimal","e":"decimal(38,0)","f":"date","g":"time","h":"timestamp","i":"bigint"}}}`)
	for _, r := range connectortest.MustReadAll(t, s, connectortest.Context(0, 1)) {
		if slices.Contains(r, nil) {
			t.Fatalf("row %v", r)
		}
	}
}

func TestSplits_WaitBetweenAndEndWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := build(t, `{"schema":{"fields":{"id":"int"}},"row.num":6,"split.num":3,"split.read-interval":1000}`)
		start := time.Now()
		connectortest.MustReadAll(t, s, connectortest.Context(0, 1))
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("took %v, want 2s", got)
		}
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		r, err := s.Open(ctx, connectortest.Context(0, 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(ctx, 10); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Millisecond, func() { cancel(stop) })
		if _, err := r.Read(ctx, 10); !errors.Is(err, stop) {
			t.Errorf("got %v, want the context's cause", err)
		}
		if _, err := r.Read(ctx, 10); !errors.Is(err, stop) {
			t.Errorf("got %v, want the context's cause", err)
		}
	})
}

func TestRead_BoundsTheBytesOfABatch(t *testing.T) {
	s := build(t, `{"schema":{"fields":{"s":"string"}},"row.num":100,"string.length":1048576}`)
	r, err := s.Open(t.Context(), connectortest.Context(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Read(t.Context(), 100)
	if err != nil || len(rows) != 4 {
		t.Errorf("got %d rows, %v", len(rows), err)
	}
}

func TestNew_Errors(t *testing.T) {
	const schema = `"schema":{"fields":{"id":"int","s":"string"}}`
	for _, tc := range []struct{ options, want string }{
		{`{}`, `option "schema" is missing`},
		{`{"row.num":3}`, `option "schema" is missing`},
		{`{` + schema + `,"row.num":-1}`, `option "row.num" is -1`},
		{`{` + schema + `,"row.num":10.5}`, `option "row.num" must be a whole number`},
		{`{` + schema + `,"row.number":3}`, `option "row.number" is unknown; did you mean "row.num"?`},
		{`{` + schema + `,"split.num":0}`, `option "split.num" is 0`},
		{`{` + schema + `,"mode":"series"}`, `option "mode" is "series"; supported: random, sequence`},
		{`{"schema":{"fields":{"s":"string"}},"mode":"sequence"}`, `option "mode" is "sequence", but the schema has no field of an integer type`},
		{`{"schema":{"fields":{"s":"tinyint"}},"mode":"sequence","row.num":128}`, `option "row.num" is 128`},
		{`{` + schema + `,"mode":"sequence","rows":[{"fields":[1,"a"]}]}`, `option "mode"`},
		{`{` + schema + `,"rows":[{"fields":[1]}]}`, `option "rows[0].fields" has 1 values; the schema has 2 fields`},
		{`{` + schema + `,"rows":[{"fields":["x","a"]}]}`, `option "rows[0].fields" has a wrong value for field "id": "x"`},
		{`{` + schema + `,"rows":[{"kind":"DELETE","fields":[1,"a"]}]}`, `option "rows[0].kind" is "DELETE"; supported: INSERT`},
		{`{` + schema + `,"rows":[{"fields":[1,"a"]}],"row.num":2}`, `option "row.num" has no effect`},
		{`{` + schema + `,"rows":[]}`, `option "rows" is an empty list`},
		{`{` + schema + `,"int.min":5,"int.max":4}`, `option "int.min" is 5, more than "int.max"`},
		{`{` + schema + `,"tinyint.max":128}`, `option "tinyint.max" is 128`},
		{`{` + schema + `,"int.template":[1,"x"]}`, `option "int.template" has a wrong value at position 1`},
		{`{` + schema + `,"int.template":[1],"int.max":4}`, `option "int.max" has no effect`},
		{`{` + schema + `,"string.fake.mode":"template"}`, `option "string.template" is missing`},
		{`{` + schema + `,"string.fake.mode":"range","string.template":["a"]}`, `option "string.template" has no effect`},
		{`{` + schema + `,"tables_configs":[]}`, `option "tables_configs" is not supported`},
		{`{` + schema + `,"vector.dimension":4}`, `option "vector.dimension" is not supported`},
	} {
		t.Run(tc.options, func(t *testing.T) {
			_, err := New(connectortest.Options(t, tc.options))
			connectortest.WantOptionError(t, err, tc.want)
		})
	}
}
