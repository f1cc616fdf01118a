package clientproto

import (
	"context"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

const (
	sessionRetry = time.Second
	sessionCall  = 8 * time.Second
)

// Peers are the other members.
type Peers interface {
	// Connected tells which of the clients are connected to another member, and to which. An error means that one did not say; what the others
	// said is returned nevertheless.
	Connected(ctx context.Context, clients []string) (map[string]grid.MemberID, error)
	// Object tells the others that a client has created or destroyed a map. It does not wait for them, and one may not hear of it.
	Object(name string, created bool)
	// Objects are the maps of which the others know that clients have created them. Whoever does not answer is left out.
	Objects(ctx context.Context) []string
}

// presence is a client that is connected to this member, or was until less than the session's grace ago.
type presence struct {
	conns int
	locks bool // it may have locks that end with its last connection to this member
	left  int  // how often its last connection has ended
}

// Connected returns those of the clients that are connected to this member. One that has just left may be on its way back, and counts.
func (s *Server) Connected(clients []string) (here []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range clients {
		if p := s.clients[c]; p != nil {
			p.locks = true // who asks may say from now on that it speaks through this member
			here = append(here, c)
		}
	}
	return here
}

// arrived counts a connection of a client.
func (s *Server) arrived(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[client] == nil {
		s.clients[client] = &presence{}
	}
	s.clients[client].conns++
}

// locks notes that a connected client may have a lock.
func (s *Server) locks(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.clients[client]; p != nil {
		p.locks = true
	}
}

// departed takes a connection off, and reports whether it was the client's last one to this member, and how often it has left so.
func (s *Server) departed(client string) (left int, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.clients[client]
	if p.conns--; p.conns > 0 {
		return 0, false
	}
	p.left++
	return p.left, true
}

// forget drops a client that has left, for that time, and has not come back. locks tells whether it may have left some.
func (s *Server) forget(client string, left int) (locks bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.clients[client]
	if p == nil || p.conns > 0 || p.left != left {
		return false
	}
	delete(s.clients, client)
	return p.locks
}

// endSession frees the locks of a client that has left, and is connected to no member when its grace is over.
func (s *Server) endSession(ctx context.Context, client string, left int) {
	if !sleep(ctx, imap.SessionGrace) || !s.forget(client, left) {
		return
	}
	for len(s.Connected([]string{client})) == 0 {
		if s.sessionOver(ctx, client) || !sleep(ctx, sessionRetry) {
			return
		}
	}
}

// sessionOver reports whether nothing is left to do here: the client's locks are free, or they are with a member to which it is connected. What
// it may have locked since it was seen last stays until that is as long ago: it can only have come back meanwhile.
func (s *Server) sessionOver(ctx context.Context, client string) bool {
	ctx, cancel := context.WithTimeout(ctx, sessionCall)
	defer cancel()
	found, err := s.cfg.Peers.Connected(ctx, []string{client})
	if via := found[client]; via != "" {
		return s.cfg.Maps.MoveSession(ctx, client, via) == nil
	}
	if err != nil || s.seekers.lostLately() {
		return false
	}
	left, err := s.cfg.Maps.EndSession(ctx, client, imap.SessionGrace)
	if err == nil && !left {
		s.log.Debug("client is gone: its locks are free", "client", client)
	}
	return err == nil && !left
}
