package clientproto

import (
	"encoding/hex"
	"math"
	"testing"

	"gridnode/grid"
	"gridnode/imap"
)

// What Hazelcast 5.5.0 for Java writes of predicates that only it has.
const (
	builtPredicate = "fffffffe000000002d636f6d2e68617a656c636173742e71756572792e696d706c2e5072656469636174654275696c646572496d706c000000017300000001" +
		"fffffffe01ffffffec0000000100000002fffffffe01ffffffec000000020000000161fffffff900000005fffffff900000003" +
		"fffffffe01ffffffec00000007000000017300000002fffffff5000000027434fffffff5000000027435"
	enumPredicate = "fffffffe01ffffffec0000000b00000002fffffffe01ffffffec000000030000000173ffffff9caced00057e7200166a6176612e6c616e672e546872656164" +
		"24537461746500000000000000001200007872000e6a6176612e6c616e672e456e756d000000000000000012000078707400034e4557" +
		"fffffffe01ffffffec000000030000000163fffffffb0078"
	nullPredicate   = "fffffffe01ffffffec0000000b00000002fffffffe01ffffffec000000050000000173fffffffffffffffe01ffffffec0000000c0000000173ffffffff"
	placePredicate  = "fffffffe01ffffffec00000010fffffff5000000016bfffffffe01ffffffec000000030000000161fffffff900000001"
	placesPredicate = "fffffffe01ffffffec00000015ffffffd900000002fffffff5000000016bfffffff900000002fffffffe01ffffffec0000000e"
	innerPlace      = "fffffffe01ffffffec0000000100000002fffffffe01ffffffec0000000efffffffe01ffffffec00000010fffffff5000000016bfffffffe01ffffffec0000000e"
)

func dataOf(t *testing.T, text string) data {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data{Data: b}
}

func TestPredicates_OfJava(t *testing.T) {
	for text, want := range map[string]string{
		builtPredicate: "(a BETWEEN 3 AND 5) AND (s IN ('t4', 't5'))",
		enumPredicate:  "(s = 'NEW') OR (c = 'x')",
		nullPredicate:  "(s IS NULL) OR (s IS NULL)",
	} {
		p, err := predicateOf(dataOf(t, text))
		if err != nil || p.String() != want {
			t.Errorf("%s, %v; want %s", p, err, want)
		}
		for cut := 0; cut < len(text); cut += 2 { // none of them reads what is not there
			if _, err := predicateOf(dataOf(t, text[:cut])); err == nil && cut >= 8 {
				t.Errorf("%s, cut after %d bytes: no error", want, cut/2)
			}
		}
	}
}

// A predicate for the partitions of some keys is asked there alone, whatever it is asked for.
func TestPredicates_OfSomePartitions(t *testing.T) {
	s := newTestServer(7)
	m := s.cfg.Maps.Map("m")
	at := func(k imap.Data) grid.PartitionID {
		p, _ := s.cfg.Maps.Partition(imap.Key{Data: k})
		return p
	}
	for _, c := range []struct {
		predicate string
		keys      []imap.Data
	}{
		{placePredicate, []imap.Data{imap.String("k")}},
		{"fffffffe01ffffffec00000015ffffffd70000000000000001fffffff5000000016bfffffffe01ffffffec0000000e", []imap.Data{imap.String("k")}},
		{placesPredicate, []imap.Data{imap.String("k"), {0xff, 0xff, 0xff, 0xf9, 0, 0, 0, 2}}},
	} {
		in := map[grid.PartitionID]bool{}
		for _, k := range c.keys {
			in[at(k)] = true
		}
		want := map[string]bool{}
		for i := range 100 {
			k := imap.String(string(rune('A' + i)))
			if _, err := m.Set(t.Context(), imap.Key{Data: k}, imap.JSON([]byte(`{"a":1}`)), 0); err != nil {
				t.Fatal(err)
			}
			if in[at(k)] {
				want[string(k)] = true
			}
		}
		args := map[string]any{
			"name": "m", "predicate": dataOf(t, c.predicate), "aggregator": data{Data: identified(factoryAggregators, 4, "a")},
			"projection": data{Data: identified(factoryProjections, 0, "a")},
		}
		for id, kind := range map[uint32]kind{0x012600: kDataList, 0x012700: kDataList, 0x013c00: kDataList, 0x012800: kEntries} {
			got, err := (&reader{frames: ask(t, s, id, -1, args)[1:]}).variable(kind)
			list, _ := got.([]data)
			entries, _ := got.([]entry)
			for _, e := range entries {
				list = append(list, e.key)
			}
			if err != nil || len(list) != len(want) {
				t.Errorf("%s: %d results of %d, %v", specs[id].name, len(list), len(want), err)
			}
			for _, k := range list {
				if (id == 0x012600 || id == 0x012800) && !want[string(k.Data)] {
					t.Errorf("%s: %s is elsewhere", specs[id].name, k.Show())
				}
			}
		}
		count, err := (&reader{frames: ask(t, s, 0x013a00, -1, args)[1:]}).value()
		if err != nil || string(count.Data) != string(longData(int64(len(want)))) {
			t.Errorf("counted %x, %v; want %d", count.Data, err, len(want))
		}
		ask(t, s, 0x013e00, -1, args)
		if n, err := m.Size(t.Context()); err != nil || n != 100-len(want) {
			t.Errorf("%d are left of 100 without %d, %v", n, len(want), err)
		}
	}
	if p, err := predicateOf(dataOf(t, innerPlace)); err == nil {
		t.Errorf("places inside of another predicate: %s", p)
	}
}

// A sum that is too large for its type is the question's fault: it was taken for a message that is too large.
func TestAggregate_TooLarge(t *testing.T) {
	s := newTestServer(3)
	for _, k := range []string{"a", "b"} {
		if _, err := s.cfg.Maps.Map("m").Set(t.Context(), imap.Key{Data: imap.String(k)}, longData(math.MaxInt64), 0); err != nil {
			t.Fatal(err)
		}
	}
	const aggregateID = 0x013900
	for _, class := range []int32{8, 11, 13} { // sums of whole numbers
		q := &call{c: newConn(s, nil), m: message{{body: make([]byte, requestHead)}}, spec: specs[aggregateID]}
		args := map[string]any{"name": "m", "aggregator": data{Data: identified(factoryAggregators, class, "this")}}
		for _, f := range q.spec.fields {
			q.args = append(q.args, args[f.name])
		}
		if _, err := handlers[aggregateID](t.Context(), q); codeOf(err) != codeQuery {
			t.Errorf("class %d: %v, code %d", class, err, codeOf(err))
		}
	}
}
