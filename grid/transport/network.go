package transport

import (
	"context"
	"net"
	"time"
)

// Network is where members meet: the host's own ([TCP]), or one in memory.
type Network interface {
	Listen(addr string) (net.Listener, error)
	Dial(ctx context.Context, addr string) (net.Conn, error)
	ListenPacket(addr string) (net.PacketConn, error)
}

// TCP returns the network of this host: TCP for streams, UDP for packets.
func TCP() Network { return tcp{} }

type tcp struct{}

// keepAlive lets the kernel notice a vanished peer. It is the second line: connections between members are watched by pings.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func (tcp) Listen(addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	return lc.Listen(context.Background(), "tcp", addr)
}

func (tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, "tcp", addr)
}

func (tcp) ListenPacket(addr string) (net.PacketConn, error) { return net.ListenPacket("udp", addr) }
