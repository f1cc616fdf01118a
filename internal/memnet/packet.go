package memnet

import (
	"container/heap"
	"net"
	"os"
	"sync"
	"time"
)

// packet is one datagram on its way.
type packet struct {
	data []byte
	from address
	at   time.Time // when it arrives
	n    uint64    // packets that arrive at one moment do so in the order in which they were sent
}

// heldPacket is one that its link keeps back.
type heldPacket struct {
	packet
	link link
	to   address
}

// packetConn is one end for datagrams.
type packetConn struct {
	host   *Host
	addr   address
	readBy deadline
	done   chan struct{}
	once   sync.Once

	mu      sync.Mutex    // guards what follows; never held while waiting
	queue   packetHeap    // the next to arrive first; when it is full, packets are lost
	sent    uint64        // packets that were put in
	changed chan struct{} // closed and replaced when anything changes
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
	out := heldPacket{packet{data: append([]byte(nil), b...), from: p.addr}, link{p.host.name, target.host}, target}
	if p.host.net.admit(&out) {
		p.host.net.deliver(out)
	}
	return len(b), nil
}

// admit decides what becomes of a packet that is sent now: it goes, and knows when it arrives, or it is held, or lost.
func (n *Net) admit(p *heldPacket) (goes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.faults[p.link].general()
	switch {
	case f.Cut, f.Loss > 0 && n.rng.Float64() < f.Loss:
		return false
	case n.holdsLocked(p.link):
		if len(n.held) < packetBuffer*max(len(n.hosts), 1) {
			n.held = append(n.held, *p)
		}
		return false
	}
	p.at = time.Now().Add(n.delayLocked(p.link, ""))
	return true
}

// deliver puts a packet into its receiver's queue.
func (n *Net) deliver(p heldPacket) {
	peer := n.host(p.to.host)
	if peer == nil {
		return
	}
	peer.mu.Lock()
	receiver := peer.packets[p.to.port]
	peer.mu.Unlock()
	if receiver != nil {
		receiver.put(p.packet)
	}
}

func (p *packetConn) put(in packet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) >= packetBuffer {
		return // lost
	}
	p.sent++
	in.n = p.sent
	heap.Push(&p.queue, in)
	p.touchLocked()
}

func (p *packetConn) touchLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *packetConn) touch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.touchLocked()
}

// ReadFrom waits for the next packet to arrive. A paused host takes none.
func (p *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		paused, resumed := p.host.net.blockedDial(p.host.name, link{p.host.name, p.host.name})
		p.mu.Lock()
		if p.readBy.expired() {
			p.mu.Unlock()
			return 0, nil, os.ErrDeadlineExceeded
		}
		if isClosed(p.done) {
			p.mu.Unlock()
			return 0, nil, net.ErrClosed
		}
		var wait time.Duration = -1
		changed := p.changed
		if len(p.queue) > 0 && !paused {
			if wait = time.Until(p.queue[0].at); wait <= 0 {
				next := heap.Pop(&p.queue).(packet)
				p.mu.Unlock()
				return copy(b, next.data), next.from, nil
			}
		}
		p.mu.Unlock()
		p.sleep(wait, changed, resumed)
	}
}

// sleep waits for any of the channels, the end of the connection, or for d unless it is negative.
func (p *packetConn) sleep(d time.Duration, changed, resumed <-chan struct{}) {
	var timeout <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-p.done:
	case <-changed:
	case <-resumed:
	case <-timeout:
	}
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

// packetHeap orders packets by when they arrive.
type packetHeap []packet

func (h packetHeap) Len() int { return len(h) }
func (h packetHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].n < h[j].n
	}
	return h[i].at.Before(h[j].at)
}
func (h packetHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *packetHeap) Push(x any)   { *h = append(*h, x.(packet)) }
func (h *packetHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = packet{}
	*h = old[:len(old)-1]
	return x
}
