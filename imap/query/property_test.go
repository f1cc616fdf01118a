package query

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

var attributes = []string{"a", "b", "o.x", "l[any]", "l[0]", "this", "__key"}

func drawValue() *rapid.Generator[Value] {
	return rapid.OneOf(
		rapid.Just(Value{}), rapid.Map(rapid.Bool(), BoolOf), rapid.Map(rapid.Int64Range(-4, 4), IntOf),
		rapid.Map(rapid.SampledFrom([]float64{-4, -0.5, 0, 0.5, 1, 2, 1e30}), DoubleOf),
		rapid.Map(rapid.SampledFrom([]uint64{1 << 63, 1<<64 - 1}), UintOf),
		rapid.Map(rapid.StringMatching(`[ab%_\\']{0,3}|é|x.y`), TextOf),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 2), BinaryOf),
		drawTyped(),
	)
}

var typedTexts = []string{
	"DECIMAL '1'", "DECIMAL '1.00'", "DECIMAL '0.5'", "DECIMAL '0.50'", "DECIMAL '0.1'", "DECIMAL '-4'", "DECIMAL '1E30'", "DECIMAL '0'",
	"DECIMAL '18446744073709551615'", "DECIMAL '18446744073709551616.000'", "DECIMAL '0.1000000000000000055511151231257827'", "DECIMAL '-1E-30'",
	"DATE '2024-02-29'", "DATE '-0001-01-01'", "DATE '+123456-12-31'", "TIME '23:59:59.000000001'", "TIME '00:00:00'",
	"TIMESTAMP '2024-02-29T12:00:00'", "TIMESTAMP '2024-02-29T12:00:00+01:00'", "TIMESTAMP '2024-02-29T11:00:00Z'",
	"TIMESTAMP '2024-02-29T12:00:00.5-02:30'", "INSTANT '2024-02-29T12:00:00.123Z'", "UUID '123e4567-e89b-12d3-a456-426614174000'",
}

func drawTyped() *rapid.Generator[Value] {
	return rapid.Custom(func(t *rapid.T) Value {
		if rapid.IntRange(0, 4).Draw(t, "random") == 0 {
			return DecimalOf(big.NewInt(rapid.Int64().Draw(t, "unscaled")), rapid.Int32Range(-25, 25).Draw(t, "scale"))
		}
		return literalOf(t, rapid.SampledFrom(typedTexts).Draw(t, "typed"))
	})
}

func literalOf(t rapid.TB, text string) Value {
	t.Helper()
	p, err := Parse("a = " + text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p.Values[0]
}

func typedData(v Value) []byte {
	typ, payload, _ := v.Serialized()
	return append(binary.BigEndian.AppendUint32(nil, uint32(typ)), payload...)
}

// TestProperty_ValuesAreInOneOrder: whatever they are; and what is the same in it is the same in an index and in a set.
func TestProperty_ValuesAreInOneOrder(t *testing.T) {
	value := rapid.OneOf(drawValue(), drawTyped(), rapid.Map(rapid.Float64(), DoubleOf), rapid.Map(rapid.Int64(), IntOf))
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(value, 3, 6).Draw(t, "values")
		for _, a := range list {
			for _, b := range list {
				ab := Compare(a, b)
				if ab != -Compare(b, a) || a.kind != Composite && (ab == 0) != (a.norm() == b.norm()) {
					t.Fatalf("%v and %v: %d, the other way round %d, norms %v and %v", a, b, ab, Compare(b, a), a.norm(), b.norm())
				}
				for _, c := range list {
					if ab <= 0 && Compare(b, c) <= 0 && Compare(a, c) > 0 {
						t.Fatalf("%v <= %v <= %v, but the first is greater than the last", a, b, c)
					}
				}
			}
		}
	})
}

