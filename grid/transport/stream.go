package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"gridnode/grid"
)

// RaftListener returns the streams that began with [MagicRaft], after their handshake. Closing it ends the accepting only: another one may be
// taken after it, by a raft that takes the place of the one before. While nobody accepts, streams are closed after a while.
func (t *Transport) RaftListener() net.Listener {
	return &listenerView{streamListener: t.streams[MagicRaft], over: make(chan struct{})}
}

// GossipListener returns the streams that began with [MagicGossip], after their handshake.
func (t *Transport) GossipListener() net.Listener { return t.streams[MagicGossip] }

// ClientListener returns the streams that began with [MagicClient]; those three bytes are already read. While nobody accepts them they are
// closed.
func (t *Transport) ClientListener() net.Listener { return t.streams[MagicClient] }

// DialStream opens a stream to the member at addr, which has to be expect unless that is empty. The error wraps grid.ErrUnreachable. The
// stream is closed with the transport at the latest.
func (t *Transport) DialStream(ctx context.Context, addr string, expect grid.MemberID, magic Magic) (net.Conn, error) {
	return t.DialLabelled(ctx, addr, expect, magic, "")
}

// DialLabelled is DialStream with a label, of at most a hundred bytes or so, which the accepting side finds by [Labelled].
func (t *Transport) DialLabelled(ctx context.Context, addr string, expect grid.MemberID, magic Magic, label string) (net.Conn, error) {
	raw, _, err := t.connect(ctx, addr, expect, magic, label)
	if err != nil {
		return nil, err
	}
	s := &stream{Conn: raw, t: t}
	if !t.track(s) {
		_ = raw.Close()
		return nil, grid.ErrClosed
	}
	return s, nil
}

// ErrNobody says why a member cannot be reached, besides grid.ErrUnreachable: its host answers, but no process listens at its address.
var ErrNobody = errors.New("no process is there")

// connect dials and makes the handshake, in a second at most.
func (t *Transport) connect(ctx context.Context, addr string, expect grid.MemberID, magic Magic, label string) (net.Conn, grid.MemberID, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	raw, err := t.cfg.Network.Dial(ctx, addr)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, "", fmt.Errorf("dial %s: %w: %w: %v", addr, grid.ErrUnreachable, ErrNobody, err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("dial %s: %w: %v", addr, grid.ErrUnreachable, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	deadline, _ := ctx.Deadline()
	id, err := t.greet(raw, magic, expect, label, deadline)
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, "", fmt.Errorf("connect to %s: %w: %v", addr, grid.ErrUnreachable, err)
	}
	return raw, id, nil
}

// stream is a tracked connection.
type stream struct {
	net.Conn
	t     *Transport
	label string // of an accepted one
	once  sync.Once
	err   error
}

// Labelled returns what the dialling side said about a stream that was accepted from one of the transport's listeners.
func Labelled(c net.Conn) string {
	if s, ok := c.(*stream); ok {
		return s.label
	}
	return ""
}

// SyscallConn returns the raw connection below the stream, if the network has such.
func (s *stream) SyscallConn() (syscall.RawConn, error) {
	if c, ok := s.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

func (s *stream) Close() error {
	s.once.Do(func() {
		s.t.untrack(s)
		s.err = s.Conn.Close()
	})
	return s.err
}

// streamListener hands over streams of one kind. There is no queue: a stream waits on its own goroutine until it is accepted.
type streamListener struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *streamListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *streamListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *streamListener) Addr() net.Addr { return l.addr }

// listenerView accepts from a streamListener until it is closed itself.
type listenerView struct {
	*streamListener
	over  chan struct{}
	close sync.Once
}

func (v *listenerView) Accept() (net.Conn, error) {
	select {
	case <-v.over: // first of all: after Close, nothing is accepted
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-v.conns:
		return c, nil
	case <-v.over:
	case <-v.done:
	}
	return nil, net.ErrClosed
}

func (v *listenerView) Close() error {
	v.close.Do(func() { close(v.over) })
	return nil
}

// offer hands the stream over; ok is false if nobody took it.
func (l *streamListener) offer(c net.Conn, patience time.Duration) (ok bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case l.conns <- c:
		return true
	case <-l.done:
	case <-timer.C:
	}
	return false
}

// acceptLoop accepts streams until the transport closes or takes no more. Failures that pass, such as too many open files, only slow it down.
func (t *Transport) acceptLoop() error {
	var delay time.Duration
	for {
		raw, err := t.listener.Accept()
		if t.ctx.Err() != nil {
			if err == nil {
				_ = raw.Close()
			}
			return nil
		}
		if t.refusing.Load() {
			if err == nil {
				_ = raw.Close()
			}
			<-t.ctx.Done()
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept: %w", err)
		}
		if err != nil {
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			t.log.Warn("cannot accept a connection", "error", err, "pause", delay)
			if !t.sleep(delay) {
				return nil
			}
			continue
		}
		delay = 0
		if !t.spawn(func() { t.identify(raw) }) {
			_ = raw.Close()
		}
	}
}

// sleep pauses; ok is false if the transport closed meanwhile.
func (t *Transport) sleep(d time.Duration) (ok bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// identify finds out what an accepted stream is and serves it or hands it over.
func (t *Transport) identify(raw net.Conn) {
	s := &stream{Conn: raw, t: t}
	if !t.track(s) {
		_ = raw.Close()
		return
	}
	remote := raw.RemoteAddr().String()
	_ = raw.SetDeadline(time.Now().Add(sniffTimeout))
	var first [magicLen]byte
	if _, err := io.ReadFull(raw, first[:]); err != nil {
		t.log.Debug("stream ended before it said what it is", "remote", remote, "error", err)
		_ = s.Close()
		return
	}
	magic := Magic(first[:])
	var from hello
	if magic == MagicMember || magic == MagicRaft || magic == MagicGossip {
		var err error
		if from, err = t.welcome(raw); err != nil {
			t.log.Debug("handshake failed", "remote", remote, "error", err)
			_ = s.Close()
			return
		}
	}
	s.label = from.Label
	if magic != MagicMember {
		t.handOver(s, magic)
		return
	}
	_ = raw.SetDeadline(time.Time{})
	c := t.newConn(s, from.ID, remote)
	p := t.peerByID(from.ID)
	p.adopt(c)
	t.serve(c)
	t.ended(p, c)
}

func (t *Transport) handOver(s *stream, magic Magic) {
	l, known := t.streams[magic]
	if !known {
		t.log.Debug("unknown stream", "remote", s.RemoteAddr().String(), "first", string(magic))
		_ = s.Close()
		return
	}
	_ = s.SetDeadline(time.Time{})
	if !l.offer(s, sniffTimeout) {
		t.log.Debug("nobody takes streams of this kind", "remote", s.RemoteAddr().String(), "kind", string(magic))
		_ = s.Close()
	}
}
