package partition

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"gridnode/grid"
)

// simClient is who makes the calls of a simulation. It never goes.
const simClient grid.MemberID = "client"

// simCall is one increment, however often it is sent.
type simCall struct {
	op      string
	seq     uint64
	low     uint64 // highest value that had been shown when it was made
	sent    int    // attempts; the client listens to the newest only
	pending int    // attempts without an answer
	unknown bool   // an attempt may have run, or may run yet
	ended   bool   // the client knows the outcome, or has given up
	value   uint64 // what the counter was raised to, if that was acknowledged
	refused bool   // acknowledged, and it did nothing
}

// simAttempt is one sending of a call that has not arrived yet. Nobody waits for its answer any more.
type simAttempt struct {
	op  string
	req Request
}

// invoke makes a call on a member, or sends one again, or lets an old sending of one arrive.
func (s *sim) invoke(m *simMember) {
	if !m.alive {
		return
	}
	switch n := s.rnd.IntN(10); {
	case n < 3:
		s.read(m)
	case n < 5 && len(s.delayed) > 0:
		i := s.rnd.IntN(len(s.delayed))
		a := s.delayed[i]
		s.delayed = append(s.delayed[:i], s.delayed[i+1:]...)
		s.note("%s gets %s late: %+v", m.id, a.op, a.req)
		m.r.execute(call{op: grid.RawOp(a.op), req: a.req}, s.now, func([]byte, error) {})
	default:
		c := s.someCall()
		if s.attempt(m, c); c.pending > 0 && s.rnd.IntN(20) == 0 {
			c.ended, c.unknown = true, true
		}
	}
}

// someCall is a new call or one that has not ended.
func (s *sim) someCall() *simCall {
	if n := len(s.calls); n > 0 && s.rnd.IntN(2) == 0 {
		if c := s.calls[n-1-s.rnd.IntN(min(n, 4))]; !c.ended {
			return c
		}
	}
	c := &simCall{op: "inc", seq: uint64(len(s.calls) + 1), low: s.high}
	if s.rnd.IntN(3) == 0 {
		c.op = "inc if even"
	}
	s.calls = append(s.calls, c)
	return c
}

// lowest is the number below which all calls have ended.
func (s *sim) lowest() uint64 {
	for _, c := range s.calls {
		if !c.ended {
			return c.seq
		}
	}
	return uint64(len(s.calls) + 1)
}

func (s *sim) attempt(m *simMember, c *simCall) {
	c.unknown = c.unknown || c.pending > 0
	c.sent++
	req := Request{Client: simClient, Seq: c.seq, Low: s.lowest(), Again: c.unknown && s.bad != notAgain}
	if s.bad == noRequest {
		req.Seq, req.Low = s.rnd.Uint64(), 0
	}
	if s.rnd.IntN(5) == 0 {
		c.unknown = true
		s.delayed = append(s.delayed, simAttempt{c.op, req})
		return
	}
	c.pending++
	newest := c.sent
	m.r.execute(call{op: grid.RawOp(c.op), req: req}, s.now, func(reply []byte, err error) {
		c.pending--
		if err != nil {
			c.unknown = c.unknown || grid.KindOf(err) == grid.Indeterminate
			return
		}
		if newest < c.sent {
			c.unknown = true
			return
		}
		s.answered(m, c, binary.BigEndian.Uint64(reply))
	})
}

// answered checks the answer of a call: no increment counts twice, and every answer to one call is the same.
func (s *sim) answered(m *simMember, c *simCall, n uint64) {
	s.note("%s answers call %d %s %d", m.id, c.seq, c.op, n)
	c.ended = true
	if n == 0 {
		if c.refused = true; c.value != 0 {
			s.fail = fmt.Sprintf("call %d raised the counter to %d, and again did nothing", c.seq, c.value)
		}
		return
	}
	switch other := s.acked[n]; {
	case c.refused:
		s.fail = fmt.Sprintf("call %d did nothing, and again raised the counter to %d", c.seq, n)
	case c.value != 0 && c.value != n:
		s.fail = fmt.Sprintf("call %d raised the counter to %d and to %d", c.seq, c.value, n)
	case other != nil && other != c:
		s.fail = fmt.Sprintf("calls %d and %d both raised the counter to %d", other.seq, c.seq, n)
	case n <= c.low:
		s.fail = fmt.Sprintf("%s acknowledged an increment to %d after %d had been shown", m.id, n, c.low)
	}
	c.value, s.acked[n] = n, c
	s.shown(m, n)
}

