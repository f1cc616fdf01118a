package imap

import (
	"cmp"
	"context"
	"slices"

	"gridnode/grid"
)

// mapStats are the figures of one map in one partition, and the counters of the member that holds it: those come from each partition of
// the member, all the same.
type mapStats struct {
	Map     string
	Entries int
	Bytes   int64
	Locks   int
	Member  uint64 // tells members apart
	Counts  Counts
}

// Counts count what was done to a map, since the members started to hold it.
type Counts struct {
	Gets, Hits, Misses     uint64
	Puts, Removes          uint64
	Evictions, Expirations uint64
	Held                   int64 // entries, backups included
	HeldBytes              int64
}

func (t *tally) counts() Counts {
	return Counts{
		Gets: t.gets.Load(), Hits: t.hits.Load(), Misses: t.misses.Load(), Puts: t.puts.Load(), Removes: t.removes.Load(),
		Evictions: t.evictions.Load(), Expirations: t.expirations.Load(), Held: t.entries.Load(), HeldBytes: t.bytes.Load(),
	}
}
func (c *Counts) add(d Counts) {
	c.Gets += d.Gets
	c.Hits += d.Hits
	c.Misses += d.Misses
	c.Puts += d.Puts
	c.Removes += d.Removes
	c.Evictions += d.Evictions
	c.Expirations += d.Expirations
	c.Held += d.Held
	c.HeldBytes += d.HeldBytes
}

// stats are the figures of the map of that name, or of all maps if it is empty.
func (s *Store) stats(name string, now moment) []mapStats {
	if name != "" {
		return []mapStats{s.statsOf(name, now)}
	}
	out := make([]mapStats, 0, len(s.maps))
	for name := range s.maps {
		if m := s.statsOf(name, now); m.Entries > 0 {
			out = append(out, m)
		}
	}
	return out
}

func (s *Store) statsOf(name string, now moment) mapStats {
	out := mapStats{Map: name, Entries: s.count(name, now), Member: s.home.id, Locks: len(s.locks[name]), Counts: s.home.tally(name).counts()}
	if m := s.maps[name]; m != nil {
		out.Bytes = m.bytes
	}
	return out
}

// Stats are the figures of one map in the whole cluster.
type Stats struct {
	Name    string
	Entries int
	Bytes   int64 // of primary copies, with what an entry costs beside its key and value
	Locks   int
	Counts  // the sum over the members
}

// Stats returns the figures of all maps that have entries, ordered by name.
func (g *Grid) Stats(ctx context.Context) ([]Stats, error) { return g.stats(ctx, "") }

// Stats returns the figures of the map.
func (m *Map) Stats(ctx context.Context) (Stats, error) {
	list, err := m.g.stats(ctx, m.name)
	if err != nil {
		return Stats{}, err
	}
	if len(list) != 1 {
		return Stats{Name: m.name}, nil
	}
	return list[0], nil
}

func (g *Grid) stats(ctx context.Context, name string) ([]Stats, error) {
	type source struct {
		name   string
		member uint64
	}
	sum, counted := map[string]*Stats{}, map[source]bool{}
	err := g.inv.InvokeAll(ctx, encode(op{Kind: opStats, Map: name}), func(_ grid.PartitionID, reply []byte) error {
		list, err := decode[[]mapStats](reply)
		for _, m := range list {
			s := sum[m.Map]
			if s == nil {
				s = &Stats{Name: m.Map}
				sum[m.Map] = s
			}
			s.Entries += m.Entries
			s.Bytes += m.Bytes
			s.Locks += m.Locks
			if from := (source{m.Map, m.Member}); !counted[from] {
				counted[from] = true
				s.Counts.add(m.Counts)
			}
		}
		return err
	})
	out := make([]Stats, 0, len(sum))
	for _, s := range sum {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Stats) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

// LocalStats are the figures of one map on one member.
type LocalStats struct {
	Name                    string
	Owned, Backups          int // entries, by the member's role for them
	OwnedBytes, BackupBytes int64
	Locks                   int // on keys of which the member is primary
	Counts
}

// Local sums the figures of a member's stores up, map by map. each calls its function with every store and whether the member is primary.
func (h *Home) Local(each func(func(primary bool, s *Store))) []LocalStats {
	sum := map[string]*LocalStats{}
	of := func(name string) *LocalStats {
		if sum[name] == nil {
			sum[name] = &LocalStats{Name: name}
		}
		return sum[name]
	}
	each(func(primary bool, s *Store) {
		for name, m := range s.maps {
			if l := of(name); primary {
				l.Owned += len(m.records)
				l.OwnedBytes += m.bytes
			} else {
				l.Backups += len(m.records)
				l.BackupBytes += m.bytes
			}
		}
		for name, locks := range s.locks {
			if primary && !isGuard(name) {
				of(name).Locks += len(locks)
			}
		}
	})
	h.mu.RLock()
	for name, t := range h.tallies {
		if isGuard(name) {
			continue
		}
		of(name).Counts = t.counts()
	}
	h.mu.RUnlock()
	out := make([]LocalStats, 0, len(sum))
	for _, l := range sum {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b LocalStats) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
