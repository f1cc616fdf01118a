package imap

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"gridnode/grid"
)

// Bounds of bulk operations. One message carries the keys of one partition; more than these are divided over several.
const (
	bulkKeys    = 1024
	bulkBytes   = 1 << 20
	bulkAtOnce  = 32 // partitions asked at once
	maxBulkKeys = 1 << 20
)

// Pair is an entry to put.
type Pair struct {
	Key   Key
	Value Data
	Life
}

// share is what a bulk operation asks of one partition: operations to run one after the other.
type share struct {
	p     grid.PartitionID
	list  []*op
	keys  int // of the last one
	bytes int
}

// shares orders a bulk operation by partitions. add puts item i into an operation and returns its bytes.
func (m *Map) shares(kind opKind, n int, key func(i int) (Key, Data), add func(o *op, i int) int) ([]*share, error) {
	if n > maxBulkKeys {
		return nil, fmt.Errorf("%w: %d keys at once, the limit is %d", grid.ErrTooLarge, n, maxBulkKeys)
	}
	by := map[grid.PartitionID]*share{}
	var all []*share
	for i := range n {
		k, value := key(i)
		if err := m.check(k, value); err != nil {
			return nil, err
		}
		p, ok := m.g.Partition(k)
		if !ok {
			return nil, grid.ErrNotJoined
		}
		s := by[p]
		if s == nil {
			s = &share{p: p, keys: bulkKeys}
			by[p] = s
			all = append(all, s)
		}
		if s.keys >= bulkKeys || s.bytes >= bulkBytes {
			o := m.op(kind)
			s.list = append(s.list, &o)
			s.keys, s.bytes = 0, 0
		}
		s.bytes += add(s.list[len(s.list)-1], i)
		s.keys++
	}
	return all, nil
}

