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
	now     time.Time
	sees    uint64
	changes []change
	purged  []ref // entries that were found expired
}

// seeAll makes the answer depend on all that was written so far.
func (x *execution) seeAll() { x.sees = x.s.seqOf(x.version) - 1 }

// look returns the entry, or nil if it is absent or expired, and notes what the answer depends on.
func (x *execution) look(k ref) *record {
	var r *record
	if m := x.s.maps[k.Map]; m != nil {
		r = m.records[string(k.Key)]
	}
	if r == nil {
		x.sees = max(x.sees, x.s.seqOf(x.s.removed)) // it may be absent because of the newest removal
		return nil
	}
	x.sees = max(x.sees, x.s.seqOf(r.version))
	if r.expired(x.now) {
		x.purged = append(x.purged, k)
		return nil
	}
	return r
}

func (x *execution) found(k ref) entryReply {
	e := entryReply{Map: k.Map, Key: k.Key}
	if r := x.look(k); r != nil {
		e.Value, e.Version, e.TTL = r.value, r.version, r.left(x.now)
	}
	return e
}

func (x *execution) write(o op) (any, error) {
	w := o.Write
	if w == nil {
		return nil, fmt.Errorf("%w: a write without its part", grid.ErrBadMessage)
	}
	k := ref{Map: o.Map, Key: o.Key}
	r := x.look(k)
	var old []entryReply
	if w.WantOld {
		old = []entryReply{x.reply(k, r)}
	}
	if !holds(w, r) {
		return writeReply{Found: []entryReply{x.reply(k, r)}}, nil
	}
	if w.Remove {
		if r != nil {
			x.changes = append(x.changes, change{Map: o.Map, Key: o.Key, Remove: true})
		}
		return writeReply{Applied: r != nil, Found: old}, nil
	}
	x.changes = append(x.changes, change{Map: o.Map, Key: o.Key, Value: w.Value, TTL: w.TTL})
	return writeReply{Applied: true, Version: x.version, Found: old}, nil
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
	found := make([]entryReply, len(t.If))
	ok := true
	for i, c := range t.If {
		found[i] = x.found(c.Ref)
		ok = ok && found[i].Version == c.Version
	}
	if !ok {
		return writeReply{Found: found}, nil
	}
	for _, k := range t.Delete {
		if x.look(k) != nil {
			x.changes = append(x.changes, change{Map: k.Map, Key: k.Key, Remove: true})
		}
	}
	for _, p := range t.Put {
		p.Remove = false
		x.changes = append(x.changes, p)
	}
	return writeReply{Applied: true, Version: x.version}, nil
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
		if (o.Key == nil || k > string(o.Key)) && !r.expired(x.now) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	size := 0
	for i, k := range keys {
		r := m.records[k]
		rep.Entries = append(rep.Entries, entryReply{Map: o.Map, Key: []byte(k), Value: r.value, Version: r.version, TTL: r.left(x.now)})
		if size += len(k) + len(r.value); size >= o.Limit && i < len(keys)-1 {
			rep.More = true
			break
		}
	}
	return rep
}

// effect is what there is to apply: the changes, and the removal of what was found expired and is not written anew.
func (x *execution) effect() []byte {
	for _, k := range x.purged {
		again := slices.ContainsFunc(x.changes, func(c change) bool { return c.Map == k.Map && bytes.Equal(c.Key, k.Key) })
		if !again {
			x.changes = append(x.changes, change{Map: k.Map, Key: k.Key, Remove: true})
		}
	}
	if len(x.changes) == 0 {
		return nil
	}
	return encode(effect{Changes: x.changes})
}
