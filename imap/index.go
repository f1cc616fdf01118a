package imap

import (
	"fmt"
	"maps"
	"slices"

	"gridnode/grid"
	"gridnode/imap/query"
)

// MaxIndexes is how many indexes a map may have.
const MaxIndexes = 32

// IndexConfig describes an index of a map.
type IndexConfig = query.IndexConfig

// indexDefs are the indexes that maps are to have, by map. A list is never changed, only replaced, so its identity tells whether it is new.
type indexDefs map[string]*indexDef

type indexDef struct {
	list []IndexConfig
	at   []uint64 // when each was added, by the clock of [Registry]
}

// with returns the definitions and one more; the receiver itself if it has that one.
func (d indexDefs) with(name string, cfg IndexConfig, at uint64) (indexDefs, error) {
	if err := cfg.Validate(); err != nil {
		return d, fmt.Errorf("map %q: %w", name, err)
	}
	old := &indexDef{}
	if d[name] != nil {
		old = d[name]
	}
	if i := slices.IndexFunc(old.list, func(c IndexConfig) bool { return c.Key() == cfg.Key() }); i >= 0 {
		if at <= old.at[i] {
			return d, nil
		}
		ats := slices.Clone(old.at)
		ats[i] = at
		return d.put(name, &indexDef{list: old.list, at: ats}), nil
	}
	if len(old.list) == MaxIndexes {
		return d, fmt.Errorf("%w: map %q has %d indexes already", grid.ErrTooLarge, name, MaxIndexes)
	}
	return d.put(name, &indexDef{list: append(slices.Clone(old.list), cfg), at: append(slices.Clone(old.at), at)}), nil
}

// put returns the definitions with others for a map.
func (d indexDefs) put(name string, def *indexDef) indexDefs {
	next := make(indexDefs, len(d)+1)
	maps.Copy(next, d)
	if next[name] = def; len(def.list) == 0 {
		delete(next, name)
	}
	return next
}

// without returns the definitions without those of a map that were added at that time or before; the receiver itself if there are none.
func (d indexDefs) without(name string, at uint64) indexDefs {
	old := d[name]
	if old == nil {
		return d
	}
	left := &indexDef{}
	for i, cfg := range old.list {
		if old.at[i] > at {
			left.list, left.at = append(left.list, cfg), append(left.at, old.at[i])
		}
	}
	if len(left.list) == len(old.list) {
		return d
	}
	return d.put(name, left)
}

// indexSet are the indexes of one map in one partition. They are made by the queries that could use them, on the member that answers these, a
// bounded number of entries each, and are used once they are whole. From the beginning they are kept up to date; they are never replicated, so a
// backup spends nothing on them.
type indexSet struct {
	def     *indexDef      // that it was made of, beside the config, which stays
	schemas *query.Schemas // with which its entries are read
	list    []*query.Index
	unread  int                 // entries of which no index knows anything, for their schema is not known
	todo    map[string]struct{} // keys of entries that are not in the indexes yet; nil: they are whole
}

// WithConfigs gives maps the indexes of their configs, which are this member's alone: all members should have the same. It returns r, and must be
// called before r is used.
func (r *Registry) WithConfigs(c Configs) *Registry {
	r.configs = newTable(c, &noConfig)
	return r
}

// wanted returns the indexes that a map is to have, by its config and by definition, and the definition.
func (r *Registry) wanted(name string) ([]IndexConfig, *indexDef) {
	a := r.announced()
	if a == nil {
		return nil, nil
	}
	list, def := r.configs.find(name).Indexes, a.indexes[name]
	if def == nil {
		return list, nil
	}
	list = slices.Clone(list)
	for _, cfg := range def.list {
		if !slices.ContainsFunc(list, func(c IndexConfig) bool { return c.Key() == cfg.Key() }) {
			list = append(list, cfg)
		}
	}
	return list, def
}

// indexesOf returns the indexes of a map, if they are whole, after going on to make those that it is to have by now.
func (s *Store) indexesOf(name string, m *recordMap) []*query.Index {
	list, def := s.registry.wanted(name)
	if len(list) == 0 {
		return nil
	}
	schemas := s.schemas()
	if m.indexes == nil || m.indexes.def != def || m.indexes.schemas != schemas {
		set := &indexSet{def: def, schemas: schemas, todo: make(map[string]struct{}, len(m.records))}
		for _, cfg := range list {
			if ix, err := query.NewIndex(cfg); err == nil { // it was validated
				set.list = append(set.list, ix)
			}
		}
		for k := range m.records {
			set.todo[k] = struct{}{}
		}
		m.indexes = set
	}
	if !m.indexes.step(m, s.registry.indexStep) || m.indexes.unread > 0 {
		return nil
	}
	return m.indexes.list
}

// step takes up to n more entries into the indexes and reports whether they are whole.
func (s *indexSet) step(m *recordMap, n int) bool {
	for k := range s.todo {
		if n--; n < 0 {
			return false
		}
		s.add(k, m.records[k])
	}
	s.todo = nil
	return true
}

// add takes an entry into the indexes. A nil set has none.
func (s *indexSet) add(key string, r *record) {
	if s == nil {
		return
	}
	delete(s.todo, key)
	rec := query.NewRecordOf([]byte(key), r.value, s.schemas)
	for _, ix := range s.list {
		ix.Add(key, rec)
	}
	if rec.Missing() != 0 {
		s.unread++
	}
}

// remove forgets an entry, which is as it was when it was added.
func (s *indexSet) remove(key string, r *record) {
	if s == nil {
		return
	}
	if _, ok := s.todo[key]; ok {
		delete(s.todo, key)
		return
	}
	rec := query.NewRecordOf([]byte(key), r.value, s.schemas)
	for _, ix := range s.list {
		ix.Remove(key, rec)
	}
	if rec.Missing() != 0 {
		s.unread--
	}
}
