package clientproto

import (
	"context"
	"slices"
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

// endSession waits for a client that has left to come back, and hands it over to [Server.endSessions] if it does not and may have locks.
func (s *Server) endSession(ctx context.Context, client string, left int) {
	if !sleep(ctx, imap.SessionGrace) || !s.forget(client, left) {
		return
	}
	s.mu.Lock()
	s.gone[client] = struct{}{}
	s.mu.Unlock()
	select {
	case s.going <- struct{}{}:
	default:
	}
}

// endSessions frees, until ctx ends, the locks of clients that are connected to no member any more: of many at a time, for each time asks all members
// and all partitions.
func (s *Server) endSessions(ctx context.Context) error {
	for {
		s.mu.Lock()
		var batch []string
		for c := range s.gone {
			if batch = append(batch, c); len(batch) == imap.MaxSessions {
				break
			}
		}
		s.mu.Unlock()
		var again <-chan time.Time
		if len(batch) > 0 {
			done := s.sessionsOver(ctx, batch)
			s.mu.Lock()
			for _, c := range done {
				delete(s.gone, c)
			}
			more := len(s.gone) > 0
			s.mu.Unlock()
			switch {
			case more && len(done) > 0:
				continue
			case more:
				again = time.After(sessionRetry)
			}
		}
		select {
		case <-s.going:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}

// sessionsOver returns those of the clients for which nothing is left to do here: they are back, their locks are with a member to which they are
// connected, or free. What one may have locked since it was seen last stays until that is as long ago: it can only have come back meanwhile.
func (s *Server) sessionsOver(ctx context.Context, clients []string) (done []string) {
	ctx, cancel := context.WithTimeout(ctx, sessionCall)
	defer cancel()
	done = s.Connected(clients)
	away := without(clients, done)
	found, err := s.cfg.Peers.Connected(ctx, away)
	elsewhere := map[grid.MemberID][]string{}
	for c, via := range found {
		elsewhere[via] = append(elsewhere[via], c)
	}
	for via, list := range elsewhere {
		away = without(away, list)
		if s.cfg.Maps.MoveSessions(ctx, list, via) == nil {
			done = append(done, list...)
		}
	}
	if err != nil || len(away) == 0 || s.seekers.lostLately() {
		return done
	}
	left, err := s.cfg.Maps.EndSessions(ctx, away, imap.SessionGrace)
	if err != nil {
		s.log.Warn("locks of clients that are gone are not free yet", "clients", len(away), "error", err)
		return done
	}
	return append(done, without(away, left)...)
}

// without returns those of the clients that are not among others.
func without(clients, others []string) []string {
	some := make(map[string]bool, len(others))
	for _, c := range others {
		some[c] = true
	}
	return slices.DeleteFunc(slices.Clone(clients), func(c string) bool { return some[c] })
}