// spread runs shares, those of different partitions at once. If some were done and others not, what is known of the whole is an error of
// its own.
func (m *Map) spread(ctx context.Context, all []*share, readOnly bool, take func(o *op, reply []byte) error) error {
	var mu sync.Mutex // guards take, done and worst
	var worst error
	done := 0
	run := func(p grid.PartitionID, o *op) error {
		reply, err := m.g.ask(ctx, p, *o, readOnly)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			done++
			err = take(o, reply)
		}
		if err != nil && (worst == nil || rank(err) > rank(worst)) {
			worst = err
		}
		return err
	}
	var g errgroup.Group
	g.SetLimit(bulkAtOnce)
	for _, s := range all {
		g.Go(func() error {
			for _, o := range s.list {
				if err := run(s.p, o); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if g.Wait() != nil && !readOnly && done > 0 && grid.KindOf(worst) == grid.Retryable {
		return fmt.Errorf("%w: a part of the operation was done, then: %v", grid.ErrIndeterminate, worst)
	}
	return worst
}

// key adds a key to a bulk operation.
func (o *op) key(k Data) {
	if o.Bulk == nil {
		o.Bulk = &bulk{}
	}
	o.Bulk.Keys = append(o.Bulk.Keys, k)
}

// rank orders errors by how much they say about the whole: a part that was refused will be refused again, one that is unknown stays so.
func rank(err error) int {
	switch grid.KindOf(err) {
	case grid.Definite:
		return 3
	case grid.Indeterminate:
		return 2
	}
	return 1
}

// GetAll returns the entries of those keys that have one, in no particular order, each once. Each partition is read at one moment.
func (m *Map) GetAll(ctx context.Context, keys []Key) ([]Entry, error) {
	seen := make(map[string]bool, len(keys))
	var want []Key
	for _, k := range keys {
		if id := string(k.Place) + "/" + string(k.Data); !seen[id] {
			seen[id] = true
			want = append(want, k)
		}
	}
	all, err := m.shares(opGetAll, len(want), func(i int) (Key, Data) { return want[i], nil }, func(o *op, i int) int {
		o.key(want[i].Data)
		return len(want[i].Data)
	})
	if err != nil {
		return nil, err
	}
	var out []Entry
	err = m.spread(ctx, all, true, func(_ *op, reply []byte) error {
		list, err := decode[[]entryReply](reply)
		for _, e := range list {
			out = append(out, e.entry())
		}
		return err
	})
	if err == nil && m.loader() != nil {
		out, err = m.readAllThrough(ctx, want, out)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// PutAll puts all entries; of several with one key the last counts. The entries of one partition, up to a thousand, are put at one moment;
// the whole is not: after an error some may be there and others not.
func (m *Map) PutAll(ctx context.Context, list []Pair) error {
	for _, p := range list {
		if err := p.check(); err != nil {
			return err
		}
	}
	if m.store() != nil {
		return forEach(len(list), func(i int) error {
			_, err := m.SetFor(ctx, list[i].Key, list[i].Value, list[i].Life)
			return err
		})
	}
	all, err := m.shares(opPutAll, len(list), func(i int) (Key, Data) { return list[i].Key, list[i].Value }, func(o *op, i int) int {
		p := list[i]
		if o.Bulk == nil {
			o.Bulk = &bulk{}
		}
		o.Bulk.Put = append(o.Bulk.Put, pair{Key: p.Key.Data, Value: p.Value, TTL: p.TTL, Idle: p.MaxIdle, Whole: p.Whole})
		return len(p.Key.Data) + len(p.Value)
	})
	if err != nil {
		return err
	}
	return m.spread(ctx, all, false, func(*op, []byte) error { return nil })
}

// SetAll is PutAll: neither returns what was there before.
func (m *Map) SetAll(ctx context.Context, list []Pair) error { return m.PutAll(ctx, list) }

// DeleteAll removes the entries of those keys and returns how many there were. After an error some may be removed and others not.
func (m *Map) DeleteAll(ctx context.Context, keys []Key) (int, error) {
	if m.store() != nil {
		return m.deleteEach(ctx, keys)
	}
	all, err := m.shares(opRemoveAll, len(keys), func(i int) (Key, Data) { return keys[i], nil }, func(o *op, i int) int {
		o.key(keys[i].Data)
		return len(keys[i].Data)
	})
	if err != nil {
		return 0, err
	}
	return m.counted(ctx, all)
}

// counted sums what the shares answer.
func (m *Map) counted(ctx context.Context, all []*share) (total int, err error) {
	err = m.counts(ctx, all, func(n int) { total += n })
	return total, err
}

// counts calls each with what each share answers.
func (m *Map) counts(ctx context.Context, all []*share, each func(n int)) error {
	return m.spread(ctx, all, false, func(_ *op, reply []byte) error {
		n, err := decode[int](reply)
		each(n)
		return err
	})
}

// Clear removes all entries but locked ones, and returns how many. Each partition is cleared at one moment, as one effect.
func (m *Map) Clear(ctx context.Context) (int, error) {
	if m.store() != nil {
		return m.clearThrough(ctx)
	}
	return m.sweep(ctx, sweepClear)
}

// EvictAll is Clear for the sake of memory: listeners are told of evictions.
func (m *Map) EvictAll(ctx context.Context) (int, error) { return m.sweep(ctx, sweepEvict) }

// Destroy removes all entries, locks, interceptors and counters of the map, and the indexes that were added to it. The next write begins it anew.
// Listeners go on.
func (m *Map) Destroy(ctx context.Context) error {
	if _, err := m.sweep(ctx, sweepDestroy); err != nil {
		return err
	}
	return m.dropIndexes(ctx)
}

func (m *Map) sweep(ctx context.Context, how sweep) (int, error) {
	o := m.op(opClear)
	o.Sweep = how
	return m.onAll(ctx, o)
}

// onAll runs an operation that writes once in every partition, and sums what they answer.
func (m *Map) onAll(ctx context.Context, o op) (int, error) {
	if err := m.checkName(); err != nil {
		return 0, err
	}
	n := m.g.inv.Partitions()
	if n == 0 {
		return 0, grid.ErrNotJoined
	}
	all := make([]*share, n)
	for p := range all {
		all[p] = &share{p: grid.PartitionID(p), list: []*op{&o}}
	}
	return m.counted(ctx, all)
}
