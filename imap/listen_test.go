package imap

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gridnode/grid"
	"gridnode/imap/query"
)

// listenAt makes a store with a listener of the same member, and returns what the listener got so far.
func listenAt(t *testing.T, b *bench, w wireReg) (*registration, func() []string) {
	t.Helper()
	r := NewRegistry("self", nil)
	w.Map, w.Value, w.Old = "m", true, true
	reg, err := w.compile("self")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	in := newInbox(reg, 1<<12, nil)
	r.own[1], r.inboxes[1], reg.id.n, reg.wire.N = reg, in, 1, 1
	r.rebuild()
	b.s.Attach(3, r)
	return reg, func() []string {
		r.pump(time.Now(), true)
		for {
			e, ok, _ := in.pop()
			if !ok {
				return got
			}
			text := fmt.Sprintf("%v %s %d", e.Type, e.Key.Show(), e.Version)
			if e.Count > 0 {
				text += fmt.Sprint(" of ", e.Count)
			}
			got = append(got, text)
		}
	}
}

func TestListen_OnlyWhatIsCommitted(t *testing.T) {
	b := newBench(t)
	_, got := listenAt(t, b, wireReg{})
	b.s.Committed(0, 1, 1)
	for i := range 6 {
		b.write(fmt.Sprint(i), write{Value: String("v")})
	}
	if list := got(); len(list) != 0 {
		t.Errorf("before any commit: %q", list)
	}
	b.s.Committed(2, 1, 1)
	if list := got(); !slices.Equal(list, []string{"added 0 1", "added 1 2"}) {
		t.Errorf("two are committed: %q", list)
	}
	b.s.Committed(6, 1, 1)
	if list := got(); len(list) != 6 {
		t.Errorf("all are committed: %q", list)
	}
}

// TestListen_OverAnExpiredEntry: the old value expires, and the new one is added.
func TestListen_OverAnExpiredEntry(t *testing.T) {
	process := func(Processing) (Processed, error) { return Processed{Put: String("p")}, nil }
	b := newBench(t).with(HomeConfig{Processors: map[string]Processor{"put": process}})
	_, got := listenAt(t, b, wireReg{})
	put := func(k string) { b.write(k, write{Value: String("v"), TTL: time.Second}) }
	put("write")
	put("read")
	put("txn")
	put("bulk")
	put("proc")
	b.now = b.now.Add(time.Minute)
	put("write")
	b.get("read")
	b.do(op{Kind: opTxn, Txn: &txn{Put: []change{{Map: "m", Key: String("txn"), Value: String("x")}}}})
	b.do(op{Kind: opPutAll, Map: "m", Bulk: &bulk{Put: []pair{{Key: String("bulk"), Value: String("x")}, {Key: String("bulk"), Value: String("y")}}}})
	b.do(op{Kind: opProcess, Map: "m", Proc: &procOp{Name: "put", Keys: [][]byte{String("proc")}}})
	b.do(op{Kind: opProcess, Map: "m", Proc: &procOp{Name: "put", Keys: [][]byte{String("proc")}}})
	b.write("txn", write{Keep: true, TTL: time.Second}) // no event
	b.now = b.now.Add(time.Minute)
	b.version++
	if _, err := b.s.Apply(b.s.Over(b.now, nil), b.version, b.now); err != nil {
		t.Fatal(err)
	}
	b.s.Committed(b.version, 1, 1)
	want := []string{
		"added write 1", "added read 2", "added txn 3", "added bulk 4", "added proc 5", "expired write 6", "added write 6", "expired read 7",
		"expired txn 8", "added txn 8", "expired bulk 9", "added bulk 9", "updated bulk 9", "expired proc 10", "added proc 10", "updated proc 11",
	}
	all := got()
	for _, e := range all[min(len(want), len(all)):] {
		if e != "expired write 13" && e != "expired txn 13" {
			t.Errorf("in the end: %s", e)
		}
	}
	if len(all) != len(want)+2 {
		t.Errorf("%d events, want %d", len(all), len(want)+2)
	}
	if list := all[:min(len(want), len(all))]; !slices.Equal(list, want) {
		t.Errorf("events %q, want %q", list, want)
	}
}

