package clientproto

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"gridnode/imap"
	"gridnode/imap/query"
)

// portable writes a portable as clients do: fields are a name, a type and what follows it. Offsets count from before the partition hash, four bytes
// before the type; at is where in that the portable's factory lies.
func portable(at int, fields ...func(at int) []byte) []byte {
	out := make([]byte, 8) // factory and class
	binary.BigEndian.PutUint32(out[4:], 7)
	body := at + 8
	head := make([]byte, 12+4*(len(fields)+1))
	binary.BigEndian.PutUint32(head[8:], uint32(len(fields)))
	var rest []byte
	for i, f := range fields {
		from := body + len(head) + len(rest)
		binary.BigEndian.PutUint32(head[12+4*i:], uint32(from))
		rest = append(rest, f(from)...)
	}
	binary.BigEndian.PutUint32(head[4:], uint32(body+len(head)+len(rest)))
	return append(append(out, head...), rest...)
}

func aField(name string, kind byte, value []byte) func(int) []byte {
	return func(int) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(len(name)))
		return append(append(append(b, name...), kind), value...)
	}
}

// somePortable has a number, a portable in it, one that is null, and a list of two; by is how far behind its own place it lies.
func somePortable(by int) imap.Data {
	number := aField("n", 5, []byte{0, 0, 0, 9})
	text := aField("s", 9, append([]byte{0, 0, 0, 1}, 'x'))
	inner := func(at int) []byte {
		head := aField("in", 0, []byte{0})(0)
		return append(head, portable(at+len(head), number, text)...)
	}
	list := func(at int) []byte {
		b := aField("list", 10, []byte{0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 7})(0)
		first := portable(0, number)
		from := at + len(b) + 8
		b = binary.BigEndian.AppendUint32(b, uint32(from))
		b = binary.BigEndian.AppendUint32(b, uint32(from+len(first)-8))
		b = append(b, portable(from-8, number)[8:]...)
		return append(b, portable(from+len(first)-16, number)[8:]...)
	}
	d := appendInt(nil, typePortable)
	return append(d, portable(8+by, number, inner, aField("none", 0, []byte{1, 0, 0, 0, 1, 0, 0, 0, 7}), list, text)...)
}

// A portable in another object reads as if it had been written there.
func TestEmbed_MovesPortables(t *testing.T) {
	at := somePortable(0)
	for _, path := range []string{"n = 9", "in.n = 9", "in.s = 'x'", "list[any].n = 9", "list[1].n = 9", "none IS NULL", "s = 'x'"} {
		p, err := query.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := query.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		if !m.Match(query.NewRecord(nil, at)) {
			t.Errorf("the test's own portable is not well made: %s", path)
		}
	}
	before := imap.String("something that comes before")
	d, err := embed(before, at)
	if err != nil {
		t.Fatal(err)
	}
	if want := append(bytes.Clone(before), somePortable(len(before))...); !bytes.Equal(d, want) {
		t.Errorf("embedded\n%x\nwritten there\n%x", d, want)
	}
}

func FuzzEmbed(f *testing.F) {
	f.Add([]byte(somePortable(0)))
	f.Add([]byte(appendInt(nil, typePortable)))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := imap.String("x")
		if d, err := embed(bytes.Clone(before), b); err == nil && len(d) < len(before)+len(b) {
			t.Errorf("%d bytes of %d", len(d), len(before)+len(b))
		}
	})
}

