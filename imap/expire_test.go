package imap

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// with gives the bench a store of its own config for map m.
func (b *bench) with(cfg HomeConfig) *bench {
	b.s = NewHome(cfg).NewStore(func(v uint64) uint64 { return v })
	return b
}

func mapM(cfg MapConfig) HomeConfig { return HomeConfig{Maps: Configs{"m": cfg}} }

// tick is the primary's housekeeping, as often as it comes, until so much time has passed. Backups apply what it decides.
func (b *bench) tick(d time.Duration, backups ...*Store) {
	b.t.Helper()
	for end := b.now.Add(d); ; b.now = b.now.Add(25 * time.Millisecond) {
		if effect := b.s.Over(b.now, nil); effect != nil {
			b.version++
			for _, s := range append(backups, b.s) {
				if _, err := s.Apply(effect, b.version, b.now); err != nil {
					b.t.Fatal(err)
				}
			}
		}
		if !b.now.Before(end) {
			return
		}
	}
}

func (b *bench) size() int {
	b.t.Helper()
	raw, _ := b.do(op{Kind: opSize, Map: "m"})
	return as[int](b.t, raw)
}

func (b *bench) putAll(keys ...string) {
	b.t.Helper()
	o := op{Kind: opPutAll, Map: "m", Bulk: &bulk{}}
	for _, k := range keys {
		o.Bulk.Put = append(o.Bulk.Put, pair{Key: String(k), Value: String("2")})
	}
	b.do(o)
}

// C125: a write without a time to live ends the old one, whatever kind of write it is.
func TestC125_AWriteWithoutTTLTakesTheMapsDefault(t *testing.T) {
	for _, standard := range []time.Duration{0, 3 * time.Second} {
		t.Run(fmt.Sprint(standard), func(t *testing.T) {
			b := newBench(t).with(mapM(MapConfig{TTL: standard}))
			for _, k := range []string{"put", "set", "all", "replace", "same"} {
				b.write(k, write{Value: String("1"), TTL: 2 * time.Second})
			}
			b.tick(time.Second)
			b.write("put", write{Value: String("2"), WantOld: true})
			b.write("set", write{Value: String("2")})
			b.putAll("all")
			b.write("replace", write{Value: String("2"), Cond: condPresent})
			b.write("same", write{Value: String("2"), Cond: condValue, Old: String("1")})
			b.tick(2900 * time.Millisecond)
			if n := b.size(); n != 5 {
				t.Fatalf("after 2.9 s: %d of 5 entries", n)
			}
			b.tick(200 * time.Millisecond)
			if n := b.size(); n != 5 && standard == 0 || n != 0 && standard > 0 {
				t.Errorf("after 3.1 s: %d entries", n)
			}
		})
	}
}

// C128: reading, also in bulk, does not prolong a time to live.
func TestC128_ReadingDoesNotProlongTheTimeToLive(t *testing.T) {
	b := newBench(t)
	b.write("k", write{Value: String("v"), TTL: 500 * time.Millisecond})
	for at := time.Duration(0); at < 3*time.Second; at += 100 * time.Millisecond {
		raw, _ := b.do(op{Kind: opGetAll, Map: "m", Bulk: &bulk{Keys: [][]byte{String("k"), String("other")}}})
		if got := as[[]entryReply](t, raw); len(got) == 1 != (at < 500*time.Millisecond) {
			t.Fatalf("after %v: %d entries", at, len(got))
		}
		b.tick(100 * time.Millisecond)
	}
}

// C129: the map's time to live holds for every kind of write.
func TestC129_TheMapsTTLHoldsForEveryWrite(t *testing.T) {
	b := newBench(t).with(mapM(MapConfig{TTL: 2 * time.Second}))
	b.putAll("1", "2")
	b.write("3", write{Value: String("v"), WantOld: true})
	b.write("4", write{Value: String("v"), TTL: 2 * time.Second})
	b.write("5", write{Value: String("v"), Cond: condAbsent})
	b.do(op{Kind: opTxn, Txn: &txn{Put: []change{{Map: "m", Key: String("6"), Value: String("v")}}}})
	b.write("stays", write{Value: String("v"), TTL: Forever})
	if b.size() != 7 {
		t.Fatalf("%d entries", b.size())
	}
	b.tick(2100 * time.Millisecond)
	if b.size() != 1 || len(b.s.maps["m"].records) != 1 {
		t.Errorf("%d entries are left, %d records", b.size(), len(b.s.maps["m"].records))
	}
}

