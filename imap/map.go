package imap

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"gridnode/grid"
)

// Invoker runs operations on partitions. The partition host is one.
type Invoker interface {
	// Read runs an operation that changes nothing on the partition's primary.
	Read(ctx context.Context, p grid.PartitionID, op grid.Op) ([]byte, error)
	// Write runs an operation on the partition's primary, exactly once. One that has to wait for something does so up to wait.
	Write(ctx context.Context, p grid.PartitionID, op grid.Op, wait time.Duration) ([]byte, error)
	// InvokeAll runs a read-only operation once on every partition, and calls each from one goroutine.
	InvokeAll(ctx context.Context, op []byte, each func(p grid.PartitionID, reply []byte) error) error
	// Partitions is their number; 0 as long as the member has not joined a cluster.
	Partitions() int
}

// Limits of what is stored.
const (
	MaxKey     = 64 << 10
	MaxValue   = 8 << 20
	MaxMapName = 255
	MaxTxn     = 4096 // conditions, puts and deletes, each
)

const scanPage = 512 << 10

// Grid gives access to the maps. Its methods may be called at once. Errors are those of package grid: test them with grid.KindOf.
type Grid struct {
	inv      Invoker
	self     grid.MemberID
	registry *Registry      // nil: no listeners
	loaders  *table[Loader] // nil: none
	guards   atomic.Int64   // that were asked for
}

// New returns a Grid on top of an invoker. It can take no locks.
func New(inv Invoker) *Grid { return &Grid{inv: inv} }

// NewAt is New for a member: locks that are taken through the Grid belong to it.
func NewAt(inv Invoker, self grid.MemberID) *Grid { return &Grid{inv: inv, self: self} }

// Map returns the map of that name. It exists as soon as it has an entry.
func (g *Grid) Map(name string) *Map { return &Map{g: g, name: name} }

// Key is a key of a map. Place, if set, decides the partition in the key's stead: keys with one Place live together.
type Key struct {
	Data  Data
	Place Data
	Hash  int32 // if not 0, decides the partition in Place's stead: a client has worked it out
}

// Entry is an entry as it was read. An absent one has Version 0. All slices are the caller's.
type Entry struct {
	Map     string
	Key     Data
	Value   Data
	Version uint64        // grows with each write of the entry, and is never used twice
	TTL     time.Duration // what is left; 0: no end
}

// Found reports whether the entry was there.
func (e Entry) Found() bool { return e.Version != 0 }

// Map is one distributed map. All its operations are linearizable per key.
type Map struct {
	g         *Grid
	name      string
	owner     Owner
	fence     uint64
	wait      *time.Duration     // see Waiting; nil: as long as the context has
	transient bool               // writes do not reach the map's store
	in        []grid.PartitionID // see In; nil: everywhere
}

// Name returns the map's name.
func (m *Map) Name() string { return m.name }

// Partition returns the partition in which a key lives, and false as long as there is no cluster.
func (g *Grid) Partition(k Key) (p grid.PartitionID, ok bool) {
	n := g.inv.Partitions()
	if n == 0 {
		return 0, false
	}
	if k.Hash != 0 {
		return grid.PartitionOf(k.Hash, n), true
	}
	if len(k.Place) > 0 {
		return grid.PartitionOf(k.Place.Hash(), n), true
	}
	return grid.PartitionOf(k.Data.Hash(), n), true
}

func (g *Grid) call(ctx context.Context, k Key, o op, readOnly bool) ([]byte, error) {
	p, ok := g.Partition(k)
	if !ok {
		return nil, grid.ErrNotJoined
	}
	return g.ask(ctx, p, o, readOnly)
}

// callWithin is call for a write that waits for a lock for so long.
func (g *Grid) callWithin(ctx context.Context, k Key, o op, wait time.Duration) ([]byte, error) {
	p, ok := g.Partition(k)
	if !ok {
		return nil, grid.ErrNotJoined
	}
	return g.inv.Write(ctx, p, o.own(), wait)
}

