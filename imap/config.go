package imap

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Forever, as a time to live or a max-idle, says: no end, whatever the map's default is.
const Forever = time.Duration(math.MaxInt64)

// Eviction says which entry goes when a map is too large.
type Eviction string

// The kinds of eviction. Each looks at some entries of the partition and takes the best of them, as Redis and Hazelcast do.
const (
	EvictNone   Eviction = "NONE"
	EvictLRU    Eviction = "LRU"    // the one that was not read or written for the longest time
	EvictLFU    Eviction = "LFU"    // the one that was read least often
	EvictRandom Eviction = "RANDOM" // any
)

// SizePolicy says what [MapConfig.MaxSize] counts.
type SizePolicy string

// The size policies.
const (
	PerNode      SizePolicy = "PER_NODE"       // entries of one member; each partition gets an equal share
	PerPartition SizePolicy = "PER_PARTITION"  // entries of one partition
	UsedHeapSize SizePolicy = "USED_HEAP_SIZE" // megabytes that a member needs for the map, backups included
)

// MapConfig is what a map is told. The zero value is a map without any limit.
type MapConfig struct {
	TTL           time.Duration // of entries that are written without one; 0: no end
	MaxIdle       time.Duration // how long they may go unread; 0: no end
	Eviction      Eviction      // empty: EvictNone
	MaxSize       int           // 0: no bound
	MaxSizePolicy SizePolicy    // empty: PerNode
	Indexes       []IndexConfig // beside those that are added later
}

// Validate returns what is wrong, naming the option, or nil.
func (c MapConfig) Validate() error {
	switch {
	case c.TTL < 0:
		return fmt.Errorf("ttl: %v is negative", c.TTL)
	case c.MaxIdle < 0:
		return fmt.Errorf("max-idle: %v is negative", c.MaxIdle)
	case !slices.Contains([]Eviction{"", EvictNone, EvictLRU, EvictLFU, EvictRandom}, c.Eviction):
		return fmt.Errorf("eviction: %q is not one of NONE, LRU, LFU, RANDOM", c.Eviction)
	case !slices.Contains([]SizePolicy{"", PerNode, PerPartition, UsedHeapSize}, c.MaxSizePolicy):
		return fmt.Errorf("max-size-policy: %q is not one of PER_NODE, PER_PARTITION, USED_HEAP_SIZE", c.MaxSizePolicy)
	case c.MaxSize < 0 || c.MaxSize > math.MaxInt32:
		return fmt.Errorf("max-size: %d is not from 0 to %d", c.MaxSize, math.MaxInt32)
	case c.MaxSize > 0 && !c.evicts():
		return fmt.Errorf("max-size: %d needs an eviction other than NONE", c.MaxSize)
	case c.MaxSize == 0 && c.evicts():
		return fmt.Errorf("eviction: %s needs a max-size", c.Eviction)
	case len(c.Indexes) > MaxIndexes:
		return fmt.Errorf("indexes: there may be %d, not %d", MaxIndexes, len(c.Indexes))
	}
	for i, ix := range c.Indexes {
		if err := ix.Validate(); err != nil {
			return fmt.Errorf("indexes: %w", err)
		}
		if slices.ContainsFunc(c.Indexes[:i], func(o IndexConfig) bool { return o.Key() == ix.Key() }) {
			return fmt.Errorf("indexes: %s is given twice", ix.Key())
		}
	}
	return nil
}

func (c MapConfig) evicts() bool { return c.Eviction != "" && c.Eviction != EvictNone }

// systemPrefix begins the names of the maps in which the product keeps its own state. No pattern and no limit applies to them.
const systemPrefix = "engine_"

// System reports whether a map holds state of the product itself.
func System(mapName string) bool { return strings.HasPrefix(mapName, systemPrefix) }

// Configs are the configs of maps, by name or by pattern: a name with one * in it, which stands for any text.
type Configs map[string]MapConfig

// Validate returns the first thing that is wrong, naming map and option, or nil.
func (c Configs) Validate() error {
	for name, m := range c {
		if err := checkPattern(name); err != nil {
			return err
		}
		if err := m.Validate(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// checkPattern says what is wrong with a name or pattern that something is configured for.
func checkPattern(name string) error {
	switch {
	case name == "" || len(name) > MaxMapName:
		return fmt.Errorf("a map name has 1 to %d bytes, not %d", MaxMapName, len(name))
	case strings.Count(name, "*") > 1:
		return fmt.Errorf("%s: a pattern has one * only", name)
	case System(name):
		return fmt.Errorf("%s: maps whose names begin with %s hold the state of the job engine and take no config", name, systemPrefix)
	}
	return nil
}

// pattern is a pattern, taken apart.
type pattern[T any] struct {
	head, tail string
	is         *T
}

// table finds what is configured for a map: by its name, else by the pattern that fixes the most letters; of equals, the first in the alphabet.
type table[T any] struct {
	exact    map[string]*T
	patterns []pattern[T]
	none     *T // for maps without
}

func newTable[T any](c map[string]T, none *T) table[T] {
	t := table[T]{exact: map[string]*T{}, none: none}
	for name, is := range c {
		if head, tail, isPattern := strings.Cut(name, "*"); isPattern {
			t.patterns = append(t.patterns, pattern[T]{head, tail, &is})
		} else {
			t.exact[name] = &is
		}
	}
	slices.SortFunc(t.patterns, func(a, b pattern[T]) int {
		return cmp.Or(cmp.Compare(len(b.head)+len(b.tail), len(a.head)+len(a.tail)), cmp.Compare(a.head, b.head))
	})
	return t
}

var noConfig MapConfig

func (t *table[T]) find(name string) *T {
	if is := t.exact[name]; is != nil {
		return is
	}
	if System(name) {
		return t.none
	}
	for _, p := range t.patterns {
		if len(name) >= len(p.head)+len(p.tail) && strings.HasPrefix(name, p.head) && strings.HasSuffix(name, p.tail) {
			return p.is
		}
	}
	return t.none
}

// within returns the time to use: the one asked for, or the map's default.
func within(asked, standard time.Duration) time.Duration {
	switch asked {
	case 0:
		return standard
	case Forever:
		return 0
	}
	return asked
}
