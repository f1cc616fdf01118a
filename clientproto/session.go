package clientproto

import (
	"context"
	"maps"
	"slices"
	"time"

	"gridnode/grid"
)

const (
	// sessionGrace is how long the locks of a client stay after its last connection to a member has ended: it may be back by then.
	sessionGrace = 5 * time.Second
	sessionRetry = time.Second
	sessionCall  = 8 * time.Second
)

// Peers are the other members.
type Peers interface {
	// Connected reports whether the client is connected to any other member. An error means that one did not say.
	Connected(ctx context.Context, client string) (bool, error)
	// Object tells the others that a client has created or destroyed a map. It does not wait for them, and one may not hear of it.
	Object(name string, created bool)
	// Objects are the maps of which the others know that clients have created them. Whoever does not answer is left out.
	Objects(ctx context.Context) []string
}

// Connected reports whether a client is connected to this member.
func (s *Server) Connected(client string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[client] > 0
}

// arrived counts a connection of a client.
func (s *Server) arrived(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[client]++
}

// departed takes a connection off, and reports whether it was the client's last one to this member.
func (s *Server) departed(client string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[client]--
	if s.clients[client] > 0 {
		return false
	}
	delete(s.clients, client)
	return true
}

// endSession frees the locks of a client that is connected to no member any more.
func (s *Server) endSession(ctx context.Context, client string) {
	if !sleep(ctx, sessionGrace) {
		return
	}
	for !s.Connected(client) {
		if s.sessionOver(ctx, client) || !sleep(ctx, sessionRetry) {
			return
		}
	}
}

// sessionOver reports whether nothing is left to do: the client lives elsewhere, or its locks are free.
func (s *Server) sessionOver(ctx context.Context, client string) bool {
	ctx, cancel := context.WithTimeout(ctx, sessionCall)
	defer cancel()
	if elsewhere, err := s.cfg.Peers.Connected(ctx, client); err != nil || elsewhere {
		return elsewhere
	}
	err := s.cfg.Maps.EndSession(ctx, client)
	if err == nil {
		s.log.Debug("client is gone: its locks are free", "client", client)
	}
	return err == nil
}

// moveSessions tells, whenever a member is gone, which clients still live: those that are connected here. The locks that they took through that
// member would end with it.
func (s *Server) moveSessions(ctx context.Context) error {
	old := &grid.State{}
	for {
		state, changed := s.cfg.View.View()
		if lostMember(old, state) {
			s.moveAll(ctx)
		}
		old = state
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func lostMember(old, now *grid.State) bool {
	return slices.ContainsFunc(old.Members, func(m grid.Member) bool {
		_, ok := now.Member(m.ID)
		return !ok
	})
}

func (s *Server) moveAll(ctx context.Context) {
	s.mu.Lock()
	clients := slices.Collect(maps.Keys(s.clients))
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, sessionCall)
	defer cancel()
	for _, c := range clients {
		if err := s.cfg.Maps.MoveSession(ctx, c); err != nil {
			s.log.Warn("locks of a client may be freed, for the member is gone through which it took them", "client", c, "error", err)
		}
	}
}
