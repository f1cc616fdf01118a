package imap

import (
	"container/heap"
	"time"
)

// moment is a reading of the monotonic clock, in nanoseconds from a moment of the store's own; 0 is none.
type moment int64

// at returns the moment of a clock reading.
func (s *Store) at(now time.Time) moment {
	if s.base.IsZero() {
		s.base = now
	}
	return moment(now.Sub(s.base)) + 1
}

// second returns the last whole second of the wall clock at or before a moment.
func (s *Store) second(m moment) moment {
	past := s.base.Add(time.Duration(m) - 1).Nanosecond()
	return max(m-moment(past), 1)
}

func (m moment) add(d time.Duration) moment {
	if d > time.Duration(1<<62) {
		d = 1 << 62
	}
	return m + moment(d)
}

func (m moment) since(o moment) time.Duration { return time.Duration(m - o) }

// record is an entry. What it needs only if its time is limited is apart.
type record struct {
	value                      []byte
	version                    uint64
	created, updated, accessed moment
	hits                       uint64 // reads that this member served
	timer                      *timer // nil: no end
}

// timer is the limit of an entry's time.
type timer struct {
	name, key string
	rec       *record
	expires   moment        // 0: never
	ttl, idle time.Duration // as they were set; 0: no end
	whole     bool          // of idle: see [Life]
	told      moment        // the newest access that backups know of
	touched   bool          // a newer one waits to be told
	look      moment        // when to look whether the time is over: the order of the queue
	place     int           // in the queue; -1: not in it
}

// left is what remains of the time to live; 0: no end.
func (r *record) left(now moment) time.Duration {
	if r.timer == nil || r.timer.expires == 0 {
		return 0
	}
	return max(r.timer.expires.since(now), 1)
}

func (r *record) ttl() time.Duration {
	if r.timer == nil {
		return 0
	}
	return r.timer.ttl
}

func (r *record) idle() time.Duration {
	if r.timer == nil {
		return 0
	}
	return r.timer.idle
}

func (r *record) whole() bool { return r.timer != nil && r.timer.whole }

// limit sets how long the entry lives and may go unread, from now on. It is not in the queue yet.
func (r *record) limit(name, key string, l Life, now moment) {
	if l.TTL == 0 && l.MaxIdle == 0 {
		r.timer = nil
		return
	}
	r.timer = &timer{name: name, key: key, rec: r, ttl: l.TTL, idle: l.MaxIdle, whole: l.Whole, told: r.accessed, place: -1}
	if l.TTL > 0 {
		r.timer.expires = max(now.add(l.TTL), 1)
	}
}

// timers is a queue by the next look.
type timers []*timer

func (q timers) Len() int           { return len(q) }
func (q timers) Less(i, j int) bool { return q[i].look < q[j].look }
func (q timers) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push and Pop are heap's.
func (q *timers) Push(x any) {
	t := x.(*timer)
	t.place = len(*q)
	*q = append(*q, t)
}

func (q *timers) Pop() any {
	old := *q
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	t.place = -1
	return t
}

func (q *timers) add(t *timer, look moment) {
	t.look = look
	heap.Push(q, t)
}

func (q *timers) drop(t *timer) {
	if t.place >= 0 {
		heap.Remove(q, t.place)
	}
	if cap(*q) > shrinkFrom && len(*q) < cap(*q)/8 {
		*q = append(make(timers, 0, 2*len(*q)), *q...)
	}
}

// without drops all timers of a map, of which there are so many.
func (q *timers) without(name string, timed int) {
	if timed == 0 {
		return
	}
	kept := make(timers, 0, len(*q)-timed)
	for _, t := range *q {
		t.place = -1
		if t.name != name {
			t.place = len(kept)
			kept = append(kept, t)
		}
	}
	*q = kept
	heap.Init(q)
}

// again moves the next look.
func (q *timers) again(t *timer, look moment) {
	t.look = look
	heap.Fix(q, t.place)
}

// shrinkFrom is the size from which on a table that has become mostly empty is made anew: Go's do not shrink.
const shrinkFrom = 1024

// recordMap is one map in one partition.
type recordMap struct {
	records map[string]*record
	peak    int // the most records since the table was made
	timed   int // records with a timer
	cfg     *MapConfig
	indexes *indexSet
	*holding
}

// holding is what one map in one partition counts for. What is left of it is taken back when the store is garbage, so that nothing that a holding
// refers to may lead to the store.
type holding struct {
	tally   *tally
	entries int
	bytes   int64
}

// add notes that the map has so much more.
func (h *holding) add(entries int, bytes int64) {
	h.entries += entries
	h.bytes += bytes
	h.tally.hold(entries, bytes)
}

// giveBack notes that the map has nothing any more.
func (h *holding) giveBack() { h.add(-h.entries, -h.bytes) }

func (m *recordMap) put(key string, r *record) {
	m.records[key] = r
	m.indexes.add(key, r)
	m.peak = max(m.peak, len(m.records))
	c := cost(key, r)
	m.add(1, c)
	if r.timer != nil {
		m.timed++
	}
}

// forget takes a record out, and returns it.
func (m *recordMap) forget(key string) *record {
	old := m.records[key]
	if old == nil {
		return nil
	}
	c := cost(key, old)
	m.add(-1, -c)
	if old.timer != nil {
		m.timed--
	}
	delete(m.records, key)
	m.indexes.remove(key, old)
	return old
}

// shrink makes the table anew if most of it is empty.
func (m *recordMap) shrink() {
	if m.peak < shrinkFrom || len(m.records) > m.peak/8 {
		return
	}
	small := make(map[string]*record, 2*len(m.records))
	for k, r := range m.records {
		small[k] = r
	}
	m.records, m.peak = small, len(small)
}

// entryOverhead is about what an entry costs beside the bytes of its key and value, and timerOverhead what a limit to its time adds.
const (
	entryOverhead = 136
	timerOverhead = 104
)

func cost(key string, r *record) int64 {
	c := int64(len(key) + len(r.value) + entryOverhead)
	if r.timer != nil {
		c += timerOverhead
	}
	return c
}
