package imap

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"gridnode/grid"
)

// execution is the deciding of one operation.
type execution struct {
	s       *Store
	version uint64 // that its writes will have
	now     moment
	wall    time.Time // the same moment
	sees    uint64
	changes []change
	purged  []ref // entries that were found expired
	who     who
	fence   uint64
	wait    string // the lock that the operation has to wait for
}

// seeAll makes the answer depend on all that was written so far.
func (x *execution) seeAll() { x.sees = x.s.seqOf(x.version) - 1 }

// look returns the entry, or nil if it is absent or expired, and notes what the answer depends on.
func (x *execution) look(k ref) *record {
	r := x.s.find(k.Map, string(k.Key))
	if r == nil {
		x.sees = max(x.sees, x.s.seqOf(x.s.removed)) // it may be absent because of the newest removal
		return nil
	}
	x.sees = max(x.sees, x.s.seqOf(r.version))
	if x.s.over(r, x.now) {
		x.purged = append(x.purged, k)
		return nil
	}
	return r
}

// get is look for one who reads the value.
func (x *execution) get(k ref) (entryReply, error) {
	r := x.look(k)
	t := x.s.tally(k.Map)
	t.gets.Add(1)
	if r == nil {
		t.misses.Add(1)
	} else {
		t.hits.Add(1)
		x.s.touch(r, x.now)
	}
	e := x.reply(k, r)
	var err error
	e.Value, err = x.through(k.Map, e.Value, getThrough)
	return e, err
}

func (x *execution) write(o op) (any, error) {
	w := o.Write
	if w == nil {
		return nil, fmt.Errorf("%w: a write without its part", grid.ErrBadMessage)
	}
	k := ref{Map: o.Map, Key: o.Key}
	barred, err := x.barred(k)
	if err != nil || barred && !w.Evict {
		return nil, err
	}
	x.wait = "" // a locked entry is not evicted, and that is the answer
	r := x.look(k)
	var old []entryReply
	if w.WantOld {
		old = []entryReply{x.reply(k, r)}
	}
	if !holds(w, r) || w.Evict && x.s.locked(k.Map, string(k.Key), x.now) { // also for the owner
		return writeReply{Found: []entryReply{x.reply(k, r)}}, nil
	}
	if w.Remove {
		if r != nil {
			x.remove(k, w.Evict)
		}
		for i := range old {
			if old[i].Value, err = x.through(k.Map, old[i].Value, removeThrough); err != nil {
				return nil, err
			}
		}
		return writeReply{Applied: r != nil, Found: old}, nil
	}
	if w.Keep {
		if r == nil {
			return writeReply{}, nil
		}
		ttl := within(w.TTL, x.s.home.table.find(k.Map).TTL)
		x.changes = append(x.changes, change{Map: k.Map, Key: k.Key, Kind: changeTTL, TTL: ttl, Idle: r.idle(), Whole: r.whole()})
		return writeReply{Applied: true, Version: x.version, Found: old}, nil
	}
	value, err := x.incoming(k, r, w.Value)
	if err != nil {
		return nil, err
	}
	x.put(k, value, Life{w.TTL, w.Idle, w.Whole})
	return writeReply{Applied: true, Version: x.version, Found: old}, nil
}

// incoming is what the map's interceptors make of a value that is to be put.
func (x *execution) incoming(k ref, r *record, value []byte) ([]byte, error) {
	var old []byte
	if r != nil {
		old = r.value
	}
	return x.through(k.Map, value, putThrough(old))
}

// put gives an entry a value, with the map's defaults where nothing was asked for: also over an entry that had times of its own. The entry
// was looked at before, so that one that has expired goes as such.
func (x *execution) put(k ref, value []byte, l Life) {
	cfg := x.s.home.table.find(k.Map)
	x.changes = append(x.changes, change{
		Map: k.Map, Key: k.Key, Value: value, TTL: within(l.TTL, cfg.TTL), Idle: within(l.MaxIdle, cfg.MaxIdle), Whole: l.Whole,
	})
}