// TestProperty_TypedValues_GoThroughTheirForms: as a text, on the wire, and as their serializers write them.
func TestProperty_TypedValues_GoThroughTheirForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawTyped().Draw(t, "v")
		typ, payload, ok := v.Serialized()
		back, rest, read := TypedOf(typ, payload)
		if !ok || !read || len(rest) > 0 || back != v {
			t.Fatalf("%v became %v by its serializer", v, back)
		}
		if got := literalOf(t, v.String()); Compare(got, v) != 0 {
			t.Fatalf("%v became %v as a text", v, got)
		}
		if list, err := DecodeValues(AppendValues(nil, []Value{v})); err != nil || list[0] != v {
			t.Fatalf("%v became %v on the wire: %v", v, list, err)
		}
		if text, err := json.Marshal(v); err != nil || !json.Valid(text) {
			t.Fatalf("%v as JSON: %s, %v", v, text, err)
		}
		if got := decode(typedData(v)); got != v {
			t.Fatalf("%v as an entry is %v", v, got)
		}
	})
}

func drawPredicate(depth int) *rapid.Generator[Predicate] {
	return rapid.Custom(func(t *rapid.T) Predicate {
		attr := rapid.SampledFrom(attributes).Draw(t, "attribute")
		v := drawValue().Draw(t, "value")
		pattern := rapid.StringMatching(`[ab%_é]{0,3}`).Draw(t, "pattern")
		op := rapid.SampledFrom([]Op{
			OpEqual, OpNotEqual, OpLess, OpLessEqual, OpGreater, OpGreaterEqual, OpBetween, OpIn, OpLike, OpILike, OpRegex, OpIsNull, OpTrue, OpFalse,
			OpAnd, OpAnd, OpOr, OpOr, OpNot,
		}).Draw(t, "op")
		if depth == 0 && (op == OpAnd || op == OpOr || op == OpNot) {
			op = OpEqual
		}
		switch op {
		case OpTrue, OpFalse:
			return Predicate{Op: op}
		case OpAnd, OpOr:
			return Predicate{Op: op, Args: rapid.SliceOfN(drawPredicate(depth-1), 0, 3).Draw(t, "args")}
		case OpNot:
			return Not(drawPredicate(depth-1).Draw(t, "arg"))
		case OpBetween:
			return Between(attr, v, drawValue().Draw(t, "to"))
		case OpIn:
			return In(attr, rapid.SliceOfN(drawValue(), 0, 3).Draw(t, "in")...)
		case OpLike, OpILike, OpRegex:
			return Predicate{Op: op, Attribute: attr, Pattern: pattern}
		case OpIsNull:
			return IsNull(attr)
		}
		return compare(op, attr, v)
	})
}

func drawData() *rapid.Generator[[]byte] {
	scalar := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{`null`, `true`, `1`, `2.5`, `-4`, `"a"`, `"ab"`, `"é"`, `18446744073709551615`, `1e30`, `{}`, `[]`}).Draw(t, "scalar")
	})
	return rapid.Custom(func(t *rapid.T) []byte {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return longData(rapid.Int64Range(-4, 4).Draw(t, "long"))
		case 1:
			return textData(rapid.StringMatching(`[ab]{0,3}`).Draw(t, "text"))
		case 2:
			return jsonData(`{"a":`)
		case 3:
			return typedData(drawTyped().Draw(t, "typed"))
		}
		var fields []string
		for _, f := range []string{"a", "b"} {
			if rapid.Bool().Draw(t, f) {
				fields = append(fields, fmt.Sprintf("%q:%s", f, scalar.Draw(t, f)))
			}
		}
		if rapid.Bool().Draw(t, "o") {
			fields = append(fields, fmt.Sprintf(`"o":{"x":%s}`, scalar.Draw(t, "x")))
		}
		if list := rapid.SliceOfN(scalar, 0, 3).Draw(t, "l"); len(list) > 0 {
			fields = append(fields, `"l":[`+strings.Join(list, ",")+`]`)
		}
		return jsonData("{" + strings.Join(fields, ",") + "}")
	})
}

func mustCompile(t rapid.TB, p Predicate) *Matcher {
	t.Helper()
	m, err := Compile(p)
	if err != nil {
		t.Fatalf("%v: %v", p, err)
	}
	return m
}

