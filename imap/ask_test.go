package imap

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gridnode/grid"
	"gridnode/imap/query"
)

// asks runs a query page by page and returns the keys in the order in which they came.
func asks(t rapid.TB, s *Store, where query.Predicate, most int, now time.Time) (keys []string) {
	t.Helper()
	o := op{Kind: opQuery, Map: "m", Limit: 300, Ask: &ask{Where: where.Append(nil), Want: wantKeys, Most: most}}
	for more := true; more; {
		d := s.Execute(encode(o), 1<<30, now)
		if d.Err != nil || d.Effect != nil {
			t.Fatalf("%v: %v", where, d.Err)
		}
		rep, err := decode[askReply](d.Reply)
		if err != nil {
			t.Fatal(err)
		}
		if most > 0 && len(rep.Entries) > most {
			t.Fatalf("%d entries of at most %d", len(rep.Entries), most)
		}
		for _, e := range rep.Entries {
			keys = append(keys, string(e.Key))
		}
		o.Key, more = rep.Last, rep.More
	}
	return keys
}

var wheres = []string{
	"n = 3", "n > 5", "n <= 2 OR g = 'a'", "n BETWEEN 2 AND 6 AND g = 'b'", "g IN ('a', 'c')", "g LIKE 'a%'", "n IS NULL", "NOT n = 3", "n <> 3", "TRUE",
	"t[any] = 2", "t[any] > 1 AND t[any] < 2", "g = 'a' AND n >= 4 AND n < 8", "g = 'a' AND n = 4", "__key > 'k5'", "n > 1.5 AND n < 'x'", "FALSE",
}

// TestProperty_QueryIsTheSameWithIndexes runs one history on two stores, of which one has indexes: puts, removes, sweeps, processors, locks, expiry, copies.
func TestProperty_QueryIsTheSameWithIndexes(t *testing.T) {
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		r := NewRegistry("self", nil)
		r.indexStep = rapid.IntRange(1, 20).Draw(t, "step of indexes")
		for _, cfg := range []IndexConfig{{Type: query.Sorted, Attributes: []string{"n"}}, {Type: query.Hash, Attributes: []string{"g"}}} {
			if err := r.DefineIndexes("m", cfg); err != nil {
				t.Fatal(err)
			}
		}
		later := []IndexConfig{
			{Type: query.Sorted, Attributes: []string{"g", "n"}}, {Type: query.Hash, Attributes: []string{"n", "g"}},
			{Type: query.Sorted, Attributes: []string{"t[any]"}}, {Type: query.Sorted, Attributes: []string{"__key"}},
		}
		seqOf := func(v uint64) uint64 { return v }
		home := NewHome(HomeConfig{Processors: map[string]Processor{
			"put": func(p Processing) (Processed, error) { return Processed{Put: p.Arg}, nil },
		}})
		plain, indexed := home.NewStore(seqOf), home.NewStore(seqOf)
		indexed.Attach(0, r)
		now, version := time.Now(), uint64(0)
		do := func(raw []byte) {
			version++
			d := plain.Execute(raw, version, now)
			if d.Wait != "" {
				return
			}
			if d.Err != nil {
				t.Fatal(d.Err)
			}
			for _, s := range []*Store{plain, indexed} {
				if d.Effect == nil {
					continue
				}
				if _, err := s.Apply(d.Effect, version, now); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			k := String(fmt.Sprintf("k%d", rapid.IntRange(0, 15).Draw(t, "key")))
			switch rapid.IntRange(0, 20).Draw(t, "step") {
			case 0:
				do(encode(op{Kind: opWrite, Map: "m", Key: k, Write: &write{Remove: true}}))
			case 1:
				now = now.Add(time.Second)
			case 2:
				if e := plain.Over(now, nil); e != nil {
					version++
					for _, s := range []*Store{plain, indexed} {
						if _, err := s.Apply(e, version, now); err != nil {
							t.Fatal(err)
						}
					}
				}
			case 3:
				next := home.NewStore(seqOf)
				next.Attach(0, r)
				for _, piece := range piecesOf(indexed, 200, now) {
					if err := next.Restore(piece, now); err != nil {
						t.Fatal(err)
					}
				}
				indexed = next
				now = now.Add(1) // what had expired is copied with the least time that there is
			case 4:
				if len(later) > 0 {
					if err := r.DefineIndexes("m", later[0]); err != nil {
						t.Fatal(err)
					}
					later = later[1:]
				}
			case 5:
				if rapid.IntRange(0, 3).Draw(t, "sweeping") > 0 {
					continue
				}
				do(encode(op{Kind: opClear, Map: "m", Sweep: rapid.SampledFrom([]sweep{sweepClear, sweepEvict, sweepDestroy}).Draw(t, "sweep")}))
			case 6:
				do(encode(op{Kind: opWrite, Map: "m", Key: k, Write: &write{Keep: true, TTL: time.Second}}))
			case 7:
				do(encode(op{Kind: opProcess, Map: "m", Proc: &procOp{Name: "put", Arg: JSON([]byte(`{"n":4,"g":"b"}`)), Keys: [][]byte{k}}}))
			case 8:
				do(encode(op{Kind: opLock, Map: "m", Key: k, Who: who{Session: "s", Via: "s"}, Lock: &lockOp{Do: lockTake, Lease: 2 * time.Second}}))
			case 9, 10, 11, 12:
				p, err := query.Parse(rapid.SampledFrom(wheres).Draw(t, "where"))
				if err != nil {
					t.Fatal(err)
				}
				most := rapid.IntRange(0, 3).Draw(t, "most")
				want, got := asks(t, plain, p, most, now), asks(t, indexed, p, most, now)
				if !slices.Equal(want, got) || !slices.IsSorted(want) {
					t.Fatalf("%v: %q without indexes, %q with", p, want, got)
				}
				matched += len(want)
			default:
				v := rapid.SampledFrom([]string{
					`{"n":3,"g":"a"}`, `{"n":4,"g":"a","t":[1,2]}`, `{"n":6.5,"g":"b","t":[2,2]}`, `{"n":2,"g":"abc"}`, `{"g":"c"}`, `{"n":null,"t":[]}`,
					`{"n": 5`, `{"n":"3"}`, `{"n":9,"g":"b","t":[0,3]}`, `7`,
				}).Draw(t, "value")
				ttl := time.Duration(rapid.IntRange(0, 2).Draw(t, "ttl")) * 1500 * time.Millisecond
				do(encode(op{Kind: opWrite, Map: "m", Key: k, Write: &write{Value: JSON([]byte(v)), TTL: ttl}}))
			}
		}
	})
	if matched < 50 {
		t.Errorf("the queries found %d entries: hardly anything was tried", matched)
	}
}

