package imap

import (
	"time"

	"gridnode/grid"
)

const (
	// expireBatch bounds the entries that one effect of housekeeping removes, and those that it says were read.
	expireBatch = 512
	// touchEvery is how often backups are told of reads.
	touchEvery = 250 * time.Millisecond
	// absence is the silence after which a store takes it that it has not served meanwhile: another member has, or none.
	absence = time.Second
	// grace bounds what an entry that may go unread gets anew when its store begins to serve.
	grace = 10 * time.Second
	// lookAgain is when an entry is looked at again that is over and still there.
	lookAgain = 250 * time.Millisecond
)

// serve notes that this member is the primary and answers now.
func (s *Store) serve(now moment) {
	if s.served == 0 || now.since(s.served) > absence {
		s.since = now
		for _, t := range s.touches {
			t.touched = false
		}
		s.touches = nil
	}
	s.served = now
}

// touch notes that an entry was read. Backups are told later, and only of entries that die unread.
func (s *Store) touch(r *record, now moment) {
	r.hits++
	r.accessed = now
	t := r.timer
	if t == nil || t.idle == 0 || t.touched || now.since(t.told) < t.idle/8 {
		return
	}
	t.touched = true
	s.touches = append(s.touches, t)
}

// end is when the entry's time is over, unless it is read before; 0: never.
//
// An entry that was not read since this member began to serve may have been, at the primary before it: as much later as backups are told
// late. Nor does the time count against it in which nobody served, so that an entry which is read often enough lives on.
func (s *Store) end(t *timer) moment {
	if t.idle == 0 {
		return t.expires
	}
	end := t.rec.accessed.add(t.idle)
	if t.whole {
		end = s.second(end)
	}
	if t.rec.accessed < s.since {
		end = max(end.add(t.idle/4+2*touchEvery), s.since.add(min(t.idle, grace)))
	}
	if t.expires != 0 && t.expires < end {
		return t.expires
	}
	return end
}

// over reports whether the entry's time is over. It is asked on the primary only; backups keep an entry until they are told. A locked entry
// stays.
func (s *Store) over(r *record, now moment) bool {
	if r.timer == nil {
		return false
	}
	end := s.end(r.timer)
	return end != 0 && now >= end && !s.locked(r.timer.name, r.timer.key, now)
}

// Over returns an effect that removes entries whose time is over, frees locks of sessions that have ended, and says what was read; or nil.
func (s *Store) Over(at time.Time, isMember func(grid.MemberID) bool) []byte {
	now := s.at(at)
	s.serve(now)
	var e effect
	s.freeLocks(&e, now, isMember)
	for looks := 0; len(s.timers) > 0 && s.timers[0].look <= now && len(e.Changes) < expireBatch && looks < 4*expireBatch; looks++ {
		t := s.timers[0]
		if end := s.end(t); end > now {
			s.timers.again(t, end)
			continue
		}
		s.timers.again(t, now.add(lookAgain))
		if s.locked(t.name, t.key, now) {
			continue
		}
		e.Changes = append(e.Changes, change{Map: t.name, Key: []byte(t.key), Remove: true, Cause: causeExpired})
		s.maps[t.name].tally.note(&e.Changes[len(e.Changes)-1])
	}
	s.tell(&e, now)
	if len(e.Changes) == 0 {
		return nil
	}
	return encode(e)
}

// tell adds the reads that backups have not been told of.
func (s *Store) tell(e *effect, now moment) {
	if len(s.touches) == 0 || now.since(s.toldAt) < touchEvery && len(s.touches) < expireBatch {
		return
	}
	n := min(len(s.touches), expireBatch)
	for _, t := range s.touches[:n] {
		t.touched = false
		if t.place >= 0 {
			e.Changes = append(e.Changes, change{Map: t.name, Key: []byte(t.key), Kind: changeAccess, Age: now.since(t.rec.accessed)})
		}
	}
	s.touches = append(s.touches[:0:0], s.touches[n:]...)
	if len(s.touches) == 0 {
		s.toldAt = now
	}
}
