package imap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gridnode/grid"
)

// Life says how long an entry lives: since it was written, and without being read. 0 is the map's default, [Forever] no end.
type Life struct {
	TTL     time.Duration
	MaxIdle time.Duration
	// Whole ends MaxIdle at the whole second before its end, as Hazelcast does: an entry with a max-idle of one second may expire although it
	// is read all the time.
	Whole bool
}

func (l Life) check() error {
	if l.TTL < 0 {
		return fmt.Errorf("%w: a negative time to live", grid.ErrBadRequest)
	}
	if l.MaxIdle < 0 {
		return fmt.Errorf("%w: a negative max-idle", grid.ErrBadRequest)
	}
	return nil
}

// SetFor is Set with a life of the entry's own.
func (m *Map) SetFor(ctx context.Context, k Key, value Data, l Life) (WriteResult, error) {
	return m.write(ctx, k, write{Value: value, TTL: l.TTL, Idle: l.MaxIdle, Whole: l.Whole})
}

// PutFor is Put with a life of the entry's own.
func (m *Map) PutFor(ctx context.Context, k Key, value Data, l Life) (WriteResult, error) {
	return m.write(ctx, k, write{Value: value, TTL: l.TTL, Idle: l.MaxIdle, Whole: l.Whole, WantOld: true})
}

// PutIfAbsentFor is PutIfAbsent with a life of the entry's own.
func (m *Map) PutIfAbsentFor(ctx context.Context, k Key, value Data, l Life) (WriteResult, error) {
	return m.write(ctx, k, write{Cond: condAbsent, Value: value, TTL: l.TTL, Idle: l.MaxIdle, Whole: l.Whole})
}

// SetTTL gives an entry a new time to live, from now on; its value and its max-idle stay. Applied tells whether there was an entry.
func (m *Map) SetTTL(ctx context.Context, k Key, ttl time.Duration) (WriteResult, error) {
	return m.write(ctx, k, write{Keep: true, TTL: ttl})
}

// Delete removes the entry. Applied tells whether there was one.
func (m *Map) Delete(ctx context.Context, k Key) (WriteResult, error) {
	return m.write(ctx, k, write{Remove: true})
}

// RemoveIfSame removes the entry if its value is exactly old, byte for byte.
func (m *Map) RemoveIfSame(ctx context.Context, k Key, old Data) (WriteResult, error) {
	return m.write(ctx, k, write{Remove: true, Cond: condValue, Old: old})
}

// Evict removes the entry unless it is locked. Applied tells whether it did.
func (m *Map) Evict(ctx context.Context, k Key) (WriteResult, error) {
	return m.write(ctx, k, write{Remove: true, Evict: true})
}

// ContainsKey reports whether there is an entry. It counts as a read of it.
func (m *Map) ContainsKey(ctx context.Context, k Key) (bool, error) {
	if err := m.check(k, nil); err != nil {
		return false, err
	}
	b, err := m.g.call(ctx, k, op{Kind: opHas, Map: m.name, Key: k.Data}, true)
	if err != nil {
		return false, err
	}
	has, err := decode[bool](b)
	if err == nil && !has && m.loader() != nil {
		e, err := m.readThrough(ctx, k)
		return e.Found(), err
	}
	return has, err
}

// errFound ends a walk over the partitions early.
var errFound = errors.New("found")

// ContainsValue reports whether any entry has exactly that value, byte for byte. It looks at all entries.
func (m *Map) ContainsValue(ctx context.Context, value Data) (bool, error) {
	err := m.g.inv.InvokeAll(ctx, encode(op{Kind: opHasValue, Map: m.name, Value: value}), func(_ grid.PartitionID, reply []byte) error {
		found, err := decode[bool](reply)
		if found {
			return errFound
		}
		return err
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// IsEmpty reports whether the map has no entry.
func (m *Map) IsEmpty(ctx context.Context) (bool, error) {
	n, err := m.Size(ctx)
	return n == 0, err
}

// View is what is known of an entry. Hits, and the last access of entries without max-idle, are those that the present primary served: they
// move with a planned move of the partition, and are lost when its member dies. All else survives.
type View struct {
	Entry
	Cost                       int64 // bytes, about
	Hits                       uint64
	Created, Updated, Accessed time.Time     // by the primary's clock
	Expires                    time.Time     // if it is not read or written before; zero: never
	SetTTL, MaxIdle            time.Duration // as they were set; 0: no end
}

// View returns what is known of an entry. That is no read of it.
func (m *Map) View(ctx context.Context, k Key) (View, error) {
	if err := m.check(k, nil); err != nil {
		return View{}, err
	}
	b, err := m.g.call(ctx, k, op{Kind: opView, Map: m.name, Key: k.Data}, true)
	if err != nil {
		return View{}, err
	}
	r, err := decode[viewReply](b)
	if err != nil || r.Entry.Version == 0 {
		return View{Entry: r.Entry.entry()}, err
	}
	v := View{
		Entry: r.Entry.entry(), Cost: r.Cost, Hits: r.Hits, SetTTL: r.TTL, MaxIdle: r.Idle,
		Created: time.UnixMilli(r.Created), Updated: time.UnixMilli(r.Updated), Accessed: time.UnixMilli(r.Accessed),
	}
	if r.Expires != 0 {
		v.Expires = time.UnixMilli(r.Expires)
	}
	return v, nil
}
