package clientproto

import (
	"bufio"
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"time"
)

// A connection has one goroutine at a time that reads: the leader. What is answered at once, as most single operations are, it runs itself; if one has
// to wait after all, it hands the lead to another goroutine first. All else runs on goroutines of the connection that wait for work, for a new one
// would have to grow its stack. (Schmidt et al., "Leader/Followers", PLoP 2000.)

// maxIdle is how many goroutines of a server, over all connections, wait for work.
const maxIdle = 1024

// deadlineEvery is how often a connection's read deadline is set: that costs more than a small read.
const deadlineEvery = 10 * time.Second

// quick are the requests that wait for nothing, unless by the channel that tells of their context's end.
var quick = map[uint32]bool{
	0x010100: true, 0x010200: true, 0x010300: true, 0x010400: true, 0x010500: true, 0x010600: true, 0x010800: true, 0x010900: true, 0x010e00: true,
	0x010f00: true,
}

// give hands a request, or with nil the lead, to a goroutine that waits, or to a new one.
func (c *conn) give(ctx context.Context, q *call) {
	select {
	case c.next <- q:
	default:
		c.running.Go(func() { c.work(ctx, q) })
	}
}

// work runs a request, or with nil leads, and then whatever else there is, until ctx ends or enough others wait.
func (c *conn) work(ctx context.Context, q *call) {
	for {
		if q != nil {
			q.run(ctx)
			<-c.inFlight
		} else if !c.lead(ctx) {
			return
		}
		select {
		case c.s.idle <- struct{}{}:
		default:
			return
		}
		select {
		case q = <-c.next:
			<-c.s.idle
		case <-ctx.Done():
			<-c.s.idle
			return
		}
	}
}

// lead reads requests until it has given the lead away, or, then it returns false, until the connection ends.
func (c *conn) lead(ctx context.Context) bool {
	l := &lead{Context: ctx, c: c}
	for {
		q, err := c.read(ctx)
		switch {
		case err != nil:
			c.over <- err
			return false
		case q == nil:
		case quick[q.spec.id] && !c.s.cfg.Maps.Loads():
			c.cork(true)
			l.state.Store(leadCalls)
			q.run(l)
			<-c.inFlight
			if !l.state.CompareAndSwap(leadCalls, leadReads) {
				return true
			}
		default:
			c.give(ctx, q)
		}
	}
}

// What a leader does.
const (
	leadReads int32 = iota
	leadCalls
	leadGone // to another goroutine
)

// lead is the context of requests that the leader runs itself. Whoever asks for its Done is about to wait.
type lead struct {
	context.Context
	c     *conn
	state atomic.Int32
}

// Done implements [context.Context].
func (l *lead) Done() <-chan struct{} {
	if l.state.CompareAndSwap(leadCalls, leadGone) {
		l.c.cork(false)
		l.c.give(l.Context, nil)
	}
	return l.Context.Done()
}

// cork makes answers gather while the leader has more requests at hand.
func (c *conn) cork(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = on
	if !on && len(c.out) > 0 {
		c.wakeWriter()
	}
}

// source is where a connection's leader reads from. It is read when the leader has nothing more at hand.
type source struct {
	c   *conn
	at  time.Time // when the deadline was last set
	raw syscall.RawConn
}

func (s *source) Read(p []byte) (int, error) {
	if s.raw != nil {
		s.c.flush(s.raw)
	}
	s.c.cork(false)
	if s.c.in.part && s.raw != nil {
		acknowledge(s.raw)
	}
	if now := time.Now(); s.c.known && now.Sub(s.at) >= deadlineEvery {
		_ = s.c.raw.SetReadDeadline(now.Add(silentFor + deadlineEvery))
		s.at = now
	}
	return s.c.raw.Read(p)
}

// newInbox begins with a small buffer: who is not known yet gets no other.
func (c *conn) newInbox() *inbox {
	return &inbox{r: bufio.NewReaderSize(&source{c: c, raw: rawOf(c.raw)}, beforeAuth)}
}

// read reads the next request. It returns none for what was answered already.
func (c *conn) read(ctx context.Context) (*call, error) {
	limit := maxMessage
	if !c.known {
		limit = beforeAuth
	}
	m, err := c.in.message(limit)
	if errors.Is(err, errTooLarge) && c.known && m != nil {
		c.send(failure(m.correlation(), fail(codeMaxMessageSize, "%v", err)))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	q, err := newCall(c, m)
	if err != nil {
		c.send(failure(m.correlation(), err))
		if c.known {
			err = nil
		}
		return nil, err
	}
	if !c.known {
		if err := c.authenticate(ctx, q); err != nil {
			return nil, err
		}
		c.in.r = bufio.NewReaderSize(c.in.r, readAtOnce)
		return nil, nil
	}
	select {
	case c.inFlight <- struct{}{}:
		return q, nil
	default:
		c.send(failure(m.correlation(), fail(codeOverload, "more than %d requests of this connection are under way", maxInFlight)))
		return nil, nil
	}
}
