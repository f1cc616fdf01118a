package imap

import (
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

// Store holds the entries of one partition, of all maps. It is not safe for use by several goroutines at once.
type Store struct {
	home     *Home
	maps     map[string]*recordMap
	holdings map[string]*holding // those of maps
	timers   timers
	removed  uint64                      // newest version that removed anything
	seqOf    func(version uint64) uint64 // sequence number of a version
	base     time.Time                   // of moments
	locks    map[string]map[string]*lock // that are held, by map and key
	held     int                         // locks
	freed    []release                   // locks that were freed lately by calls that may be sent again
	inter    map[string][]*intercepting  // interceptors by map, in the order in which they work
	woken    []string                    // by the effect that is being applied
	made     made                        // by the last operation

	// Of the primary only. All of it may be lost.
	served   moment   // when it last answered
	since    moment   // since when it does so without a pause
	touches  []*timer // entries that were read; backups are to be told
	toldAt   moment
	lockedAt moment // when locks were looked at

	registry *Registry // nil: no indexes, no listeners
	capture  capture
}

// NewStore returns an empty store without configs. seqOf maps a version to its sequence number in the partition.
func NewStore(seqOf func(version uint64) uint64) *Store { return NewHome(HomeConfig{}).NewStore(seqOf) }

// Do decides an operation and changes no entry.
func (s *Store) Do(o grid.Op, version uint64, at time.Time) Decision {
	if own, ok := o.(*op); ok {
		return s.decide(*own, version, at)
	}
	return s.Execute(o.Encoded(), version, at)
}

// Execute is Do for an operation that came from another member.
func (s *Store) Execute(raw []byte, version uint64, at time.Time) Decision {
	o, err := decode[op](raw)
	if err != nil {
		return Decision{Err: err}
	}
	return s.decide(o, version, at)
}

func (s *Store) decide(o op, version uint64, at time.Time) Decision {
	now := s.at(at)
	s.serve(now)
	x := &execution{s: s, version: version, now: now, wall: at, who: o.Who, fence: o.Fence}
	reply, err := x.decide(o)
	if x.wait != "" {
		return Decision{Wait: x.wait}
	}
	if err == nil {
		err = x.makeRoom()
	}
	if err != nil {
		return Decision{Err: err, Sees: x.sees}
	}
	return Decision{Reply: encode(reply), Effect: x.effect(), Sees: x.sees}
}

// decide runs the operation.
func (x *execution) decide(o op) (any, error) {
	switch o.Kind {
	case opGet:
		e, err := x.get(ref{Map: o.Map, Key: o.Key})
		e.Map, e.Key = "", nil // whoever asks knows them
		return e, err
	case opGetMany:
		list := make([]entryReply, len(o.Keys))
		for i, k := range o.Keys {
			var err error
			if list[i], err = x.get(k); err != nil {
				return nil, err
			}
		}
		return list, nil
	case opWrite:
		return x.write(o)
	case opTxn:
		return x.txn(o.Txn)
	case opScan:
		x.seeAll()
		return x.scan(o), nil
	case opSize:
		x.seeAll()
		return x.s.count(o.Map, x.now), nil
	case opStats:
		x.seeAll()
		return x.s.stats(o.Map, x.now), nil
	case opHas:
		return x.has(ref{Map: o.Map, Key: o.Key}), nil
	case opHasValue:
		x.seeAll()
		return x.hasValue(o.Map, o.Value), nil
	case opView:
		return x.view(ref{Map: o.Map, Key: o.Key}), nil
	case opGetAll, opPutAll, opRemoveAll:
		return x.bulk(o)
	case opClear:
		return x.sweep(o)
	case opLock:
		return x.lock(o)
	case opProcess:
		return x.process(o)
	case opIntercept:
		return x.intercept(o)
	case opQuery, opAggregate, opRemoveWhere:
		return x.ask(o)
	case opAttend:
		return x.attend(), nil
	}
	return nil, fmt.Errorf("%w: operation %d", grid.ErrBadMessage, o.Kind)
}

// Apply does an effect, and returns what operations may wait for and need wait for no longer.
func (s *Store) Apply(raw []byte, version uint64, at time.Time) (woken []string, err error) {
	changes, err := s.changes(raw)
	if err != nil {
		return nil, err
	}
	now := s.at(at)
	s.capture.begin(s.registry, s.seqOf(version))
	for i := range changes {
		c := &changes[i]
		s.note(i, c, version)
		s.apply(c, version, now)
	}
	woken, s.woken = s.woken, nil
	return woken, nil
}

// made is an effect as this store made it, and as it travels.
type made struct {
	changes []change
	raw     []byte
}

// changes reads an effect. That of the operation that this store decided last, which is the usual one at the primary, need not be read.
func (s *Store) changes(raw []byte) ([]change, error) {
	own := s.made
	s.made = made{}
	if len(raw) > 0 && len(raw) == len(own.raw) && &raw[0] == &own.raw[0] {
		return own.changes, nil
	}
	e, err := decode[effect](raw)
	return e.Changes, err
}

func (s *Store) apply(c *change, version uint64, now moment) {
	switch c.Kind {
	case changeTTL:
		s.retime(c, version, now)
	case changeValue:
		s.revalue(c, version, now)
	case changeAccess:
		s.access(c, now)
	case changeLock:
		s.setLock(c.Lock, now)
	case changeIntercept:
		s.setInterceptor(c.Inter)
	case changeSweep:
		s.sweep(c)
		s.removed = version
	default:
		if c.Remove {
			s.remove(c.Map, string(c.Key))
			s.removed = version
			return
		}
		r := &record{value: c.Value, version: version, created: now, updated: now, accessed: now}
		key := string(c.Key)
		if old := s.find(c.Map, key); old != nil {
			r.created, r.hits = old.created, old.hits
		}
		r.limit(c.Map, key, Life{c.TTL, c.Idle, c.Whole}, now)
		s.put(c.Map, key, r)
	}
}

// find returns the record of a key, over or not, or nil.
func (s *Store) find(name, key string) *record {
	if m := s.maps[name]; m != nil {
		return m.records[key]
	}
	return nil
}

// tally returns the member's counters of a map.
func (s *Store) tally(name string) *tally {
	if m := s.maps[name]; m != nil {
		return m.tally
	}
	return s.home.tally(name)
}

// retime gives an entry a new time to live. The value stays, and what else is known of it.
func (s *Store) retime(c *change, version uint64, now moment) {
	key := string(c.Key)
	old := s.find(c.Map, key)
	if old == nil {
		return
	}
	r := *old
	r.version = version
	r.limit(c.Map, key, Life{c.TTL, c.Idle, c.Whole}, now)
	s.put(c.Map, key, &r)
}

// access notes when the primary served a read.
func (s *Store) access(c *change, now moment) {
	r := s.find(c.Map, string(c.Key))
	if r == nil || r.timer == nil {
		return
	}
	r.accessed = max(r.accessed, now.add(-c.Age))
	r.timer.told = max(r.timer.told, r.accessed)
}

func (s *Store) put(name, key string, r *record) {
	m := s.maps[name]
	if m == nil {
		m = &recordMap{records: map[string]*record{}, cfg: s.home.table.find(name), holding: &holding{tally: s.home.tally(name)}}
		s.maps[name], s.holdings[name] = m, m.holding
	}
	s.untimed(m.forget(key))
	m.put(key, r)
	if r.timer != nil {
		s.timers.add(r.timer, s.end(r.timer))
	}
}

func (s *Store) untimed(r *record) {
	if r != nil && r.timer != nil {
		s.timers.drop(r.timer)
	}
}

func (s *Store) remove(name, key string) {
	m := s.maps[name]
	if m == nil {
		return
	}
	s.untimed(m.forget(key))
	if len(m.records) == 0 {
		s.drop(name)
		return
	}
	m.shrink()
}

// drop drops a map as a whole.
func (s *Store) drop(name string) {
	s.maps[name].giveBack()
	delete(s.maps, name)
	delete(s.holdings, name)
}

// sweep empties a map. With nothing to keep it is dropped as a whole.
func (s *Store) sweep(c *change) {
	if c.Cause == causeDestroyed {
		s.freeAll(c.Map)
		delete(s.inter, c.Map)
		defer s.home.forget(c.Map)
	}
	m := s.maps[c.Map]
	if m == nil {
		return
	}
	kept := map[string]*record{}
	for _, k := range c.Keep {
		if r := m.records[string(k)]; r != nil {
			kept[string(k)] = r
		}
	}
	s.timers.without(c.Map, m.timed)
	s.drop(c.Map)
	m.records = nil
	for k, r := range kept {
		s.put(c.Map, k, r)
	}
}

// size is the number of entries of a map.
func (s *Store) size(name string, at time.Time) int { return s.count(name, s.at(at)) }

func (s *Store) count(name string, now moment) int {
	m := s.maps[name]
	if m == nil {
		return 0
	}
	n := len(m.records)
	if m.timed > 0 {
		for _, r := range m.records {
			if s.over(r, now) {
				n--
			}
		}
	}
	return n
}