func (g *Grid) ask(ctx context.Context, p grid.PartitionID, o op, readOnly bool) ([]byte, error) {
	if readOnly {
		return g.inv.Read(ctx, p, o.own())
	}
	return g.inv.Write(ctx, p, o.own(), patience(ctx))
}

// op returns an operation on this map.
func (m *Map) op(kind opKind) op { return op{Kind: kind, Map: m.name, Who: m.who(), Fence: m.fence} }

func (m *Map) checkName() error {
	if isGuard(m.name) {
		return fmt.Errorf("%w: map names that begin with %q are the members' own", grid.ErrBadRequest, guardPrefix)
	}
	if m.name == "" || len(m.name) > MaxMapName {
		return fmt.Errorf("%w: a map name has 1 to %d bytes, not %d", grid.ErrBadRequest, MaxMapName, len(m.name))
	}
	return nil
}

func (m *Map) check(k Key, value Data) error {
	if err := m.checkName(); err != nil {
		return err
	}
	switch {
	case len(k.Data) < headLen:
		return fmt.Errorf("%w: a key without type", grid.ErrBadRequest)
	case len(k.Data) > MaxKey:
		return fmt.Errorf("%w: a key of %d bytes, the limit is %d", grid.ErrTooLarge, len(k.Data), MaxKey)
	case len(value) > MaxValue:
		return fmt.Errorf("%w: a value of %d bytes, the limit is %d", grid.ErrTooLarge, len(value), MaxValue)
	}
	return nil
}

// Get returns the entry of a key. With an interceptor there may be a Value although there is no entry.
func (m *Map) Get(ctx context.Context, k Key) (Entry, error) {
	e, err := m.get(ctx, k)
	if err == nil && !e.Found() && m.loader() != nil {
		return m.readThrough(ctx, k)
	}
	return e, err
}

func (m *Map) get(ctx context.Context, k Key) (Entry, error) {
	if err := m.check(k, nil); err != nil {
		return Entry{}, err
	}
	b, err := m.g.call(ctx, k, op{Kind: opGet, Map: m.name, Key: k.Data}, true)
	if err != nil {
		return Entry{}, err
	}
	e, err := decode[entryReply](b)
	if err == nil {
		e.Map, e.Key = m.name, k.Data
	}
	return e.entry(), err
}

func (e entryReply) entry() Entry {
	return Entry{Map: e.Map, Key: e.Key, Value: e.Value, Version: e.Version, TTL: e.TTL}
}

// WriteResult is what a write did.
type WriteResult struct {
	Applied bool
	Version uint64 // of the new entry
	Old     Entry  // the entry before, where it was asked for or made the condition fail
}

func (m *Map) write(ctx context.Context, k Key, w write) (WriteResult, error) {
	if err := m.check(k, w.Value); err != nil {
		return WriteResult{}, err
	}
	if err := (Life{w.TTL, w.Idle, w.Whole}).check(); err != nil {
		return WriteResult{}, err
	}
	if m.loader() != nil && !w.Evict {
		return m.writeThrough(ctx, k, w)
	}
	return m.writeGrid(ctx, k, w)
}

// writeGrid is a write that passes the map's loader by.
func (m *Map) writeGrid(ctx context.Context, k Key, w write) (WriteResult, error) {
	o := m.op(opWrite)
	o.Key, o.Write = k.Data, &w
	b, err := m.g.callWithin(ctx, k, o, m.patience(ctx))
	if err != nil {
		return WriteResult{}, err
	}
	rep, err := decode[writeReply](b)
	res := WriteResult{Applied: rep.Applied, Version: rep.Version}
	if len(rep.Found) > 0 {
		res.Old = rep.Found[0].entry()
	}
	return res, err
}

// Set gives the key a value. With ttl 0 it lives as long as the map's config says, with [Forever] until it is removed; that is so for all
// writes.
func (m *Map) Set(ctx context.Context, k Key, value Data, ttl time.Duration) (WriteResult, error) {
	return m.write(ctx, k, write{Value: value, TTL: ttl})
}

