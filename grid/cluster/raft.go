package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"gridnode/grid"
	"gridnode/grid/transport"
)

const (
	raftTimeout = time.Second // of one raft message

	// What a member that joins has to replay is bounded by these, whatever has happened before it: the newest snapshot, and what came since.
	// A snapshot is looked for after one to two times snapshotEvery, and made of at least snapshotAfter new entries; it costs 0.3 ms with 271
	// partitions. snapshotTrail entries before it stay, for members that are a little behind.
	snapshotEvery = 2 * time.Second
	snapshotAfter = 256
	snapshotTrail = 128

	// reloadStep is how much bootstrap shortens raft's timeouts: raft looks at its timers again only when they become shorter.
	reloadStep = time.Millisecond
)

// group is one raft and what it keeps, in memory.
type group struct {
	raft    *raft.Raft
	streams *raftStreams
	lineage *lineage
	store   *raft.InmemStore
	snaps   *snapshotStore
}

// newGroup starts raft. Without a plan its stores are empty: it waits until it is bootstrapped or a leader finds it. With one it begins where
// all survivors of a recovery begin.
func (c *Cluster) newGroup(plan *recoveryPlan) (*group, error) {
	conf := c.raftConfig()
	line := newLineage(plan)
	g := &group{streams: newRaftStreams(c.t, c.self, line), lineage: line, store: raft.NewInmemStore(), snaps: &snapshotStore{}}
	trans := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: g.streams, MaxPool: 3, Timeout: raftTimeout, Logger: conf.Logger,
		MaxRPCsInFlight: 1, // no pipelines: that of a deposed leader can block for ever, and Shutdown with it
	})
	g.streams.trans = trans
	c.fsm.snaps = g.snaps
	err := g.seed(plan, trans)
	if err == nil {
		g.raft, err = raft.NewRaft(conf, c.fsm, g.store, g.store, g.snaps, trans)
	}
	if err != nil {
		g.streams.cut()
		err = errors.Join(fmt.Errorf("start raft: %w", err), trans.Close())
		g.streams.join()
		return nil, err
	}
	return g, nil
}

func (c *Cluster) raftConfig() *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(c.self.ID)
	conf.Logger = raftLogger(c.cfg.Logger.With("component", "raft", "member", c.self.Name))
	conf.HeartbeatTimeout, conf.ElectionTimeout = c.cfg.RaftHeartbeat+reloadStep, c.cfg.RaftElection+reloadStep
	conf.LeaderLeaseTimeout, conf.CommitTimeout = c.cfg.RaftLeaderLease, c.cfg.CommitTimeout
	conf.SnapshotInterval, conf.SnapshotThreshold, conf.TrailingLogs = snapshotEvery, snapshotAfter, snapshotTrail
	conf.ShutdownOnRemove = false // Run decides when to stop
	conf.NoLegacyTelemetry = true
	return conf
}

// seed fills the stores as if all before the plan were in a snapshot.
func (g *group) seed(plan *recoveryPlan, trans raft.Transport) error {
	if plan == nil {
		return nil
	}
	var conf raft.Configuration
	for _, s := range plan.Servers {
		suffrage := raft.Nonvoter
		if s.Voter {
			suffrage = raft.Voter
		}
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.Address), Suffrage: suffrage})
	}
	sink, err := g.snaps.Create(raft.SnapshotVersionMax, plan.Index, plan.Term, conf, plan.Index, trans)
	if err != nil {
		return err
	}
	if err := (snapshot{plan.State}).Persist(sink); err != nil {
		return err
	}
	return g.store.SetUint64([]byte("CurrentTerm"), plan.Term) // the key is raft's
}

// stop ends raft, and returns when all its goroutines have ended.
func (g *group) stop() error {
	g.streams.cut()
	err := g.raft.Shutdown().Error()
	g.streams.join()
	return err
}

