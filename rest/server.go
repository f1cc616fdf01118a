package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits of the server.
const (
	DefaultRequestTimeout  = 30 * time.Second
	DefaultGridTimeout     = 5 * time.Second // longer than a failover takes
	DefaultShutdownTimeout = 10 * time.Second
	DefaultMaxInFlight     = 512 // requests that are worked on at once; more are answered 503

	readHeaderTimeout = 10 * time.Second
	readTimeout       = time.Minute
	idleTimeout       = 2 * time.Minute
	writeSlack        = 30 * time.Second       // to send the answer, beyond RequestTimeout
	endSlack          = 250 * time.Millisecond // to send the answers after End
	maxHeaderBytes    = 64 << 10
)

// Config of a [Server].
type Config struct {
	Addr     string       // host:port to listen on, if Listener is nil
	Listener net.Listener // New takes it over

	Jobs Jobs
	Maps Maps
	Grid Grid

	Version  string // of the program; empty: as it was built
	Revision string // abbreviated, of its source; empty: as it was built

	RequestTimeout  time.Duration // of a whole request; 0: DefaultRequestTimeout
	GridTimeout     time.Duration // how long a request waits for the grid or the engine; 0: DefaultGridTimeout
	ShutdownTimeout time.Duration // how long Run waits for open requests; 0: DefaultShutdownTimeout
	MaxInFlight     int           // 0: DefaultMaxInFlight

	Collectors []prometheus.Collector // more metrics for /metrics
	Logger     *slog.Logger           // nil discards
}

func (c Config) withDefaults() Config {
	version, revision := buildVersion()
	if c.Version == "" {
		c.Version = version
	}
	if c.Revision == "" {
		c.Revision = revision
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	if c.GridTimeout == 0 {
		c.GridTimeout = DefaultGridTimeout
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = DefaultShutdownTimeout
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = DefaultMaxInFlight
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Server answers HTTP requests.
type Server struct {
	cfg      Config
	log      *slog.Logger
	listener net.Listener
	http     *http.Server
	metrics  *metrics
	inFlight chan struct{} // one token per request that is worked on
	stopping atomic.Bool
	streams  streams

	ending context.Context // ended by End
	end    context.CancelCauseFunc
}

// New returns a server that listens already; connections wait until [Server.Run].
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if cfg.Jobs == nil || cfg.Maps == nil || cfg.Grid == nil {
		return nil, errors.New("rest: Jobs, Maps and Grid are needed")
	}
	s := &Server{cfg: cfg, log: cfg.Logger, inFlight: make(chan struct{}, cfg.MaxInFlight), streams: newStreams()}
	s.ending, s.end = context.WithCancelCause(context.Background())
	var err error
	if s.metrics, err = newMetrics(s, cfg.Collectors); err != nil {
		return nil, fmt.Errorf("rest: metrics: %w", err)
	}
	if s.listener = cfg.Listener; s.listener == nil {
		if s.listener, err = net.Listen("tcp", cfg.Addr); err != nil {
			return nil, fmt.Errorf("rest: %w", err)
		}
	}
	s.http = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      cfg.RequestTimeout + writeSlack,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Addr is the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx ends, then lets open requests end for up to ShutdownTimeout, cuts off the rest and returns. After [Server.End] there is
// nothing to wait for, so it is quick. It is called once.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1) // one result, also when nobody waits for it any more
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("rest: serve: %w", err)
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	close(s.streams.over)
	patience := s.cfg.ShutdownTimeout
	if s.refused() != nil {
		patience = endSlack
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := s.http.Shutdown(shutdown)
	if err != nil {
		s.log.Warn("requests cut off", "waited", patience)
		_ = s.http.Close()
	}
	<-served
	return nil
}

// Close stops listening. It is for a server that was never run.
func (s *Server) Close() error {
	s.stopping.Store(true)
	return s.listener.Close()
}