// read checks that a value which was shown is never undone.
func (s *sim) read(m *simMember) {
	low := s.high
	m.r.execute(call{op: grid.RawOp("get")}, s.now, func(reply []byte, err error) {
		if err != nil {
			return
		}
		n := binary.BigEndian.Uint64(reply)
		s.note("%s answers get %d", m.id, n)
		if n < low {
			s.fail = fmt.Sprintf("%s read %d after %d had been shown", m.id, n, low)
		}
		s.shown(m, n)
	})
}

// shown checks that the counter was not raised more often than there are calls that may have raised it.
func (s *sim) shown(m *simMember, n uint64) {
	possible := uint64(0)
	for _, c := range s.calls {
		if !c.refused && (c.value != 0 || c.unknown || c.pending > 0) {
			possible++
		}
	}
	if n > possible {
		s.fail = fmt.Sprintf("%s shows %d after at most %d increments", m.id, n, possible)
	}
	s.high = max(s.high, n)
}

// A write that has to wait is done as soon as what it waits for has come, in the order of coming, and ends as busy when its time is over.
func TestPark(t *testing.T) {
	r, now := newReplica(0, "a", gated{}), time.Now()
	r.learn(grid.Partition{Epoch: 1, Replicas: []grid.MemberID{"a"}, Reign: 1, Born: 1}, now)
	var log []string
	ask := func(op string, seq uint64, wait time.Duration, again bool) {
		c := call{op: grid.RawOp(op), req: Request{Client: "a", Seq: seq, Low: 1, Again: again}, wait: wait}
		r.execute(c, now, func(reply []byte, err error) { log = append(log, fmt.Sprint(op, seq, string(reply), err)) })
	}
	want := func(lines ...string) {
		t.Helper()
		if fmt.Sprint(log) != fmt.Sprint(lines) {
			t.Errorf("got %q, want %q", log, lines)
		}
		log = nil
	}
	busy := grid.ErrBusy.Error()
	ask("shut", 1, 0, false)
	want("shut1ok<nil>")
	ask("pass", 2, 0, false)
	want("pass2" + busy)
	ask("pass", 3, time.Minute, false)
	ask("pass", 4, time.Second, false)
	ask("pass", 5, time.Minute, false)
	ask("pass", 6, time.Second, true)
	want()
	now = now.Add(2 * time.Second)
	r.tick(now)
	want("pass4"+busy, "pass6"+busy)
	ask("pass", 6, time.Second, true) // what was answered stays answered
	want("pass6" + busy)
	ask("open", 7, 0, false)
	want("open7ok<nil>", "pass3ok<nil>", "pass5ok<nil>")
	ask("pass", 6, time.Second, true)
	want("pass6" + busy)
	ask("shut", 8, 0, false)
	ask("pass", 9, time.Minute, false)
	r.learn(grid.Partition{Epoch: 2, Replicas: []grid.MemberID{"b", "a"}, Reign: 2, Born: 1}, now)
	want("shut8ok<nil>", "pass9"+grid.ErrNotPrimary.Error())
}

// gated is a world with a store that is a gate.
type gated struct{ deaf }

func (gated) newStore() Store { return &gate{} }

type gate struct {
	fuzzStore
	shut bool
}

func (g *gate) Execute(op grid.Op, _ Version, _ time.Time) Outcome {
	if string(op.Encoded()) == "pass" && g.shut {
		return Outcome{Wait: "gate"}
	}
	return Outcome{Reply: []byte("ok"), Effect: op.Encoded()}
}

func (g *gate) Apply(effect []byte, _ Version, _ time.Time) ([]string, error) {
	switch string(effect) {
	case "shut":
		g.shut = true
	case "open":
		g.shut = false
		return []string{"gate"}, nil
	}
	return nil, nil
}
