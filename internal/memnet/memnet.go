// Package memnet is a network of many hosts inside one process, with faults. It works in a testing/synctest bubble: nothing in it waits on a
// mutex, and latency is slept, so it costs no real time there.
//
// Streams are buffered, like a kernel's: a write returns when there is room. [Fault] says what may be wrong with each direction of a link. A
// crashed host loses all its streams and listeners at once; a paused one neither sends nor takes anything for a while.
package memnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// DefaultLatency is the one-way latency of a link that has no other.
	DefaultLatency = 100 * time.Microsecond

	streamBuffer = 256 << 10 // bytes that a direction of a stream holds
	packetBuffer = 1024      // packets that a packet connection holds, and a network for each of its hosts while they are held
	firstPort    = 40000     // of ports chosen by the network
)

// Net is a network.
type Net struct {
	mu      sync.Mutex // guards what follows; never held while waiting
	rng     *rand.Rand
	hosts   map[string]*Host
	faults  map[link]Fault
	paused  map[string]bool
	held    []heldPacket // in the order in which they were sent
	latency map[link]time.Duration
	streams map[*pipe]struct{}
	port    int
	changed chan struct{} // closed and replaced when links change
}

// link is one direction between two hosts.
type link struct{ from, to string }

// New returns a network whose latencies vary, by up to half, as the seed says.
func New(seed uint64) *Net {
	return &Net{
		rng: rand.New(rand.NewPCG(seed, seed)), hosts: map[string]*Host{}, faults: map[link]Fault{}, paused: map[string]bool{},
		latency: map[link]time.Duration{}, streams: map[*pipe]struct{}{}, port: firstPort, changed: make(chan struct{}),
	}
}

// Host returns the host of that name: its addresses are "name:port". After a crash it is a new one, as after a restart.
func (n *Net) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h, ok := n.hosts[name]; ok {
		return h
	}
	h := &Host{net: n, name: name, listeners: map[int]*listener{}, packets: map[int]*packetConn{}, down: make(chan struct{})}
	n.hosts[name] = h
	return h
}

// SetLatency sets the latency between two hosts, in both directions.
func (n *Net) SetLatency(a, b string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latency[link{a, b}], n.latency[link{b, a}] = d, d
}

// Crash ends a host: its listeners are gone, its streams are reset, and nothing that still runs on it reaches the network again.
func (n *Net) Crash(name string) {
	n.mu.Lock()
	h := n.hosts[name]
	delete(n.hosts, name)
	if n.paused[name] {
		defer n.Resume(name)
	}
	var hit []*pipe
	for p := range n.streams {
		if p.from == name || p.to == name {
			hit = append(hit, p)
		}
	}
	n.mu.Unlock()
	if h == nil {
		return
	}
	h.crash()
	for _, p := range hit {
		p.reset(p.to == name)
	}
}

func (n *Net) host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[name]
}

func (n *Net) freePort() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.port++
	return n.port
}

// Host is one host's end of the network. It has the methods of transport.Network.
type Host struct {
	net  *Net
	name string
	down chan struct{} // closed by a crash

	mu        sync.Mutex // guards what follows; never held while waiting
	listeners map[int]*listener
	packets   map[int]*packetConn
}

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

func (h *Host) crash() {
	h.mu.Lock()
	listeners, packets := h.listeners, h.packets
	h.listeners, h.packets = map[int]*listener{}, map[int]*packetConn{}
	close(h.down)
	h.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	for _, p := range packets {
		_ = p.Close()
	}
}

func (h *Host) isDown() bool {
	select {
	case <-h.down:
		return true
	default:
		return false
	}
}

// bind checks an address to listen on and returns its port.
func (h *Host) bind(addr string) (int, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	if ip := net.ParseIP(host); host != "" && host != h.name && (ip == nil || !ip.IsUnspecified()) {
		return 0, fmt.Errorf("memnet: %s cannot listen on %s", h.name, addr)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return 0, err
	}
	if port == 0 {
		port = h.net.freePort()
	}
	if h.isDown() {
		return 0, fmt.Errorf("memnet: host %s: %w", h.name, syscall.ENETDOWN)
	}
	return port, nil
}

// Listen opens a listener for streams.
func (h *Host) Listen(addr string) (net.Listener, error) {
	port, err := h.bind(addr)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners[port] != nil {
		return nil, fmt.Errorf("memnet: listen %s: %w", addr, syscall.EADDRINUSE)
	}
	l := &listener{host: h, addr: address{h.name, port}, backlog: make(chan *stream, 128), done: make(chan struct{})}
	h.listeners[port] = l
	return l, nil
}

// ListenPacket opens a packet connection.
func (h *Host) ListenPacket(addr string) (net.PacketConn, error) {
	port, err := h.bind(addr)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.packets[port] != nil {
		return nil, fmt.Errorf("memnet: listen for packets %s: %w", addr, syscall.EADDRINUSE)
	}
	p := &packetConn{host: h, addr: address{h.name, port}, done: make(chan struct{}), changed: make(chan struct{})}
	p.readBy.moved = p.touch
	h.packets[port] = p
	return p, nil
}

// Dial opens a stream. It fails at once if nobody listens there, and waits for ctx to end while the link is cut in either direction.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	to, err := parse(addr)
	if err != nil {
		return nil, err
	}
	if err := h.travel(ctx, link{h.name, to.host}); err != nil {
		return nil, fmt.Errorf("memnet: dial %s: %w", addr, err)
	}
	var l *listener
	if peer := h.net.host(to.host); peer != nil {
		peer.mu.Lock()
		l = peer.listeners[to.port]
		peer.mu.Unlock()
	}
	if err := h.travel(ctx, link{to.host, h.name}); err != nil {
		return nil, fmt.Errorf("memnet: dial %s: %w", addr, err)
	}
	if l == nil {
		return nil, fmt.Errorf("memnet: dial %s: %w", addr, syscall.ECONNREFUSED)
	}
	here, there := h.net.newStream(address{h.name, h.net.freePort()}, to)
	var failed error = syscall.ECONNREFUSED
	select {
	case <-l.done:
	case l.backlog <- there:
		select {
		case <-l.done: // it closed at the same moment, and may have looked for what to break already
			l.reset()
		default:
		}
		return here, nil
	case <-ctx.Done(): // nobody is told of a full backlog
		failed = ctx.Err()
	}
	_ = here.Close()
	_ = there.Close()
	return nil, fmt.Errorf("memnet: dial %s: %w", addr, failed)
}

// travel waits until something sent now has arrived.
func (h *Host) travel(ctx context.Context, l link) error {
	timer := time.NewTimer(h.net.delay(l, ""))
	defer timer.Stop()
	var arrived <-chan time.Time = timer.C
	for {
		blocked, changed := h.net.blockedDial(h.name, l)
		if arrived == nil && !blocked {
			return nil
		}
		select {
		case <-arrived:
			arrived = nil
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.down:
			return syscall.ENETDOWN
		}
	}
}

// address is "name:port".
type address struct {
	host string
	port int
}

func (a address) Network() string { return "mem" }
func (a address) String() string  { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

func parse(addr string) (address, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return address{}, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return address{}, errors.New("memnet: bad port in " + addr)
	}
	return address{host, port}, nil
}
