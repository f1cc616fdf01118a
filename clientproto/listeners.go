package clientproto

import (
	"context"
	"fmt"

	"gridnode/imap"
)

// The bits by which clients name events. Source: EntryEventType.
const (
	bitAdded    = 1
	bitRemoved  = 2
	bitUpdated  = 4
	bitEvicted  = 8
	bitExpired  = 16
	bitEvictAll = 32
	bitClearAll = 64
)

var eventBits = map[imap.EventType]int32{
	imap.Added: bitAdded, imap.Updated: bitUpdated, imap.Removed: bitRemoved, imap.Evicted: bitEvicted, imap.Expired: bitExpired,
	imap.Cleared: bitClearAll,
}

// maxRegistrations bounds the listeners of one connection.
const maxRegistrations = 1024

// wanted are the events that a listener asks for. A client must not get any other: some cannot bear them.
func wanted(flags int64) (types imap.EventType) {
	for t, bit := range eventBits {
		if flags&int64(bit) != 0 {
			types |= t
		}
	}
	if flags&bitEvictAll != 0 {
		types |= imap.Evicted
	}
	return types
}

// bitOf is the bit of an event.
func bitOf(e imap.Event) int32 {
	if e.Type == imap.Evicted && len(e.Key) == 0 {
		return bitEvictAll
	}
	return eventBits[e.Type]
}

// listen registers with the map and answers with the registration's id. Registrations end with the connection.
func (q *call) listen(ctx context.Context, cfg imap.ListenerConfig, fn func(imap.Event)) ([]byte, error) {
	cfg.LocalOnly = q.long("localOnly") != 0
	ctx, cancel := budget(ctx)
	defer cancel()
	l, err := q.imap().Listen(ctx, cfg, fn)
	if err != nil {
		return nil, queryError(err)
	}
	id := newUUID()
	if !q.c.register(id, l) {
		l.Close()
		return nil, fail(codeOverload, "this connection has %d listeners already", maxRegistrations)
	}
	a := q.answer()
	a.uuid(id)
	return a.bytes(), nil
}

// register keeps a listener for the connection; ok is false if there are too many, or the connection has ended.
func (c *conn) register(id uuidValue, l *imap.Listener) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || len(c.listeners) >= maxRegistrations {
		return false
	}
	c.listeners[id] = l
	return true
}

// deafen ends all registrations.
func (c *conn) deafen() {
	c.mu.Lock()
	c.ended = true
	list := c.listeners
	c.listeners = nil
	c.mu.Unlock()
	for _, l := range list {
		l.Close()
	}
}

func removeListener(_ context.Context, q *call) ([]byte, error) {
	id := q.uuid("id")
	q.c.mu.Lock()
	l := q.c.listeners[id]
	delete(q.c.listeners, id)
	q.c.mu.Unlock()
	if l != nil {
		l.Close()
	}
	return q.yes(l != nil, nil)
}

// entryListener is a handler of the four kinds of entry listeners: of a key or all, with a predicate or without.
func entryListener(withKey, withPredicate bool) handler {
	return func(ctx context.Context, q *call) ([]byte, error) {
		flags := q.long("flags")
		types := wanted(flags)
		values := q.long("includeValue") != 0
		cfg := imap.ListenerConfig{Events: types, Value: values, Old: values}
		if withKey {
			cfg.Key = q.data("key").Data
		}
		if withPredicate {
			p, err := q.predicate("predicate")
			if err != nil {
				return nil, err
			}
			cfg.Where = &p
		}
		kind, id := q.spec.id+2, q.m.correlation()
		return q.listen(ctx, cfg, func(e imap.Event) {
			if bit := bitOf(e); flags&int64(bit) != 0 {
				q.c.send(entryEvent(kind, id, bit, e))
			}
		})
	}
}

// entryEvent is one event. The partition in its head keeps those of one key in order at the client.
func entryEvent(kind uint32, id uint64, bit int32, x imap.Event) []byte {
	e := newEvent(kind, id, int32(x.Partition))
	e.int32(bit)
	e.uuid(uuidOf(string(x.From)))
	e.int32(int32(max(x.Count, 1)))
	value(e, x.Key)
	value(e, x.Value)
	value(e, x.Old)
	e.null() // merging does not happen
	return e.bytes()
}

// unnumbered is the number of every invalidation: clients that count them see that none is missing, and the Go client warns of 0.
const unnumbered = 1

// nearCacheListener tells a client which keys it may not answer from its near cache any more. What was lost on the way, it is told of as of all.
func nearCacheListener(ctx context.Context, q *call) ([]byte, error) {
	kind, id := q.spec.id+2, q.m.correlation()
	return q.listen(ctx, imap.ListenerConfig{Again: true}, func(x imap.Event) {
		e := newEvent(kind, id, int32(x.Partition))
		e.uuid(uuidOf(string(x.From)))
		e.uuid(partitionUUID(q.c.s, int(x.Partition)))
		e.int64(unnumbered)
		value(e, x.Key)
		q.c.send(e.bytes())
	})
}

// nearCacheMetadata answers where the invalidations of maps stand. They are not numbered: each says what it is of.
func nearCacheMetadata(_ context.Context, q *call) ([]byte, error) {
	names, _ := q.field("names").([]string)
	s, _ := q.c.s.cfg.View.View()
	a := q.answer()
	a.open()
	for _, name := range names {
		a.string(name)
		a.begin(0)
		for p := range s.Partitions {
			a.int32(int32(p))
			a.int64(unnumbered)
		}
	}
	a.close()
	a.begin(0)
	for p := range s.Partitions {
		a.int32(int32(p))
		a.uuid(partitionUUID(q.c.s, p))
	}
	return a.bytes(), nil
}

// partitionUUID names a partition's content: it changes when the partition was lost and started again, empty.
func partitionUUID(s *Server, p int) uuidValue {
	state, _ := s.cfg.View.View()
	if p < 0 || p >= len(state.Partitions) {
		return uuidValue{}
	}
	return uuidOf(fmt.Sprint(state.ClusterID, " ", p, " ", state.Partitions[p].Born))
}