// TestListen_Causes: entries that are swept come as one event, cleared or evicted; those that are evicted singly come one by one.
func TestListen_Causes(t *testing.T) {
	b := newBench(t)
	_, got := listenAt(t, b, wireReg{Key: String("a")})
	var evicting effect
	for _, k := range []string{"a", "b", "c"} {
		b.write(k, write{Value: String("v")})
		evicting.Changes = append(evicting.Changes, change{Map: "m", Key: String(k), Remove: true, Cause: causeEvicted})
	}
	apply := func(e effect) {
		b.version++
		if _, err := b.s.Apply(encode(e), b.version, b.now); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func(how sweep) { b.do(op{Kind: opClear, Map: "m", Sweep: how}) }
	lock := func(do lockDo) {
		b.do(op{Kind: opLock, Map: "m", Key: String("c"), Who: who{Session: "s", Via: "s"}, Lock: &lockOp{Do: do}})
	}
	lock(lockTake)
	sweep(sweepClear) // 5
	sweep(sweepClear) // nothing
	lock(lockRelease)
	b.write("a", write{Value: String("v")}) // 7
	sweep(sweepEvict)                       // 8
	b.write("a", write{Value: String("v")}) // 9
	b.write("a", write{Remove: true, Evict: true})
	b.write("a", write{Value: String("v")}) // 11
	apply(evicting)
	b.write("a", write{Value: String("v")}) // 13
	sweep(sweepDestroy)
	b.s.Committed(b.version, 1, 1)
	if c := &b.s.capture; len(c.pending) != 0 || c.bytes != 0 {
		t.Errorf("%d pending, %d bytes", len(c.pending), c.bytes)
	}
	list := got()
	if want := []string{
		"added a 1", "cleared  5 of 2", "added a 7", "evicted  8 of 2", "added a 9", "evicted a 10", "added a 11", "evicted a 12", "added a 13",
		"cleared  14 of 1",
	}; !slices.Equal(list, want) {
		t.Errorf("events %q, want %q", list, want)
	}
}

// TestListen_Takeover plays two primaries: the second repeats what the first may not have told, and the listener takes it once.
func TestListen_Takeover(t *testing.T) {
	b, c := newBench(t), newBench(t)
	r := NewRegistry("self", nil)
	reg, _ := wireReg{Map: "m"}.compile("self")
	in := newInbox(reg, 100, nil)
	r.own[1], r.inboxes[1], reg.id.n = reg, in, 1
	r.rebuild()
	// Each store has a registration of its own, as on two members.
	other := NewRegistry("other", nil)
	reg2, _ := wireReg{Map: "m", N: 1}.compile("self")
	other.owners["self"] = &owner{regs: map[uint64]*registration{1: reg2}}
	other.rebuild()
	b.s.Attach(0, r)
	c.s.Attach(0, other)
	write := func(n int) {
		for range n {
			raw := encode(op{Kind: opWrite, Map: "m", Key: String("k"), Write: &write{Value: String("v")}})
			b.version++
			d := b.s.Execute(raw, b.version, b.now)
			for _, s := range []*Store{b.s, c.s} {
				if _, err := s.Apply(d.Effect, b.version, b.now); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	from := func(m grid.MemberID, o *outbox) {
		if body, n := o.next(time.Now(), true); body != nil {
			msg, err := decode[registryMsg](body)
			if err != nil {
				t.Fatal(err)
			}
			in.receive(m, *msg.Events, time.Now())
			in.receive(m, *msg.Events, time.Now()) // twice, as after a lost answer
			o.sent(n, nil)
		}
	}
	b.s.Committed(0, 1, 1)
	in.baseline(0, attendReply{Born: 1})
	write(5)
	b.s.Committed(3, 1, 1)
	from("b", reg.out)
	if n := in.pending(); n != 3 {
		t.Errorf("%d events of the first primary", n)
	}
	c.s.Committed(5, 1, 2) // the second has all five, and tells of all
	from("c", reg2.out)
	b.s.Committed(5, 1, 1) // too late, but true
	from("b", reg.out)
	if n := in.pending(); n != 5 {
		t.Errorf("%d events after the takeover", n)
	}
	for v := uint64(1); v <= 5; v++ {
		if e, _, _ := in.pop(); e.Version != v {
			t.Errorf("version %d in place of %d", e.Version, v)
		}
	}
	// A third begins later than anybody has told of. It waits for the rest; when that does not come, it says so.
	now := time.Now()
	third := func(n uint64, items ...item) {
		in.receive("d", eventsMsg{Stream: 9, N: n, Items: items}, now)
	}
	third(1, item{Kind: itemStart, Born: 1, Seq: 7}, item{Kind: itemChange, Born: 1, Seq: 8, Index: 1, Type: Updated, Version: 8})
	if n := in.pending(); n != 0 {
		t.Errorf("%d events behind a gap", n)
	}
	in.tick(now.Add(parkFor - 1))
	in.receive("b", eventsMsg{Stream: reg.out.stream, N: 99, Items: []item{{Kind: itemChange, Born: 1, Seq: 6, Index: 1, Type: Updated, Version: 6}}}, now)
	if n := in.pending(); n != 1 {
		t.Errorf("%d events of the one before, which still tells", n)
	}
	in.tick(now.Add(parkFor))
	var got []string
	for e, ok, _ := in.pop(); ok; e, ok, _ = in.pop() {
		got = append(got, fmt.Sprint(e.Type, e.Version))
	}
	if want := []string{"updated 6", "lost 0", "updated 8"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// All replicas are lost, and the partition begins anew: numbers begin at 1 again.
	third(2, item{Kind: itemStart, Born: 40, Seq: 0}, item{Kind: itemChange, Born: 40, Seq: 1, Index: 1, Type: Added, Version: 40<<40 + 1})
	third(3, item{Kind: itemChange, Born: 1, Seq: 20, Index: 1, Type: Added}) // of the past
	if a, _, _ := in.pop(); a.Type != Lost {
		t.Errorf("after the loss of the partition: %v", a)
	}
	if a, _, _ := in.pop(); a.Type != Added || in.pending() != 0 {
		t.Errorf("after the new beginning: %+v, %d more", a, in.pending())
	}
}

// TestListen_WhatAPrimaryDropsIsLost: more is on its way to backups than a primary keeps for listeners.
func TestListen_WhatAPrimaryDropsIsLost(t *testing.T) {
	b := newBench(t)
	reg, got := listenAt(t, b, wireReg{})
	b.s.Committed(0, 1, 1)
	b.write("first", write{Value: String("v")})
	b.s.Committed(1, 1, 1)
	if list := got(); !slices.Equal(list, []string{"added first 1"}) {
		t.Fatalf("events %q", list)
	}
	for i := range 5 {
		b.write(fmt.Sprint(i), write{Value: Bytes(make([]byte, keepBytes*primaryTimes/3))})
	}
	b.s.Committed(b.version, 1, 1)
	_ = got()
	in := b.s.registry.inboxes[reg.id.n]
	in.tick(time.Now().Add(parkFor))
	list := got()
	if n := len(list); n < 2 || !slices.Equal(list[:2], []string{"added first 1", "lost  0"}) || list[n-1] != "added 4 6" {
		t.Errorf("events %q", list)
	}
}

// TestListen_Bounds: what a backup keeps, and what waits for a listener that is not reached.
func TestListen_Bounds(t *testing.T) {
	b := newBench(t)
	reg, _ := listenAt(t, b, wireReg{})
	for range 3 * keepEffects {
		b.write("k", write{Value: Bytes(make([]byte, 2000))})
	}
	if c := &b.s.capture; len(c.pending) > keepEffects || c.bytes > keepBytes || c.base == 0 {
		t.Errorf("a backup keeps %d changes, %d bytes", len(c.pending), c.bytes)
	}
	b.s.Committed(b.version, 1, 1)
	for range outboxItems {
		b.write("k", write{Value: Bytes(make([]byte, 20))})
		b.s.Committed(b.version, 1, 1)
	}
	if o := reg.out; len(o.queue) > outboxItems+1 || o.lost == 0 || b.s.capture.pending != nil || b.s.capture.bytes != 0 {
		t.Errorf("%d wait, %d dropped, %d bytes pending", len(o.queue), o.lost, b.s.capture.bytes)
	}
	reg.out.close()
	if o := reg.out; o.queue != nil || o.publish(item{event: &Event{Type: Added, Key: String("k")}}) {
		t.Error("a closed outbox keeps events")
	}
}

func TestRegistry_LearnsAndForgets(t *testing.T) {
	r := NewRegistry("self", nil)
	p := query.Greater("a", query.IntOf(1))
	say := func(from grid.MemberID, a announcement) error {
		_, err := r.Serve(from, encode(registryMsg{Announce: &a}))
		return err
	}
	one := wireReg{N: 1, Map: "m", Where: p.Append(nil)}
	if err := say("a", announcement{Version: 3, Regs: []wireReg{one}, Indexes: []wireIndex{{"m", IndexConfig{Type: query.Hash, Attributes: []string{"x"}}, 1}}}); err != nil {
		t.Fatal(err)
	}
	first := r.announced().regs[regID{"a", 1}]
	if first == nil || r.announced().indexes["m"] == nil || len(r.announcement().Indexes) != 1 {
		t.Fatal("an announcement was not taken")
	}
	if err := say("a", announcement{Version: 4, Regs: []wireReg{one, {N: 2, Map: "o"}}}); err != nil || r.announced().regs[regID{"a", 1}] != first {
		t.Errorf("a listener that stays is made anew, %v", err)
	}
	if err := say("a", announcement{Version: 3}); err != nil || len(r.announced().regs) != 2 {
		t.Errorf("an old announcement was taken, %v", err)
	}
	for name, a := range map[string]announcement{
		"where":  {Version: 5, Regs: []wireReg{{N: 7, Map: "m", Where: []byte{1, 2, 3}}}},
		"name":   {Version: 5, Regs: []wireReg{{N: 7, Map: string(make([]byte, 300))}}},
		"events": {Version: 5, Regs: []wireReg{{N: 7, Map: "m", Events: 1 << 10}}},
		"index":  {Version: 5, Indexes: []wireIndex{{"m", IndexConfig{Type: "TREE", Attributes: []string{"x"}}, 1}}},
	} {
		if err := say("a", a); grid.KindOf(err) != grid.Definite || err == nil || len(r.announced().regs) != 2 {
			t.Errorf("bad %s: %v", name, err)
		}
	}
	state := func(ids ...grid.MemberID) *grid.State {
		s := &grid.State{}
		for _, id := range ids {
			s.Members = append(s.Members, grid.Member{ID: id})
		}
		return s
	}
	now := time.Now()
	r.follow(state("self"), now) // it is not a member yet
	if len(r.announced().regs) != 2 {
		t.Error("the listeners of somebody who joins are forgotten")
	}
	r.follow(state("self", "a"), now)
	r.follow(state("self"), now)
	if len(r.announced().regs) != 0 || len(r.owners) != 0 {
		t.Error("the listeners of a member that is gone are kept")
	}
	if err := say("stranger", announcement{Version: 1, Regs: []wireReg{one}}); err != nil {
		t.Fatal(err)
	}
	r.follow(state("self"), now.Add(2*strangerFor))
	if len(r.owners) != 0 {
		t.Error("the listeners of somebody who never joined are kept")
	}
}

func FuzzRegistry(f *testing.F) {
	f.Add(encode(registryMsg{Announce: &announcement{Version: 1, Regs: []wireReg{{N: 1, Map: "m", Where: query.True().Append(nil)}}}}))
	f.Add(encode(registryMsg{Marks: []mark{{Partition: 3, Born: 1, Seq: 7}, {Partition: -1}}}))
	f.Add(encode(registryMsg{Events: &eventsMsg{Listener: 1, Stream: 1, N: 1, Items: []item{{Kind: itemStart, Seq: 5}, {Kind: itemChange, Seq: 6}, {Kind: itemLost, Count: 2}}}}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := NewRegistry("self", nil)
		reg, _ := wireReg{Map: "m"}.compile("self")
		in := newInbox(reg, 4, nil)
		r.own[1], r.inboxes[1] = reg, in
		for range 2 {
			_, _ = r.Serve("a", raw)
		}
		r.tick(time.Now().Add(time.Hour))
		if in.pending() > 5 || len(in.gaps) > 0 {
			t.Fatalf("%d events wait in a queue of 4", in.pending())
		}
	})
}

// BenchmarkWriteWithListeners is a write and its commit at a primary, with listeners on the map whose events are taken away.
func BenchmarkWriteWithListeners(b *testing.B) {
	for _, n := range []int{0, 1, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := NewStore(func(v uint64) uint64 { return v })
			r := NewRegistry("self", nil)
			s.Attach(0, r)
			for i := range uint64(n) {
				reg, _ := wireReg{N: i + 1, Map: "m"}.compile("self")
				r.own[i+1] = reg
			}
			r.rebuild()
			raw := encode(op{Kind: opWrite, Map: "m", Key: String("k"), Write: &write{Value: Bytes(make([]byte, 100))}})
			version, now := uint64(0), time.Now()
			for b.Loop() {
				version++
				d := s.Execute(raw, version, now)
				if _, err := s.Apply(d.Effect, version, now); err != nil {
					b.Fatal(err)
				}
				s.Committed(version, 1, 1)
				if version%1024 == 0 {
					for _, reg := range r.announced().regs {
						reg.out.mu.Lock()
						reg.out.queue, reg.out.bytes = nil, 0
						reg.out.mu.Unlock()
					}
				}
			}
		})
	}
}