// serverAddress is how raft knows a member. The id in it lets the handshake refuse a process that is not that member.
func serverAddress(m grid.Member) raft.ServerAddress {
	return raft.ServerAddress(string(m.ID) + "@" + m.Address)
}

// raftStreams is raft's stream layer. raft neither closes nor joins what it accepts, so the streams are counted here: each is closed by the
// goroutine that serves it, as the last thing it does.
type raftStreams struct {
	t        *transport.Transport
	self     grid.Member
	lineage  *lineage
	listener net.Listener
	trans    *raft.NetworkTransport

	mu    sync.Mutex // guards what follows; never held across I/O
	open  map[*raftStream]struct{}
	isCut bool
	wg    sync.WaitGroup
}

var _ raft.StreamLayer = (*raftStreams)(nil)

func newRaftStreams(t *transport.Transport, self grid.Member, line *lineage) *raftStreams {
	return &raftStreams{t: t, self: self, lineage: line, listener: t.RaftListener(), open: map[*raftStream]struct{}{}}
}

// Accept is called by raft's transport only. Streams of another group are closed.
func (s *raftStreams) Accept() (net.Conn, error) {
	for {
		raw, err := s.listener.Accept()
		if err != nil {
			return nil, err
		}
		if s.lineage.accepts(transport.Labelled(raw)) {
			return s.add(raw)
		}
		_ = raw.Close()
	}
}

// Dial opens a stream to the member that the address names.
func (s *raftStreams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, addr, ok := strings.Cut(string(address), "@")
	if !ok {
		return nil, fmt.Errorf("raft address %q names no member", address)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	raw, err := s.t.DialLabelled(ctx, addr, grid.MemberID(id), transport.MagicRaft, s.lineage.label())
	if err != nil {
		return nil, err
	}
	return s.add(raw)
}

func (s *raftStreams) add(raw net.Conn) (net.Conn, error) {
	st := &raftStream{Conn: raw, owner: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isCut {
		_ = raw.Close()
		return nil, net.ErrClosed
	}
	s.open[st] = struct{}{}
	s.wg.Add(1)
	return st, nil
}

// Close stops accepting.
func (s *raftStreams) Close() error { return s.listener.Close() }

// Addr returns the address that raft tells others.
func (s *raftStreams) Addr() net.Addr { return raftAddr(serverAddress(s.self)) }

// cut breaks all streams, so that whoever waits on one goes on, and refuses further ones.
func (s *raftStreams) cut() {
	s.mu.Lock()
	s.isCut = true
	open := make([]*raftStream, 0, len(s.open))
	for st := range s.open {
		open = append(open, st)
	}
	s.mu.Unlock()
	_ = s.listener.Close()
	for _, st := range open {
		_ = st.Conn.Close()
	}
}

// join waits until raft has let go of every stream. It comes after raft has shut down.
func (s *raftStreams) join() {
	if s.trans != nil {
		s.trans.CloseStreams() // those in raft's pool
	}
	s.wg.Wait()
}

type raftStream struct {
	net.Conn
	owner *raftStreams
	once  sync.Once
}

func (st *raftStream) Close() error {
	err := st.Conn.Close()
	st.once.Do(func() {
		st.owner.mu.Lock()
		delete(st.owner.open, st)
		st.owner.mu.Unlock()
		st.owner.wg.Done()
	})
	return err
}

type raftAddr string

func (raftAddr) Network() string  { return "raft" }
func (a raftAddr) String() string { return string(a) }

// raftLogger passes raft's log on, all of it at debug: what an operator wants to know is said by this package in its own words.
func raftLogger(log *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Off})
	l.RegisterSink(slogSink{log})
	return l
}

type slogSink struct{ log *slog.Logger }

// Accept is called by hclog for every line. The names of raft's values are its own ("time" is one), so they are kept apart from ours.
func (s slogSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	if s.log.Enabled(context.Background(), slog.LevelDebug) {
		s.log.Debug(msg, "raft_level", level.String(), slog.Group("raft", args...))
	}
}
