package imap

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gridnode/grid"
)

// bench is a store with a version counter, on which operations are executed and applied as a primary does it.
type bench struct {
	t       *testing.T
	s       *Store
	version uint64
	now     time.Time
	woken   []string // by what try did
}

func newBench(t *testing.T) *bench {
	return &bench{t: t, s: NewStore(func(v uint64) uint64 { return v }), now: time.Now()}
}

func (b *bench) do(o op) ([]byte, uint64) {
	b.t.Helper()
	d := b.s.Execute(encode(o), b.version+1, b.now)
	if d.Err != nil {
		b.t.Fatalf("execute %+v: %v", o, d.Err)
	}
	if d.Effect != nil {
		b.version++
		if _, err := b.s.Apply(d.Effect, b.version, b.now); err != nil {
			b.t.Fatalf("apply: %v", err)
		}
	}
	return d.Reply, d.Sees
}

func (b *bench) write(key string, w write) writeReply {
	b.t.Helper()
	raw, _ := b.do(op{Kind: opWrite, Map: "m", Key: String(key), Write: &w})
	return as[writeReply](b.t, raw)
}

func (b *bench) get(key string) entryReply {
	b.t.Helper()
	raw, _ := b.do(op{Kind: opGet, Map: "m", Key: String(key)})
	return as[entryReply](b.t, raw)
}

func as[T any](t *testing.T, raw []byte) T {
	t.Helper()
	v, err := decode[T](raw)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// contentOf is all that a snapshot carries, by map and key.
func contentOf(s *Store, at time.Time) map[string]copied {
	now := s.at(at)
	out := map[string]copied{}
	for name, m := range s.maps {
		for k, r := range m.records {
			out[name+"/"+k] = r.copied(name, k, now)
		}
	}
	return out
}

func TestStore_Conditions(t *testing.T) {
	one, two := String("1"), String("2")
	for _, c := range []struct {
		name    string
		before  Data
		w       write
		applied bool
		after   Data
	}{
		{"put over nothing", nil, write{Value: one}, true, one},
		{"put over something", one, write{Value: two}, true, two},
		{"if absent, absent", nil, write{Cond: condAbsent, Value: one}, true, one},
		{"if absent, present", one, write{Cond: condAbsent, Value: two}, false, one},
		{"if present, absent", nil, write{Cond: condPresent, Value: one}, false, nil},
		{"if present, present", one, write{Cond: condPresent, Value: two}, true, two},
		{"if version, same", one, write{Cond: condVersion, Version: 1, Value: two}, true, two},
		{"if version, other", one, write{Cond: condVersion, Version: 7, Value: two}, false, one},
		{"if version, absent", nil, write{Cond: condVersion, Version: 0, Value: two}, false, nil},
		{"if same, same", one, write{Cond: condValue, Old: one, Value: two}, true, two},
		{"if same, other", one, write{Cond: condValue, Old: two, Value: two}, false, one},
		{"remove something", one, write{Remove: true}, true, nil},
		{"remove nothing", nil, write{Remove: true}, false, nil},
		{"remove other version", one, write{Remove: true, Cond: condVersion, Version: 9}, false, one},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			if c.before != nil {
				b.write("k", write{Value: c.before})
			}
			if got := b.write("k", c.w); got.Applied != c.applied {
				t.Errorf("applied = %v, want %v", got.Applied, c.applied)
			}
			if got := b.get("k"); string(got.Value) != string(c.after) {
				t.Errorf("after: %q, want %q", got.Value, c.after)
			}
		})
	}
}

func TestStore_AnswersDependOnTheNewestWriteTheySaw(t *testing.T) {
	b := newBench(t)
	b.write("a", write{Value: String("1")}) // 1
	b.write("b", write{Value: String("1")}) // 2
	b.write("b", write{Remove: true})       // 3
	for _, c := range []struct {
		o    op
		want uint64
	}{
		{op{Kind: opGet, Map: "m", Key: String("a")}, 1},
		{op{Kind: opGet, Map: "m", Key: String("b")}, 3},
		{op{Kind: opGet, Map: "m", Key: String("never")}, 3}, // cannot tell apart which removal it was
		{op{Kind: opSize, Map: "m"}, 3},
		{op{Kind: opScan, Map: "m", Limit: 100}, 3},
		{op{Kind: opStats}, 3},
	} {
		if _, sees := b.do(c.o); sees != c.want {
			t.Errorf("%+v sees %d, want %d", c.o, sees, c.want)
		}
	}
}

