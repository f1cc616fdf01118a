package imap

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// HomeConfig is what a [Home] is told. The zero value sets no limit.
type HomeConfig struct {
	Maps Configs
	// MaxBytes bounds what entries may take on this member, backups included; 0: no bound. Writes beyond it are refused, or other entries
	// of the map are evicted, if it allows that. The engine's maps are exempt.
	MaxBytes int64
	// Spread returns the numbers of members that hold data and of partitions, for [PerNode]. nil: one of each.
	Spread func() (members, partitions int)
	// Processors are the entry processors, by name. All members should have the same.
	Processors map[string]Processor
	// Interceptors are those that callers can add to maps, by name. All members should have the same.
	Interceptors map[string]NewInterceptor
	// Where tells which clients live whose member is gone. nil: none does.
	Where Where
}

// Home is what the stores of one member have in common: configs, counters, and what all of it costs. Its methods may be called at once.
type Home struct {
	cfg    HomeConfig
	id     uint64 // tells members apart
	table  table[MapConfig]
	limits bool          // any map has a bound, or all together
	used   *atomic.Int64 // bytes, also of copies that have been replaced and not been collected yet

	matchers matchers

	mu      sync.RWMutex // guards tallies
	tallies map[string]*tally
	stray   *tally // counts for names beyond the bound
}

// maxTallies bounds the names of maps that are counted for.
const maxTallies = 10_000

// NewHome returns a home without stores. The config must be valid.
func NewHome(cfg HomeConfig) *Home {
	h := &Home{cfg: cfg, id: rand.Uint64(), table: newTable(cfg.Maps, &noConfig), tallies: map[string]*tally{}, limits: cfg.MaxBytes > 0}
	h.used = new(atomic.Int64)
	h.stray = &tally{used: h.used}
	for _, m := range cfg.Maps {
		h.limits = h.limits || m.MaxSize > 0
	}
	return h
}

// NewStore returns an empty store. seqOf maps a version to its sequence number in the partition.
func (h *Home) NewStore(seqOf func(version uint64) uint64) *Store {
	s := &Store{maps: map[string]*recordMap{}, holdings: map[string]*holding{}, seqOf: seqOf, home: h}
	runtime.AddCleanup(s, func(left map[string]*holding) {
		for _, h := range left {
			h.giveBack()
		}
	}, s.holdings)
	return s
}

// tally counts for one map on one member. Gauges first: they are of all copies that the member holds. It does not know its home, which knows more
// than a [holding] may.
type tally struct {
	used                                                      *atomic.Int64 // of the home
	entries, bytes                                            atomic.Int64
	gets, hits, misses, puts, removes, evictions, expirations atomic.Uint64
}

// hold notes that the member holds so much more.
func (t *tally) hold(entries int, bytes int64) {
	t.entries.Add(int64(entries))
	t.bytes.Add(bytes)
	t.used.Add(bytes)
}

// note counts a change that the primary has decided. Sweeps are counted where they are decided.
func (t *tally) note(c *change) {
	switch {
	case c.Kind == changeValue:
		t.puts.Add(1)
	case c.Kind != changeEntry:
	case !c.Remove:
		t.puts.Add(1)
	case c.Cause == causeExpired:
		t.expirations.Add(1)
	case c.Cause == causeEvicted:
		t.evictions.Add(1)
	default:
		t.removes.Add(1)
	}
}

// tally returns the counters of a map.
func (h *Home) tally(name string) *tally {
	h.mu.RLock()
	t := h.tallies[name]
	h.mu.RUnlock()
	if t != nil {
		return t
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t = h.tallies[name]; t != nil {
		return t
	}
	if len(h.tallies) >= maxTallies { // names that somebody asked for once, say
		maps.DeleteFunc(h.tallies, func(_ string, t *tally) bool { return t.entries.Load() == 0 })
	}
	if len(h.tallies) >= maxTallies {
		return h.stray
	}
	t = &tally{used: h.used}
	h.tallies[name] = t
	return t
}

// forget begins the counters of a map anew that was destroyed in a partition; once the member holds nothing of it, they are dropped.
func (h *Home) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tallies[name]
	if t == nil {
		return
	}
	for _, c := range []*atomic.Uint64{&t.gets, &t.hits, &t.misses, &t.puts, &t.removes, &t.evictions, &t.expirations} {
		c.Store(0)
	}
	if t.entries.Load() == 0 {
		delete(h.tallies, name)
	}
}

// Used is what the entries of this member cost, in bytes, backups included.
func (h *Home) Used() int64 { return h.used.Load() }

// spread is never 0.
func (h *Home) spread() (members, partitions int) {
	if h.cfg.Spread == nil {
		return 1, 1
	}
	m, p := h.cfg.Spread()
	return max(m, 1), max(p, 1)
}