// TestProperty_TextAndWireForm: a predicate that goes through either form says the same of every entry.
func TestProperty_TextAndWireForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPredicate(3).Draw(t, "p")
		viaWire, err := Decode(p.Append(nil))
		if err != nil || viaWire.String() != p.String() {
			t.Fatalf("%v became %v, %v", p, viaWire, err)
		}
		viaText, err := Parse(p.String())
		if err != nil {
			t.Fatalf("%v: %v", p, err)
		}
		r := NewRecord(textData("k"), drawData().Draw(t, "value"))
		want := mustCompile(t, p).Match(r)
		if got := mustCompile(t, viaText).Match(r); got != want {
			t.Fatalf("%v is %v, as text %v it is %v", p, want, viaText, got)
		}
		if got := mustCompile(t, viaWire).Match(r); got != want {
			t.Fatalf("%v is %v, over the wire %v", p, want, got)
		}
	})
}

// TestProperty_IndexFindsAll: whatever comes and goes, what a plan finds holds all that the predicate holds for.
func TestProperty_IndexFindsAll(t *testing.T) {
	configs := []IndexConfig{
		{Sorted, []string{"a"}}, {Hash, []string{"a"}}, {Sorted, []string{"a", "b"}}, {Hash, []string{"b", "o.x"}}, {Sorted, []string{"l[any]"}},
		{Hash, []string{"l[any]"}}, {Sorted, []string{"this"}}, {Hash, []string{"__key"}}, {Sorted, []string{"o.x", "a"}},
	}
	planned, found := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var indexes []*Index
		for _, cfg := range configs {
			if rapid.Bool().Draw(t, cfg.Key()) {
				ix, err := NewIndex(cfg)
				if err != nil {
					t.Fatal(err)
				}
				indexes = append(indexes, ix)
			}
		}
		entries := map[string][]byte{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			key := string(textData(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))))
			old, had := entries[key]
			for _, ix := range indexes {
				if had {
					ix.Remove(key, NewRecord([]byte(key), old))
				}
			}
			delete(entries, key)
			if rapid.IntRange(0, 3).Draw(t, "put") > 0 {
				entries[key] = drawData().Draw(t, "value")
				for _, ix := range indexes {
					ix.Add(key, NewRecord([]byte(key), entries[key]))
				}
			}
		}
		for range 15 {
			m := mustCompile(t, drawPredicate(2).Draw(t, "p"))
			plan := NewPlan(m, indexes)
			if plan == nil {
				continue
			}
			planned++
			keys := map[string]bool{}
			plan.Each(func(k string) { keys[k] = true })
			for k, v := range entries {
				if m.Match(NewRecord([]byte(k), v)) {
					found++
					if !keys[k] {
						t.Fatalf("%v: the plan misses %s", m.Predicate(), v)
					}
				}
			}
		}
		for k, v := range entries {
			for _, ix := range indexes {
				ix.Remove(k, NewRecord([]byte(k), v))
			}
		}
		for _, ix := range indexes {
			if ix.Len() != 0 || len(ix.hash) != 0 || ix.tree != nil && ix.tree.head.next[0] != nil {
				t.Fatalf("%s holds %d values of no entry", ix.cfg.Key(), ix.Len())
			}
		}
	})
	if planned < 20 || found < 20 {
		t.Errorf("%d plans found %d entries: hardly anything was tried", planned, found)
	}
}

