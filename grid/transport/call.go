package transport

import (
	"context"
	"fmt"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// Call sends a request and waits for the answer. If ctx ends first the error wraps grid.ErrUnreachable when the request was certainly not
// sent, else grid.ErrIndeterminate.
func (t *Transport) Call(ctx context.Context, to grid.MemberID, kind wire.Kind, body []byte) ([]byte, error) {
	return call(ctx, t.peerByID(to), kind, body)
}

// CallAddr is Call to whichever member of the cluster name is at the address.
func (t *Transport) CallAddr(ctx context.Context, addr string, kind wire.Kind, body []byte) ([]byte, error) {
	return call(ctx, t.peerByAddr(addr), kind, body)
}

func call(ctx context.Context, p *peer, kind wire.Kind, body []byte) ([]byte, error) {
	type answer struct {
		body []byte
		err  error
	}
	answers := make(chan answer, 1) // done is called once at most and must not block
	k, err := p.start(wire.Frame{Kind: kind, Flag: wire.Request, Body: body}, func(b []byte, err error) { answers <- answer{b, err} })
	if err != nil {
		return nil, err
	}
	select {
	case a := <-answers:
		return a.body, a.err
	case <-ctx.Done():
	}
	ran, late := p.giveUp(k)
	switch {
	case late: // done is being called: it will not take long
		a := <-answers
		return a.body, a.err
	case ran:
		return nil, fmt.Errorf("%s to %s: %w: %v", kind, p, grid.ErrIndeterminate, context.Cause(ctx))
	}
	return nil, fmt.Errorf("%s to %s: %w: %v", kind, p, grid.ErrUnreachable, context.Cause(ctx))
}

// Request sends a request without waiting. done is called exactly once with the answer, which it may keep; on a connection's goroutine or,
// when the request could not be sent, on the caller's own. It must not block. A request to a member that never answers ends with the
// connection; whoever needs a limit sets one.
func (t *Transport) Request(to grid.MemberID, kind wire.Kind, body []byte, done func([]byte, error)) {
	if _, err := t.peerByID(to).start(wire.Frame{Kind: kind, Flag: wire.Request, Body: body}, done); err != nil {
		done(nil, err)
	}
}

// Send sends a one-way message without waiting. Messages to one member arrive in order while the connection lives; they may be lost with it.
// The error wraps grid.ErrUnreachable, grid.ErrOverloaded or grid.ErrTooLarge; nil says only that it waits to be written.
func (t *Transport) Send(to grid.MemberID, kind wire.Kind, body []byte) error {
	_, err := t.peerByID(to).start(wire.Frame{Kind: kind, Flag: wire.OneWay, Body: body}, nil)
	return err
}