func (x *execution) remove(k ref, evict bool) {
	c := change{Map: k.Map, Key: k.Key, Remove: true}
	if evict {
		c.Cause = causeEvicted
	}
	x.changes = append(x.changes, c)
}

func (x *execution) reply(k ref, r *record) entryReply {
	e := entryReply{Map: k.Map, Key: k.Key}
	if r != nil {
		e.Value, e.Version, e.TTL = r.value, r.version, r.left(x.now)
	}
	return e
}

func holds(w *write, r *record) bool {
	switch w.Cond {
	case condNone:
		return true
	case condAbsent:
		return r == nil
	case condPresent:
		return r != nil
	case condVersion:
		return r != nil && r.version == w.Version
	case condValue:
		return r != nil && bytes.Equal(r.value, w.Old)
	}
	return false
}

func (x *execution) txn(t *txn) (any, error) {
	if t == nil {
		return nil, fmt.Errorf("%w: a transaction without its part", grid.ErrBadMessage)
	}
	if barred, err := x.txnBarred(t); barred {
		return nil, err
	}
	found := make([]entryReply, len(t.If))
	ok := true
	for i, c := range t.If {
		found[i] = x.reply(c.Ref, x.look(c.Ref))
		ok = ok && found[i].Version == c.Version
	}
	if !ok {
		return writeReply{Found: found}, nil
	}
	for _, k := range t.Delete {
		if x.look(k) != nil {
			x.remove(k, false)
		}
	}
	for _, p := range t.Put {
		k := ref{Map: p.Map, Key: p.Key}
		x.look(k)
		x.put(k, p.Value, Life{TTL: p.TTL, MaxIdle: p.Idle})
	}
	return writeReply{Applied: true, Version: x.version}, nil
}

// txnBarred is barred for all that a transaction would write.
func (x *execution) txnBarred(t *txn) (bool, error) {
	if x.s.held == 0 && x.fence == 0 {
		return false, nil
	}
	for _, k := range t.Delete {
		if barred, err := x.barred(k); barred {
			return true, err
		}
	}
	for _, p := range t.Put {
		if barred, err := x.barred(ref{Map: p.Map, Key: p.Key}); barred {
			return true, err
		}
	}
	return false, nil
}

// scan returns the entries behind o.Key in the order of their keys, as many as fit o.Limit. In that order an entry that is there
// throughout a series of scans comes exactly once.
func (x *execution) scan(o op) scanReply {
	var rep scanReply
	m := x.s.maps[o.Map]
	if m == nil {
		return rep
	}
	keys := make([]string, 0, len(m.records))
	for k, r := range m.records {
		if (o.Key == nil || k > string(o.Key)) && !x.s.over(r, x.now) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	size := 0
	for i, k := range keys {
		e := x.reply(ref{Map: o.Map, Key: []byte(k)}, m.records[k])
		if o.Bare {
			e.Value = nil
		}
		rep.Entries = append(rep.Entries, e)
		if size += len(k) + len(e.Value); size >= o.Limit && i < len(keys)-1 {
			rep.More = true
			break
		}
	}
	return rep
}

// effect is what there is to apply: the changes, and the removal of what was found expired and is not written anew. What is written in its
// place says so.
func (x *execution) effect() []byte {
	for _, k := range x.purged {
		i := slices.IndexFunc(x.changes, func(c change) bool { return c.Map == k.Map && bytes.Equal(c.Key, k.Key) })
		if i < 0 {
			x.changes = append(x.changes, change{Map: k.Map, Key: k.Key, Remove: true, Cause: causeExpired})
		} else {
			x.changes[i].Cause = causeExpired
		}
	}
	if len(x.changes) == 0 {
		return nil
	}
	for i := range x.changes {
		x.s.tally(x.changes[i].Map).note(&x.changes[i])
	}
	x.s.made = made{x.changes, encode(effect{Changes: x.changes})}
	return x.s.made.raw
}
