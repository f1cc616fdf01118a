package transport

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// Handler serves the requests and one-way messages of one kind. It runs on the reader goroutine of the connection and must not block. It
// may keep body, see [wire.Reader]. reply is nil for a one-way message; else it is to be called once, now or later, from any goroutine; it
// copies its argument.
type Handler = func(from grid.MemberID, body []byte, reply func([]byte, error))

// Transport is a member's end of all connections to other members.
type Transport struct {
	cfg       Config
	log       *slog.Logger
	listener  net.Listener
	packets   net.PacketConn
	advertise string

	handlers [256]Handler
	resolve  func(grid.MemberID) (string, bool)
	onDown   func(addr string, id grid.MemberID)
	streams  map[Magic]*streamListener

	byID   sync.Map // grid.MemberID -> *peer
	byAddr sync.Map // string -> *peer, for members whose id is not known

	ctx    context.Context // ends when the transport closes
	cancel context.CancelFunc

	mu     sync.Mutex // guards what follows; never held across I/O
	open   map[net.Conn]struct{}
	conns  map[*conn]struct{} // those with members; each is in open, too
	closed bool
	wg     sync.WaitGroup // wg.Go only under mu, while not closed

	refusing         atomic.Bool // no more streams are accepted
	bytesOut, writes atomic.Uint64
}

// New listens on TCP and UDP before it returns; a port that is taken is an error. The transport serves once [Transport.Run] is called; one
// that will not run has to be closed.
func New(cfg Config) (*Transport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Network == nil {
		cfg.Network = TCP()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Transport{
		cfg: cfg, log: cfg.Logger.With("component", "transport"), resolve: cfg.Resolve,
		streams: map[Magic]*streamListener{}, open: map[net.Conn]struct{}{}, conns: map[*conn]struct{}{},
	}
	if err := t.listen(); err != nil {
		return nil, err
	}
	advertise, err := advertised(cfg.Advertise, t.listener.Addr().String())
	if err != nil {
		t.closeListeners()
		return nil, err
	}
	t.advertise = advertise
	t.ctx, t.cancel = context.WithCancel(context.Background())
	for _, m := range []Magic{MagicRaft, MagicGossip, MagicClient} {
		t.streams[m] = &streamListener{addr: t.listener.Addr(), conns: make(chan net.Conn), done: make(chan struct{})}
	}
	return t, nil
}

// listen opens both ports. With port 0 the number that TCP was given may be taken in UDP: then it tries again.
func (t *Transport) listen() error {
	host, port, err := net.SplitHostPort(t.cfg.Bind)
	if err != nil {
		return fmt.Errorf("transport: Bind %q: %w", t.cfg.Bind, err)
	}
	attempts := 1
	if n, err := strconv.Atoi(port); err == nil && n == 0 {
		attempts = 10
	}
	for range attempts {
		if t.listener, err = t.cfg.Network.Listen(t.cfg.Bind); err != nil {
			return fmt.Errorf("listen on %s: %w", t.cfg.Bind, err)
		}
		_, bound, splitErr := net.SplitHostPort(t.listener.Addr().String())
		if splitErr != nil {
			_ = t.listener.Close()
			return splitErr
		}
		if t.packets, err = t.cfg.Network.ListenPacket(net.JoinHostPort(host, bound)); err == nil {
			return nil
		}
		_ = t.listener.Close()
	}
	return fmt.Errorf("listen for packets on %s: %w", t.cfg.Bind, err)
}

// advertised completes the configured address with what is known from the bound one.
func advertised(want, bound string) (string, error) {
	host, port, err := net.SplitHostPort(bound)
	if err != nil {
		return "", err
	}
	if want != "" {
		if h, p, err := net.SplitHostPort(want); err == nil {
			if p == "0" || p == "" {
				p = port
			}
			return net.JoinHostPort(h, p), nil
		}
		return net.JoinHostPort(want, port), nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = firstAddress()
	}
	return net.JoinHostPort(host, port), nil
}

// firstAddress is this host's first address that others may reach, or the loopback one.
func firstAddress() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// Self returns this member's id.
func (t *Transport) Self() grid.MemberID { return t.cfg.Self }

// Addr returns the address that it listens on.
func (t *Transport) Addr() string { return t.listener.Addr().String() }

// AdvertiseAddr returns the address that others reach it by.
func (t *Transport) AdvertiseAddr() string { return t.advertise }

// Packets returns the packet connection of the same port number. It is closed when the transport closes.
func (t *Transport) Packets() net.PacketConn { return t.packets }

// PacketAddr returns the address that [Transport.Packets] wants for "host:port".
func (t *Transport) PacketAddr(addr string) (net.Addr, error) {
	if _, ok := t.packets.LocalAddr().(*net.UDPAddr); ok {
		return net.ResolveUDPAddr("udp", addr)
	}
	return packetAddr(addr), nil
}

// packetAddr is an address of a network that needs no resolving.
type packetAddr string

func (packetAddr) Network() string  { return "packet" }
func (a packetAddr) String() string { return string(a) }

// Handle registers the handler of a kind. It may only be called before Run.
func (t *Transport) Handle(kind wire.Kind, h Handler) { t.handlers[kind] = h }

// ResolveWith sets Config.Resolve if it was nil. It may only be called before Run.
func (t *Transport) ResolveWith(f func(grid.MemberID) (addr string, ok bool)) {
	if t.resolve == nil {
		t.resolve = f
	}
}

// OnDown registers what is called when an established connection has ended other than by this side's closing down. It runs on a connection's
// goroutine and must not block. It may only be called before Run.
func (t *Transport) OnDown(f func(addr string, id grid.MemberID)) { t.onDown = f }

// Stats returns how many bytes were written to members, in how many writes.
func (t *Transport) Stats() (bytes, writes uint64) { return t.bytesOut.Load(), t.writes.Load() }

// Run serves until ctx ends, and returns when all connections are closed and all goroutines have ended. It returns an error only if the
// listener failed.
func (t *Transport) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	t.spawn(func() { failed <- t.acceptLoop() })
	t.spawn(t.sweepLoop)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	t.Close()
	return err
}

// Refuse makes the transport take no more streams from outside. Those that there are live on, and it still dials. It may be called more than once.
func (t *Transport) Refuse() {
	t.refusing.Store(true)
	_ = t.listener.Close()
}

// Close ends the transport: what waits for an answer ends with an error. It returns when all goroutines have ended; it may be called more
// than once.
func (t *Transport) Close() {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	conns := make([]net.Conn, 0, len(t.open))
	for c := range t.open {
		conns = append(conns, c)
	}
	t.mu.Unlock()
	if first {
		t.cancel()
		t.closeListeners()
		for _, l := range t.streams {
			_ = l.Close()
		}
		for _, c := range conns {
			_ = c.Close()
		}
	}
	t.wg.Wait()
}

func (t *Transport) closeListeners() {
	_ = t.listener.Close()
	_ = t.packets.Close()
}

// spawn runs f in a goroutine that Close waits for; ok is false when the transport is closed already.
func (t *Transport) spawn(f func()) (ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Go(f)
	return true
}

// track makes Close close the connection; ok is false when that is too late.
func (t *Transport) track(c net.Conn) (ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.open[c] = struct{}{}
	return true
}

func (t *Transport) untrack(c net.Conn) {
	t.mu.Lock()
	delete(t.open, c)
	t.mu.Unlock()
}
