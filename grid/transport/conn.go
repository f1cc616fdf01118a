package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// conn is one established connection between two members, used by both sides for their requests.
type conn struct {
	t    *Transport
	raw  net.Conn
	peer grid.MemberID
	addr string

	wake  chan struct{} // holds one token when there is something to write
	done  chan struct{} // closed by fail
	heard atomic.Bool   // the reader got something, or is busy with it

	mu      sync.Mutex // guards what follows; never held across I/O or a callback
	out     []byte     // frames that no write has taken yet
	pending map[uint64]func([]byte, error)
	nextID  uint64 // of the last request; they grow in the order in which frames enter out
	taken   uint64 // the last request whose frame was handed to a write
	corked  bool   // the reader has more input: it will wake the writer
	err     error  // why the connection ended
}

func newConn(t *Transport, raw net.Conn, peer grid.MemberID, addr string) *conn {
	return &conn{
		t: t, raw: raw, peer: peer, addr: addr,
		wake: make(chan struct{}, 1), done: make(chan struct{}), pending: map[uint64]func([]byte, error){},
	}
}

var errConnClosed = errors.New("connection closed")

// send appends a frame. For a request, done will be called exactly once if err is nil, and never if not; id names the request. The error is
// errConnClosed or wraps grid.ErrOverloaded.
func (c *conn) send(f wire.Frame, done func([]byte, error)) (id uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, errConnClosed
	}
	if len(c.out) > 0 && len(c.out)+len(f.Body) > maxBuffer {
		return 0, fmt.Errorf("%d bytes wait for %s: %w", len(c.out), c.peer, grid.ErrOverloaded)
	}
	if done != nil {
		c.nextID++
		f.ID = c.nextID
		c.pending[f.ID] = done
	}
	c.out = wire.Append(c.out, f)
	if !c.corked {
		c.wakeLocked()
	}
	return f.ID, nil
}

func (c *conn) wakeLocked() {
	select {
	case c.wake <- struct{}{}:
	default: // a token is there
	}
}

// forget gives up waiting for an answer: its done is not called any more. found is false if done was or is being called.
func (c *conn) forget(id uint64) (found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, found = c.pending[id]
	delete(c.pending, id)
	return found
}

// serve runs the connection until it ends, and returns when both its goroutines have.
func (c *conn) serve() {
	var writer sync.WaitGroup
	writer.Go(func() { c.fail(c.writeLoop()) })
	c.fail(c.readLoop())
	writer.Wait()
}

// fail ends the connection; only the first call counts. Requests that no write has taken did not run, of the others nobody knows.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	pending, taken := c.pending, c.taken
	c.pending, c.out = nil, nil
	c.mu.Unlock()
	close(c.done)
	_ = c.raw.Close()
	for id, done := range pending {
		if id > taken {
			done(nil, fmt.Errorf("member %s: %w: %v", c.peer, grid.ErrUnreachable, err))
		} else {
			done(nil, fmt.Errorf("member %s: %w: %v", c.peer, grid.ErrIndeterminate, err))
		}
	}
}

// writeLoop writes whatever has gathered, as one write, until the connection ends.
func (c *conn) writeLoop() error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	var spare []byte
	var deadlineSet time.Time
	var watch watch
	for {
		select {
		case <-c.done:
			return errConnClosed
		case <-tick.C:
			if err := watch.tick(c); err != nil {
				return err
			}
			continue
		case <-c.wake:
		}
		buf := c.take(spare)
		spare = buf[:0] // the other one is c.out now
		if len(buf) == 0 {
			continue
		}
		if now := time.Now(); now.Sub(deadlineSet) > writeStall/4 { // not at each write: a deadline costs more than a small frame
			_ = c.raw.SetWriteDeadline(now.Add(writeStall))
			deadlineSet = now
		}
		if _, err := c.raw.Write(buf); err != nil {
			return err
		}
		c.t.bytesOut.Add(uint64(len(buf)))
		c.t.writes.Add(1)
		watch.wrote = true
		if cap(spare) > keepBuffer {
			spare = nil
		}
	}
}

// watch keeps a connection known to be alive, and notices when the other side has fallen silent.
type watch struct {
	wrote  bool // since the last tick
	missed int  // ticks in a row without a byte from the other side
}

func (w *watch) tick(c *conn) error {
	if w.missed++; c.heard.Swap(false) {
		w.missed = 0
	}
	if w.missed >= maxMissedPings {
		return errors.New("nothing was heard for too long")
	}
	if !w.wrote {
		_, _ = c.send(wire.Frame{Kind: wire.Ping, Flag: wire.OneWay}, nil) // a connection that is over ends by itself
	}
	w.wrote = false
	return nil
}

// take returns the waiting frames and leaves the empty spare in their place.
func (c *conn) take(spare []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	buf := c.out
	c.out, c.taken = spare, c.nextID
	return buf
}

// readLoop dispatches frames until the connection ends. While more input is at hand, answers only gather; the writer is woken when the
// reader is about to wait.
func (c *conn) readLoop() error {
	r := wire.NewReader(c.raw)
	for {
		f, err := r.Next()
		if err != nil {
			return readError(err)
		}
		c.cork(true)
		for {
			c.heard.Store(true)
			c.dispatch(f)
			if !r.Buffered() {
				break
			}
			if f, err = r.Next(); err != nil {
				c.cork(false)
				return err
			}
		}
		c.cork(false)
	}
}

func readError(err error) error {
	if err == io.EOF {
		return errors.New("closed by the other side")
	}
	return err
}

func (c *conn) cork(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = on
	if !on && len(c.out) > 0 {
		c.wakeLocked()
	}
}

func (c *conn) dispatch(f wire.Frame) {
	switch f.Flag {
	case wire.Reply:
		c.answered(f.ID, f.Body, nil)
	case wire.Failure:
		c.answered(f.ID, nil, wire.DecodeError(f.Body))
	case wire.OneWay:
		if h := c.t.handlers[f.Kind]; h != nil {
			h(c.peer, f.Body, nil)
		} else if f.Kind != wire.Ping {
			c.t.log.Debug("message of an unknown kind", "from", c.peer, "kind", f.Kind.String())
		}
	case wire.Request:
		kind, id := f.Kind, f.ID
		reply := func(body []byte, err error) { c.reply(kind, id, body, err) }
		if h := c.t.handlers[kind]; h != nil {
			h(c.peer, f.Body, reply)
		} else {
			reply(nil, fmt.Errorf("%w: %s is not served here", grid.ErrBadMessage, kind))
		}
	}
}

func (c *conn) answered(id uint64, body []byte, err error) {
	c.mu.Lock()
	done := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if done != nil { // else given up, or a second answer
		done(body, err)
	}
}

// reply sends an answer. If the other side takes none, so that they would fill the memory, the connection is given up.
func (c *conn) reply(kind wire.Kind, id uint64, body []byte, err error) {
	if err == nil && len(body) > wire.MaxBody {
		err = fmt.Errorf("answer of %d bytes: %w", len(body), grid.ErrTooLarge)
	}
	f := wire.Frame{Kind: kind, Flag: wire.Reply, ID: id, Body: body}
	if err != nil {
		f.Flag, f.Body = wire.Failure, wire.AppendError(nil, err)
	}
	if _, err := c.send(f, nil); errors.Is(err, grid.ErrOverloaded) {
		_ = c.raw.Close() // the reader notices and ends the connection on its own goroutine
	}
}