func TestStore_Expiry(t *testing.T) {
	b := newBench(t)
	b.write("k", write{Value: String("1"), TTL: time.Second})
	b.write("other", write{Value: String("1")})
	if left := b.get("k").TTL; left != time.Second {
		t.Errorf("time left = %v", left)
	}
	b.now = b.now.Add(time.Second)
	if raw, _ := b.do(op{Kind: opSize, Map: "m"}); as[int](t, raw) != 1 {
		t.Error("an expired entry is counted")
	}
	before := b.version
	if got := b.get("k"); got.Version != 0 {
		t.Error("an expired entry is read")
	}
	if b.version != before+1 {
		t.Error("the read of an expired entry did not replicate its removal")
	}
	if !b.write("k", write{Cond: condAbsent, Value: String("2"), TTL: time.Minute}).Applied {
		t.Error("put-if-absent over an expired entry refused")
	}
	if b.s.Over(b.now, nil) != nil {
		t.Error("an entry that was written anew expired by its old time")
	}
	b.now = b.now.Add(time.Hour)
	effect := b.s.Over(b.now, nil)
	if _, err := b.s.Apply(effect, b.version+1, b.now); err != nil || b.s.size("m", b.now) != 1 {
		t.Errorf("after expiry: size %d, err %v", b.s.size("m", b.now), err)
	}
	b.write("k", write{Value: String("1"), TTL: time.Second})
	b.write("k", write{Value: String("2")})
	b.now = b.now.Add(time.Hour)
	if b.get("k").Version == 0 {
		t.Error("a write without a time to live kept the old one")
	}
}

func TestStore_Txn(t *testing.T) {
	b := newBench(t)
	at := func(m, k string) ref { return ref{Map: m, Key: String(k)} }
	run := func(x txn) writeReply {
		raw, _ := b.do(op{Kind: opTxn, Txn: &x})
		return as[writeReply](t, raw)
	}
	rep := run(txn{
		If:  []cond{{Ref: at("a", "1")}, {Ref: at("b", "1")}},
		Put: []change{{Map: "a", Key: String("1"), Value: String("x")}, {Map: "b", Key: String("1"), Value: String("y")}},
	})
	if !rep.Applied || rep.Version == 0 {
		t.Fatalf("first transaction: %+v", rep)
	}
	rep = run(txn{
		If:     []cond{{Ref: at("a", "1"), Version: rep.Version}, {Ref: at("b", "1"), Version: 0}},
		Delete: []ref{at("a", "1")},
	})
	if rep.Applied || len(rep.Found) != 2 || string(rep.Found[1].Value) != string(String("y")) {
		t.Errorf("conflicting transaction: %+v", rep)
	}
	rep = run(txn{If: []cond{{Ref: at("b", "1"), Version: 1}}, Delete: []ref{at("a", "1"), at("b", "1")}})
	if !rep.Applied || len(b.s.maps) != 0 {
		t.Errorf("after deleting all: applied %v, %d maps left", rep.Applied, len(b.s.maps))
	}
}

