package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// peer is one destination: its connection, or what waits for one.
type peer struct {
	t    *Transport
	id   grid.MemberID // empty if only the address is known
	addr string        // empty if it has to be resolved

	conn atomic.Pointer[conn]

	mu       sync.Mutex // guards what follows, and setting conn; never held across I/O or a callback. Taken before conn.mu.
	dialing  bool
	stopDial context.CancelFunc // while dialing
	queue    []*queued          // in order, for the connection being dialled
	queuedLn int                // bytes in it
	backoff  time.Duration
	retryAt  time.Time // no dial before that
	lastErr  error     // of the last dial
	usedAt   time.Time // when it last needed a dial
}

// queued is a frame that waits for a connection.
type queued struct {
	frame wire.Frame
	done  func([]byte, error) // nil for one-way
	conn  *conn               // once it was passed on, with
	id    uint64              // its id there
	err   error               // if it could not be passed on
}

func (t *Transport) peerByID(id grid.MemberID) *peer {
	if p, ok := t.byID.Load(id); ok {
		return p.(*peer)
	}
	p, _ := t.byID.LoadOrStore(id, &peer{t: t, id: id})
	return p.(*peer)
}

func (t *Transport) peerByAddr(addr string) *peer {
	if p, ok := t.byAddr.Load(addr); ok {
		return p.(*peer)
	}
	p, _ := t.byAddr.LoadOrStore(addr, &peer{t: t, addr: addr})
	return p.(*peer)
}

// ticket names a request that was started, so that it can be given up.
type ticket struct {
	conn *conn
	id   uint64
	wait *queued
}

