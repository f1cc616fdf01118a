package query

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"gridnode/grid"
	"gridnode/grid/pack"
)

func dataOf(typ int32, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(typ)), payload...)
}

func lengthened(typ int32, body string) []byte {
	return dataOf(typ, append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
}

func jsonData(text string) []byte { return lengthened(typeJSON, text) }
func textData(text string) []byte { return lengthened(typeString, text) }

func longData(i int64) []byte {
	return dataOf(typeLong, binary.BigEndian.AppendUint64(nil, uint64(i)))
}

const person = `{"name":"Ada","age":36,"big":9007199254740993,"huge":18446744073709551615,"rate":1.5,"on":true,"off":false,"nil":null,
"home":{"city":"London","zip":"SW1"},"tags":["a","b",3],"kids":[{"n":"x","age":4},{"n":"y","age":7}],"empty":[],"is null":1,"name%":"50% off",
"path":"C:\\dir\\a.txt"}`

func TestWhere(t *testing.T) {
	for where, want := range map[string]bool{
		`age = 36`: true, `age == 36.0`: true, `age <> 36`: false, `age != 37`: true, `age < 37`: true, `age <= 36`: true, `age > 36`: false,
		`36 >= age`: true, `37 < age`: false, `age >= 18 AND name LIKE 'A%'`: true, `age = '36'`: false, `age <> '36'`: true,
		`age BETWEEN 30 AND 40`: true, `age NOT BETWEEN 30 AND 40`: false, `age between 36 and 36`: true, `age BETWEEN 40 AND 30`: false,
		`big = 9007199254740993`: true, `big = 9007199254740992`: false, `big > 9007199254740992`: true, `big > 9007199254740992.0`: true,
		`big < 9007199254740993.5`: true, `huge = 18446744073709551615`: true, `huge > 18446744073709551614`: true, `huge < 1e20`: true,
		`rate > 1`: true, `rate = 1.5`: true, `rate < 2 AND rate > -1e3`: true,
		`name = 'Ada'`: true, `name = 'ada'`: false, `name > 'Ac'`: true, `name IN ('Bob', 'Ada')`: true, `name NOT IN ('Bob')`: true,
		`name IN ()`: false, `age IN (1, 36.0)`: true, `name LIKE 'A_a'`: true, `name LIKE '_'`: false, `name LIKE '%d%'`: true,
		`name LIKE 'ada'`: false, `name ILIKE 'aDA'`: true, `name NOT LIKE '%z'`: true, `"name%" LIKE '50\% %'`: true, `"name%" LIKE '5\_%'`: false,
		`path LIKE 'C:\dir\%.txt'`: false, `path LIKE 'C:\dir\\%.txt'`: true, `path LIKE 'C:\dir%'`: true, `path ILIKE 'c:\DIR_a.txt'`: true, `path LIKE 'C:\\dir%'`: false,
		`name REGEX 'A.a'`: true, `name REGEX 'A'`: false, `name REGEX 'a|Ada'`: true, `age LIKE '36'`: false,
		`on`: true, `off`: false, `NOT off`: true, `on AND NOT off`: true, `on = TRUE`: true, `off = false`: true, `name`: false,
		`nil IS NULL`: true, `nil IS NOT NULL`: false, `none IS NULL`: true, `none = NULL`: true, `none <> NULL`: false, `name IS NOT NULL`: true,
		`none = 1`: false, `none <> 1`: true, `none < 1`: false, `NOT none < 1`: true, `nil >= NULL`: false,
		`home.city = 'London'`: true, `home.none.x IS NULL`: true, `home IS NULL`: false, `home = 'x'`: false, `name.x IS NULL`: true,
		`tags[0] = 'a'`: true, `tags[2] = 3`: true, `tags[3] IS NULL`: true, `tags[any] = 'b'`: true, `tags[any] = 'c'`: false, `tags[any] <> 'a'`: false,
		`kids[any].age > 5`: true, `kids[any].age > 7`: false, `kids[1].n = 'y'`: true, `empty[any] IS NULL`: true, `empty[any] = 1`: false,
		`name[any] IS NULL`: true, `this.age = 36`: true, `"is null" = 1`: true, `"IS NULL" = 1`: false,
		`__key = 'k1'`: true, `__key LIKE 'k%'`: true, `__key.x IS NULL`: true, `this IS NOT NULL`: true, `TRUE`: true, `FALSE OR TRUE`: true,
		`name = 'Bob' OR age = 36 AND on`: true, `(name = 'Bob' OR age = 36) AND off`: false, `NOT (name = 'Ada' AND off)`: true,
		`NOT NOT on`: true, `name = 'O''Hara'`: false, `age = +36`: true, `age > -0.5e1`: true, `name <= X'00'`: false,
	} {
		p, err := Parse(where)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		m, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Match(NewRecord(textData("k1"), jsonData(person))); got != want {
			t.Errorf("%s (%s): %v", where, p, got)
		}
	}
}

func TestWhere_Errors(t *testing.T) {
	for where, want := range map[string]string{
		``:                "position 1: found the end, expected an attribute",
		`age >`:           "position 6: found the end, expected a value",
		`age = 'x`:        "position 7: the text that begins here has no closing '",
		`naïve = ~`:       `position 9: "~" has no meaning here`,
		`age = 3 4`:       "position 9: found 4, expected AND, OR or the end",
		`(age = 3`:        "position 9: found the end, expected )",
		`age IN (1 2)`:    "position 11: found 2, expected ,",
		`age IN 1`:        "position 8: found 1, expected (",
		`age BETWEEN 1`:   "position 14: found the end, expected AND",
		`a = b`:           "position 5: two attributes cannot be compared",
		`1 = 2`:           "position 5: two values cannot be compared",
		`a LIKE 5`:        "position 8: found 5, expected a pattern",
		`a REGEX '('`:     "position 9: ",
		`a REGEX 'b)|(c'`: "unexpected ): `b)|(c`",
		`a IS 5`:          "position 6: found 5, expected NULL",
		`a NOT 5`:         "position 7: found 5, expected BETWEEN",
		`a[x] = 1`:        "position 1: ",
		`a..b = 1`:        "a name is missing",
		`a = 1.2.3`:       "position 5: 1.2.3 is no number",
		`AND`:             "position 1: found AND",
		`5`:               "position 2: found the end, expected a comparison",
		`a IN (SELECT)`:   "position 7: found SELECT, expected a value",
		`a LIKE '` + strings.Repeat("x", MaxPattern+1) + `'`:      "the limit is 1024",
		strings.Repeat("(", 100) + "a" + strings.Repeat(")", 100): "nested deeper than 64",
		strings.Repeat("NOT ", 100) + "a":                         "nested deeper than 64",
		"a IN (" + strings.Repeat("1,", MaxNodes) + "1)":          "more than 65536 parts",
		strings.Repeat("a", MaxWhere+1):                           "longer than",
		strings.Repeat("a.", 600) + "a = 1":                       "the limit is 1024",
	} {
		_, err := Parse(where)
		if err == nil || !errors.Is(err, grid.ErrBadRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v; want %s", where, err, want)
		}
	}
}

// TestData_Types reads every form of data that is understood, and what is not one as null.
func TestData_Types(t *testing.T) {
	be := binary.BigEndian
	type inner struct {
		City string `msgpack:"city"`
		N    uint64 `msgpack:"n"`
	}
	packed, err := pack.Marshal(map[string]any{
		"name": "Ada", "age": int8(-3), "big": int64(math.MinInt64), "u": uint64(math.MaxUint64), "f": float32(0.5), "d": 2.5, "b": []byte{1},
		"on": true, "nil": nil, "list": []int{1, 2, 300000}, "in": map[string]any{"city": "Rome"}, "long": strings.Repeat("x", 300),
	})
	if err != nil {
		t.Fatal(err)
	}
	array, _ := pack.Marshal(inner{"Paris", 7})
	for _, c := range []struct {
		data  []byte
		where string
	}{
		{dataOf(typeByte, []byte{0xff}), "this = -1"}, {dataOf(typeBool, []byte{1}), "this"}, {dataOf(typeChar, []byte{0, 'x'}), "this = 'x'"},
		{dataOf(typeShort, []byte{0xff, 0}), "this = -256"}, {dataOf(typeInt, []byte{0xff, 0xff, 0xff, 0xfe}), "this = -2"},
		{longData(math.MinInt64), "this = -9223372036854775808"},
		{dataOf(typeFloat, be.AppendUint32(nil, math.Float32bits(0.5))), "this = 0.5"},
		{dataOf(typeDouble, be.AppendUint64(nil, math.Float64bits(-7))), "this = -7"},
		{textData("é"), "this = 'é'"}, {lengthened(typeBytes, "ab"), "this = X'6162'"},
		{dataOf(typeInts, []byte{0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 9}), "this[any] = 9 AND this[0] = 1 AND this[2] IS NULL"},
		{dataOf(typeStringList, []byte{0, 0, 0, 2, 0, 0, 0, 1, 'a', 0xff, 0xff, 0xff, 0xff}), "this[0] = 'a' AND this[1] IS NULL"},
		{dataOf(typeMedia, append([]byte{16}, `application/json{"a":1}`...)), "a = 1"},
		{dataOf(typeMedia, append([]byte{10}, `text/plainhello`...)), "this = 'hello'"},
		{dataOf(typeMedia, append([]byte{9}, "image/png\x01"...)), "this = X'01'"},
		{dataOf(typeRaw, packed), "name = 'Ada' AND age = -3 AND u = 18446744073709551615 AND f = 0.5 AND d = 2.5 AND b = X'01' AND on AND nil IS NULL"},
		{dataOf(typeRaw, packed), "list[any] = 300000 AND in.city = 'Rome' AND big = -9223372036854775808 AND long LIKE 'xx%'"},
		{dataOf(typeRaw, array), "this[0] = 'Paris' AND this[1] = 7 AND city IS NULL"},
		{jsonData(`"text"`), "this = 'text'"}, {jsonData(`12`), "this = 12"},
		{jsonData(`{"property: 5}`), "property IS NULL AND this IS NULL"}, {jsonData(`{} x`), "this IS NULL"}, {jsonData(`{"a":1}{`), "a IS NULL"},
		{jsonData(strings.Repeat("[", 20000)), "this IS NULL"},
		{nil, "this IS NULL"}, {[]byte{1, 2}, "this IS NULL"}, {dataOf(-1, []byte{1, 2, 3}), "this IS NULL AND a IS NULL"},
		{dataOf(typeInts, []byte{0x7f, 0xff, 0xff, 0xff}), "this IS NULL"}, {dataOf(typeInt, []byte{1, 2, 3, 4, 5}), "this IS NULL"},
		{dataOf(typeRaw, []byte{0xdd, 0xff, 0xff, 0xff, 0xff}), "this IS NULL"}, {textData("abc")[:9], "this IS NULL"},
	} {
		p, err := Parse(c.where)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := Compile(p)
		if !m.Match(NewRecord(nil, c.data)) {
			t.Errorf("%.40x does not match %s: %v", c.data, c.where, leaf(decode(c.data)))
		}
		m, _ = Compile(And(EqualTo("__key.k", IntOf(1)), Not(IsNull(keyName))))
		if !m.Match(NewRecord(jsonData(`{"k":1}`), nil)) {
			t.Error("attribute of a key")
		}
	}
}

// TestCompare_NumbersAreExact holds the order of numbers against that of big rationals.
func TestCompare_NumbersAreExact(t *testing.T) {
	var list []Value
	for _, i := range []int64{0, 1, -1, 1 << 53, 1<<53 + 1, -(1<<53 + 1), math.MaxInt64, math.MinInt64, math.MaxInt64 - 1} {
		list = append(list, IntOf(i), DoubleOf(float64(i)), DoubleOf(math.Nextafter(float64(i), math.Inf(1))))
	}
	for _, u := range []uint64{1 << 63, 1<<63 + 1, math.MaxUint64, math.MaxUint64 - 1} {
		list = append(list, UintOf(u), DoubleOf(float64(u)), DoubleOf(math.Nextafter(float64(u), 0)))
	}
	list = append(list, DoubleOf(0.5), DoubleOf(-0.5), DoubleOf(1e300), DoubleOf(-1e300), DoubleOf(math.Copysign(0, -1)))
	rat := func(v Value) *big.Rat {
		if v.kind == Double {
			return new(big.Rat).SetFloat64(v.Double())
		}
		r, _ := new(big.Rat).SetString(v.String())
		return r
	}
	for _, a := range list {
		for _, b := range list {
			want := rat(a).Cmp(rat(b))
			if got := Compare(a, b); got != want {
				t.Errorf("%v ? %v: %d, want %d", a, b, got, want)
			}
			if same := a.norm() == b.norm(); same != (want == 0) {
				t.Errorf("%v and %v have one norm: %v", a, b, same)
			}
		}
	}
	nan := DoubleOf(math.NaN())
	if !Equal(nan, nan) || Compare(nan, DoubleOf(math.Inf(1))) != 1 || Compare(UintOf(math.MaxUint64), nan) != -1 || nan.norm() != DoubleOf(-math.NaN()).norm() {
		t.Error("NaN is not the greatest number and equal to itself")
	}
}

func TestAggregations(t *testing.T) {
	values := []string{
		`{"i":1,"d":1.5,"s":"b","t":["x","y"]}`, `{"i":9007199254740993,"d":-2,"s":"a","t":["y"]}`, `{"i":2,"d":0.25,"s":"b","n":1}`, `{"property: 5}`,
		`{"i":2.0,"d":1e3}`,
	}
	for _, c := range []struct {
		agg  Aggregation
		want string
	}{
		{Aggregation{Count, ""}, "5"}, {Aggregation{Count, "t[any]"}, "6"}, {Aggregation{Min, "i"}, "1"}, {Aggregation{Max, "i"}, "9007199254740993"},
		{Aggregation{Max, "s"}, "'b'"}, {Aggregation{Min, "none"}, "NULL"}, {Aggregation{SumFixed, "d"}, "999"}, {Aggregation{SumDouble, "d"}, "999.75"},
		{Aggregation{SumFixed, "i"}, "9007199254740998"}, {Aggregation{AverageNumber, "d"}, "249.9375"}, {Aggregation{AverageNumber, "none"}, "NULL"},
		{Aggregation{SumInteger, "none"}, "0"}, {Aggregation{Distinct, "t[any]"}, "[NULL 'x' 'y']"}, {Aggregation{Distinct, "i"}, "[NULL 1 2 9007199254740993]"},
		{Aggregation{MaxBy, "i"}, `9007199254740993 k1 ` + values[1]}, {Aggregation{MinBy, "s"}, `'a' k1 ` + values[1]}, {Aggregation{MaxBy, "s"}, `'b' k0 ` + values[0]},
		{Aggregation{SumInteger, "i"}, "error: bad request: sum of integers of \"i\": 2.0 is none"},
		{Aggregation{SumDouble, "s"}, "error: bad request: aggregation of \"s\": 'b' is no number"},
	} {
		for split := range len(values) + 1 { // in two partitions, cut anywhere
			if got := aggregate(t, c.agg, values, split); got != c.want {
				t.Errorf("%+v cut at %d: %s, want %s", c.agg, split, got, c.want)
			}
		}
	}
	if _, err := (Aggregation{Op: 99}).NewState(); err == nil {
		t.Error("an unknown aggregation is taken")
	}
	big := []string{`{"i":9223372036854775807}`, `{"i":9223372036854775807}`, `{"i":-9223372036854775808}`}
	if got := aggregate(t, Aggregation{SumInteger, "i"}, big, 2); got != "9223372036854775806" {
		t.Errorf("a sum that leaves 64 bits for a while: %s", got)
	}
	if got := aggregate(t, Aggregation{SumInteger, "i"}, big[:2], 1); !strings.Contains(got, "more than 64 bits") {
		t.Errorf("a sum beyond 64 bits: %s", got)
	}
}

func aggregate(t *testing.T, agg Aggregation, values []string, split int) string {
	t.Helper()
	var states [2]*State
	for i := range states {
		states[i], _ = agg.NewState()
	}
	for i, v := range values {
		s := states[0]
		if i >= split {
			s = states[1]
		}
		if err := s.Add(NewRecord(textData(fmt.Sprint("k", i)), jsonData(v))); err != nil {
			return "error: " + err.Error()
		}
	}
	other, err := agg.Decode(states[1].Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := states[0].Combine(other); err != nil {
		t.Fatal(err)
	}
	r, err := states[0].Result()
	switch {
	case err != nil:
		return "error: " + err.Error()
	case r.Key != nil:
		return fmt.Sprintf("%v %s %s", r.Value, r.Key[8:], r.Entry[8:])
	case r.Values != nil:
		return fmt.Sprint(r.Values)
	}
	return r.Value.String()
}

func TestDistinct_IsBounded(t *testing.T) {
	s, _ := Aggregation{Distinct, ""}.NewState()
	var err error
	for i := 0; i <= MaxDistinct && err == nil; i++ {
		err = s.Add(NewRecord(nil, longData(int64(i))))
	}
	if !errors.Is(err, grid.ErrTooLarge) {
		t.Errorf("more than %d values: %v", MaxDistinct, err)
	}
}

func TestProjection(t *testing.T) {
	p, err := NewProjection("name", "kids[1].age", "home", "none", "__key", "tags[any]")
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(p.Project(NewRecord(textData("k"), jsonData(person))))
	if want := `['Ada' 7 '{"city":"London","zip":"SW1"}' NULL 'k' 'a']`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, bad := range [][]string{nil, {""}, {"a]"}, {"a[1"}, {"a[-1]"}, {"a[1]b"}, {strings.Repeat("a.", 40) + "a"}, make([]string, 65)} {
		if _, err := NewProjection(bad...); !errors.Is(err, grid.ErrBadRequest) {
			t.Errorf("projection %.20q: %v", bad, err)
		}
	}
}
