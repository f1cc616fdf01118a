package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/partition"
)

// maxMetricMaps bounds the maps that have metrics of their own; others are left out.
const maxMetricMaps = 1000

// mapStats are the figures of this member's maps, ordered by name.
func (l *life) mapStats() []imap.LocalStats {
	return l.home.Local(func(f func(primary bool, s *imap.Store)) {
		l.host.Each(func(_ grid.PartitionID, primary bool, s partition.Store) { f(primary, s.(store).Store) })
	})
}

// mapCollector reads the figures of this member's maps when it is scraped. A sum over the members is that of the cluster.
type mapCollector struct {
	life                        *life
	entries, bytes, locks, used *prometheus.Desc
	counts                      map[string]*prometheus.Desc
}

func newMapCollector(l *life) *mapCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	c := &mapCollector{
		life:    l,
		entries: desc("gridnode_map_entries", "Entries that this member holds, by its role for them.", "map", "role"),
		bytes:   desc("gridnode_map_bytes", "What those entries take, about.", "map", "role"),
		locks:   desc("gridnode_map_locks", "Keys that are locked, of those of which this member is primary.", "map"),
		used:    desc("gridnode_map_memory_bytes", "What all entries of this member take, about: map-memory-limit-mb bounds it."),
		counts:  map[string]*prometheus.Desc{},
	}
	for name, help := range map[string]string{
		"gets": "Reads of values.", "hits": "Reads that found an entry.", "misses": "Reads that found none.",
		"puts": "Entries that were written.", "removes": "Entries that were removed by callers.",
		"evictions": "Entries that were evicted.", "expirations": "Entries whose time was over.",
	} {
		c.counts[name] = desc("gridnode_map_"+name+"_total", help+" Counted by the primary.", "map")
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *mapCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.entries, c.bytes, c.locks, c.used} {
		out <- d
	}
	for _, d := range c.counts {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *mapCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.used, float64(c.life.home.Used()))
	list := c.life.mapStats()
	for _, m := range list[:min(len(list), maxMetricMaps)] {
		gauge(c.entries, float64(m.Owned), m.Name, "primary")
		gauge(c.entries, float64(m.Backups), m.Name, "backup")
		gauge(c.bytes, float64(m.OwnedBytes), m.Name, "primary")
		gauge(c.bytes, float64(m.BackupBytes), m.Name, "backup")
		gauge(c.locks, float64(m.Locks), m.Name)
		for name, v := range map[string]uint64{
			"gets": m.Gets, "hits": m.Hits, "misses": m.Misses, "puts": m.Puts, "removes": m.Removes,
			"evictions": m.Evictions, "expirations": m.Expirations,
		} {
			out <- prometheus.MustNewConstMetric(c.counts[name], prometheus.CounterValue, float64(v), m.Name)
		}
	}
}
