package transport

import (
	"errors"

	"gridnode/grid"
)

// errDropped is why a connection ends that [Transport.Drop] has ended.
var errDropped = errors.New("it is not a member any more")

// Drop ends every connection with a member that is a member no longer, and a dial to it that is under way. What waits for an answer ends at
// once, as when a connection breaks: with grid.ErrUnreachable if its frame certainly was not sent, else with grid.ErrIndeterminate. A process
// that only stood still would otherwise keep callers waiting until its connection is found to be dead.
//
// It does not lock the member out: one that is alive may connect again, to learn that it was removed. Whoever calls it makes Config.Resolve
// forget the address first, so that nobody here dials it anew. It does not wait, and may be called from any goroutine; the callbacks of
// requests that end run on the caller's.
func (t *Transport) Drop(id grid.MemberID) {
	if p, ok := t.byID.Load(id); ok {
		p.(*peer).abandonDial()
	}
	for _, c := range t.connsOf(id) {
		c.fail(errDropped)
	}
}

// connsOf returns the connections with a member, whoever dialled them.
func (t *Transport) connsOf(id grid.MemberID) []*conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*conn
	for c := range t.conns {
		if c.peer == id {
			out = append(out, c)
		}
	}
	return out
}

// newConn returns a connection that Drop finds from now on. It has to be served.
func (t *Transport) newConn(s *stream, peer grid.MemberID, addr string) *conn {
	c := newConn(t, s, peer, addr)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[c] = struct{}{}
	return c
}

// serve runs a connection until it ends.
func (t *Transport) serve(c *conn) {
	c.serve()
	t.mu.Lock()
	delete(t.conns, c)
	t.mu.Unlock()
}

// abandonDial ends a dial that is under way: what waits for it ends as unreachable.
func (p *peer) abandonDial() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopDial != nil {
		p.stopDial()
	}
}
