package imap

import (
	"fmt"

	"gridnode/grid"
)

const (
	// samples is how many entries are looked at to evict one. Source: Hazelcast's default.
	samples = 15
	// evictBatch bounds what one write evicts beside what it adds.
	evictBatch = 64
)

// growth is what the changes of an operation add to one map.
type growth struct {
	name    string
	entries int
	bytes   int64
}

// growths sums the changes up, map by map.
func (x *execution) growths() []growth {
	var out []growth
	at := func(name string) *growth {
		for i := range out {
			if out[i].name == name {
				return &out[i]
			}
		}
		out = append(out, growth{name: name})
		return &out[len(out)-1]
	}
	for i := range x.changes {
		c := &x.changes[i]
		if c.Kind != changeEntry && c.Kind != changeValue {
			continue
		}
		g := at(c.Map)
		if m := x.s.maps[c.Map]; m != nil {
			if old := m.records[string(c.Key)]; old != nil {
				g.entries--
				g.bytes -= cost(string(c.Key), old)
			}
		}
		if !c.Remove {
			g.entries++
			g.bytes += int64(len(c.Key) + len(c.Value) + entryOverhead)
		}
	}
	return out
}

// makeRoom adds the eviction of entries where a map would become too large, or refuses the operation if there is no memory for it.
func (x *execution) makeRoom() error {
	if !x.s.home.limits || len(x.changes) == 0 {
		return nil
	}
	for _, g := range x.growths() {
		if System(g.name) || g.entries <= 0 && g.bytes <= 0 {
			continue
		}
		cfg := x.s.home.table.find(g.name)
		entries, bytes := x.s.excess(g, cfg)
		short := x.s.home.shortage(g.bytes)
		if cfg.evicts() {
			bytes = max(bytes, short)
			short -= x.evict(g, cfg, entries, bytes)
		}
		if short > 0 {
			return fmt.Errorf("%w: the entries of this member take %d bytes, map-memory-limit-mb allows %d",
				grid.ErrMemory, x.s.home.Used(), x.s.home.cfg.MaxBytes)
		}
	}
	return nil
}

// shortage is by how many bytes so many more are too many for the member.
func (h *Home) shortage(more int64) int64 {
	if h.cfg.MaxBytes == 0 {
		return 0
	}
	return max(h.Used()+more-h.cfg.MaxBytes, 0)
}

// excess is by how many entries and bytes a map is too large once it has grown.
func (s *Store) excess(g growth, cfg *MapConfig) (entries int, bytes int64) {
	if cfg.MaxSize == 0 {
		return 0, 0
	}
	m := s.maps[g.name]
	size := g.entries
	if m != nil {
		size += len(m.records)
	}
	switch cfg.MaxSizePolicy {
	case UsedHeapSize:
		held := g.bytes
		if m != nil {
			held += m.tally.bytes.Load()
		}
		return 0, max(held-int64(cfg.MaxSize)<<20, 0)
	case PerPartition:
		return max(size-cfg.MaxSize, 0), 0
	}
	members, partitions := s.home.spread()
	share := max(cfg.MaxSize*members/partitions, 1) // Hazelcast's rule
	return max(size-share, 0), 0
}

// evict adds the removal of so many entries and bytes at least, as far as there are entries to spare and the bound allows. It returns the
// bytes that this frees.
func (x *execution) evict(g growth, cfg *MapConfig, entries int, bytes int64) (freed int64) {
	m := x.s.maps[g.name]
	if m == nil || entries == 0 && bytes == 0 {
		return 0
	}
	busy := map[string]bool{}
	for _, c := range x.changes {
		if c.Map == g.name {
			busy[string(c.Key)] = true
		}
	}
	for n := 0; (n < entries || freed < bytes) && n < max(g.entries, 0)+evictBatch; n++ {
		key, r := x.victim(g.name, m, cfg.Eviction, busy)
		if r == nil {
			break
		}
		busy[key] = true
		freed += cost(key, r)
		x.changes = append(x.changes, change{Map: g.name, Key: []byte(key), Remove: true, Cause: causeEvicted})
	}
	return freed
}

// victim looks at some entries, which Go's map yields in an order of chance, and returns the one to go; nil if all are busy.
func (x *execution) victim(name string, m *recordMap, kind Eviction, busy map[string]bool) (key string, best *record) {
	seen, skipped := 0, 0
	for k, r := range m.records {
		if busy[k] || x.s.locked(name, k, x.now) {
			if skipped++; skipped > samples+len(busy) {
				break
			}
			continue
		}
		if best == nil || worse(kind, r, best) {
			key, best = k, r
		}
		if seen++; seen == samples || kind == EvictRandom || x.s.over(best, x.now) {
			break
		}
	}
	return key, best
}

// worse reports whether a is to go rather than b.
func worse(kind Eviction, a, b *record) bool {
	if kind == EvictLFU && a.hits != b.hits {
		return a.hits < b.hits
	}
	return a.accessed < b.accessed
}
