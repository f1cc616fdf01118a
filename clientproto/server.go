package clientproto

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"gridnode/grid"
	"gridnode/imap"
)

const (
	maxConnections   = 4096
	beforeAuth       = 1 << 10 // bytes of a message from somebody who is not known yet
	authTimeout      = 5 * time.Second
	joinPatience     = 4 * time.Second // for which a client waits until the member has joined; by default clients' own patience is 5 s
	maxMessage       = 64 << 20
	maxInFlight      = 4096     // requests of one connection
	maxUnsent        = 64 << 20 // bytes that wait for a client to take them
	silentFor        = 5 * time.Minute
	acceptPause      = 50 * time.Millisecond
	requestBudget    = 60 * time.Second // of a request that does not say how long it wants to wait
	serializationVer = 1
	serverVersion    = "5.5.0" // of Hazelcast, whose protocol this is
)

// View is the newest agreed state that this member has applied, and a channel that is closed when it is superseded.
type View interface {
	View() (*grid.State, <-chan struct{})
}

// Config is what a [Server] needs. All fields are required but Login, Token, Comparators and Logger.
type Config struct {
	Self        grid.MemberID
	ClusterName string
	View        View
	Maps        *imap.Grid
	Peers       Peers
	Listener    net.Listener // of streams whose first three bytes, CP2, are already read
	// Login and Token decide who may connect: by a password, or by a token, which they do not keep. If only one is there, nobody can connect by
	// the other; if both are nil, whoever knows the cluster's name can.
	Login func(user, password string) bool
	Token func(token []byte) bool
	// Comparators are those that paging predicates can name: see [ProcessorName].
	Comparators map[string]NewComparator
	Logger      *slog.Logger
}

// Server serves clients.
type Server struct {
	cfg Config
	log *slog.Logger

	wasIn atomic.Bool // this member has been seen in the agreed state

	mu      sync.Mutex // guards what follows
	conns   map[*conn]struct{}
	clients map[string]*presence
	gone    map[string]struct{} // clients that have left, and may have left locks

	idle    chan struct{} // tokens of goroutines that wait for a request
	objects objects
	seekers *whereabouts
	going   chan struct{} // holds one token when somebody has come to be gone
}

// New returns a server that does not serve yet.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, log: cfg.Logger, conns: map[*conn]struct{}{}, clients: map[string]*presence{}, gone: map[string]struct{}{}, going: make(chan struct{}, 1), idle: make(chan struct{}, maxIdle)}
	s.seekers = newWhereabouts(s)
	return s
}

// Where tells to which member a client is connected: see [imap.Where].
func (s *Server) Where(client string, after time.Time) (via grid.MemberID, known bool) {
	return s.seekers.where(client, after)
}

// Run serves until ctx ends, and returns when all connections are closed and what they had asked for is over.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { _ = s.cfg.Listener.Close() })
	defer stop()
	g.Go(func() error { return s.accept(ctx, g) })
	g.Go(func() error { return s.pushViews(ctx) })
	g.Go(func() error { return s.seekers.watch(ctx, s.cfg.View) })
	g.Go(func() error { return s.seekers.run(ctx) })
	g.Go(func() error { return s.endSessions(ctx) })
	return g.Wait()
}

func (s *Server) accept(ctx context.Context, g *errgroup.Group) error {
	for {
		raw, err := s.cfg.Listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("client listener: %w", err)
			}
			if !sleep(ctx, acceptPause) {
				return nil
			}
			continue
		}
		c := newConn(s, raw)
		if !s.add(c) {
			s.log.Warn("client refused: too many connections", "from", raw.RemoteAddr(), "limit", maxConnections)
			_ = raw.Close()
			continue
		}
		g.Go(func() error {
			c.serve(ctx)
			s.remove(c)
			if !c.known {
				return nil
			}
			if left, gone := s.departed(c.session); gone {
				s.endSession(ctx, c.session, left)
			}
			return nil
		})
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= maxConnections {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Clients is the number of connections.
func (s *Server) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