func TestStore_QueryLooksAtABoundedNumberOfEntries(t *testing.T) {
	b := newBench(t)
	const n = 3*examined + 17
	for i := range n {
		b.write(fmt.Sprintf("%06d", i), write{Value: JSON(fmt.Appendf(nil, `{"n":%d}`, i))})
	}
	none := query.Less("n", query.IntOf(0))
	o := op{Kind: opQuery, Map: "m", Limit: scanPage, Ask: &ask{Where: none.Append(nil)}}
	pages := 0
	for more := true; more; pages++ {
		raw, sees := b.do(o)
		rep := as[askReply](t, raw)
		if len(rep.Entries) != 0 || sees != n {
			t.Fatalf("%d entries, sees %d", len(rep.Entries), sees)
		}
		o.Key, more = rep.Last, rep.More
	}
	if pages != 4 {
		t.Errorf("%d pages", pages)
	}
	o = op{Kind: opRemoveWhere, Map: "m", Limit: scanPage, Ask: &ask{Where: query.GreaterEqual("n", query.IntOf(1000)).Append(nil)}}
	removed := 0
	for more := true; more; {
		raw, _ := b.do(o)
		rep := as[askReply](t, raw)
		removed += rep.Removed
		o.Key, more = rep.Last, rep.More
	}
	if removed != n-1000 || b.s.size("m", b.now) != 1000 {
		t.Errorf("%d removed, %d left", removed, b.s.size("m", b.now))
	}
}

// TestStore_RemoveWhereLeavesWhatOthersHaveLocked, and is refused once its fence has been passed.
func TestStore_RemoveWhereLeavesWhatOthersHaveLocked(t *testing.T) {
	b := newBench(t)
	me, other := who{Session: "me", Via: "m"}, who{Session: "other", Via: "m"}
	tokens := map[string]uint64{}
	for _, k := range []string{"free", "mine", "other's"} {
		b.write(k, write{Value: JSON([]byte(`{"a":1}`))})
	}
	for k, w := range map[string]who{"mine": me, "other's": other} {
		raw, _ := b.do(op{Kind: opLock, Map: "m", Key: String(k), Who: w, Lock: &lockOp{Do: lockTake}})
		tokens[k] = as[lockReply](t, raw).Token
	}
	where := func(key string) *ask {
		p := query.EqualTo("a", query.IntOf(1))
		if key != "" {
			p = query.And(p, query.EqualTo("__key", query.TextOf(key)))
		}
		return &ask{Where: p.Append(nil)}
	}
	for _, o := range []op{
		{Kind: opRemoveWhere, Map: "m", Limit: scanPage, Ask: where("other's"), Who: me, Fence: tokens["other's"] + 1},
		{Kind: opRemoveWhere, Map: "m", Limit: scanPage, Ask: where("free"), Who: me, Fence: tokens["mine"]},
	} {
		if d := b.s.Execute(encode(o), b.version+1, b.now); !errors.Is(d.Err, grid.ErrNotOwner) || d.Effect != nil {
			t.Errorf("fenced: %v", d.Err)
		}
	}
	raw, _ := b.do(op{Kind: opRemoveWhere, Map: "m", Limit: scanPage, Ask: where(""), Who: me})
	if rep := as[askReply](t, raw); rep.Removed != 2 || b.get("free").Version != 0 || b.get("mine").Version != 0 || b.get("other's").Version == 0 {
		t.Errorf("%d removed", rep.Removed)
	}
}