// TestPlan_Narrows shows that plans are not just everything.
func TestPlan_Narrows(t *testing.T) {
	ix := func(typ IndexType, attrs ...string) *Index {
		x, err := NewIndex(IndexConfig{typ, attrs})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			x.Add(fmt.Sprint(i), NewRecord(textData(fmt.Sprint(i)), jsonData(fmt.Sprintf(`{"n":%d,"g":%d,"s":"k%02d"}`, i, i%10, i))))
		}
		return x
	}
	for _, c := range []struct {
		where   string
		indexes []*Index
		want    int // keys found; -1: no plan
	}{
		{"n = 5", []*Index{ix(Hash, "n")}, 1}, {"n = 5", []*Index{ix(Sorted, "n")}, 1}, {"n > 89", []*Index{ix(Sorted, "n")}, 11},
		{"n > 89", []*Index{ix(Hash, "n")}, -1}, {"n BETWEEN 10 AND 19 AND g = 3", []*Index{ix(Sorted, "n")}, 10},
		{"n >= 10 AND n <= 12", []*Index{ix(Sorted, "n")}, 3}, {"g = 3 AND n > 50", []*Index{ix(Sorted, "g", "n")}, 5}, {"g = 3", []*Index{ix(Sorted, "g", "n")}, 10},
		{"g = 3 AND n = 53", []*Index{ix(Hash, "g", "n")}, 1}, {"g = 3", []*Index{ix(Hash, "g", "n")}, -1}, {"n IN (1, 2, 300)", []*Index{ix(Hash, "n")}, 2},
		{"n = 1 OR g = 2", []*Index{ix(Hash, "n"), ix(Hash, "g")}, 11}, {"n = 1 OR s = 'x'", []*Index{ix(Hash, "n")}, -1}, {"s LIKE 'k1%'", []*Index{ix(Sorted, "s")}, 10},
		{"NOT n = 5", []*Index{ix(Hash, "n")}, -1}, {"n <> 5", []*Index{ix(Sorted, "n")}, -1}, {"s = 'a' AND (n = 1 OR n = 2)", []*Index{ix(Hash, "n")}, 2},
		{"g = 3 AND n = 5", []*Index{ix(Sorted, "g"), ix(Hash, "n")}, 1}, {"n IS NULL", []*Index{ix(Hash, "n")}, 0}, {"n < 'x'", []*Index{ix(Sorted, "n")}, 0},
	} {
		p, err := Parse(c.where)
		if err != nil {
			t.Fatal(err)
		}
		m := mustCompile(t, p)
		got := -1
		if plan := NewPlan(m, c.indexes); plan != nil {
			got = 0
			plan.Each(func(string) { got++ })
		}
		if got != c.want {
			t.Errorf("%s by %s: %d keys, want %d", c.where, c.indexes[0].cfg.Key(), got, c.want)
		}
	}
	for _, bad := range []IndexConfig{{"BTREE", []string{"a"}}, {Hash, nil}, {Sorted, []string{"a", "b[any]"}}, {Sorted, []string{""}}} {
		if _, err := NewIndex(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestProperty_Like holds LIKE against a matcher that tries everything.
func TestProperty_Like(t *testing.T) {
	var slow func(p, s []rune) bool
	slow = func(p, s []rune) bool {
		switch {
		case len(p) == 0:
			return len(s) == 0
		case p[0] == '%':
			return slow(p[1:], s) || len(s) > 0 && slow(p, s[1:])
		case p[0] == '\\':
			n := 1
			for n < len(p) && p[n] == '\\' {
				n++
			}
			said := n // that a text has to have
			if n < len(p) && (p[n] == '%' || p[n] == '_') {
				said = n / 2
			}
			if len(s) < said || slices.ContainsFunc(s[:said], func(c rune) bool { return c != '\\' }) {
				return false
			}
			if said == n || n%2 == 0 {
				return slow(p[n:], s[said:])
			}
			return len(s) > said && s[said] == p[n] && slow(p[n+1:], s[said+1:])
		}
		return len(s) > 0 && (p[0] == '_' || p[0] == s[0]) && slow(p[1:], s[1:])
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.StringMatching(`[aé%_\\]{0,6}`).Draw(t, "pattern")
		s := rapid.StringMatching(`[aé%_\\]{0,4}`).Draw(t, "text")
		l := newLike(p)
		if got, want := l.match(s), slow([]rune(p), []rune(s)); got != want {
			t.Fatalf("%q LIKE %q: %v", s, p, got)
		}
		if l.match(s) && !strings.HasPrefix(s, l.prefix()) {
			t.Fatalf("%q does not begin with %q", s, l.prefix())
		}
	})
}

func TestProperty_Values(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(drawValue(), 0, 5).Draw(t, "values")
		got, err := DecodeValues(AppendValues(nil, list))
		if err != nil || !slices.Equal(got, list) {
			t.Fatalf("%v became %v, %v", list, got, err)
		}
		for _, a := range list {
			if _, err := json.Marshal(a); err != nil {
				t.Fatal(err)
			}
			for _, b := range list {
				if Equal(a, b) != (a.norm() == b.norm()) || Compare(a, b) != -Compare(b, a) {
					t.Fatalf("%v and %v", a, b)
				}
				for _, c := range list {
					if Compare(a, b) <= 0 && Compare(b, c) <= 0 && Compare(a, c) > 0 {
						t.Fatalf("%v <= %v <= %v, but not the first and the last", a, b, c)
					}
				}
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a = 1", `x.y[any] LIKE 'a%' AND NOT ("b c" IN (1.5, X'00') OR d IS NOT NULL)`, "((a))", "-1e5 < a", "TRUE", "a BETWEEN 'a' AND 'b'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s)
		if err != nil {
			return
		}
		if !utf8.ValidString(s) {
			return
		}
		again, err := Parse(p.String())
		if err != nil && len(p.String()) <= MaxWhere && !strings.Contains(err.Error(), "nested") {
			t.Fatalf("%q became %q: %v", s, p, err)
		}
		r := NewRecord(textData("k"), jsonData(person))
		if m, err := Compile(p); err != nil {
			t.Fatalf("%q: %v", s, err)
		} else if n, err := Compile(again); err == nil && again.Op != 0 && m.Match(r) != n.Match(r) {
			t.Fatalf("%q and %q differ", p, again)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(And(Like("a", "x%"), Not(In("b", IntOf(1), TextOf("x")))).Append(nil), jsonData(person))
	f.Add(Regex("this", "a*").Append(nil), dataOf(typeRaw, []byte{0x81, 0xa1, 'a', 0xc3}))
	f.Fuzz(func(t *testing.T, b, data []byte) {
		if p, err := Decode(b); err == nil {
			if again, err := Decode(p.Append(nil)); err != nil || !reflect.DeepEqual(p, again) {
				t.Fatalf("%#v became %#v, %v", p, again, err)
			}
			if m, err := Compile(p); err == nil {
				m.Match(NewRecord(data, data))
				NewPlan(m, nil)
			}
		}
		if list, err := DecodeValues(b); err == nil && len(list) > len(b) {
			t.Fatalf("%d values of %d bytes", len(list), len(b))
		}
		for op := Count; op <= AverageNumber; op++ {
			if s, err := (Aggregation{Op: op, Attribute: "a"}).Decode(b); err == nil {
				_ = s.Add(NewRecord(data, data))
				_, _ = s.Result()
			}
		}
	})
}

// TestProperty_WalkedJSON holds what walking a JSON text gives against what decoding it gives.
func TestProperty_WalkedJSON(t *testing.T) {
	var text func(depth int) *rapid.Generator[string]
	gap := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
	name := rapid.SampledFrom([]string{`"a"`, `"b"`, `"\u0061"`, `"é"`, `"a\"b"`, `"{[,"`, `"\\"`})
	text = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			g := func() string { return gap.Draw(t, "gap") }
			kind := rapid.IntRange(0, 3).Draw(t, "kind")
			if depth == 0 || kind == 0 {
				return rapid.OneOf(name, rapid.SampledFrom([]string{`1`, `-2.5e3`, `true`, `false`, `null`, `{}`, `[ ]`, `"]}"`})).Draw(t, "scalar")
			}
			var parts []string
			for range rapid.IntRange(0, 3).Draw(t, "n") {
				v := g() + text(depth-1).Draw(t, "value") + g()
				if kind > 1 {
					v = g() + name.Draw(t, "name") + g() + ":" + v
				}
				parts = append(parts, v)
			}
			if kind > 1 {
				return "{" + g() + strings.Join(parts, ",") + "}"
			}
			return "[" + g() + strings.Join(parts, ",") + "]"
		})
	}
	paths := []string{"this", "a", "b", "é", "a.b", "a.a.b", "this[0]", "this[any]", "a[any]", "a[1].b", "this[any].a", "this[any][any]", "b[any].a[0]", `a"b`, `\`}
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(gap.Draw(t, "before") + text(3).Draw(t, "text") + gap.Draw(t, "after"))
		if rapid.IntRange(0, 9).Draw(t, "cut") == 0 {
			doc = doc[:len(doc)/2]
		}
		for _, p := range paths {
			a, err := parsePath(p)
			if err != nil {
				t.Fatal(err)
			}
			var want, got []Value
			walk(decodeJSON(doc), a.steps, func(v Value) bool { want = append(want, v); return false })
			walk(readJSON(doc), a.steps, func(v Value) bool { got = append(got, v); return false })
			if !slices.Equal(want, got) {
				t.Fatalf("%s of %s: %v, want %v", p, doc, got, want)
			}
		}
	})
}

// What is stored may be anything: whatever it is, asking for its parts ends, and costs no more than its bytes allow.
func FuzzData(f *testing.F) {
	for _, text := range typedTexts {
		f.Add(typedData(literalOf(f, text)))
	}
	f.Add(jsonData(`{"a":[1,{"b":2}]}`))
	f.Add(portableOf("a", 20, append([]byte{0}, typedData(literalOf(f, "DECIMAL '1.5'"))[4:]...)))
	f.Add(portableOf("a", 25, []byte{0, 0, 0, 1, 0, 0, 0, 44, 7, 232, 2, 29}))
	f.Fuzz(func(_ *testing.T, data []byte) {
		r := NewRecord(textData("k"), data)
		for _, path := range []string{"a", "a[any]", "a[0].b", "this", "this[any]", "a[any].b"} {
			for _, a := range []Aggregation{{Count, path}, {Max, path}, {SumExact, path}, {Distinct, path}} {
				s, err := a.NewState()
				if err != nil {
					panic(err)
				}
				if s.Add(r) == nil {
					_, _ = s.Result()
				}
			}
		}
	})
}

// portableOf is a portable value of one field.
func portableOf(name string, kind byte, value []byte) []byte {
	typ := typePortable
	b := binary.BigEndian.AppendUint32(nil, uint32(typ))
	for _, n := range []uint32{70, 1, 0, 0, 1, 32} { // factory, class, version, end, fields, where the field lies
		b = binary.BigEndian.AppendUint32(b, n)
	}
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(name))), name...)
	return append(append(b, kind), value...)
}

// Decimals and times in portable fields, single, null and in arrays, as clients lay them out.
func TestPortable_Typed(t *testing.T) {
	const head = 32 + 4 // where a field of portableOf lies, and how long its name and kind are
	decimal := typedData(literalOf(t, "DECIMAL '-1.50'"))[4:]
	date := []byte{7, 232, 2, 29}
	for name, x := range map[string]struct {
		kind  byte
		value []byte
		want  string
	}{
		"decimal":         {20, append([]byte{0}, decimal...), "DECIMAL '-1.50'"},
		"no decimal":      {20, []byte{1}, "NULL"},
		"date":            {24, append([]byte{0}, date...), "DATE '2024-02-29'"},
		"time":            {22, []byte{0, 23, 59, 58, 0, 0, 0, 1}, "TIME '23:59:58.000000001'"},
		"timestamp":       {26, append(append([]byte{0}, date...), 1, 2, 3, 0, 0, 0, 0), "TIMESTAMP '2024-02-29T01:02:03'"},
		"with an offset":  {28, append(append([]byte{0}, date...), 1, 2, 3, 0, 0, 0, 0, 255, 255, 241, 240), "TIMESTAMP '2024-02-29T01:02:03-01:00'"},
		"no such day":     {24, []byte{0, 7, 232, 13, 29}, "NULL"},
		"cut off":         {24, []byte{0, 7, 232, 2}, "NULL"},
		"array":           {25, append([]byte{0, 0, 0, 1, 0, 0, 0, head + 8}, date...), "DATE '2024-02-29'"},
		"no array":        {25, []byte{255, 255, 255, 255}, "NULL"},
		"array elsewhere": {25, []byte{0, 0, 0, 1, 0, 1, 0, 0}, "NULL"},
		"decimals":        {21, append([]byte{0, 0, 0, 1, 0, 0, 0, head + 8}, decimal...), "DECIMAL '-1.50'"},
	} {
		path := "a"
		if x.kind%2 == 1 {
			path = "a[0]"
		}
		p, err := NewProjection(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Project(NewRecord(textData("k"), portableOf("a", x.kind, x.value)))[0].String(); got != x.want {
			t.Errorf("%s: %s, want %s", name, got, x.want)
		}
	}
}
