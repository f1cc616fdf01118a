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
		for {
			select {
			case s := <-l.backlog:
				s.abort()
				continue
			default:
			}
			return
		}
	})
	return nil
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
	ab := &pipe{net: n, from: a.host, to: b.host, first: first, dialler: true, changed: make(chan struct{})}
	ba := &pipe{net: n, from: b.host, to: a.host, first: first, changed: make(chan struct{})}
	n.mu.Lock()
	n.streams[ab], n.streams[ba] = struct{}{}, struct{}{}
	n.mu.Unlock()
	atA = &stream{local: a, remote: b, in: ba, out: ab, closed: make(chan struct{})}
	atB = &stream{local: b, remote: a, in: ab, out: ba, closed: make(chan struct{})}
	return atA, atB
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
	ended     error // no more will be written; seen by the reader after the chunks
	abandoned bool  // nobody reads any more; writes fail
	lost      bool  // one of the hosts has crashed
	changed   chan struct{}
}

// chunk is what one write carried, and when it arrives.
type chunk struct {
	data []byte
	at   time.Time
}

// touchLocked wakes whoever waits for the pipe.
func (p *pipe) touchLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
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
		expired, deadlineChanged := by.state()
		if expired {
			return 0, os.ErrDeadlineExceeded
		}
		if isClosed(closed) {
			return 0, net.ErrClosed
		}
		blocked, linkChanged := p.net.blocked(link{p.from, p.to}, p.first.String())
		var n int
		var err error
		var wait time.Duration = -1
		p.mu.Lock()
		changed := p.changed
		if !blocked {
			n, wait, err = p.takeLocked(b)
		}
		p.mu.Unlock()
		if n > 0 || err != nil || (len(b) == 0 && wait == 0) {
			return n, err
		}
		sleep(wait, closed, changed, linkChanged, deadlineChanged)
	}
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
		expired, deadlineChanged := by.state()
		if expired {
			return total, os.ErrDeadlineExceeded
		}
		if isClosed(closed) {
			return total, net.ErrClosed
		}
		delay := p.net.delay(link{p.from, p.to}, p.first.String())
		blocked, linkChanged := p.net.blocked(link{p.to, p.from}, p.first.String()) // news of a reader that is gone would come this way
		p.mu.Lock()
		changed := p.changed
		gone := (p.abandoned || p.ended != nil) && !blocked
		if !gone {
			n := min(len(b), streamBuffer-p.size)
			p.putLocked(b[:n], delay)
			b, total = b[n:], total+n
		}
		p.mu.Unlock()
		if gone {
			return total, syscall.EPIPE
		}
		if len(b) == 0 {
			return total, nil
		}
		sleep(-1, closed, changed, linkChanged, deadlineChanged)
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

// sleep waits for any of the channels, or for d unless it is negative.
func sleep(d time.Duration, a, b, c, e <-chan struct{}) {
	var timeout <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-a:
	case <-b:
	case <-c:
	case <-e:
	case <-timeout:
	}
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
	mu      sync.Mutex // guards what follows; never held while waiting
	at      time.Time
	timer   *time.Timer
	changed chan struct{} // closed when the deadline is moved or has come
}

func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = at
	d.touchLocked()
	if left := time.Until(at); !at.IsZero() && left > 0 {
		d.timer = time.AfterFunc(left, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.touchLocked()
		})
	}
}

func (d *deadline) touchLocked() {
	if d.changed != nil {
		close(d.changed)
	}
	d.changed = make(chan struct{})
}

func (d *deadline) state() (expired bool, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	return !d.at.IsZero() && !time.Now().Before(d.at), d.changed
}
