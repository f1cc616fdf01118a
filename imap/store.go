package imap

import (
	"container/heap"
	"fmt"
	"time"

	"gridnode/grid"
)

// Version and Outcome are those of the partition package, by shape: this package does not import it.

// Decision is what [Store.Execute] decided: see partition.Outcome, which it becomes.
type Decision struct {
	Reply  []byte
	Err    error
	Effect []byte
	Sees   uint64
	Wait   string
}

// entryOverhead is about what an entry costs beside the bytes of its key and value.
const entryOverhead = 96

// expireBatch bounds the entries that one effect of expiry removes.
const expireBatch = 512

type record struct {
	value   []byte
	version uint64
	expires time.Time // zero: never
}

func (r *record) expired(now time.Time) bool { return !r.expires.IsZero() && !now.Before(r.expires) }

func (r *record) left(now time.Time) time.Duration {
	if r.expires.IsZero() {
		return 0
	}
	return max(r.expires.Sub(now), 1)
}

type recordMap struct {
	records map[string]*record
	bytes   int64
	timed   int // records that expire
}

// Store holds the entries of one partition, of all maps. It is not safe for use by several goroutines at once.
type Store struct {
	maps    map[string]*recordMap
	due     dueHeap
	removed uint64                      // newest version that removed anything
	seqOf   func(version uint64) uint64 // sequence number of a version
}

// NewStore returns an empty store. seqOf maps a version to its sequence number in the partition.
func NewStore(seqOf func(version uint64) uint64) *Store {
	return &Store{maps: map[string]*recordMap{}, seqOf: seqOf}
}

// Execute decides an operation and changes nothing.
func (s *Store) Execute(raw []byte, version uint64, now time.Time) Decision {
	o, err := decode[op](raw)
	if err != nil {
		return Decision{Err: err}
	}
	x := &execution{s: s, version: version, now: now}
	var reply any
	switch o.Kind {
	case opGet:
		reply = x.found(ref{Map: o.Map, Key: o.Key})
	case opGetMany:
		list := make([]entryReply, len(o.Keys))
		for i, k := range o.Keys {
			list[i] = x.found(k)
		}
		reply = list
	case opWrite:
		reply, err = x.write(o)
	case opTxn:
		reply, err = x.txn(o.Txn)
	case opScan:
		x.seeAll()
		reply = x.scan(o)
	case opSize:
		x.seeAll()
		reply = s.size(o.Map, now)
	case opStats:
		x.seeAll()
		reply = s.stats(now)
	default:
		err = fmt.Errorf("%w: operation %d", grid.ErrBadMessage, o.Kind)
	}
	if err != nil {
		return Decision{Err: err, Sees: x.sees}
	}
	return Decision{Reply: encode(reply), Effect: x.effect(), Sees: x.sees}
}

// Apply does an effect. Nothing waits for one yet, so none wakes anything.
func (s *Store) Apply(raw []byte, version uint64, now time.Time) (woken []string, err error) {
	e, err := decode[effect](raw)
	if err != nil {
		return nil, err
	}
	for _, c := range e.Changes {
		if c.Remove {
			s.remove(c.Map, string(c.Key))
			s.removed = version
			continue
		}
		rec := &record{value: c.Value, version: version}
		if c.TTL > 0 {
			rec.expires = now.Add(c.TTL)
		}
		s.put(c.Map, string(c.Key), rec)
	}
	return nil, nil
}

func cost(key string, r *record) int64 { return int64(len(key) + len(r.value) + entryOverhead) }

func (s *Store) put(name, key string, r *record) {
	m := s.maps[name]
	if m == nil {
		m = &recordMap{records: map[string]*record{}}
		s.maps[name] = m
	}
	m.forget(key)
	m.records[key] = r
	m.bytes += cost(key, r)
	if !r.expires.IsZero() {
		m.timed++
		heap.Push(&s.due, dueEntry{r.expires, name, key, r.version})
	}
}

func (m *recordMap) forget(key string) {
	old := m.records[key]
	if old == nil {
		return
	}
	m.bytes -= cost(key, old)
	if !old.expires.IsZero() {
		m.timed--
	}
	delete(m.records, key)
}

func (s *Store) remove(name, key string) {
	m := s.maps[name]
	if m == nil {
		return
	}
	m.forget(key)
	if len(m.records) == 0 {
		delete(s.maps, name) // Go maps do not give memory back while they live
	}
}

func (s *Store) size(name string, now time.Time) int {
	m := s.maps[name]
	if m == nil {
		return 0
	}
	n := len(m.records)
	if m.timed > 0 {
		for _, r := range m.records {
			if r.expired(now) {
				n--
			}
		}
	}
	return n
}

func (s *Store) stats(now time.Time) []mapStats {
	out := make([]mapStats, 0, len(s.maps))
	for name, m := range s.maps {
		if n := s.size(name, now); n > 0 {
			out = append(out, mapStats{Map: name, Entries: n, Bytes: m.bytes})
		}
	}
	return out
}

// Over returns an effect that removes entries whose time is over, or nil.
func (s *Store) Over(now time.Time, _ func(grid.MemberID) bool) []byte {
	var e effect
	for len(s.due) > 0 && len(e.Changes) < expireBatch && !now.Before(s.due[0].at) {
		d := heap.Pop(&s.due).(dueEntry)
		if m := s.maps[d.name]; m != nil {
			if r := m.records[d.key]; r != nil && r.version == d.version {
				e.Changes = append(e.Changes, change{Map: d.name, Key: []byte(d.key), Remove: true})
			}
		}
	}
	if len(e.Changes) == 0 {
		return nil
	}
	return encode(e)
}

// Snapshot returns the content in pieces of about size bytes. Times are what is left of them.
func (s *Store) Snapshot(size int, now time.Time) [][]byte {
	var pieces [][]byte
	var list []entryReply
	bytes := 0
	flush := func() {
		if len(list) > 0 {
			pieces = append(pieces, encode(list))
			list, bytes = nil, 0
		}
	}
	for name, m := range s.maps {
		for key, r := range m.records {
			list = append(list, entryReply{Map: name, Key: []byte(key), Value: r.value, Version: r.version, TTL: r.left(now)})
			if bytes += len(name) + len(key) + len(r.value) + 24; bytes >= size {
				flush()
			}
		}
	}
	flush()
	return pieces
}

// Restore adds one piece of a snapshot.
func (s *Store) Restore(piece []byte, now time.Time) error {
	if len(piece) == 0 {
		return nil
	}
	list, err := decode[[]entryReply](piece)
	if err != nil {
		return err
	}
	for _, e := range list {
		r := &record{value: e.Value, version: e.Version}
		if e.TTL > 0 {
			r.expires = now.Add(e.TTL)
		}
		s.put(e.Map, string(e.Key), r)
	}
	return nil
}

// dueEntry says when an entry expires, if it still has that version then.
type dueEntry struct {
	at        time.Time
	name, key string
	version   uint64
}

type dueHeap []dueEntry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueEntry)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = dueEntry{}
	*h = old[:len(old)-1]
	return x
}
