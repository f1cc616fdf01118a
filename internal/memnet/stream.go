package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type listener struct {
	host    *Host
	addr    address
	backlog chan *stream // as long as a kernel's would be; a full one refuses
	done    chan struct{}
	once    sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case s := <-l.backlog:
		return s, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.host.mu.Lock()
		if l.host.listeners[l.addr.port] == l {
			delete(l.host.listeners, l.addr.port)
		}
		l.host.mu.Unlock()
		close(l.done)
		l.reset()
	})
	return nil
}

// reset breaks the connections that nobody will accept any more.
func (l *listener) reset() {
	for {
		select {
		case s := <-l.backlog:
			s.abort()
		default:
			return
		}
	}
}

func (l *listener) Addr() net.Addr { return l.addr }

// stream is one end of a connection: it reads from one pipe and writes to another.
type stream struct {
	local, remote address
	in, out       *pipe
	readBy        deadline
	writeBy       deadline
	closed        chan struct{}
	once          sync.Once
}

var _ net.Conn = (*stream)(nil)

func (n *Net) newStream(a, b address) (atA, atB *stream) {
	first := &opening{}
	ab := &pipe{net: n, from: a.host, to: b.host, first: first, dialler: true}
	ba := &pipe{net: n, from: b.host, to: a.host, first: first}
	n.mu.Lock()
	n.streams[ab], n.streams[ba] = struct{}{}, struct{}{}
	n.mu.Unlock()
	atA, atB = newEnd(a, b, ba, ab), newEnd(b, a, ab, ba)
	return atA, atB
}

func newEnd(local, remote address, in, out *pipe) *stream {
	s := &stream{local: local, remote: remote, in: in, out: out, closed: make(chan struct{})}
	s.readBy.moved, s.writeBy.moved = in.touch, out.touch
	return s
}

func (s *stream) Read(b []byte) (int, error)  { return s.in.read(b, &s.readBy, s.closed) }
func (s *stream) Write(b []byte) (int, error) { return s.out.write(b, &s.writeBy, s.closed) }

// Close ends both directions; what was written before still arrives.
func (s *stream) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.out.end(io.EOF)
		s.in.abandon()
	})
	return nil
}

// abort ends both directions; the other side sees a reset.
func (s *stream) abort() {
	s.once.Do(func() {
		close(s.closed)
		s.out.end(syscall.ECONNRESET)
		s.in.abandon()
	})
}

func (s *stream) LocalAddr() net.Addr  { return s.local }
func (s *stream) RemoteAddr() net.Addr { return s.remote }

func (s *stream) SetDeadline(t time.Time) error {
	s.readBy.set(t)
	s.writeBy.set(t)
	return nil
}

func (s *stream) SetReadDeadline(t time.Time) error  { s.readBy.set(t); return nil }
func (s *stream) SetWriteDeadline(t time.Time) error { s.writeBy.set(t); return nil }

// openingBytes is how much of a stream's beginning is remembered.
const openingBytes = 8

// opening is what the dialling side of a stream wrote first; both pipes of the stream share it.
type opening struct{ text atomic.Pointer[string] }

func (o *opening) String() string {
	if s := o.text.Load(); s != nil {
		return *s
	}
	return ""
}

// note takes the first write of the dialling side.
func (o *opening) note(b []byte) {
	if s := string(b[:min(len(b), openingBytes)]); len(s) > 0 {
		o.text.CompareAndSwap(nil, &s)
	}
}

// pipe is one direction of a stream.
type pipe struct {
	net      *Net
	from, to string
	first    *opening
	dialler  bool // the writer has dialled the stream

	mu        sync.Mutex // guards what follows; never held while waiting
	chunks    []chunk
	size      int
	ended     error         // no more will be written; seen by the reader after the chunks
	abandoned bool          // nobody reads any more; writes fail
	lost      bool          // one of the hosts has crashed
	changed   chan struct{} // closed when anything changes; nil while nobody waits
	spare     *time.Timer   // for whoever waits next; stopped
}

// chunk is what one write carried, and when it arrives.
type chunk struct {
	data []byte
	at   time.Time
}

// touchLocked wakes whoever waits for the pipe.
func (p *pipe) touchLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

func (p *pipe) touch() {
	p.mu.Lock()
	p.touchLocked()
	p.mu.Unlock()
}

// changeLocked returns a channel that is closed when anything changes from now on.
func (p *pipe) changeLocked() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

func (p *pipe) end(err error) {
	p.mu.Lock()
	if p.ended == nil {
		p.ended = err
	}
	p.touchLocked()
	over := p.abandoned
	p.mu.Unlock()
	if over {
		p.net.drop(p)
	}
}

func (p *pipe) abandon() {
	p.mu.Lock()
	p.abandoned = true
	p.touchLocked()
	over := p.ended != nil
	p.mu.Unlock()
	if over {
		p.net.drop(p)
	}
}

// drop forgets a pipe that is over at both ends.
func (n *Net) drop(p *pipe) {
	n.mu.Lock()
	delete(n.streams, p)
	n.mu.Unlock()
}

