package query

import (
	"fmt"
	"strings"

	"gridnode/grid"
)

// IndexType is how an index is ordered.
type IndexType string

// The types of index.
const (
	Sorted IndexType = "SORTED" // serves equality, ranges and prefixes
	Hash   IndexType = "HASH"   // serves equality
)

// IndexConfig describes an index. One with several attributes serves conditions on all of them, a sorted one also on the first ones.
type IndexConfig struct {
	Type       IndexType
	Attributes []string
}

// Key names the index: two configs with one key are the same index.
func (c IndexConfig) Key() string {
	return string(c.Type) + "(" + strings.Join(c.Attributes, ", ") + ")"
}

// Validate reports what is wrong with the config.
func (c IndexConfig) Validate() error {
	_, err := c.paths()
	return err
}

func (c IndexConfig) paths() ([]attribute, error) {
	if c.Type != Sorted && c.Type != Hash {
		return nil, fmt.Errorf("%w: index type %q is neither SORTED nor HASH", grid.ErrBadRequest, c.Type)
	}
	paths, err := parsePaths(c.Attributes)
	for i, p := range paths {
		if p.multi && len(paths) > 1 {
			return nil, fmt.Errorf("%w: index attribute %q: [any] cannot be one of several attributes", grid.ErrBadRequest, c.Attributes[i])
		}
	}
	return paths, err
}

// Index finds the keys of records by attributes. It holds each record once for each different value that it has. It is not safe for use by
// several goroutines.
type Index struct {
	cfg   IndexConfig
	paths []attribute
	hash  map[string]map[string]struct{} // of Hash: values, then keys
	tree  *skipList                      // of Sorted
	size  int
}

// NewIndex returns an empty index.
func NewIndex(cfg IndexConfig) (*Index, error) {
	paths, err := cfg.paths()
	if err != nil {
		return nil, err
	}
	ix := &Index{cfg: cfg, paths: paths}
	if cfg.Type == Hash {
		ix.hash = map[string]map[string]struct{}{}
	} else {
		ix.tree = newSkipList()
	}
	return ix, nil
}

// Len is how many values the index holds.
func (ix *Index) Len() int { return ix.size }

// tuples returns what a record is found by, each once.
func (ix *Index) tuples(r *Record) [][]Value {
	if len(ix.paths) > 1 {
		t := make([]Value, len(ix.paths))
		for i := range ix.paths {
			t[i] = ix.paths[i].first(r).norm()
		}
		return [][]Value{t}
	}
	var list [][]Value
	var seen map[Value]bool
	if ix.paths[0].multi {
		seen = map[Value]bool{}
	}
	ix.paths[0].each(r, func(v Value) bool {
		if v = v.norm(); !seen[v] {
			list = append(list, []Value{v})
			if seen != nil {
				seen[v] = true
			}
		}
		return false
	})
	return list
}

func hashKey(t []Value) string { return string(AppendValues(nil, t)) }

// Add takes a record that is not in the index. key names it in answers.
func (ix *Index) Add(key string, r *Record) {
	for _, t := range ix.tuples(r) {
		if ix.hash == nil {
			if ix.tree.insert(t, key) {
				ix.size++
			}
			continue
		}
		h := hashKey(t)
		if ix.hash[h] == nil {
			ix.hash[h] = map[string]struct{}{}
		}
		ix.hash[h][key] = struct{}{}
		ix.size++
	}
}

// Remove forgets a record, which must be as it was when it was added.
func (ix *Index) Remove(key string, r *Record) {
	for _, t := range ix.tuples(r) {
		if ix.hash == nil {
			if ix.tree.remove(t, key) {
				ix.size--
			}
			continue
		}
		h := hashKey(t)
		if _, ok := ix.hash[h][key]; !ok {
			continue
		}
		if delete(ix.hash[h], key); len(ix.hash[h]) == 0 {
			delete(ix.hash, h)
		}
		ix.size--
	}
}
