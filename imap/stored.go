package imap

import (
	"context"
	"fmt"
	"sync/atomic"

	"gridnode/grid"
	"gridnode/imap/query"
)

// Transient returns the map for writes that do not reach its store.
func (m *Map) Transient() *Map {
	n := *m
	n.transient = true
	return &n
}

// LoadAll loads the entries of all keys that the map's loader has; with replace also those that are in the map already. It returns how many
// it put. After an error some may be loaded and others not.
func (m *Map) LoadAll(ctx context.Context, replace bool) (int, error) {
	l := m.loader()
	if l == nil {
		return 0, m.noLoader()
	}
	var keys []Key
	err := m.storing(ctx, "keys", func(ctx context.Context) error {
		return l.Keys(ctx, m.name, func(key Data) error {
			if len(keys) == maxBulkKeys {
				return fmt.Errorf("%w: it has more than %d keys", grid.ErrTooLarge, maxBulkKeys)
			}
			keys = append(keys, Key{Data: key})
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	return m.LoadKeys(ctx, keys, replace)
}

// LoadKeys is LoadAll for those of the keys that the loader has.
func (m *Map) LoadKeys(ctx context.Context, keys []Key, replace bool) (int, error) {
	if m.loader() == nil {
		return 0, m.noLoader()
	}
	put := make([]bool, len(keys))
	err := forEach(len(keys), func(i int) error {
		if err := m.check(keys[i], nil); err != nil {
			return err
		}
		return m.underGuard(ctx, keys[i], func(ctx context.Context) (err error) {
			put[i], err = m.fetch(ctx, keys[i], replace)
			return err
		})
	})
	n := 0
	for _, p := range put {
		if p {
			n++
		}
	}
	return n, err
}

func (m *Map) noLoader() error {
	return fmt.Errorf("%w: map %s has no loader", grid.ErrRefused, m.name)
}

// fetch puts what the loader has of a key, under its guard, and reports whether it did.
func (m *Map) fetch(ctx context.Context, k Key, replace bool) (bool, error) {
	if !replace {
		if v, err := m.View(ctx, k); err != nil || v.Found() {
			return false, err
		}
	}
	var value Data
	err := m.storing(ctx, "load", func(ctx context.Context) (err error) {
		value, err = m.loader().Load(ctx, m.name, k.Data)
		return err
	})
	if err != nil || value == nil {
		return false, err
	}
	if err := m.check(k, value); err != nil {
		return false, err
	}
	w := write{Value: value}
	if !replace {
		w.Cond = condAbsent
	}
	res, err := m.writeGrid(ctx, k, w)
	return res.Applied, err
}

// readThrough returns the entry of a key that is absent in the grid.
func (m *Map) readThrough(ctx context.Context, k Key) (e Entry, err error) {
	err = m.underGuard(ctx, k, func(ctx context.Context) error {
		if _, err := m.fetch(ctx, k, false); err != nil {
			return err
		}
		e, err = m.get(ctx, k)
		return err
	})
	return e, err
}

// readAllThrough adds the entries of those keys that are not among list.
func (m *Map) readAllThrough(ctx context.Context, keys []Key, list []Entry) ([]Entry, error) {
	there := make(map[string]bool, len(list))
	for _, e := range list {
		there[string(e.Key)] = true
	}
	var missing []Key
	for _, k := range keys {
		if !there[string(k.Data)] {
			missing = append(missing, k)
		}
	}
	loaded := make([]Entry, len(missing))
	err := forEach(len(missing), func(i int) (err error) {
		loaded[i], err = m.readThrough(ctx, missing[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, e := range loaded {
		if e.Found() {
			list = append(list, e)
		}
	}
	return list, nil
}

// looks reports whether a write depends on what is there.
func (w *write) looks() bool { return w.WantOld || w.Cond != condNone || w.Keep || w.Remove }

// writeThrough does a write of a map with a loader: in its store, and then in the grid.
func (m *Map) writeThrough(ctx context.Context, k Key, w write) (res WriteResult, err error) {
	err = m.underGuard(ctx, k, func(ctx context.Context) error {
		if w.looks() {
			if _, err := m.fetch(ctx, k, false); err != nil {
				return err
			}
			v, err := m.View(ctx, k)
			if err != nil {
				return err
			}
			var r *record
			if v.Found() {
				r = &record{value: v.Value, version: v.Version}
			}
			if !holds(&w, r) {
				res = WriteResult{Old: v.Entry}
				return nil
			}
		}
		res, err = m.writeBoth(ctx, k, w)
		return err
	})
	if err != nil {
		return WriteResult{}, err
	}
	return res, nil
}

// writeBoth does a write of a key that is guarded in the store and then in the grid.
func (m *Map) writeBoth(ctx context.Context, k Key, w write) (WriteResult, error) {
	stored, err := m.tellStore(ctx, k, &w)
	if err != nil {
		return WriteResult{}, err
	}
	res, err := m.writeGrid(ctx, k, w)
	if err == nil && w.Cond != condNone && !res.Applied {
		err = fmt.Errorf("%w: the entry is not what it was a moment ago", grid.ErrNotReady) // its time is over
	}
	if err != nil && stored {
		err = fmt.Errorf("%w: the store of map %s has the write, the grid may not: %v", grid.ErrIndeterminate, m.name, err)
	}
	return res, err
}

// tellStore does a write in the map's store, and reports whether there was anything to do.
func (m *Map) tellStore(ctx context.Context, k Key, w *write) (bool, error) {
	s := m.store()
	switch {
	case s == nil || w.Keep:
		return false, nil
	case w.Remove:
		return true, m.storing(ctx, "delete", func(ctx context.Context) error { return s.Delete(ctx, m.name, k.Data) })
	}
	return true, m.storing(ctx, "store", func(ctx context.Context) error { return s.Store(ctx, m.name, k.Data, w.Value) })
}

// deleteEach removes the entries of keys one by one, and returns how many there were.
func (m *Map) deleteEach(ctx context.Context, keys []Key) (int, error) {
	gone := make([]bool, len(keys))
	err := forEach(len(keys), func(i int) error {
		res, err := m.write(ctx, keys[i], write{Remove: true})
		gone[i] = res.Applied
		return err
	})
	n := 0
	for _, g := range gone {
		if g {
			n++
		}
	}
	return n, err
}

// clearThrough removes all entries that the grid has from the store and from the grid. Locked ones stay.
func (m *Map) clearThrough(ctx context.Context) (int, error) {
	var keys []Key
	err := m.ScanKeys(ctx, func(e Entry) error {
		keys = append(keys, Key{Data: e.Key})
		return nil
	})
	if err != nil {
		return 0, err
	}
	return m.removeFound(ctx, keys, leaveAll, func(context.Context, Key) (bool, error) { return true, nil })
}

// removeFound removes entries that were found a moment ago from the store and from the grid, one by one, unless they are under a lock that is to be
// left alone, or still, asked when nobody else can change the entry, says no. It returns how many there were.
func (m *Map) removeFound(ctx context.Context, keys []Key, l leave, still func(context.Context, Key) (bool, error)) (int, error) {
	var gone atomic.Int64
	err := forEach(len(keys), func(i int) error {
		return m.unlessLocked(ctx, keys[i], l, func(ctx context.Context) error {
			if ok, err := still(ctx, keys[i]); err != nil || !ok {
				return err
			}
			res, err := m.writeBoth(ctx, keys[i], write{Remove: true})
			if res.Applied {
				gone.Add(1)
			}
			return err
		})
	})
	return int(gone.Load()), err
}

// noStore refuses what runs at the primary, which calls no store.
func (m *Map) noStore(what string) error {
	if m.store() == nil {
		return nil
	}
	return fmt.Errorf("%w: map %s is written through to a store, and %s would pass it by", grid.ErrRefused, m.name, what)
}

// removeWhereThrough removes entries that are found first, one by one.
func (m *Map) removeWhereThrough(ctx context.Context, where query.Predicate) (int, error) {
	match, err := query.Compile(where)
	if err != nil {
		return 0, err
	}
	list, _, err := m.KeysWhere(ctx, where, Page{})
	if err != nil {
		return 0, err
	}
	keys := make([]Key, len(list))
	for i, k := range list {
		keys[i] = Key{Data: k}
	}
	return m.removeFound(ctx, keys, leaveOthers, func(ctx context.Context, k Key) (bool, error) {
		v, err := m.View(ctx, k)
		if err != nil || !v.Found() {
			return false, err
		}
		r := m.g.Record(v.Entry)
		holds := match.Match(r)
		if id := r.Missing(); id != 0 {
			return false, fmt.Errorf("%w: schema %d of a compact value is not known here yet", grid.ErrNotReady, id)
		}
		return holds, nil
	})
}
