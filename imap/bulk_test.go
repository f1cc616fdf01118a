package imap

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// C139: absent and repeated keys leave no trace in the answer.
func TestC139_GetAll_AbsentAndRepeatedKeys(t *testing.T) {
	b := newBench(t)
	b.write("a", write{Value: String("1")})
	b.write("b", write{Value: String("2")})
	for _, c := range []struct{ ask, want []string }{
		{[]string{"a", "x", "b"}, []string{"a=1", "b=2"}}, {[]string{"x", "y"}, nil}, {nil, nil},
	} {
		o := op{Kind: opGetAll, Map: "m", Bulk: &bulk{}}
		for _, k := range c.ask {
			o.Bulk.Keys = append(o.Bulk.Keys, String(k))
		}
		raw, _ := b.do(o)
		var got []string
		for _, e := range as[[]entryReply](t, raw) {
			got = append(got, Data(e.Key).Show()+"="+Data(e.Value).Show())
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v: %v, want %v", c.ask, got, c.want)
		}
	}
}

// C141: asking for what is not there leaves nothing behind.
func TestC141_ReadingUnknownKeysAddsNothing(t *testing.T) {
	b := newBench(t)
	for i := range 100 {
		k := String(fmt.Sprint(i))
		b.do(op{Kind: opGet, Map: "m", Key: k})
		b.do(op{Kind: opHas, Map: "m", Key: k})
		b.do(op{Kind: opView, Map: "m", Key: k})
		b.do(op{Kind: opGetAll, Map: "m", Bulk: &bulk{Keys: [][]byte{k}}})
		b.write(fmt.Sprint(i), write{Remove: true})
		b.write(fmt.Sprint(i), write{Keep: true, TTL: time.Second})
		b.write(fmt.Sprint(i), write{Remove: true, Evict: true})
	}
	if b.version != 0 || len(b.s.maps) != 0 || b.size() != 0 || b.s.home.Used() != 0 {
		t.Errorf("%d effects, %d maps, %d entries", b.version, len(b.s.maps), b.size())
	}
}

func TestStore_SweepsCountAndEmpty(t *testing.T) {
	for _, how := range []sweep{sweepClear, sweepEvict, sweepDestroy} {
		b := newBench(t)
		for i := range 10 {
			b.write(fmt.Sprint(i), write{Value: String("v"), TTL: time.Duration(i%2) * time.Hour})
			b.do(op{Kind: opWrite, Map: "other", Key: String(fmt.Sprint(i)), Write: &write{Value: String("v"), TTL: time.Duration(1+i) * time.Minute}})
		}
		before := b.version
		raw, _ := b.do(op{Kind: opClear, Map: "m", Sweep: how})
		if n := as[int](t, raw); n != 10 || b.version != before+1 || b.size() != 0 || b.s.maps["m"] != nil {
			t.Errorf("sweep %d: %d entries, %d effects", how, n, b.version-before)
		}
		if len(b.s.timers) != 10 {
			t.Errorf("%d timers of the other map", len(b.s.timers))
		}
		b.tick(5*time.Minute + time.Second)
		if n := len(b.s.maps["other"].records); n != 5 {
			t.Errorf("sweep %d: %d entries of the other map are left, want 5", how, n)
		}
		if raw, _ := b.do(op{Kind: opClear, Map: "m", Sweep: how}); as[int](t, raw) != 0 || b.s.bytes() == 0 {
			t.Error("a sweep of an empty map did something")
		}
	}
}

func TestStore_ContainsValue(t *testing.T) {
	b := newBench(t)
	b.write("k", write{Value: String("v"), TTL: time.Second})
	has := func(v string) bool {
		raw, _ := b.do(op{Kind: opHasValue, Map: "m", Value: String(v)})
		return as[bool](t, raw)
	}
	if !has("v") || has("w") {
		t.Error("wrong before expiry")
	}
	b.now = b.now.Add(time.Second)
	if has("v") {
		t.Error("an expired value is found")
	}
}

// heapBytes is what lives, in bytes.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// C157, and that nothing grows: a million writes and removals in one store leave no more than they must.
func TestStore_MemoryStaysBounded(t *testing.T) {
	b := newBench(t)
	value := Bytes(make([]byte, 100))
	key := func(i int) []byte { return Bytes([]byte(fmt.Sprintf("key-%09d", i))) }
	apply := func(c change) {
		b.version++
		b.s.apply(&c, b.version, b.s.at(b.now))
	}
	all, window := 1_000_000, 10_000
	if testing.Short() {
		all = 100_000
	}
	before := heapBytes()
	for i := range all {
		apply(change{Map: "m", Key: key(i), Value: append([]byte(nil), value...), TTL: time.Duration(i%2) * time.Hour})
		if i >= window {
			apply(change{Map: "m", Key: key(i - window), Remove: true})
		}
	}
	full, cost := heapBytes()-before, b.s.bytes()
	if ratio := float64(full) / float64(cost); ratio > 1.6 || ratio < 0.6 {
		t.Errorf("%d entries need %d bytes of heap, and are said to cost %d", window, full, cost)
	}
	for i := all - window; i < all-window/100; i++ {
		apply(change{Map: "m", Key: key(i), Remove: true})
	}
	if few := heapBytes() - before; few > full/4 {
		t.Errorf("after 99%% were removed: %d of %d bytes", few, full)
	}
	if b.size() != window/100 || len(b.s.timers) != window/200 {
		t.Errorf("%d entries, %d timers are left", b.size(), len(b.s.timers))
	}
	apply(change{Map: "m", Kind: changeSweep})
	if left := heapBytes() - before; left > 200_000 || b.s.home.Used() != 0 {
		t.Errorf("%d bytes are left of an empty map, %d are counted", left, b.s.home.Used())
	}
	runtime.KeepAlive(b)
}