// Put is Set that also returns the entry before.
func (m *Map) Put(ctx context.Context, k Key, value Data, ttl time.Duration) (WriteResult, error) {
	return m.write(ctx, k, write{Value: value, TTL: ttl, WantOld: true})
}

// PutIfAbsent gives the key a value if it has none; else Old is what it has.
func (m *Map) PutIfAbsent(ctx context.Context, k Key, value Data, ttl time.Duration) (WriteResult, error) {
	return m.write(ctx, k, write{Cond: condAbsent, Value: value, TTL: ttl})
}

// Replace gives the key a value if it has one, and returns the entry before.
func (m *Map) Replace(ctx context.Context, k Key, value Data, ttl time.Duration) (WriteResult, error) {
	return m.write(ctx, k, write{Cond: condPresent, Value: value, TTL: ttl, WantOld: true})
}

// ReplaceIfSame gives the key a value if its value is exactly old.
func (m *Map) ReplaceIfSame(ctx context.Context, k Key, old, value Data, ttl time.Duration) (WriteResult, error) {
	return m.write(ctx, k, write{Cond: condValue, Old: old, Value: value, TTL: ttl})
}

// ReplaceVersion gives the key a value if its entry has exactly that version.
func (m *Map) ReplaceVersion(ctx context.Context, k Key, version uint64, value Data, ttl time.Duration) (WriteResult, error) {
	return m.write(ctx, k, write{Cond: condVersion, Version: version, Value: value, TTL: ttl})
}

// Remove removes the entry and returns what it was. Applied tells whether there was one.
func (m *Map) Remove(ctx context.Context, k Key) (WriteResult, error) {
	return m.write(ctx, k, write{Remove: true, WantOld: true})
}

// RemoveVersion removes the entry if it has exactly that version.
func (m *Map) RemoveVersion(ctx context.Context, k Key, version uint64) (WriteResult, error) {
	return m.write(ctx, k, write{Remove: true, Cond: condVersion, Version: version})
}

// Size returns the number of entries. Each partition is counted at one moment, not all at the same.
func (m *Map) Size(ctx context.Context) (int, error) {
	total := 0
	err := m.g.inv.InvokeAll(ctx, encode(op{Kind: opSize, Map: m.name}), func(_ grid.PartitionID, reply []byte) error {
		n, err := decode[int](reply)
		total += n
		return err
	})
	return total, err
}

// Scan calls fn for every entry that is there throughout, exactly once, and for others at most once, partition by partition. It stops at
// fn's first error, and fails if a partition cannot be read.
func (m *Map) Scan(ctx context.Context, fn func(Entry) error) error {
	return m.scan(ctx, op{Kind: opScan, Map: m.name, Limit: scanPage}, fn)
}

// ScanKeys is Scan without the values.
func (m *Map) ScanKeys(ctx context.Context, fn func(Entry) error) error {
	return m.scan(ctx, op{Kind: opScan, Map: m.name, Limit: scanPage, Bare: true}, fn)
}

func (m *Map) scan(ctx context.Context, page op, fn func(Entry) error) error {
	type cursor struct {
		p    grid.PartitionID
		last []byte
	}
	var more []cursor
	take := func(p grid.PartitionID, reply []byte) error {
		rep, err := decode[scanReply](reply)
		if err != nil {
			return err
		}
		for _, e := range rep.Entries {
			if err := fn(e.entry()); err != nil {
				return err
			}
		}
		if n := len(rep.Entries); rep.More && n > 0 {
			more = append(more, cursor{p, rep.Entries[n-1].Key})
		}
		return nil
	}
	if err := m.g.inv.InvokeAll(ctx, encode(page), take); err != nil {
		return err
	}
	for len(more) > 0 {
		c := more[len(more)-1]
		more = more[:len(more)-1]
		page.Key = c.last
		reply, err := m.g.inv.Read(ctx, c.p, page.own())
		if err != nil {
			return err
		}
		if err := take(c.p, reply); err != nil {
			return err
		}
	}
	return nil
}