// TestIndexes_OfConfigs: by name or pattern, beside those that are added.
func TestIndexes_OfConfigs(t *testing.T) {
	age := IndexConfig{Type: query.Sorted, Attributes: []string{"age"}}
	name := IndexConfig{Type: query.Hash, Attributes: []string{"name"}}
	configs := Configs{"*": {Indexes: []IndexConfig{age}}, "none": {}}
	r := NewRegistry("self", nil).WithConfigs(configs)
	b := newBench(t)
	b.s.Attach(0, r)
	indexes := func() (keys []string) {
		for _, cfg := range New(nil).WithRegistry(r).Indexes("m") {
			keys = append(keys, cfg.Key())
		}
		return keys
	}
	for i := range 10 {
		b.write(fmt.Sprint(i), write{Value: JSON(fmt.Appendf(nil, `{"age":%d,"name":"n"}`, i))})
	}
	if got := asks(t, b.s, query.Less("age", query.IntOf(3)), 0, b.now); len(got) != 3 || len(b.s.maps["m"].indexes.list) != 1 {
		t.Errorf("found %q", got)
	}
	for _, cfg := range []IndexConfig{name, age} {
		if err := r.DefineIndexes("m", cfg); err != nil {
			t.Fatal(err)
		}
	}
	if got := asks(t, b.s, query.EqualTo("name", query.TextOf("n")), 0, b.now); len(got) != 10 || len(b.s.maps["m"].indexes.list) != 2 {
		t.Errorf("found %q", got)
	}
	if got := indexes(); !slices.Equal(got, []string{"SORTED(age)", "HASH(name)"}) {
		t.Errorf("indexes %q", got)
	}
	if list, _ := r.wanted("none"); list != nil {
		t.Errorf("a map whose own config has none: %v", list)
	}
	for says, list := range map[string][]IndexConfig{
		"neither SORTED nor HASH": {{Type: "TREE", Attributes: []string{"a"}}},
		"given twice":             {age, name, age},
		"there may be 32, not 33": make([]IndexConfig, MaxIndexes+1),
	} {
		if err := (Configs{"m": {Indexes: list}}).Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

// TestQuery_StructsByTheNamesOfTheirFields: as the typed maps keep them, with indexes and without.
func TestQuery_StructsByTheNamesOfTheirFields(t *testing.T) {
	type address struct{ City string }
	type person struct {
		Name  string `msgpack:"name"`
		Age   int
		Home  address
		Tags  []string
		Score float64
	}
	for _, indexed := range []bool{false, true} {
		b := newBench(t)
		if indexed {
			r := NewRegistry("self", nil)
			_ = r.DefineIndexes("m", IndexConfig{Type: query.Sorted, Attributes: []string{"Age"}}, IndexConfig{Type: query.Hash, Attributes: []string{"Home.City"}})
			b.s.Attach(0, r)
		}
		for _, p := range []person{
			{"Ann", 30, address{"Oslo"}, []string{"x", "y"}, 1.5}, {"Bob", 20, address{"Rome"}, nil, -2}, {"Cyd", 40, address{"Oslo"}, []string{"z"}, 0},
		} {
			d, err := EncodeValue(p)
			if err != nil {
				t.Fatal(err)
			}
			b.write(p.Name, write{Value: d})
		}
		for where, want := range map[string]string{
			"Age > 20": "Ann Cyd", "Home.City = 'Oslo' AND Age < 35": "Ann", "name LIKE 'B%'": "Bob", "Tags[any] = 'z'": "Cyd", "Tags[1] = 'y'": "Ann",
			"Score < 0": "Bob", "Tags IS NULL": "Bob", "age > 0": "",
		} {
			p, err := query.Parse(where)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, k := range asks(t, b.s, p, 0, b.now) {
				got = append(got, Data(k).Show())
			}
			if slices.Sort(got); strings.Join(got, " ") != want {
				t.Errorf("indexed %v: %s: %q, want %s", indexed, where, got, want)
			}
		}
	}
}

func TestStore_BadQueries(t *testing.T) {
	b := newBench(t)
	b.write("k", write{Value: JSON([]byte(`{"a":"x"}`))})
	all := query.True().Append(nil)
	for name, o := range map[string]op{
		"no part":      {Kind: opQuery, Map: "m"},
		"no predicate": {Kind: opQuery, Map: "m", Ask: &ask{}},
		"a bad one":    {Kind: opQuery, Map: "m", Ask: &ask{Where: query.Regex("a", "(").Append(nil)}},
		"no rows":      {Kind: opQuery, Map: "m", Ask: &ask{Where: all, Want: wantRows}},
		"odd want":     {Kind: opQuery, Map: "m", Ask: &ask{Where: all, Want: 77}},
		"no figure":    {Kind: opAggregate, Map: "m", Ask: &ask{Where: all}},
		"no number":    {Kind: opAggregate, Map: "m", Ask: &ask{Where: all, Aggregate: query.SumDouble, Attributes: []string{"a"}}},
	} {
		if d := b.s.Execute(encode(o), 9, b.now); d.Err == nil || grid.KindOf(d.Err) != grid.Definite {
			t.Errorf("%s: %v", name, d.Err)
		}
	}
}

func TestCursor_Text(t *testing.T) {
	for _, c := range []Cursor{{}, {partition: 5}, {partition: 0, key: []byte{}}, {partition: 270, key: String("k")}} {
		got, err := ParseCursor(c.String())
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%+v became %+v, %v", c, got, err)
		}
	}
	for _, bad := range []string{"!", "_", "_____w", "BQI"} {
		if _, err := ParseCursor(bad); !errors.Is(err, grid.ErrBadRequest) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestIndexes_AreBoundedAndForgetWhatIsGone also shows that a backup has none.
func TestIndexes_AreBoundedAndForgetWhatIsGone(t *testing.T) {
	r := NewRegistry("self", nil)
	for i := range MaxIndexes {
		if err := r.DefineIndexes("m", IndexConfig{Type: query.Hash, Attributes: []string{fmt.Sprint("a", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.DefineIndexes("m", IndexConfig{Type: query.Hash, Attributes: []string{"one more"}}); !errors.Is(err, grid.ErrTooLarge) {
		t.Errorf("one index too many: %v", err)
	}
	if err := r.DefineIndexes("m", IndexConfig{Type: query.Hash, Attributes: []string{"a0"}}); err != nil {
		t.Errorf("an index that is there already: %v", err)
	}
	b := newBench(t)
	b.s.Attach(0, r)
	for i := range 100 {
		b.write(fmt.Sprint(i), write{Value: JSON([]byte(`{"a1":1}`))})
	}
	if b.s.maps["m"].indexes != nil {
		t.Error("indexes were made before any query")
	}
	if got := asks(t, b.s, query.EqualTo("a1", query.IntOf(1)), 0, b.now); len(got) != 100 {
		t.Errorf("%d found", len(got))
	}
	list := b.s.maps["m"].indexes.list
	for i := range 100 {
		b.write(fmt.Sprint(i), write{Remove: true})
	}
	for _, ix := range list {
		if ix.Len() != 0 {
			t.Errorf("an index holds %d values of entries that are gone", ix.Len())
		}
	}
}

func BenchmarkQuery(b *testing.B) {
	for _, indexed := range []bool{false, true} {
		b.Run(fmt.Sprintf("indexed=%v", indexed), func(b *testing.B) {
			s := NewStore(func(v uint64) uint64 { return v })
			if indexed {
				r := NewRegistry("self", nil)
				_ = r.DefineIndexes("m", IndexConfig{Type: query.Sorted, Attributes: []string{"n"}})
				s.Attach(0, r)
			}
			for i := range 4000 {
				s.put("m", string(String(fmt.Sprint(i))), &record{value: JSON(fmt.Appendf(nil, `{"n":%d,"name":"some name","tags":["a","b"]}`, i)), version: 1})
			}
			o := encode(op{Kind: opQuery, Map: "m", Limit: scanPage, Ask: &ask{Where: query.EqualTo("n", query.IntOf(77)).Append(nil)}})
			for b.Loop() {
				if d := s.Execute(o, 1, time.Time{}); d.Err != nil {
					b.Fatal(d.Err)
				}
			}
		})
	}
}
