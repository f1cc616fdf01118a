package imap

import (
	"bytes"
	"fmt"

	"gridnode/grid"
)

// has reports whether there is an entry. It counts as a read of it.
func (x *execution) has(k ref) bool {
	r := x.look(k)
	if r != nil {
		x.s.touch(r, x.now)
	}
	return r != nil
}

func (x *execution) hasValue(name string, value []byte) bool {
	m := x.s.maps[name]
	if m == nil {
		return false
	}
	for _, r := range m.records {
		if bytes.Equal(r.value, value) && !x.s.over(r, x.now) {
			return true
		}
	}
	return false
}

// view is not a read of the entry.
func (x *execution) view(k ref) viewReply {
	r := x.look(k)
	v := viewReply{Entry: x.reply(k, r)}
	if r == nil {
		return v
	}
	epoch := func(m moment) int64 { return x.wall.Add(m.since(x.now)).UnixMilli() }
	v.Cost, v.Hits, v.TTL, v.Idle = cost(string(k.Key), r), r.hits, r.ttl(), r.idle()
	v.Created, v.Updated, v.Accessed = epoch(r.created), epoch(r.updated), epoch(r.accessed)
	if r.timer != nil && x.s.end(r.timer) != 0 {
		v.Expires = epoch(x.s.end(r.timer))
	}
	return v
}

// bulk reads, puts or removes several entries of one map.
func (x *execution) bulk(o op) (any, error) {
	b := o.Bulk
	if b == nil {
		return nil, fmt.Errorf("%w: a bulk operation without its part", grid.ErrBadMessage)
	}
	switch o.Kind {
	case opGetAll:
		found := make([]entryReply, 0, len(b.Keys))
		for _, k := range b.Keys {
			e, err := x.get(ref{Map: o.Map, Key: k})
			if err != nil {
				return nil, err
			}
			if e.Version != 0 {
				found = append(found, e)
			}
		}
		return found, nil
	case opPutAll:
		for _, p := range b.Put {
			if barred, err := x.barred(ref{Map: o.Map, Key: p.Key}); barred {
				return nil, err
			}
		}
		for _, p := range b.Put {
			k := ref{Map: o.Map, Key: p.Key}
			value, err := x.incoming(k, x.look(k), p.Value)
			if err != nil {
				return nil, err
			}
			x.put(k, value, Life{p.TTL, p.Idle, p.Whole})
		}
		return len(b.Put), nil
	}
	for _, k := range b.Keys {
		if barred, err := x.barred(ref{Map: o.Map, Key: k}); barred {
			return nil, err
		}
	}
	seen := make(map[string]bool, len(b.Keys))
	for _, k := range b.Keys {
		r := ref{Map: o.Map, Key: k}
		if !seen[string(k)] && x.look(r) != nil {
			x.remove(r, false)
			seen[string(k)] = true
		}
	}
	return len(seen), nil
}

// sweep empties a map and returns how many entries that removed.
func (x *execution) sweep(o op) (any, error) {
	c := change{Map: o.Map, Kind: changeSweep}
	switch o.Sweep {
	case sweepClear:
	case sweepEvict:
		c.Cause = causeEvicted
	case sweepDestroy:
		c.Cause = causeDestroyed
	default:
		return nil, fmt.Errorf("%w: sweep %d", grid.ErrBadMessage, o.Sweep)
	}
	if x.fence != 0 {
		return nil, fmt.Errorf("%w: a fencing token is that of one key's lock, and this would empty the map", grid.ErrBadRequest)
	}
	x.seeAll()
	n := x.s.count(o.Map, x.now)
	if o.Sweep != sweepDestroy {
		c.Keep = x.s.lockedKeys(o.Map, x.now)
		n -= len(c.Keep)
	}
	m := x.s.maps[o.Map]
	if (m == nil || len(m.records) == len(c.Keep)) && (o.Sweep != sweepDestroy || x.s.locks[o.Map] == nil && x.s.inter[o.Map] == nil) {
		if o.Sweep == sweepDestroy {
			x.s.home.forget(o.Map)
		}
		return 0, nil
	}
	if t := x.s.home.tally(o.Map); o.Sweep == sweepEvict {
		t.evictions.Add(uint64(n))
	} else {
		t.removes.Add(uint64(n))
	}
	x.changes = append(x.changes, c)
	return n, nil
}
