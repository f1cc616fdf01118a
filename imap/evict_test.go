package imap

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gridnode/grid"
)

func TestStore_Eviction_KeepsTheMapWithinItsSize(t *testing.T) {
	spread := func() (int, int) { return 3, 10 }
	big := Bytes(make([]byte, 10_000))
	for _, c := range []struct {
		name string
		cfg  MapConfig
		want int // entries of 500 that stay
	}{
		{"per partition", MapConfig{Eviction: EvictLRU, MaxSize: 50, MaxSizePolicy: PerPartition}, 50},
		{"per node", MapConfig{Eviction: EvictLFU, MaxSize: 100}, 30},
		{"per node, at least one", MapConfig{Eviction: EvictRandom, MaxSize: 1, MaxSizePolicy: PerNode}, 1},
		{"bytes", MapConfig{Eviction: EvictRandom, MaxSize: 1, MaxSizePolicy: UsedHeapSize}, (1 << 20) / (10_000 + 12 + entryOverhead)},
		{"none", MapConfig{}, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t).with(HomeConfig{Maps: Configs{"m": c.cfg}, Spread: spread})
			for i := range 500 {
				key := fmt.Sprintf("%03d", i)
				b.write(key, write{Value: big})
				if b.find(key) == nil {
					t.Fatalf("write %d evicted itself", i)
				}
			}
			if n := b.size(); n < c.want-2 || n > c.want+2 {
				t.Errorf("%d entries, want %d", n, c.want)
			}
			if evicted := b.s.home.tally("m").evictions.Load(); int(evicted)+b.size() != 500 || b.version != 500 {
				t.Errorf("%d evictions are counted, %d effects", evicted, b.version)
			}
		})
	}
}

func (b *bench) find(key string) *record { return b.s.find("m", string(String(key))) }

// What was used lately, or often, stays with a likelihood that chance does not give.
func TestStore_Eviction_KeepsWhatIsUsed(t *testing.T) {
	for _, kind := range []Eviction{EvictLRU, EvictLFU} {
		b := newBench(t).with(mapM(MapConfig{Eviction: kind, MaxSize: 100, MaxSizePolicy: PerPartition}))
		for i := range 1000 {
			b.now = b.now.Add(time.Millisecond)
			b.write(fmt.Sprint("cold", i), write{Value: String("v")})
			for hot := range 10 {
				if i == 0 {
					b.write(fmt.Sprint("hot", hot), write{Value: String("v")})
				}
				b.get(fmt.Sprint("hot", hot))
			}
		}
		for hot := range 10 {
			if b.find(fmt.Sprint("hot", hot)) == nil {
				t.Errorf("%s: hot%d was evicted", kind, hot)
			}
		}
	}
}

func TestStore_Eviction_OfABulkWriteIsInItsEffect(t *testing.T) {
	b := newBench(t).with(mapM(MapConfig{Eviction: EvictLRU, MaxSize: 20, MaxSizePolicy: PerPartition}))
	var keys []string
	for i := range 20 {
		b.write(fmt.Sprint("old", i), write{Value: String("v")})
		keys = append(keys, fmt.Sprint("new", i))
	}
	before := b.version
	b.putAll(keys...)
	if b.version != before+1 || b.size() != 20 || b.find("old0") != nil || b.find("new0") == nil {
		t.Errorf("%d effects, %d entries", b.version-before, b.size())
	}
}

func TestStore_MemoryLimit(t *testing.T) {
	big := Bytes(make([]byte, 10_000))
	b := newBench(t).with(HomeConfig{
		MaxBytes: 1 << 20,
		Maps:     Configs{"cache*": {Eviction: EvictLRU, MaxSize: 1_000_000}},
	})
	put := func(name string, i int) error {
		d := b.s.Execute(encode(op{Kind: opWrite, Map: name, Key: String(fmt.Sprint(i)), Write: &write{Value: big}}), b.version+1, b.now)
		if d.Err == nil {
			b.version++
			if _, err := b.s.Apply(d.Effect, b.version, b.now); err != nil {
				t.Fatal(err)
			}
		}
		return d.Err
	}
	stored := 0
	var err error
	for ; err == nil && stored < 1000; stored++ {
		err = put("m", stored)
	}
	if !errors.Is(err, grid.ErrMemory) || grid.KindOf(err) != grid.Definite || !strings.Contains(err.Error(), "map-memory-limit-mb") {
		t.Fatalf("after %d writes: %v", stored, err)
	}
	if used := b.s.home.Used(); used > 1<<20 || used < 1<<20-11_000 {
		t.Errorf("%d bytes are used", used)
	}
	if err := put("m", 0); err != nil {
		t.Errorf("an overwrite of the same size: %v", err)
	}
	if err := put("engine_x", 0); err != nil {
		t.Errorf("the engine's own map: %v", err)
	}
	b.do(op{Kind: opWrite, Map: "m", Key: String("1"), Write: &write{Remove: true}})
	b.do(op{Kind: opWrite, Map: "m", Key: String("2"), Write: &write{Remove: true}})
	b.do(op{Kind: opWrite, Map: "m", Key: String("3"), Write: &write{Remove: true}})
	for i := range 100 {
		if err := put("cache1", i); err != nil {
			t.Fatalf("a map that evicts, write %d: %v", i, err)
		}
	}
	if used := b.s.home.Used(); used > 1<<20 {
		t.Errorf("%d bytes are used", used)
	}
}

func TestConfigs_MostExactPatternHolds(t *testing.T) {
	cfg := Configs{"a": {TTL: 1}, "a*": {TTL: 2}, "*": {TTL: 3}, "a*z": {TTL: 4}, "*yz": {TTL: 5}}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	table := newTable(cfg, &noConfig)
	for name, want := range map[string]time.Duration{
		"a": 1, "ab": 2, "b": 3, "abz": 4, "xyz": 5, "ayz": 5, "az": 4, "": 3, "engine_x": 0, "yz": 5,
	} {
		if got := table.find(name).TTL; got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}

func TestConfigs_ErrorsNameMapAndOption(t *testing.T) {
	for want, c := range map[string]Configs{
		"m: ttl: -1ns is negative":                                      {"m": {TTL: -1}},
		"m: max-idle: -1ns is negative":                                 {"m": {MaxIdle: -1}},
		`m: eviction: "FIFO" is not one of NONE, LRU, LFU, RANDOM`:      {"m": {Eviction: "FIFO", MaxSize: 1}},
		`m: max-size-policy: "X" is not one of PER_NODE, PER_PARTITION`: {"m": {MaxSizePolicy: "X"}},
		"m: max-size: -1 is not from 0":                                 {"m": {MaxSize: -1}},
		"m: max-size: 5 needs an eviction other than NONE":              {"m": {MaxSize: 5}},
		"m: eviction: LRU needs a max-size":                             {"m": {Eviction: EvictLRU}},
		"a*b*: a pattern has one * only":                                {"a*b*": {}},
		"engine_jobs: maps whose names begin with engine_":              {"engine_jobs": {}},
		"a map name has 1 to 255 bytes, not 0":                          {"": {}},
	} {
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
