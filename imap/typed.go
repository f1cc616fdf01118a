package imap

import (
	"context"
	"fmt"
	"time"

	"gridnode/grid"
)

// Typed is a map whose keys and values are of Go types: see [EncodeValue] for how they are kept. Its methods may be called at once.
type Typed[K comparable, V any] struct{ m *Map }

// NewTyped returns a map as one of Go types. Others may use the same map with the same types, or as it is.
func NewTyped[K comparable, V any](m *Map) Typed[K, V] { return Typed[K, V]{m} }

// Map is the map below.
func (t Typed[K, V]) Map() *Map { return t.m }

func (t Typed[K, V]) key(k K) (Key, error) {
	d, err := EncodeValue(k)
	return Key{Data: d}, err
}

func (t Typed[K, V]) both(k K, v V) (Key, Data, error) {
	key, err := t.key(k)
	if err != nil {
		return key, nil, err
	}
	d, err := EncodeValue(v)
	return key, d, err
}

func value[V any](e Entry) (v V, found bool, err error) {
	if !e.Found() {
		return v, false, nil
	}
	if v, err = DecodeValue[V](e.Value); err != nil {
		return v, false, fmt.Errorf("map %s, key %s: %w", e.Map, e.Key.Show(), err)
	}
	return v, true, nil
}

// Get returns the value of a key, and whether there is one.
func (t Typed[K, V]) Get(ctx context.Context, k K) (v V, found bool, err error) {
	key, err := t.key(k)
	if err != nil {
		return v, false, err
	}
	e, err := t.m.Get(ctx, key)
	if err != nil {
		return v, false, err
	}
	return value[V](e)
}

// Set gives the key a value. Of several lives the last counts.
func (t Typed[K, V]) Set(ctx context.Context, k K, v V, life ...Life) error {
	key, d, err := t.both(k, v)
	if err != nil {
		return err
	}
	_, err = t.m.SetFor(ctx, key, d, lifeOf(life))
	return err
}

func lifeOf(list []Life) (l Life) {
	if n := len(list); n > 0 {
		l = list[n-1]
	}
	return l
}

// Put is Set that also returns the value before, and whether there was one.
func (t Typed[K, V]) Put(ctx context.Context, k K, v V, life ...Life) (old V, had bool, err error) {
	key, d, err := t.both(k, v)
	if err != nil {
		return old, false, err
	}
	res, err := t.m.PutFor(ctx, key, d, lifeOf(life))
	if err != nil {
		return old, false, err
	}
	return value[V](res.Old)
}

// PutIfAbsent gives the key a value if it has none, and reports whether it did; else it returns the value that there is.
func (t Typed[K, V]) PutIfAbsent(ctx context.Context, k K, v V, life ...Life) (there V, put bool, err error) {
	key, d, err := t.both(k, v)
	if err != nil {
		return there, false, err
	}
	res, err := t.m.PutIfAbsentFor(ctx, key, d, lifeOf(life))
	if err != nil || res.Applied {
		return there, res.Applied, err
	}
	there, _, err = value[V](res.Old)
	return there, false, err
}

// Remove removes the entry and returns what its value was, and whether there was one.
func (t Typed[K, V]) Remove(ctx context.Context, k K) (old V, had bool, err error) {
	key, err := t.key(k)
	if err != nil {
		return old, false, err
	}
	res, err := t.m.Remove(ctx, key)
	if err != nil {
		return old, false, err
	}
	return value[V](res.Old)
}

// maxUpdates bounds how often an update is tried while others write the same entry.
const maxUpdates = 1000

// Update replaces the value of a key by what fn makes of it, and returns the new one. fn is called again if somebody else wrote the entry
// meanwhile, so it must have no effect of its own; found is false if there is no value, and keep false removes the entry. The time to live
// begins anew with the map's default.
func (t Typed[K, V]) Update(ctx context.Context, k K, fn func(v V, found bool) (next V, keep bool)) (next V, err error) {
	key, err := t.key(k)
	if err != nil {
		return next, err
	}
	for range maxUpdates {
		e, err := t.m.Get(ctx, key)
		if err != nil {
			return next, err
		}
		v, found, err := value[V](e)
		if err != nil {
			return next, err
		}
		next, keep := fn(v, found)
		done, err := t.swap(ctx, key, e, next, keep)
		if err != nil || done {
			return next, err
		}
	}
	return next, fmt.Errorf("%w: others wrote the entry %d times meanwhile", grid.ErrOverloaded, maxUpdates)
}

// swap writes an entry that was read, if it is still as it was.
func (t Typed[K, V]) swap(ctx context.Context, key Key, e Entry, next V, keep bool) (bool, error) {
	if !keep {
		if !e.Found() {
			return true, nil
		}
		res, err := t.m.RemoveVersion(ctx, key, e.Version)
		return res.Applied, err
	}
	d, err := EncodeValue(next)
	if err != nil {
		return false, err
	}
	var res WriteResult
	if e.Found() {
		res, err = t.m.ReplaceVersion(ctx, key, e.Version, d, 0)
	} else {
		res, err = t.m.PutIfAbsent(ctx, key, d, 0)
	}
	return res.Applied, err
}

// GetAll returns the values of those keys that have one.
func (t Typed[K, V]) GetAll(ctx context.Context, keys []K) (map[K]V, error) {
	list := make([]Key, len(keys))
	for i, k := range keys {
		var err error
		if list[i], err = t.key(k); err != nil {
			return nil, err
		}
	}
	entries, err := t.m.GetAll(ctx, list)
	if err != nil {
		return nil, err
	}
	out := make(map[K]V, len(entries))
	for _, e := range entries {
		k, err := DecodeValue[K](e.Key)
		if err != nil {
			return nil, err
		}
		if out[k], _, err = value[V](e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// PutAll puts all entries: see [Map.PutAll].
func (t Typed[K, V]) PutAll(ctx context.Context, entries map[K]V, life ...Life) error {
	list := make([]Pair, 0, len(entries))
	for k, v := range entries {
		key, d, err := t.both(k, v)
		if err != nil {
			return err
		}
		list = append(list, Pair{Key: key, Value: d, Life: lifeOf(life)})
	}
	return t.m.PutAll(ctx, list)
}

// Scan calls fn for every entry: see [Map.Scan].
func (t Typed[K, V]) Scan(ctx context.Context, fn func(k K, v V) error) error {
	return t.m.Scan(ctx, func(e Entry) error {
		k, err := DecodeValue[K](e.Key)
		if err != nil {
			return err
		}
		v, _, err := value[V](e)
		if err != nil {
			return err
		}
		return fn(k, v)
	})
}

// Lock takes the lock of a key: see [Map.Lock].
func (t Typed[K, V]) Lock(ctx context.Context, k K, lease time.Duration) (LockInfo, error) {
	key, err := t.key(k)
	if err != nil {
		return LockInfo{}, err
	}
	return t.m.Lock(ctx, key, lease)
}

// Unlock gives it back.
func (t Typed[K, V]) Unlock(ctx context.Context, k K) error {
	key, err := t.key(k)
	if err != nil {
		return err
	}
	return t.m.Unlock(ctx, key)
}