// reset is the crash of one of the hosts. What the reader's host had not read is lost.
func (p *pipe) reset(readerCrashed bool) {
	p.mu.Lock()
	p.lost = true
	if readerCrashed {
		p.abandoned = true
	}
	p.ended = syscall.ECONNRESET
	p.chunks, p.size = nil, 0
	p.touchLocked()
	p.mu.Unlock()
	p.net.drop(p)
}

// read waits for the first chunk to arrive. While the link is cut nothing arrives, not even the end.
func (p *pipe) read(b []byte, by *deadline, closed <-chan struct{}) (int, error) {
	for {
		blocked, linkChanged := p.net.blocked(link{p.from, p.to}, p.first.String())
		p.mu.Lock()
		n, wait, err := 0, time.Duration(-1), p.mayLocked(by, closed)
		if err == nil && !blocked {
			n, wait, err = p.takeLocked(b)
		}
		if n > 0 || err != nil || len(b) == 0 && wait == 0 {
			p.mu.Unlock()
			return n, err
		}
		p.sleepLocked(wait, linkChanged)
	}
}

// mayLocked returns why the end of a stream cannot be used, or nil. Whoever waits after it hears when that changes: closing a stream, and moving or
// passing its deadline, touches the pipe.
func (p *pipe) mayLocked(by *deadline, closed <-chan struct{}) error {
	switch {
	case by.expired():
		return os.ErrDeadlineExceeded
	case isClosed(closed):
		return net.ErrClosed
	}
	return nil
}

// sleepLocked unlocks the pipe and waits until it changes, the link does, or d is over unless that is negative.
func (p *pipe) sleepLocked(d time.Duration, linkChanged <-chan struct{}) {
	changed := p.changeLocked()
	if d < 0 {
		p.mu.Unlock()
		select {
		case <-changed:
		case <-linkChanged:
		}
		return
	}
	timer := p.spare
	p.spare = nil
	p.mu.Unlock()
	if timer == nil {
		timer = time.NewTimer(d)
	} else {
		timer.Reset(d)
	}
	select {
	case <-changed:
	case <-linkChanged:
	case <-timer.C:
	}
	timer.Stop()
	p.mu.Lock()
	p.spare = timer
	p.mu.Unlock()
}

// takeLocked returns what has arrived; wait is how long the next chunk needs still, -1 if there is none.
func (p *pipe) takeLocked(b []byte) (n int, wait time.Duration, err error) {
	if len(p.chunks) == 0 {
		if p.ended != nil {
			return 0, 0, p.ended
		}
		return 0, -1, nil
	}
	now := time.Now()
	for len(p.chunks) > 0 && n < len(b) {
		c := &p.chunks[0]
		if now.Before(c.at) {
			if n == 0 {
				return 0, c.at.Sub(now), nil
			}
			break
		}
		m := copy(b[n:], c.data)
		n += m
		c.data = c.data[m:]
		if len(c.data) == 0 {
			p.chunks = p.chunks[1:]
		}
	}
	p.size -= n
	p.touchLocked()
	return n, 0, nil
}

// write waits for room. It does not wait for the reader.
func (p *pipe) write(b []byte, by *deadline, closed <-chan struct{}) (int, error) {
	total := 0
	if p.dialler {
		p.first.note(b)
	}
	for {
		delay := p.net.delay(link{p.from, p.to}, p.first.String())
		p.mu.Lock()
		if err := p.mayLocked(by, closed); err != nil {
			p.mu.Unlock()
			return total, err
		}
		var linkChanged <-chan struct{}
		if p.abandoned || p.ended != nil {
			p.mu.Unlock()
			var blocked bool // news of a reader that is gone would come the other way
			if blocked, linkChanged = p.net.blocked(link{p.to, p.from}, p.first.String()); !blocked {
				return total, syscall.EPIPE
			}
			p.mu.Lock()
		}
		n := min(len(b), streamBuffer-p.size)
		p.putLocked(b[:n], delay)
		b, total = b[n:], total+n
		if len(b) == 0 {
			p.mu.Unlock()
			return total, nil
		}
		p.sleepLocked(-1, linkChanged)
	}
}

// putLocked adds a copy of b, to arrive after what is under way already.
func (p *pipe) putLocked(b []byte, delay time.Duration) {
	if len(b) == 0 || p.lost {
		return
	}
	at := time.Now().Add(delay)
	if n := len(p.chunks); n > 0 && p.chunks[n-1].at.After(at) {
		at = p.chunks[n-1].at
	}
	p.chunks = append(p.chunks, chunk{append([]byte(nil), b...), at})
	p.size += len(b)
	p.touchLocked()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// deadline is a point in time that can be moved while somebody waits for it.
type deadline struct {
	moved func() // is called, without a lock, when the deadline was moved and when it has come

	mu    sync.Mutex // guards what follows; never held while waiting
	at    time.Time
	timer *time.Timer
}

func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = at
	if left := time.Until(at); !at.IsZero() && left > 0 {
		d.timer = time.AfterFunc(left, d.moved)
	}
	d.mu.Unlock()
	d.moved()
}

func (d *deadline) expired() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.at.IsZero() && !time.Now().Before(d.at)
}
