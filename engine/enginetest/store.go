package enginetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"gridnode/engine"
)

// MemStore is an [engine.Store] in memory: one mutex and maps with versions.
type MemStore struct {
	mu      sync.Mutex
	version uint64
	entries map[engine.Key]stored
	watch   func(get func(engine.Key) engine.Entry, t engine.Txn)
}

type stored struct {
	value   []byte
	version uint64
	expires time.Time // zero: never
}

var _ engine.Store = (*MemStore)(nil)

// NewMemStore returns an empty store.
func NewMemStore() *MemStore { return &MemStore{entries: map[engine.Key]stored{}} }

// Watch has f called after each transaction that was applied, before any other is. f must not use the store but by get.
func (s *MemStore) Watch(f func(get func(engine.Key) engine.Entry, t engine.Txn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = f
}

// Get implements [engine.Store].
func (s *MemStore) Get(_ context.Context, key engine.Key) (engine.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(key), nil
}

func (s *MemStore) get(key engine.Key) engine.Entry {
	v, ok := s.entries[key]
	if ok && !v.expires.IsZero() && !time.Now().Before(v.expires) {
		delete(s.entries, key)
		ok = false
	}
	if !ok {
		return engine.Entry{Key: key}
	}
	return engine.Entry{Key: key, Value: bytes.Clone(v.value), Version: v.version}
}

// GetAll implements [engine.Store].
func (s *MemStore) GetAll(_ context.Context, keys []engine.Key) ([]engine.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]engine.Entry, len(keys))
	for i, k := range keys {
		if k.Place != keys[0].Place {
			return nil, fmt.Errorf("keys of several places: %q and %q", keys[0].Place, k.Place)
		}
		out[i] = s.get(k)
	}
	return out, nil
}

// Scan implements [engine.Store].
func (s *MemStore) Scan(_ context.Context, mapName string, fn func(engine.Entry) error) error {
	s.mu.Lock()
	var all []engine.Entry
	for k := range s.entries {
		if k.Map != mapName {
			continue
		}
		if e := s.get(k); e.Version > 0 {
			all = append(all, e)
		}
	}
	s.mu.Unlock()
	for _, e := range all {
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// Size implements [engine.Store].
func (s *MemStore) Size(ctx context.Context, mapName string) (int, error) {
	n := 0
	err := s.Scan(ctx, mapName, func(engine.Entry) error { n++; return nil })
	return n, err
}

// Txn implements [engine.Store].
func (s *MemStore) Txn(_ context.Context, t engine.Txn) (engine.TxnResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := check(t); err != nil {
		return engine.TxnResult{}, err
	}
	var current []engine.Entry
	holds := true
	for _, c := range t.If {
		e := s.get(c.Key)
		current = append(current, e)
		holds = holds && e.Version == c.Version
	}
	if !holds {
		return engine.TxnResult{Current: current}, nil
	}
	res := engine.TxnResult{Applied: true}
	for _, p := range t.Put {
		s.version++
		v := stored{value: bytes.Clone(p.Value), version: s.version}
		if p.TTL > 0 {
			v.expires = time.Now().Add(p.TTL)
		}
		s.entries[p.Key] = v
		res.Versions = append(res.Versions, s.version)
	}
	for _, k := range t.Delete {
		delete(s.entries, k)
	}
	if s.watch != nil {
		s.watch(s.get, t)
	}
	return res, nil
}

// maxValue is the largest value that a store takes.
const maxValue = 4 << 20

func check(t engine.Txn) error {
	var keys []engine.Key
	for _, c := range t.If {
		keys = append(keys, c.Key)
	}
	for _, p := range t.Put {
		keys = append(keys, p.Key)
		if len(p.Value) > maxValue {
			return fmt.Errorf("value of %d bytes is too large", len(p.Value))
		}
	}
	keys = append(keys, t.Delete...)
	for _, k := range keys {
		if k.Place != keys[0].Place {
			return fmt.Errorf("transaction over several places: %q and %q", keys[0].Place, k.Place)
		}
	}
	return nil
}
