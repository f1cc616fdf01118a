package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// part is one running component.
type part struct {
	name   string
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// begin runs a component until it is stopped or ends by itself.
func begin(ctx context.Context, name string, run func(context.Context) error) *part {
	p := &part{name: name, done: make(chan struct{})}
	ctx, p.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(p.done)
		p.err = run(ctx)
	}()
	return p
}

// stop ends the component and waits for it.
func (p *part) stop() {
	p.cancel(errStopped)
	<-p.done
}

// firstEnded delivers the first component that ends. Its goroutines end with the components, all of which are stopped in the end.
func firstEnded(parts []*part) <-chan *part {
	ch := make(chan *part, len(parts)) // each can deliver without a reader
	for _, p := range parts {
		go func() {
			<-p.done
			ch <- p
		}()
	}
	return ch
}

// listen opens the HTTP port.
func listen(cfg Config, was addresses) (net.Listener, error) {
	var ln net.Listener
	err := tryPorts(cfg.HTTP, was.http, cfg.HTTPPortAuto, func(addr string) (err error) {
		ln, err = cfg.Network.Listen(addr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	return ln, nil
}

// tryPorts opens addr; with auto, the next ports after it while they are taken. An address that was had before is the only one to try.
func tryPorts(addr, had string, auto bool, open func(addr string) error) error {
	if had != "" {
		return open(had)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	first, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	for i := range AutoPorts {
		err = open(net.JoinHostPort(host, strconv.Itoa(first+i)))
		if !auto || first == 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return err
}

// reachable is the address that others use for one that was bound.
func reachable(bound string, cfg Config) string {
	host, port, err := net.SplitHostPort(bound)
	if err != nil || !anyInterface(bound) {
		return bound
	}
	if h, _, err := net.SplitHostPort(cfg.Advertise); err == nil {
		host = h
	}
	return net.JoinHostPort(host, port)
}
