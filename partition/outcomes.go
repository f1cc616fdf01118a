package partition

import (
	"fmt"
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// Bounds of the outcomes that a partition keeps. Beyond them the oldest are forgotten.
const (
	keepOutcomes   = 4096
	keepBytes      = 4 << 20
	strangersAfter = 10 * time.Minute // a client that was never seen as a member
)

// Request names one call of a client, however often it is sent. The scheme is that of RIFL (Lee et al., SOSP 2015): outcomes are kept with
// the data until the client says that it needs them no more. A call without a client only reads.
type Request struct {
	Client grid.MemberID
	Seq    uint64 // counts the client's calls, from 1
	Low    uint64 // all its calls below this one have ended
	Again  bool   // the call was sent before, and what became of it is unknown
}

// outcome is what a call returned. It travels with the effect of the call.
type outcome struct {
	Client grid.MemberID
	Seq    uint64
	Low    uint64
	Reply  []byte
	Failed []byte // the error that it returned, as on the wire; nil: none
}

func (o *outcome) size() int { return len(o.Reply) + len(o.Failed) + 64 }

// result is the answer that the call had.
func (o *outcome) result() ([]byte, error) {
	if o.Failed != nil {
		return nil, wire.DecodeError(o.Failed)
	}
	return o.Reply, nil
}

// kept is an outcome in the table.
type kept struct {
	*outcome
	at   uint64 // number of its effect
	dead bool   // the client needs it no more; it is still in the queue
}

// clientCalls are the calls of one client in this partition.
type clientCalls struct {
	low     uint64 // calls below have ended
	forgot  uint64 // highest call whose outcome was given up for want of room
	calls   map[uint64]*kept
	member  bool      // it has been seen as a member
	touched time.Time // when it last called
}

// outcomes is a replica's table of calls. Like the data it changes only by effects.
type outcomes struct {
	clients map[grid.MemberID]*clientCalls
	queue   []*kept // in the order of their effects
	alive   int
	bytes   int
}

func newOutcomes() *outcomes { return &outcomes{clients: map[grid.MemberID]*clientCalls{}} }

// find returns the outcome that a call has had, or nil if it is new. An error means that nobody can tell.
func (t *outcomes) find(q Request) (*kept, error) {
	c := t.clients[q.Client]
	if c == nil {
		return nil, nil
	}
	if q.Seq < c.low {
		return nil, fmt.Errorf("%w: the call has ended", grid.ErrIndeterminate)
	}
	if k := c.calls[q.Seq]; k != nil {
		return k, nil
	}
	if q.Seq > c.forgot {
		return nil, nil
	}
	if q.Again {
		return nil, fmt.Errorf("%w: too many calls since it was made first", grid.ErrIndeterminate)
	}
	return nil, fmt.Errorf("%w: calls of this client", grid.ErrOverloaded)
}

// add keeps the outcome of the effect number at, and forgets what the client needs no more.
func (t *outcomes) add(o *outcome, at uint64, now time.Time) {
	c := t.client(o.Client)
	c.touched = now
	if old := c.calls[o.Seq]; old != nil {
		t.drop(c, old)
	}
	c.calls[o.Seq] = t.push(o, at)
	if o.Low > c.low {
		c.low = o.Low
		for seq, k := range c.calls {
			if seq < c.low {
				t.drop(c, k)
			}
		}
	}
	t.bound()
}

func (t *outcomes) client(id grid.MemberID) *clientCalls {
	c := t.clients[id]
	if c == nil {
		c = &clientCalls{calls: map[uint64]*kept{}}
		t.clients[id] = c
	}
	return c
}

func (t *outcomes) push(o *outcome, at uint64) *kept {
	k := &kept{outcome: o, at: at}
	t.queue = append(t.queue, k)
	t.alive++
	t.bytes += o.size()
	return k
}

func (t *outcomes) drop(c *clientCalls, k *kept) {
	delete(c.calls, k.Seq)
	t.alive--
	t.bytes -= k.size()
	k.dead, k.outcome = true, nil
}

// bound forgets the oldest outcomes beyond the bounds, and takes the dead ones out of the queue.
func (t *outcomes) bound() {
	for len(t.queue) > 0 && (t.queue[0].dead || t.alive > keepOutcomes || t.bytes > keepBytes && t.alive > 1) {
		if k := t.queue[0]; !k.dead {
			c := t.clients[k.Client]
			c.forgot = max(c.forgot, k.Seq)
			t.drop(c, k)
		}
		t.queue[0] = nil
		t.queue = t.queue[1:]
	}
	if len(t.queue) <= 2*t.alive+64 {
		return
	}
	live := make([]*kept, 0, t.alive)
	for _, k := range t.queue {
		if !k.dead {
			live = append(live, k)
		}
	}
	t.queue = live
}

// forget drops the calls of clients that were members and are none any more: member ids do not come back, and a stranger's calls are
// refused. A client that was never seen as a member may only be unknown here yet.
func (t *outcomes) forget(isMember func(grid.MemberID) bool, now time.Time) {
	for id, c := range t.clients {
		if isMember(id) {
			c.member = true
			continue
		}
		if !c.member && now.Sub(c.touched) < strangersAfter {
			continue
		}
		for _, k := range c.calls {
			t.drop(c, k)
		}
		delete(t.clients, id)
	}
	t.bound()
}

// callsPiece is a part of the table on its way to another replica.
type callsPiece struct {
	Clients  []clientPiece
	Outcomes []placed
}

type clientPiece struct {
	Client grid.MemberID
	Low    uint64
	Forgot uint64
}

type placed struct {
	At      uint64
	Outcome outcome
}

// snapshot returns the table in pieces of about size bytes each; none if it is empty.
func (t *outcomes) snapshot(size int) [][]byte {
	if len(t.clients) == 0 {
		return nil
	}
	var pieces [][]byte
	var p callsPiece
	for id, c := range t.clients {
		p.Clients = append(p.Clients, clientPiece{Client: id, Low: c.low, Forgot: c.forgot})
	}
	bytes := 0
	for _, k := range t.queue {
		if k.dead {
			continue
		}
		p.Outcomes = append(p.Outcomes, placed{k.at, *k.outcome})
		if bytes += k.size(); bytes >= size {
			pieces = append(pieces, encode(p))
			p, bytes = callsPiece{}, 0
		}
	}
	return append(pieces, encode(p))
}

// restore adds one piece to a new table.
func (t *outcomes) restore(b []byte, now time.Time) error {
	p, err := decode[callsPiece](b)
	if err != nil {
		return err
	}
	for _, c := range p.Clients {
		in := t.client(c.Client)
		in.low, in.forgot, in.touched = c.Low, c.Forgot, now
	}
	for i := range p.Outcomes {
		o := &p.Outcomes[i]
		c := t.client(o.Outcome.Client)
		if old := c.calls[o.Outcome.Seq]; old != nil {
			return fmt.Errorf("%w: call %d of %s twice", grid.ErrBadMessage, o.Outcome.Seq, o.Outcome.Client)
		}
		c.touched = now
		c.calls[o.Outcome.Seq] = t.push(&o.Outcome, o.At)
	}
	t.bound()
	return nil
}