// ask runs a request on a server and returns its answer.
func ask(t *testing.T, s *Server, id uint32, partition int32, args map[string]any) message {
	t.Helper()
	head := make([]byte, requestHead)
	binary.LittleEndian.PutUint32(head[partitionAt:], uint32(partition))
	q := &call{c: newConn(s, nil), m: message{{body: head}}, spec: specs[id]}
	for _, f := range q.spec.fields {
		q.args = append(q.args, args[f.name])
	}
	b, err := handlers[id](t.Context(), q)
	if err != nil {
		t.Fatalf("%s: %v", q.spec.name, err)
	}
	end := frameHead + answerHead // of the initial frame, which is longer in requests
	b = slices.Concat(b[:end], make([]byte, requestHead-answerHead), b[end:])
	b[0] += requestHead - answerHead
	m, err := readOne(bytes.NewReader(b), maxMessage)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// An iteration by pages finds every entry once, whatever the size of the pages and of the keys.
func TestIterate(t *testing.T) {
	s := newTestServer(1)
	want := map[string]bool{}
	for i := range 100 {
		k := imap.String(fmt.Sprintf("%0*d", i+1, i))
		want[string(k)] = true
		if _, err := s.cfg.Maps.Map("m").Set(t.Context(), imap.Key{Data: k}, imap.String("v"), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, batch := range []int64{1, 7, 100, 1000} {
		seen := map[string]bool{}
		pointers := [][2]int32{{startPointer, -1}}
		for pages := 0; pointers[len(pointers)-1][0] >= 0; pages++ {
			if pages > 101 {
				t.Fatal("it does not end")
			}
			m := ask(t, s, 0x013800, 0, map[string]any{"name": "m", "batch": batch, "pointers": pointers})
			r := &reader{frames: m[1:]}
			list, err := r.variable(kPairs)
			if err != nil {
				t.Fatal(err)
			}
			pointers = list.([][2]int32)
			entries, err := r.variable(kEntries)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries.([]entry) {
				if seen[string(e.key.Data)] || string(e.value.Data) != string(imap.String("v")) {
					t.Errorf("%s comes again, or with another value: %x", e.key.Show(), e.value.Data)
				}
				seen[string(e.key.Data)] = true
			}
		}
		if len(seen) != len(want) {
			t.Errorf("pages of %d: %d entries of %d", batch, len(seen), len(want))
		}
	}
	q := &call{c: newConn(s, nil), m: message{{body: make([]byte, requestHead)}}, spec: specs[0x013700], args: []any{int64(5), "m", [][2]int32{{1, 2}, {9, 0}}}}
	if _, err := handlers[0x013700](t.Context(), q); codeOf(err) != codeIllegalArgument {
		t.Errorf("pointers that nobody gave: %v", err)
	}
}

// A schema is read as it was written, and by the whole list.
func TestSchemas(t *testing.T) {
	var want []*query.Schema
	e := newEvent(0x001500, 1, -1)
	e.open()
	for _, fields := range [][]query.Field{nil, {{Name: "b", Kind: 17}, {Name: "a", Kind: 9}}} {
		s, err := query.NewSchema(fmt.Sprint("T", len(fields)), fields)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, s)
		schema(e, s)
	}
	e.close()
	m, err := readOne(bytes.NewReader(e.bytes()), maxMessage)
	if err != nil {
		t.Fatal(err)
	}
	args, err := parse(specs[0x001500], m)
	if err != nil {
		t.Fatal(err)
	}
	q := &call{spec: specs[0x001500], args: args}
	got, err := q.schemas()
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d schemas of %d: %v", len(got), len(want), err)
	}
	for i := range want {
		if got[i].ID != want[i].ID || got[i].Type != want[i].Type || !slices.Equal(got[i].Fields, want[i].Fields) {
			t.Errorf("read %+v, written %+v", got[i], want[i])
		}
	}
	if b := ask(t, newTestServer(1), 0x001400, -1, map[string]any{"schemaId": int64(1)}); len(b) != 2 || b[1].flags&flagNull == 0 {
		t.Errorf("a schema that nobody knows: %v", b)
	}
}

// Who listens for objects hears of each once: of all, or where it listens everywhere, of those of that member.
func TestObjects(t *testing.T) {
	s := newTestServer(1)
	all, local := newConn(s, nil), newConn(s, nil)
	all.objects = map[uuidValue]objectListener{newUUID(): {id: 1}}
	local.objects = map[uuidValue]objectListener{newUUID(): {id: 2, local: true}}
	s.conns[all], s.conns[local] = struct{}{}, struct{}{}
	got := func(c *conn) (out []string) {
		for in := bytes.NewReader(c.out); in.Len() > 0; {
			m, err := readOne(in, maxMessage)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(m[1].body)+" "+string(m[3].body))
		}
		c.out = nil
		return out
	}
	s.object("a", true)
	s.object("a", true)
	s.Object("b", true)
	s.Object("a", false)
	s.object("a", false)
	if list := got(all); fmt.Sprint(list) != "[a CREATED b CREATED a DESTROYED]" {
		t.Errorf("a listener of all: %q", list)
	}
	if list := got(local); fmt.Sprint(list) != "[a CREATED]" {
		t.Errorf("a local listener: %q", list)
	}
	if list := s.Objects(); fmt.Sprint(list) != "[b]" {
		t.Errorf("objects %q", list)
	}
}