func TestStore_SnapshotAndPagedScan(t *testing.T) {
	b := newBench(t)
	want := map[string]bool{}
	for i := range 500 {
		k := fmt.Sprintf("key-%03d", i)
		want[string(String(k))] = true
		b.write(k, write{Value: Bytes(make([]byte, i)), TTL: time.Duration(i%2) * time.Hour})
	}
	c := newBench(t)
	for _, piece := range piecesOf(b.s, 4000, b.now) {
		if err := c.s.Restore(piece, b.now); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(contentOf(b.s, b.now), contentOf(c.s, b.now)); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	got := map[string]bool{}
	o := op{Kind: opScan, Map: "m", Limit: 3000}
	for more := true; more; {
		raw, _ := c.do(o)
		rep := as[scanReply](t, raw)
		for _, e := range rep.Entries {
			if got[string(e.Key)] {
				t.Fatalf("%q came twice", e.Key)
			}
			got[string(e.Key)] = true
			o.Key = e.Key
		}
		more = rep.More
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStore_MemoryIsGivenBack(t *testing.T) {
	b := newBench(t)
	for i := range 100 {
		b.write(fmt.Sprint(i), write{Value: Bytes(make([]byte, 10)), TTL: time.Hour})
	}
	for i := range 100 {
		b.write(fmt.Sprint(i), write{Remove: true})
	}
	if len(b.s.maps) != 0 {
		t.Errorf("%d maps are left", len(b.s.maps))
	}
}

func FuzzExecute(f *testing.F) {
	f.Add(encode(op{Kind: opScan, Map: "m", Limit: 10}))
	f.Add(encode(op{Kind: opWrite, Map: "m", Key: String("k"), Write: &write{Value: String("v"), TTL: 1}}))
	f.Add(encode(op{Kind: opTxn, Txn: &txn{If: []cond{{Ref: ref{Map: "m"}}}}}))
	f.Add(encode(op{Kind: opWrite, Map: "m", Key: String("k"), Write: &write{Value: String("v"), Idle: 1 << 62, TTL: Forever - 1}}))
	f.Add(encode(op{Kind: opWrite, Map: "m", Key: String("k"), Write: &write{Keep: true, TTL: -1}}))
	f.Add(encode(op{Kind: opPutAll, Map: "m", Bulk: &bulk{Put: []pair{{Key: String("k"), Value: String("v")}}}}))
	f.Add(encode(op{Kind: opGetAll, Map: "m", Bulk: &bulk{Keys: [][]byte{String("k")}}}))
	f.Add(encode(op{Kind: opClear, Map: "m", Sweep: sweepDestroy}))
	f.Add(encode(op{Kind: opLock, Map: "m", Key: String("k"), Who: who{Via: "a"}, Lock: &lockOp{Do: lockTake, Lease: Forever}}))
	f.Add(encode(op{Kind: opLock, Who: who{Session: "c", Via: "a"}, Lock: &lockOp{Do: lockMove}}))
	f.Add(encode(op{Kind: opProcess, Map: "m", Proc: &procOp{Name: "x", Keys: [][]byte{String("k")}}}))
	f.Add(encode(effect{Changes: []change{
		{Map: "m", Key: String("k"), Value: String("v"), TTL: 1, Idle: 1}, {Map: "m", Key: String("k"), Kind: changeAccess, Age: -1},
		{Map: "m", Kind: changeSweep, Keep: [][]byte{String("k")}}, {Kind: changeLock, Lock: &lockState{Map: "m", Count: 1, Lease: 1}},
	}}))
	f.Add(encode(piece{
		Entries: []copied{{Map: "m", Key: String("k"), TTL: 1, Idle: 1, Left: -1, Created: 1 << 62}},
		Locks:   []lockState{{Map: "m", Key: String("k"), Count: 1}},
	}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := NewStore(func(v uint64) uint64 { return v })
		for n := range uint64(3) {
			if d := s.Execute(raw, 1+n, time.Now()); d.Err == nil && d.Effect != nil {
				if _, err := s.Apply(d.Effect, 1+n, time.Now()); err != nil {
					t.Fatalf("own effect refused: %v", err)
				}
			}
		}
		_, _ = s.Apply(raw, 5, time.Now())
		_ = s.Restore(raw, time.Now())
		if e := s.Over(time.Now(), func(grid.MemberID) bool { return false }); e != nil {
			if _, err := s.Apply(e, 6, time.Now()); err != nil {
				t.Fatalf("own effect refused: %v", err)
			}
		}
		s.bytes()
		d := s.Execute(raw, 7, time.Now())
		if d.Err == nil && d.Effect != nil {
			if _, err := s.Apply(d.Effect, 1, time.Now()); err != nil {
				t.Fatalf("own effect refused: %v", err)
			}
		}
		_ = s.Restore(raw, time.Now())
	})
}

func TestData(t *testing.T) {
	for _, c := range []struct {
		d    Data
		body string
		typ  string
	}{
		{String("k"), "k", "text/plain; charset=utf-8"},
		{String(""), "", "text/plain; charset=utf-8"},
		{JSON([]byte(`{"a":1}`)), `{"a":1}`, "application/json"},
		{Bytes([]byte{1, 2}), "\x01\x02", "application/octet-stream"},
		{Media("text/html", []byte("<p>")), "<p>", "text/html"},
	} {
		body, typ, err := c.d.Text()
		if err != nil || string(body) != c.body || typ != c.typ {
			t.Errorf("%x: %q %q %v", c.d, body, typ, err)
		}
	}
	if got := fmt.Sprintf("%x", String("k")); got != "fffffff5000000016b" {
		t.Errorf("string k is %s", got)
	}
	if p := grid.PartitionOf(String("key").Hash(), 271); p != 80 {
		t.Errorf("string key lives in %d", p)
	}
	for _, bad := range []Data{nil, {1}, String("abc")[:6], Media("text/html", nil)[:8]} {
		if _, _, err := bad.Text(); err == nil && bad.Type() != 0 {
			t.Errorf("%x: no error", bad)
		}
	}
}

// What clients wrote as numbers reads as JSON, in all of their types and up to the ends of their ranges.
func TestData_Literal(t *testing.T) {
	for want, v := range map[string]any{
		"true": true, "false": false, "-128": int8(-128), "-32768": int16(-32768), "-2147483648": int32(math.MinInt32),
		"-9223372036854775808": int64(math.MinInt64), "9007199254740993": int64(9007199254740993), "0.1": float32(0.1), "0.25": 0.25,
		"1e+300": 1e300, `"NaN"`: math.NaN(), `"-Inf"`: math.Inf(-1),
	} {
		d, err := EncodeValue(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := d.Literal(); !ok || string(got) != want || !json.Valid(got) || d.Foreign() {
			t.Errorf("%v reads as %s, %v", v, got, ok)
		}
	}
	for _, d := range []Data{nil, String("1"), JSON([]byte("1")), Bytes([]byte{1}), newData(TypeInt, 4), append(newData(TypeBool, 2), 1, 1)} {
		if got, ok := d.Literal(); ok {
			t.Errorf("%x reads as the literal %s", d, got)
		}
	}
	for typ, foreign := range map[int32]bool{TypeString: false, TypeInt: false, TypeMedia: false, TypeRaw: true, -29: true, 7: true} {
		if got := newData(typ, 0).Foreign(); got != foreign {
			t.Errorf("type %d foreign: %v", typ, got)
		}
	}
}
