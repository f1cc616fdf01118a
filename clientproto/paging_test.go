package clientproto

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gridnode/grid"
	"gridnode/imap"
)

// What clients send for an object of a class: the members' name of it.
func TestClassNames(t *testing.T) {
	for raw, want := range map[string]string{
		"fffffffe 01 00000043 00000002 00000004": "hazelcast/67/2 00000004",
		"ffffffff 00000044 00000001 00000000 00000014 00000000 00000014": "hazelcast/68/1 " +
			"ffffffff0000004400000001000000000000001400000000" + "00000014",
		// As Java 17 writes new B.Back(), an object of a class with one int.
		"ffffff9c aced00057372000642244261636b7f02cb844ec914f10200014900016e787000000007": "java/B$Back " +
			"ffffff9caced00057372000642244261636b7f02cb844ec914f10200014900016e787000000007",
		"ffffff9c aced00057372ffff42":         "error: 65534 bytes are missing",
		"ffffff9c aced0005767200064224426163": "error: what Java serialized is not an object",
		"ffffff9c ac":                         "error: 3 bytes are missing",
		"fffffff5 00000001 61":                "error: an object of type -11 where",
		"fffffffe 00 00000043":                "error: an object that is not identified",
		"":                                    "error: 4 bytes are missing",
	} {
		name, arg, err := className(data{Data: unhex(t, raw)})
		got := fmt.Sprintf("%s %x", name, []byte(arg))
		if name != "" && err == nil && strings.HasPrefix(name, "hazelcast/67/") {
			got = fmt.Sprintf("%s %x", name, arg.Payload())
		}
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want && !(err != nil && strings.Contains(got, strings.TrimPrefix(want, "error: "))) {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

// holder is a PagingPredicateHolder as clients write it, behind its first mark.
func holder(size, page int32, iteration byte, comparator imap.Data, rest ...imap.Data) []frame {
	head := binary.LittleEndian.AppendUint32(nil, uint32(size))
	head = append(binary.LittleEndian.AppendUint32(head, uint32(page)), iteration)
	of := func(d imap.Data) frame {
		if d == nil {
			return frame{flags: flagNull}
		}
		return frame{body: append(make([]byte, 4), d...)}
	}
	frames := []frame{{body: head}, {flags: flagBegin}, {}, {flags: flagBegin}, {flags: flagEnd}, {flags: flagEnd}, of(nil), of(comparator)}
	for _, d := range rest {
		frames = append(frames, of(d))
	}
	return append(frames, frame{flags: flagEnd})
}

// A page of the partition of one key has that partition's entries, in the comparator's order; what newer clients add is read, too.
func TestPaging_InOnePartition(t *testing.T) {
	s := newTestServer(5)
	s.cfg.Comparators = map[string]NewComparator{ProcessorName(1, 1): func(imap.Data) (Comparator, error) {
		return func(a, b imap.Entry) int { return -slices.Compare(a.Key, b.Key) }, nil
	}}
	m := s.cfg.Maps.Map("m")
	by := map[grid.PartitionID][]string{}
	for i := range 40 {
		k := imap.Key{Data: imap.String(fmt.Sprintf("k%02d", i))}
		if _, err := m.Set(t.Context(), k, imap.String("v"), 0); err != nil {
			t.Fatal(err)
		}
		p, _ := s.cfg.Maps.Partition(k)
		by[p] = append(by[p], string(k.Data))
	}
	order := imap.Data(appendInt(append(appendInt(nil, typeIdentified), 1), 1))
	order = appendInt(order, 1)
	some := imap.String("k07")
	p, _ := s.cfg.Maps.Partition(imap.Key{Data: some})
	want := slices.Clone(by[p])
	slices.Reverse(want)
	for name, frames := range map[string][]frame{
		"old clients": holder(100, 0, 0, order, some),
		"new clients": append(holder(100, 0, 0, order, some)[:9], frame{flags: flagNull}, frame{flags: flagEnd}),
		"several": append(holder(100, 0, 0, order, nil)[:9], frame{flags: flagBegin}, frame{body: append(make([]byte, 4), some...)},
			frame{flags: flagEnd}, frame{flags: flagEnd}),
	} {
		q := &call{c: newConn(s, nil), m: message{{body: make([]byte, requestHead)}}, spec: specs[0x013400]}
		for _, f := range q.spec.fields {
			q.args = append(q.args, map[string]any{"name": "m", "predicate": frames}[f.name])
		}
		b, err := handlers[0x013400](t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		answer, err := readAnswer(strings.NewReader(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range answer[2:] {
			if f.is(flagEnd) {
				break
			}
			got = append(got, string(f.body[4:]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