// start sends the frame, or lets it wait for a connection. If it returns an error the frame was not sent and done is not called. body is
// copied.
func (p *peer) start(f wire.Frame, done func([]byte, error)) (ticket, error) {
	if len(f.Body) > wire.MaxBody {
		return ticket{}, fmt.Errorf("body of %d bytes: %w", len(f.Body), grid.ErrTooLarge)
	}
	if c := p.conn.Load(); c != nil {
		if id, err := c.send(f, done); !errors.Is(err, errConnClosed) {
			return ticket{conn: c, id: id}, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.conn.Load(); c != nil {
		id, err := c.send(f, done)
		if !errors.Is(err, errConnClosed) {
			return ticket{conn: c, id: id}, err
		}
		p.conn.Store(nil)
	}
	return p.enqueueLocked(f, done)
}

func (p *peer) enqueueLocked(f wire.Frame, done func([]byte, error)) (ticket, error) {
	now := time.Now()
	if !p.dialing {
		if p.id != "" && now.Before(p.retryAt) { // who calls an address paces himself, and wants to know about now
			return ticket{}, fmt.Errorf("member %s: not dialled again yet: %w", p, p.lastErr)
		}
		ctx, cancel := context.WithCancel(p.t.ctx)
		if !p.t.spawn(func() { defer cancel(); p.dial(ctx) }) {
			cancel()
			return ticket{}, grid.ErrClosed
		}
		p.dialing, p.stopDial, p.usedAt = true, cancel, now
	}
	if p.queuedLn > 0 && p.queuedLn+len(f.Body) > maxBuffer {
		return ticket{}, fmt.Errorf("%d bytes wait for %s: %w", p.queuedLn, p, grid.ErrOverloaded)
	}
	q := &queued{frame: f, done: done}
	q.frame.Body = slices.Clone(f.Body)
	p.queue = append(p.queue, q)
	p.queuedLn += wire.Overhead + len(f.Body)
	return ticket{wait: q}, nil
}

// String names the destination in messages.
func (p *peer) String() string {
	if p.id != "" {
		return string(p.id)
	}
	return p.addr
}

// giveUp stops waiting for an answer. ran is false if the request certainly was not sent; late is true if done was or is being called.
func (p *peer) giveUp(k ticket) (ran, late bool) {
	if k.wait != nil {
		p.mu.Lock()
		if i := slices.Index(p.queue, k.wait); i >= 0 {
			p.queuedLn -= wire.Overhead + len(k.wait.frame.Body)
			p.queue = slices.Delete(p.queue, i, i+1)
			p.mu.Unlock()
			return false, false
		}
		k.conn, k.id = k.wait.conn, k.wait.id
		p.mu.Unlock()
	}
	if k.conn == nil || k.id == 0 { // it could not be sent, and done is told so
		return false, true
	}
	return true, !k.conn.forget(k.id)
}

// dial opens the connection and serves it until it ends. ctx ends no more than the dialling.
func (p *peer) dial(ctx context.Context) {
	addr, err := p.address()
	var c *conn
	if err == nil {
		raw, id, dialErr := p.t.connect(ctx, addr, p.id, MagicMember, "")
		if err = dialErr; err == nil {
			s := &stream{Conn: raw, t: p.t}
			if p.t.track(s) {
				c = p.t.newConn(s, id, addr)
				if ctx.Err() != nil { // Drop may have come before the connection could be found
					c.fail(errDropped)
				}
			} else {
				_ = raw.Close()
				err = grid.ErrClosed
			}
		}
	}
	p.dialled(c, err)
	if c == nil {
		return
	}
	if p.id == "" {
		p.t.peerByID(c.peer).adopt(c)
	}
	p.t.serve(c)
	p.t.ended(p, c)
}

func (p *peer) address() (string, error) {
	if p.addr != "" {
		return p.addr, nil
	}
	if p.t.resolve != nil {
		if addr, ok := p.t.resolve(p.id); ok {
			return addr, nil
		}
	}
	return "", fmt.Errorf("member %s: %w: no address is known", p.id, grid.ErrUnreachable)
}

// dialled passes the waiting frames on to the new connection, in order, or fails them.
func (p *peer) dialled(c *conn, err error) {
	p.mu.Lock()
	queue := p.queue
	p.queue, p.queuedLn, p.dialing, p.stopDial = nil, 0, false, nil
	if err != nil {
		p.backoff = min(max(2*p.backoff, firstBackoff), maxBackoff)
		p.retryAt, p.lastErr = time.Now().Add(p.backoff), err
	} else {
		p.backoff, p.retryAt, p.lastErr = 0, time.Time{}, nil
		p.conn.Store(c)
	}
	for _, q := range queue {
		if q.err = err; c != nil {
			q.conn = c
			q.id, q.err = c.send(q.frame, q.done)
		}
	}
	p.mu.Unlock()
	for _, q := range queue {
		if q.err != nil && q.done != nil {
			q.done(nil, unreachable(q.err))
		}
	}
}

// unreachable turns an error of this side, before anything was sent, into one of the sentinels.
func unreachable(err error) error {
	if errors.Is(err, errConnClosed) {
		return fmt.Errorf("%w: %v", grid.ErrUnreachable, err)
	}
	return err
}

// adopt uses a connection that the other side has dialled, if there is none and none is being dialled.
func (p *peer) adopt(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn.Load() == nil && !p.dialing {
		p.conn.Store(c)
		p.backoff, p.retryAt, p.lastErr = 0, time.Time{}, nil
	}
}

// ended takes note of a connection that is no more.
func (t *Transport) ended(p *peer, c *conn) {
	p.conn.CompareAndSwap(c, nil)
	if p.id == "" {
		t.peerByID(c.peer).conn.CompareAndSwap(c, nil)
	}
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	if t.ctx.Err() != nil {
		return
	}
	t.log.Debug("connection ended", "peer", c.peer, "address", c.addr, "error", err)
	if t.onDown != nil {
		t.onDown(c.addr, c.peer)
	}
}

// sweepLoop forgets destinations that are not used any more.
func (t *Transport) sweepLoop() {
	for t.sleep(forgetAfter / 2) {
		now := time.Now()
		for _, m := range []*sync.Map{&t.byID, &t.byAddr} {
			m.Range(func(key, value any) bool {
				if value.(*peer).idle(now) {
					m.Delete(key)
				}
				return true
			})
		}
	}
}

func (p *peer) idle(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn.Load() == nil && !p.dialing && now.Sub(p.usedAt) > forgetAfter
}