func TestStore_MaxIdle(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  MapConfig
		w    write
		read time.Duration // every; 0: never
		dies time.Duration // 0: not within 10 s
	}{
		{"unread", MapConfig{}, write{Idle: time.Second}, 0, time.Second},
		{"read", MapConfig{}, write{Idle: time.Second}, 900 * time.Millisecond, 0},
		{"read too seldom", MapConfig{}, write{Idle: time.Second}, 1100 * time.Millisecond, time.Second},
		{"default", MapConfig{MaxIdle: time.Second}, write{}, 0, time.Second},
		{"not the default", MapConfig{MaxIdle: time.Second}, write{Idle: Forever}, 0, 0},
		{"whole seconds, unread", MapConfig{}, write{Idle: 1500 * time.Millisecond, Whole: true}, 0, time.Second},
		{"whole seconds, read", MapConfig{}, write{Idle: time.Second, Whole: true}, 150 * time.Millisecond, time.Second},
		{"more whole seconds, read", MapConfig{}, write{Idle: 3 * time.Second, Whole: true}, time.Second, 0},
		{"a time to live ends what is read", MapConfig{}, write{Idle: time.Second, TTL: 3 * time.Second}, 500 * time.Millisecond, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t).with(mapM(c.cfg))
			b.now = b.now.Truncate(time.Second)
			c.w.Value = String("v")
			b.tick(0)
			b.write("k", c.w)
			start := b.now
			for b.now.Sub(start) < 10*time.Second && b.size() == 1 {
				b.tick(25 * time.Millisecond)
				if since := b.now.Sub(start); c.read > 0 && since%c.read == 0 {
					b.get("k")
				}
			}
			if took := b.now.Sub(start); took != c.dies && (c.dies > 0 || b.size() == 0) {
				t.Errorf("died after %v, want %v", took, c.dies)
			}
		})
	}
}

// A backup that is promoted must not let an entry die that is read more often than its max-idle, whenever the primary dies and however long
// nobody serves; and one that nobody reads must die all the same.
func TestStore_MaxIdle_HotKeyOutlivesThePrimary(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		idle := rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Second, time.Minute}).Draw(rt, "idle")
		every := idle * 9 / 10
		crash := idle + time.Duration(rapid.Int64Range(0, int64(4*idle)).Draw(rt, "crash after"))
		outage := time.Duration(rapid.Int64Range(0, int64(2*idle)).Draw(rt, "outage"))
		b, backup := newBench(t), NewStore(func(v uint64) uint64 { return v })
		b.tick(0)
		w := write{Value: String("v"), Idle: idle}
		d := b.s.Execute(encode(op{Kind: opWrite, Map: "m", Key: String("hot"), Write: &w}), 1, b.now)
		b.version = 1
		for _, s := range []*Store{b.s, backup} {
			if _, err := s.Apply(d.Effect, 1, b.now); err != nil {
				rt.Fatal(err)
			}
		}
		last, dead := b.now, b.now.Add(crash)
		for b.now.Before(dead) {
			b.tick(min(dead.Sub(b.now), every-b.now.Sub(last)), backup)
			if b.now.Sub(last) >= every {
				last = b.now
				if b.get("hot").Version == 0 {
					rt.Fatal("expired while the primary lived")
				}
			}
		}
		b.s = backup
		b.now = b.now.Add(outage)
		b.tick(0)
		if wait := every - b.now.Sub(last); wait > 0 {
			b.tick(wait)
		}
		if b.get("hot").Version == 0 {
			rt.Fatal("a key that is read often enough expired after the takeover")
		}
		if len(b.s.timers) != 1 {
			rt.Fatal("the timer is gone")
		}
		b.tick(idle*5/4 + 600*time.Millisecond)
		if b.size() != 0 {
			rt.Fatal("an unread entry outlives its max-idle")
		}
	})
}

// Without the telling of reads, a promoted backup could only guess: an entry that was last read long ago would begin anew.
func TestStore_MaxIdle_BackupsAreToldOfReads(t *testing.T) {
	b, backup := newBench(t), NewStore(func(v uint64) uint64 { return v })
	b.tick(0)
	b.write("k", write{Value: String("v"), Idle: time.Hour})
	for _, p := range piecesOf(b.s, 1000, b.now) {
		if err := backup.Restore(p, b.now); err != nil {
			t.Fatal(err)
		}
	}
	b.tick(10*time.Minute, backup)
	before := b.version
	for range 1000 {
		b.get("k")
		b.tick(time.Millisecond, backup)
	}
	if told := b.version - before; told < 1 || told > 2 {
		t.Errorf("a thousand reads were told %d times", told)
	}
	b.tick(time.Second, backup)
	if ago := backup.at(b.now).since(backup.find("m", string(String("k"))).accessed); ago > 10*time.Minute {
		t.Errorf("the backup knows of a read %v ago", ago)
	}
}

func TestStore_View(t *testing.T) {
	b := newBench(t)
	b.tick(0)
	start := b.now
	b.write("k", write{Value: String("1")})
	b.tick(time.Second)
	b.write("k", write{Value: String("2"), TTL: time.Minute, Idle: time.Hour})
	b.tick(time.Second)
	b.get("k")
	b.get("k")
	b.tick(time.Second)
	raw, _ := b.do(op{Kind: opView, Map: "m", Key: String("k")})
	v := as[viewReply](t, raw)
	at := func(s int) int64 { return start.Add(time.Duration(s) * time.Second).UnixMilli() }
	if v.Created != at(0) || v.Updated != at(1) || v.Accessed != at(2) || v.Hits != 2 || v.Expires != at(61) {
		t.Errorf("%+v, started at %d", v, at(0))
	}
	if v.TTL != time.Minute || v.Idle != time.Hour || v.Entry.Version == 0 || v.Cost < 100 || v.Entry.TTL != 58*time.Second {
		t.Errorf("%+v", v)
	}
	b.write("k", write{Keep: true, TTL: 2 * time.Minute})
	raw, _ = b.do(op{Kind: opView, Map: "m", Key: String("k")})
	if w := as[viewReply](t, raw); w.Expires != at(3+120) || w.Idle != time.Hour || w.Updated != v.Updated || w.Entry.Version <= v.Entry.Version {
		t.Errorf("with a new time to live: %+v", w)
	}
}
