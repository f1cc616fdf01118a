package memnet

import (
	"net"
	"os"
	"sync"
	"time"
)

// packet is one datagram on its way.
type packet struct {
	data []byte
	from address
	at   time.Time
}

type packetConn struct {
	host    *Host
	addr    address
	in      chan packet // when it is full, packets are lost
	readBy  deadline
	done    chan struct{}
	once    sync.Once
	readMu  sync.Mutex // guards waiting; never held while waiting
	waiting *packet    // taken from in, not arrived yet
}

var _ net.PacketConn = (*packetConn)(nil)

// WriteTo sends a copy of b. It is lost, without an error, if the link is cut, nobody listens, or the receiver's buffer is full.
func (p *packetConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if isClosed(p.done) {
		return 0, net.ErrClosed
	}
	target, err := parse(to.String())
	if err != nil {
		return 0, err
	}
	l := link{p.host.name, target.host}
	if blocked, _ := p.host.net.blocked(l); blocked {
		return len(b), nil
	}
	peer := p.host.net.host(target.host)
	if peer == nil {
		return len(b), nil
	}
	peer.mu.Lock()
	receiver := peer.packets[target.port]
	peer.mu.Unlock()
	if receiver == nil {
		return len(b), nil
	}
	select {
	case receiver.in <- packet{append([]byte(nil), b...), p.addr, time.Now().Add(p.host.net.delay(l))}:
	default: // lost
	}
	return len(b), nil
}

func (p *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		expired, deadlineChanged := p.readBy.state()
		if expired {
			return 0, nil, os.ErrDeadlineExceeded
		}
		if isClosed(p.done) {
			return 0, nil, net.ErrClosed
		}
		next := p.next()
		if next == nil {
			select {
			case got := <-p.in:
				p.putBack(got)
			case <-p.done:
			case <-deadlineChanged:
			}
			continue
		}
		if left := time.Until(next.at); left > 0 {
			sleep(left, p.done, deadlineChanged, nil, nil)
			if time.Now().Before(next.at) {
				p.putBack(*next)
				continue
			}
		}
		return copy(b, next.data), next.from, nil
	}
}

func (p *packetConn) next() *packet {
	p.readMu.Lock()
	defer p.readMu.Unlock()
	next := p.waiting
	p.waiting = nil
	return next
}

func (p *packetConn) putBack(got packet) {
	p.readMu.Lock()
	defer p.readMu.Unlock()
	p.waiting = &got
}

func (p *packetConn) Close() error {
	p.once.Do(func() {
		p.host.mu.Lock()
		if p.host.packets[p.addr.port] == p {
			delete(p.host.packets, p.addr.port)
		}
		p.host.mu.Unlock()
		close(p.done)
	})
	return nil
}

func (p *packetConn) LocalAddr() net.Addr { return p.addr }

func (p *packetConn) SetDeadline(t time.Time) error { p.readBy.set(t); return nil }

func (p *packetConn) SetReadDeadline(t time.Time) error { p.readBy.set(t); return nil }

// SetWriteDeadline does nothing: a write never waits.
func (p *packetConn) SetWriteDeadline(time.Time) error { return nil }
