package cluster

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/vmihailenco/msgpack/v5"

	"gridnode/grid"
	"gridnode/grid/transport"
)

// gossip is this member's part in memberlist. It only gives hints: addresses where members may be, and who seems dead.
type gossip struct {
	c    *Cluster
	list *memberlist.Memberlist
	net  *gossipNet
	stop context.CancelFunc
	done sync.WaitGroup
}

// gossipMeta is what a member says about itself in gossip. It has to fit into memberlist.MetaMaxSize.
type gossipMeta struct {
	_msgpack  struct{} `msgpack:",as_array"` //nolint:unused // read by msgpack
	Cluster   string
	ClusterID string
	Address   string
}

// startGossip starts memberlist, and a goroutine that keeps it in touch with the members.
func (c *Cluster) startGossip() (*gossip, error) {
	ctx, cancel := context.WithCancel(context.Background())
	g := &gossip{c: c, stop: cancel}
	g.net = newGossipNet(c.t, g)
	conf := memberlist.DefaultLANConfig()
	conf.Name = string(c.self.ID)
	conf.Transport = g.net
	conf.ProbeInterval, conf.ProbeTimeout = 500*time.Millisecond, 200*time.Millisecond
	conf.SuspicionMult, conf.SuspicionMaxTimeoutMult = 3, 2
	conf.GossipInterval = 100 * time.Millisecond
	conf.TCPTimeout = 2 * time.Second
	conf.Delegate, conf.Events, conf.Alive = g, g, g
	conf.Logger = log.New(gossipLog{c.cfg.Logger.With("component", "gossip", "member", c.self.Name)}, "", 0)
	list, err := memberlist.Create(conf)
	if err != nil {
		cancel()
		g.net.end()
		return nil, fmt.Errorf("start gossip: %w", err)
	}
	g.list = list
	g.done.Go(func() { g.meet(ctx) })
	return g, nil
}

// meet pulls members that the agreed state knows, but gossip does not, into gossip; and tells gossip of the cluster's id.
func (g *gossip) meet(ctx context.Context) {
	clusterID := ""
	for {
		s, superseded := g.c.View()
		if s.ClusterID != clusterID {
			clusterID = s.ClusterID
			_ = g.list.UpdateNode(100 * time.Millisecond) // an error says that the news has not spread yet; it will
		}
		g.joinOne(s)
		timer := time.NewTimer(5 * time.Second)
		select {
		case <-superseded:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// joinOne joins gossip by way of one member that is not in it yet; the others follow by gossip itself.
func (g *gossip) joinOne(s *grid.State) {
	here := map[string]bool{}
	for _, n := range g.list.Members() {
		here[n.Name] = true
	}
	for _, m := range s.Members {
		if here[string(m.ID)] || m.State == grid.Leaving {
			continue
		}
		g.net.learn(string(m.ID), m.Address)
		// The address is only a form: our transport goes by the name.
		if _, err := g.list.Join([]string{string(m.ID) + "/127.0.0.1:1"}); err == nil {
			return
		}
	}
}

// leave tells the others that this member's silence is meant.
func (g *gossip) leave() { _ = g.list.Leave(200 * time.Millisecond) }

// close ends gossip and waits for what can be waited for; timers of memberlist's probes run out by themselves within a second.
func (g *gossip) close() {
	g.stop()
	g.net.cut()
	g.done.Wait()
	_ = g.list.Shutdown()
	g.net.end()
}

// NodeMeta is called by memberlist for what to say about this member.
func (g *gossip) NodeMeta(limit int) []byte {
	s, _ := g.c.View()
	meta, err := msgpack.Marshal(&gossipMeta{Cluster: g.c.cfg.ClusterName, ClusterID: s.ClusterID, Address: g.c.self.Address})
	if err != nil || len(meta) > limit {
		return nil
	}
	return meta
}

// NotifyMsg, GetBroadcasts, LocalState and MergeRemoteState are not used: nothing of ours travels by gossip.
func (g *gossip) NotifyMsg([]byte) {}

// GetBroadcasts is not used.
func (g *gossip) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is not used.
func (g *gossip) LocalState(bool) []byte { return nil }

// MergeRemoteState is not used.
func (g *gossip) MergeRemoteState([]byte, bool) {}

// NotifyAlive refuses nodes of other clusters.
func (g *gossip) NotifyAlive(n *memberlist.Node) error {
	var meta gossipMeta
	if err := msgpack.Unmarshal(n.Meta, &meta); err != nil {
		return fmt.Errorf("node %s says nothing about itself: %w", n.Name, err)
	}
	s, _ := g.c.View()
	if meta.Cluster != g.c.cfg.ClusterName || meta.ClusterID != "" && s.ClusterID != "" && meta.ClusterID != s.ClusterID {
		return fmt.Errorf("node %s belongs to cluster %q with id %q", n.Name, meta.Cluster, meta.ClusterID)
	}
	g.net.learn(n.Name, meta.Address)
	return nil
}

// NotifyJoin is called by memberlist, under its lock, so it must not block.
func (g *gossip) NotifyJoin(n *memberlist.Node) {
	var meta gossipMeta
	if msgpack.Unmarshal(n.Meta, &meta) == nil && n.Name != string(g.c.self.ID) {
		g.c.form.learn(meta.Address)
	}
}

// NotifyLeave is called by memberlist, under its lock, so it must not block.
func (g *gossip) NotifyLeave(n *memberlist.Node) {
	g.net.unlearn(n.Name)
	g.c.hint(grid.MemberID(n.Name), "gossip takes it for dead")
}

// NotifyUpdate is not used.
func (g *gossip) NotifyUpdate(*memberlist.Node) {}

// gossipLog passes memberlist's lines on at debug.
type gossipLog struct{ log *slog.Logger }

func (l gossipLog) Write(line []byte) (int, error) {
	l.log.Debug(strings.TrimSpace(string(line)))
	return len(line), nil
}

var _ io.Writer = gossipLog{}

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
