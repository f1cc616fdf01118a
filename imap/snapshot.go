package imap

import (
	"time"
)

// copied is an entry as it travels in a snapshot. Moments travel as what is left until, or has passed since.
type copied struct {
	Map       string
	Key       []byte
	Value     []byte
	Version   uint64
	Left      time.Duration // of the time to live; 0: no end
	TTL, Idle time.Duration
	Whole     bool
	Created   time.Duration
	Updated   time.Duration
	Accessed  time.Duration
	Hits      uint64
}

// piece is a part of a snapshot.
type piece struct {
	Entries []copied
	Locks   []lockState
	Inter   []interceptState
}

// captured is what one piece will hold. Records are replaced and never changed, but for when they were read last: so they say what they said
// when they were captured.
type captured struct {
	entries []capturedEntry
	freed   []lockState // before all locks: Restore needs them so
	locks   []capturedLock
	inter   []interceptState
}

type capturedEntry struct {
	name, key string
	rec       *record
}

type capturedLock struct {
	state lockState // without what is left of its lease
	lock  lock
}

// Snapshot captures the content as it is now, in pieces of about size bytes; piece encodes the i-th of them, as often as it is asked. Capturing
// looks at each entry and copies none. Effects that are applied later do not change what the pieces say. piece is called as the store's methods
// are, never at once with them.
func (s *Store) Snapshot(size int, at time.Time) (pieces int, piece func(i int, at time.Time) []byte) {
	now := s.at(at)
	var all []captured
	var c captured
	bytes := 0
	grow := func(by int) {
		if bytes += by; bytes >= size {
			all = append(all, c)
			c, bytes = captured{entries: make([]capturedEntry, 0, len(c.entries))}, 0
		}
	}
	for name, m := range s.maps {
		for key, r := range m.records {
			c.entries = append(c.entries, capturedEntry{name, key, r})
			grow(len(name) + len(key) + len(r.value) + 48)
		}
	}
	for _, r := range s.freed {
		c.freed = append(c.freed, lockState{Map: r.m, Key: []byte(r.key), Who: who{Session: r.session, Thread: r.thread}, Call: call{Ref: r.ref}})
		grow(len(r.m) + len(r.key) + len(r.session) + 48)
	}
	s.eachLock(func(name, key string, l *lock) bool {
		if !l.over(now) { // else what is left of its lease would be something again
			state := lockState{Map: name, Key: []byte(key), Who: l.who, Count: l.count, Token: l.token, Call: l.call}
			c.locks = append(c.locks, capturedLock{state, *l})
			grow(len(name) + len(key) + len(l.who.Session) + 64)
		}
		return true
	})
	for _, list := range s.inter {
		for _, k := range list {
			c.inter = append(c.inter, k.interceptState)
			grow(len(k.Map) + len(k.ID) + len(k.Name) + len(k.Arg) + 32)
		}
	}
	if bytes > 0 {
		all = append(all, c)
	}
	return len(all), func(i int, at time.Time) []byte { return all[i].encode(s.at(at)) }
}

func (c *captured) encode(now moment) []byte {
	p := piece{
		Entries: make([]copied, 0, len(c.entries)), Inter: c.inter,
		Locks: append(make([]lockState, 0, len(c.freed)+len(c.locks)), c.freed...),
	}
	for _, e := range c.entries {
		p.Entries = append(p.Entries, e.rec.copied(e.name, e.key, now))
	}
	for _, l := range c.locks {
		l.state.Lease = l.lock.left(now)
		p.Locks = append(p.Locks, l.state)
	}
	return encode(p)
}

func (r *record) copied(name, key string, now moment) copied {
	return copied{
		Map: name, Key: []byte(key), Value: r.value, Version: r.version, Left: r.left(now), TTL: r.ttl(), Idle: r.idle(), Whole: r.whole(),
		Created: now.since(r.created), Updated: now.since(r.updated), Accessed: now.since(r.accessed), Hits: r.hits,
	}
}

// Restore adds one piece of a snapshot.
func (s *Store) Restore(raw []byte, at time.Time) error {
	if len(raw) == 0 {
		return nil
	}
	p, err := decode[piece](raw)
	if err != nil {
		return err
	}
	now := s.at(at)
	for _, c := range p.Entries {
		r := &record{
			value: c.Value, version: c.Version, hits: c.Hits,
			created: now.add(-c.Created), updated: now.add(-c.Updated), accessed: now.add(-c.Accessed),
		}
		key := string(c.Key)
		r.limit(c.Map, key, Life{c.TTL, c.Idle, c.Whole}, now)
		if r.timer != nil && c.TTL > 0 {
			r.timer.expires = max(now.add(c.Left), 1)
		}
		s.put(c.Map, key, r)
	}
	for i := range p.Locks {
		s.setLock(&p.Locks[i], now) // releases come first
	}
	for i := range p.Inter {
		s.setInterceptor(&p.Inter[i])
	}
	return nil
}
