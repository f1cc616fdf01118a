package clientproto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

// conn is one connection of a client.
type conn struct {
	s   *Server
	raw net.Conn

	client   uuidValue // set by authentication, before any other request runs
	session  string    // the same as text
	name     string
	known    bool   // authenticated; the leader's
	in       *inbox // the leader's
	inFlight chan struct{}
	next     chan *call     // to goroutines that wait for work: a request, or nil for the lead
	running  sync.WaitGroup // that run requests
	over     chan error     // holds why there is nothing more to read

	mu        sync.Mutex // guards what follows
	out       []byte     // messages that no write has taken yet
	spare     []byte     // for the next ones
	writing   bool       // somebody writes
	corked    bool       // the leader will wake the writer
	closed    bool       // nothing more is sent
	views     registeredViews
	listeners map[uuidValue]*imap.Listener
	objects   map[uuidValue]objectListener
	ended     bool          // no listener is registered any more
	wake      chan struct{} // holds one token when there is something to write
}

func newConn(s *Server, raw net.Conn) *conn {
	c := &conn{
		s: s, raw: raw, inFlight: make(chan struct{}, maxInFlight), next: make(chan *call), over: make(chan error, 1), wake: make(chan struct{}, 1),
		listeners: map[uuidValue]*imap.Listener{},
	}
	c.in = c.newInbox()
	return c
}

// serve serves requests until the connection ends. One that waits, for a lock say, holds up no other.
func (c *conn) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = c.raw.Close() })
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		c.write(ctx)
		cancel()
	})
	_ = c.raw.SetReadDeadline(time.Now().Add(authTimeout))
	c.give(ctx, nil)
	err := <-c.over
	cancel()
	c.deafen()
	c.running.Wait()
	wg.Wait()
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		c.s.log.Debug("client connection ended", "client", c.name, "from", c.raw.RemoteAddr(), "error", err)
	}
}

// send hands a message to the writer.
func (c *conn) send(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(b)
}

// enqueue hands a message, in one or several parts, to the writer. The caller has c.mu. A client that does not take what it asked for is cut off.
func (c *conn) enqueue(parts ...[]byte) {
	if c.closed {
		return
	}
	n := 0
	for _, b := range parts {
		n += len(b)
	}
	if len(c.out)+n > maxUnsent && len(c.out) > 0 {
		c.closed = true
		c.s.log.Warn("client cut off: it does not read", "client", c.name, "from", c.raw.RemoteAddr(), "bytes", len(c.out))
		_ = c.raw.Close()
		return
	}
	for _, b := range parts {
		c.out = append(c.out, b...)
	}
	if !c.corked {
		c.wakeWriter()
	}
}

func (c *conn) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default: // a token is there
	}
}

// call is one request.
type call struct {
	c    *conn
	m    message
	spec *spec
	args []any
	in   []grid.PartitionID // that the predicate is for; nil: everywhere
}

// newCall reads a request. Its error is for the client, who goes on: the frames of the message were whole.
func newCall(c *conn, m message) (*call, error) {
	s := specs[m.kind()]
	if s == nil {
		return nil, fail(codeUnsupported, "message type %#06x is not supported", m.kind())
	}
	args, err := parse(s, m)
	if err != nil {
		return nil, err
	}
	return &call{c: c, m: m, spec: s, args: args}, nil
}

func (q *call) run(ctx context.Context) {
	h := handlers[q.spec.id]
	if h == nil {
		q.c.send(failure(q.m.correlation(), fail(codeUnsupported, "%s is not supported", q.spec.name)))
		return
	}
	b, err := q.handle(ctx, h)
	if err != nil {
		b = failure(q.m.correlation(), err)
	}
	q.c.send(b)
}

// handle runs the handler. What is wrong with one request costs neither the connection nor the member; whether it ran is not known then.
func (q *call) handle(ctx context.Context, h handler) (b []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			q.c.s.log.Error("request panicked", "request", q.spec.name, "client", q.c.name, "panic", p, "stack", string(debug.Stack()))
			b, err = nil, fail(codeIndeterminateState, "%s: internal error: %v", q.spec.name, p)
		}
	}()
	return h(ctx, q)
}

// answer begins the answer.
func (q *call) answer() *encoder { return newAnswer(q.spec.id+1, q.m.correlation()) }

// empty is the answer that says no more than that it was done.
func (q *call) empty() ([]byte, error) { return q.answer().bytes(), nil }

func (q *call) field(name string) any {
	for i, f := range q.spec.fields {
		if f.name == name {
			return q.args[i]
		}
	}
	panic(fmt.Sprintf("clientproto: %s has no field %s", q.spec.name, name))
}

// The accessors return the zero value for a field that is null or was not sent.

func (q *call) long(name string) int64 {
	v, _ := q.field(name).(int64)
	return v
}

func (q *call) flag(name string) bool { return q.long(name) != 0 }

func (q *call) text(name string) string {
	v, _ := q.field(name).(string)
	return v
}

func (q *call) data(name string) data {
	v, _ := q.field(name).(data)
	return v
}

func (q *call) raw(name string) []byte {
	v, _ := q.field(name).([]byte)
	return v
}

func (q *call) list(name string) []data {
	v, _ := q.field(name).([]data)
	return v
}

func (q *call) uuid(name string) uuidValue {
	v, _ := q.field(name).(uuidValue)
	return v
}
