package main

import (
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"gridnode/grid/transport"
)

// doors is the network, and knows what listens. A process that is killed closes its sockets in any order, and while it does so the kernel may take
// connections of clients who try again: the suites count how often a connection ends, and do not expect that.
type doors struct {
	transport.Network

	mu   sync.Mutex // guards open
	open []net.Listener
}

func (d *doors) Listen(addr string) (net.Listener, error) {
	ln, err := d.Network.Listen(addr)
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open = append(d.open, ln)
	}
	return ln, err
}

// crashOn ends the process at once when it gets SIGUSR1: first what listens, then all else.
func (d *doors) crashOn() {
	crash := make(chan os.Signal, 1)
	signal.Notify(crash, syscall.SIGUSR1)
	go func() { // as long as the process lives
		<-crash
		d.mu.Lock()
		for _, ln := range d.open {
			_ = ln.Close()
		}
		os.Exit(1)
	}()
}
