package clientproto

import (
	"context"
	"maps"
	"slices"
	"sync"

	"gridnode/imap"
)

// maxKnownObjects bounds the maps of which members know that clients have created them.
const maxKnownObjects = 10_000

// objects are the maps that clients have asked for, on this member or another.
type objects struct {
	mu    sync.Mutex // guards names
	names map[string]bool
}

// set notes that a map is there, or is not, and reports whether that is news.
func (o *objects) set(name string, there bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.names[name] == there || there && len(o.names) >= maxKnownObjects {
		return false
	}
	if !there {
		delete(o.names, name)
		return true
	}
	if o.names == nil {
		o.names = map[string]bool{}
	}
	o.names[name] = true
	return true
}

func (o *objects) list() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.names))
}

// Object takes note of a map that a client has created or destroyed through another member.
func (s *Server) Object(name string, created bool) {
	if s.objects.set(name, created) {
		s.tellObject(name, created, false)
	}
}

// Objects are the maps of which this member knows that clients have created them.
func (s *Server) Objects() []string { return s.objects.list() }

// object notes what a client of this member did, and tells the clients that listen, here and at the other members.
func (s *Server) object(name string, created bool) {
	if !s.objects.set(name, created) {
		return
	}
	s.tellObject(name, created, true)
	s.cfg.Peers.Object(name, created)
}

// tellObject sends an event to all who listen; to those who listen at every member only if it came up here.
func (s *Server) tellObject(name string, created, here bool) {
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		c.mu.Lock()
		list := maps.Clone(c.objects)
		c.mu.Unlock()
		for _, l := range list {
			if here || !l.local {
				c.send(objectEvent(s, l.id, name, created))
			}
		}
	}
}

func objectEvent(s *Server, id uint64, name string, created bool) []byte {
	e := newEvent(0x000902, id, -1)
	e.uuid(uuidOf(string(s.cfg.Self)))
	e.string(name)
	e.string(mapService)
	e.string(map[bool]string{true: "CREATED", false: "DESTROYED"}[created])
	return e.bytes()
}

// objectListener is a registration for events of objects.
type objectListener struct {
	id    uint64 // correlation id
	local bool   // the client listens at every member
}

func addObjectListener(_ context.Context, q *call) ([]byte, error) {
	c, id := q.c, newUUID()
	c.mu.Lock()
	full := len(c.objects) >= maxRegistrations
	if !full {
		if c.objects == nil {
			c.objects = map[uuidValue]objectListener{}
		}
		c.objects[id] = objectListener{q.m.correlation(), q.flag("localOnly")}
	}
	c.mu.Unlock()
	if full {
		return nil, fail(codeOverload, "this connection has %d listeners already", maxRegistrations)
	}
	a := q.answer()
	a.uuid(id)
	return a.bytes(), nil
}

func removeObjectListener(_ context.Context, q *call) ([]byte, error) {
	q.c.mu.Lock()
	_, there := q.c.objects[q.uuid("id")]
	delete(q.c.objects, q.uuid("id"))
	q.c.mu.Unlock()
	return q.yes(there, nil)
}

// getObjects lists the maps that clients have asked for and not destroyed, and those that have entries.
func getObjects(ctx context.Context, q *call) ([]byte, error) {
	s := q.c.s
	names := map[string]bool{}
	for _, n := range s.objects.list() {
		names[n] = true
	}
	for _, n := range s.cfg.Peers.Objects(ctx) {
		names[n] = true
	}
	stats, err := s.cfg.Maps.Stats(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range stats {
		if !imap.System(m.Name) {
			names[m.Name] = true
		}
	}
	a := q.answer()
	a.open()
	for _, n := range slices.Sorted(maps.Keys(names)) {
		a.open()
		a.string(mapService)
		a.string(n)
		a.close()
	}
	a.close()
	return a.bytes(), nil
}
