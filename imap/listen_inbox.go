package imap

import (
	"math"
	"sync"
	"time"

	"gridnode/grid"
)

const (
	parkFor   = time.Second // how long a gap may be closed by the primary before
	parkItems = 1024
)

// cursor is how far a listener has got in one partition: all changes before (seq, index) have been told, or will not be.
type cursor struct {
	born, seq uint64
	index     int
	known     bool
}

// gap is a partition whose new primary begins later than the one before has told of. What the new one says waits: the old one may still be
// telling the rest.
type gap struct {
	from  grid.MemberID
	base  uint64
	since time.Time
	items []item // of from
}

// streamAt is how far one primary's messages have come.
type streamAt struct{ stream, n uint64 }

// inbox is a listener at the member that registered it.
type inbox struct {
	reg *registration
	fn  func(Event)
	max int

	mu      sync.Mutex // guards what follows; taken alone, never held while fn runs
	streams map[grid.MemberID]streamAt
	cursors map[grid.PartitionID]*cursor
	gaps    map[grid.PartitionID]*gap
	queue   []Event
	lost    int // events dropped since the last that waits; -1: an unknown number
	closed  bool
	wake    chan struct{} // one token: the queue has changed
	done    chan struct{} // closed when the listener is not called any more
}

func newInbox(reg *registration, queue int, fn func(Event)) *inbox {
	return &inbox{
		reg: reg, fn: fn, max: queue, streams: map[grid.MemberID]streamAt{}, cursors: map[grid.PartitionID]*cursor{},
		gaps: map[grid.PartitionID]*gap{}, wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// run calls the listener until it is closed.
func (in *inbox) run() {
	defer close(in.done)
	for {
		e, ok, closed := in.pop()
		switch {
		case closed:
			return
		case ok:
			in.fn(e)
		default:
			<-in.wake
		}
	}
}

// pop takes the next event: those that wait, then what was dropped behind them.
func (in *inbox) pop() (e Event, ok, closed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.closed:
		return e, false, true
	case len(in.queue) > 0:
		e = in.queue[0]
		in.queue[0] = Event{}
		if in.queue = in.queue[1:]; len(in.queue) == 0 {
			in.queue = nil
		}
		return e, true, false
	case in.lost != 0:
		return in.takeLost(), true, false
	}
	return e, false, false
}

func (in *inbox) takeLost() Event {
	e := Event{Type: Lost, Map: in.reg.wire.Map, Count: max(in.lost, 0)}
	in.lost = 0
	return e
}

func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed, in.queue, in.gaps, in.lost = true, nil, nil, 0
	in.signal()
}

func (in *inbox) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *inbox) pending() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.queue)
}

// push lets an event wait for the listener, or counts it as lost.
func (in *inbox) push(e Event) {
	if len(in.queue) >= in.max {
		in.lose(1)
		return
	}
	if in.lost != 0 {
		in.queue = append(in.queue, in.takeLost())
	}
	in.queue = append(in.queue, e)
	in.signal()
}

// lose notes that n events are missing; 0: perhaps some.
func (in *inbox) lose(n int) {
	switch {
	case n == 0 || in.lost < 0:
		in.lost = -1
	default:
		in.lost += n
	}
	in.signal()
}

// baseline says that changes up to rep.Seq were made before the listener was known everywhere.
func (in *inbox) baseline(p grid.PartitionID, rep attendReply) {
	in.mu.Lock()
	defer in.mu.Unlock()
	c := in.at(p)
	if !c.known || rep.Born > c.born || rep.Born == c.born && rep.Seq > c.seq {
		*c = cursor{born: rep.Born, seq: rep.Seq, index: math.MaxInt, known: true}
	}
	in.closeGap(p)
}

func (in *inbox) at(p grid.PartitionID) *cursor {
	c := in.cursors[p]
	if c == nil {
		c = &cursor{}
		in.cursors[p] = c
	}
	return c
}

// receive takes a primary's message. One that comes again changes nothing.
func (in *inbox) receive(from grid.MemberID, m eventsMsg, now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	at := in.streams[from]
	if in.closed || at.stream == m.Stream && m.N <= at.n {
		return
	}
	in.streams[from] = streamAt{m.Stream, m.N}
	for _, it := range m.Items {
		if it.Partition < 0 || it.Partition >= grid.MaxPartitions {
			continue
		}
		g := in.gaps[it.Partition]
		if g == nil || g.from != from || it.Kind == itemStart {
			in.take(from, it, now)
			continue
		}
		if g.items = append(g.items, it); len(g.items) >= parkItems {
			in.giveUp(it.Partition)
		}
	}
}

// take goes one item further.
func (in *inbox) take(from grid.MemberID, it item, now time.Time) {
	if it.Kind == itemLost {
		in.lose(it.Count)
		return
	}
	c := in.at(it.Partition)
	if it.Born < c.born {
		return
	}
	if it.Born > c.born { // the partition's replicas were all lost, and it began anew; or nothing is known of it yet
		if c.known && c.born > 0 {
			in.lose(0)
		}
		*c = cursor{born: it.Born, known: c.known && c.born > 0}
	}
	switch it.Kind {
	case itemStart:
		in.start(from, it, c, now)
	case itemProgress:
		if it.Seq >= c.seq {
			c.seq, c.index, c.known = it.Seq, math.MaxInt, true
		}
	case itemChange:
		if it.Seq < c.seq || it.Seq == c.seq && it.Index <= c.index {
			return
		}
		c.seq, c.index, c.known = it.Seq, it.Index, true
		in.push(Event{
			Type: it.Type, Map: in.reg.wire.Map, Key: it.Key, Value: it.Value, Old: it.Old, Version: it.Version, Partition: it.Partition,
			Count: it.Count, From: from,
		})
	}
	in.closeGap(it.Partition)
}

// start takes note that another primary tells of the partition from now on.
func (in *inbox) start(from grid.MemberID, it item, c *cursor, now time.Time) {
	switch {
	case !c.known || in.reg.local:
		if it.Seq > c.seq {
			c.seq, c.index = it.Seq, math.MaxInt
		}
		c.known = true
	case it.Seq > c.seq:
		if in.gaps[it.Partition] != nil {
			in.giveUp(it.Partition)
		}
		if it.Seq > c.seq {
			in.gaps[it.Partition] = &gap{from: from, base: it.Seq, since: now}
		}
	}
}

// closeGap goes on with a partition whose gap has been closed.
func (in *inbox) closeGap(p grid.PartitionID) {
	g, c := in.gaps[p], in.at(p)
	if g == nil || c.seq < g.base {
		return
	}
	delete(in.gaps, p)
	for _, it := range g.items {
		in.take(g.from, it, g.since)
	}
}

// giveUp goes on although the gap was not closed: changes in it may never be told.
func (in *inbox) giveUp(p grid.PartitionID) {
	c := in.at(p)
	c.seq, c.index = in.gaps[p].base, math.MaxInt
	in.lose(0)
	in.closeGap(p)
}

// tick gives up on gaps that stay.
func (in *inbox) tick(now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for p, g := range in.gaps {
		if now.Sub(g.since) >= parkFor {
			in.giveUp(p)
		}
	}
}
