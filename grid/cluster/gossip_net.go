package cluster

import (
	"context"
	"hash/fnv"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"gridnode/grid"
	"gridnode/grid/transport"
)

// gossipNet is memberlist's transport over the one port. Names, not addresses, say where things go: memberlist knows only IP addresses, and a
// name is one process for ever.
type gossipNet struct {
	t        *transport.Transport
	g        *gossip
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	stopped  chan struct{} // closed by cut
	stopOnce sync.Once
	loops    sync.WaitGroup
	owned    sync.WaitGroup // streams that memberlist has not closed yet

	mu    sync.Mutex // guards what follows; never held across I/O
	addrs map[string]string
	open  map[*gossipStream]struct{}
	isCut bool
}

var _ memberlist.NodeAwareTransport = (*gossipNet)(nil)

func newGossipNet(t *transport.Transport, g *gossip) *gossipNet {
	n := &gossipNet{
		t: t, g: g, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), stopped: make(chan struct{}),
		addrs: map[string]string{}, open: map[*gossipStream]struct{}{},
	}
	n.loops.Go(n.readPackets)
	n.loops.Go(n.acceptStreams)
	return n
}

func (n *gossipNet) learn(name, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[name] = addr
}

func (n *gossipNet) unlearn(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.addrs, name)
}

// where returns the address of a name, or the one that memberlist has.
func (n *gossipNet) where(a memberlist.Address) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr, ok := n.addrs[a.Name]; ok {
		return addr
	}
	return a.Addr
}

// readPackets ends when the transport's packet connection closes or cut sets its deadline.
func (n *gossipNet) readPackets() {
	buf := make([]byte, 64<<10)
	for {
		m, from, err := n.t.Packets().ReadFrom(buf)
		select {
		case <-n.stopped:
			return
		default:
		}
		if err != nil {
			if !n.rest() {
				return
			}
			continue
		}
		p := &memberlist.Packet{Buf: append([]byte(nil), buf[:m]...), From: from, Timestamp: time.Now()}
		select {
		case n.packets <- p:
		case <-n.stopped:
			return
		}
	}
}

// rest pauses after an error; ok is false if it is time to end.
func (n *gossipNet) rest() (ok bool) {
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-n.stopped:
		return false
	}
}

func (n *gossipNet) acceptStreams() {
	for {
		raw, err := n.t.GossipListener().Accept()
		if err != nil {
			return
		}
		s, err := n.own(raw)
		if err != nil {
			return
		}
		select {
		case n.streams <- s:
		case <-n.stopped:
			_ = s.Close()
			return
		}
	}
}

func (n *gossipNet) own(raw net.Conn) (net.Conn, error) {
	s := &gossipStream{Conn: raw, n: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isCut {
		_ = raw.Close()
		return nil, net.ErrClosed
	}
	n.open[s] = struct{}{}
	n.owned.Add(1)
	return s, nil
}

// cut breaks all streams and refuses further ones.
func (n *gossipNet) cut() {
	n.stopOnce.Do(func() { close(n.stopped) })
	_ = n.t.Packets().SetReadDeadline(time.Unix(1, 0))
	_ = n.t.GossipListener().Close()
	n.mu.Lock()
	n.isCut = true
	open := make([]*gossipStream, 0, len(n.open))
	for s := range n.open {
		open = append(open, s)
	}
	n.mu.Unlock()
	for _, s := range open {
		_ = s.Conn.Close()
	}
}

// end waits until memberlist has let go of all streams and the loops have ended.
func (n *gossipNet) end() {
	n.cut()
	n.loops.Wait()
	n.owned.Wait()
}

// FinalAdvertiseAddr gives memberlist an address to print: that of this member if it is numeric, else one made of its name.
func (n *gossipNet) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	host, portText, err := net.SplitHostPort(n.t.AdvertiseAddr())
	if err != nil {
		return nil, 0, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, 0, err
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip, port, nil
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	sum := h.Sum32()
	return net.IPv4(10, byte(sum>>16), byte(sum>>8), byte(sum)), port, nil
}

// WriteTo sends a packet.
func (n *gossipNet) WriteTo(b []byte, addr string) (time.Time, error) {
	return n.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends a packet to a name.
func (n *gossipNet) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	target, err := n.t.PacketAddr(n.where(to))
	if err != nil {
		return time.Time{}, err
	}
	_, err = n.t.Packets().WriteTo(b, target)
	return time.Now(), err
}

// PacketCh is where memberlist takes packets from.
func (n *gossipNet) PacketCh() <-chan *memberlist.Packet { return n.packets }

// StreamCh is where memberlist takes streams from.
func (n *gossipNet) StreamCh() <-chan net.Conn { return n.streams }

// DialTimeout opens a stream.
func (n *gossipNet) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return n.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream to a name.
func (n *gossipNet) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	raw, err := n.t.DialStream(ctx, n.where(to), grid.MemberID(to.Name), transport.MagicGossip)
	if err != nil {
		return nil, err
	}
	return n.own(raw)
}

// Shutdown is called by memberlist before it stops its own goroutines, so the streams are only broken here; end waits for them.
func (n *gossipNet) Shutdown() error {
	n.cut()
	return nil
}

type gossipStream struct {
	net.Conn
	n    *gossipNet
	once sync.Once
}

func (s *gossipStream) Close() error {
	err := s.Conn.Close()
	s.once.Do(func() {
		s.n.mu.Lock()
		delete(s.n.open, s)
		s.n.mu.Unlock()
		s.n.owned.Done()
	})
	return err
}
