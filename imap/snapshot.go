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
	Created   time.Duration
	Updated   time.Duration
	Accessed  time.Duration
	Hits      uint64
}

// piece is a part of a snapshot.
type piece struct {
	Entries []copied
	Locks   []lockState
}

// Snapshot returns the content in pieces of about size bytes.
func (s *Store) Snapshot(size int, at time.Time) [][]byte {
	now := s.at(at)
	var pieces [][]byte
	var p piece
	bytes := 0
	flush := func() {
		if bytes > 0 {
			pieces = append(pieces, encode(p))
			p, bytes = piece{}, 0
		}
	}
	for name, m := range s.maps {
		for key, r := range m.records {
			p.Entries = append(p.Entries, r.copied(name, key, now))
			if bytes += len(name) + len(key) + len(r.value) + 48; bytes >= size {
				flush()
			}
		}
	}
	s.eachLock(func(name, key string, l *lock) bool {
		if l.over(now) {
			return true // what is left of its lease would be something again
		}
		p.Locks = append(p.Locks, lockState{Map: name, Key: []byte(key), Who: l.who, Count: l.count, Token: l.token, Lease: l.left(now)})
		if bytes += len(name) + len(key) + len(l.who.Session) + 64; bytes >= size {
			flush()
		}
		return true
	})
	flush()
	return pieces
}

func (r *record) copied(name, key string, now moment) copied {
	return copied{
		Map: name, Key: []byte(key), Value: r.value, Version: r.version, Left: r.left(now), TTL: r.ttl(), Idle: r.idle(),
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
		r.limit(c.Map, key, c.TTL, c.Idle, now)
		if r.timer != nil && c.TTL > 0 {
			r.timer.expires = max(now.add(c.Left), 1)
		}
		s.put(c.Map, key, r)
	}
	for i := range p.Locks {
		s.setLock(&p.Locks[i], now)
	}
	return nil
}
