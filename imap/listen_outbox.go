package imap

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"gridnode/grid"
	"gridnode/imap/query"
)

// Bounds of what waits for a listener at one primary, and of one message to it.
const (
	outboxItems  = 1 << 14
	outboxBytes  = 16 << 20
	batchItems   = 256
	batchBytes   = 512 << 10
	batchExamine = 4096 // events that are looked at for one message
	resendBatch  = time.Second
	retryBatch   = 100 * time.Millisecond
)

// regID names a registration.
type regID struct {
	owner grid.MemberID
	n     uint64
}

// registration is a listener as every member knows it. It is never changed.
type registration struct {
	id     regID
	wire   wireReg
	match  *query.Matcher // nil: all
	local  bool           // only its owner knows it
	heeds  bool           // local: it goes behind what other primaries have told
	out    *outbox
	events EventType
}

// wireReg is a registration as it travels.
type wireReg struct {
	N      uint64
	Map    string
	Key    []byte
	Where  []byte
	Events EventType
	Value  bool
	Old    bool
}

// compile checks what came and makes a registration of it.
func (w wireReg) compile(owner grid.MemberID) (*registration, error) {
	r := &registration{id: regID{owner, w.N}, wire: w, events: w.Events}
	if len(w.Map) > MaxMapName || len(w.Key) > MaxKey {
		return nil, fmt.Errorf("%w: a listener's map name of %d bytes or key of %d", grid.ErrTooLarge, len(w.Map), len(w.Key))
	}
	if r.events == 0 {
		r.events = Lost<<1 - 1
	}
	if r.events >= Lost<<1 {
		return nil, fmt.Errorf("%w: Events %#x", grid.ErrBadRequest, uint16(w.Events))
	}
	if len(w.Where) > 0 {
		p, err := query.Decode(w.Where)
		if err != nil {
			return nil, err
		}
		if r.match, err = query.Compile(p); err != nil {
			return nil, err
		}
	}
	r.out = &outbox{reg: r, stream: rand.Uint64() | 1, begun: map[grid.PartitionID]item{}}
	return r, nil
}

// wants reports whether the listener is to get the event, as far as that is quickly told.
func (r *registration) wants(e *Event) bool {
	return r.events&e.Type != 0 && (r.wire.Key == nil || e.sweep() || bytes.Equal(r.wire.Key, e.Key))
}

// holds asks the predicate: of the new value, or of the old one where there is none.
func (r *registration) holds(e *Event, schemas *query.Schemas) bool {
	if r.match == nil || e.sweep() {
		return true
	}
	value := e.Value
	if e.Type&(Added|Updated) == 0 {
		value = e.Old
	}
	return r.match.Match(query.NewRecordOf(e.Key, value, schemas))
}

// itemKind is what an [item] says.
type itemKind uint8

const (
	itemStart    itemKind = iota + 1 // this primary tells of all changes behind Seq
	itemChange                       // a change
	itemProgress                     // all changes up to Seq have been told
	itemLost                         // Count changes were dropped
)

// item is one thing that a primary tells a listener.
type item struct {
	Kind      itemKind
	Partition grid.PartitionID
	Born      uint64
	Seq       uint64
	Index     int
	Type      EventType // of a change, as the rest
	Key       []byte
	Value     []byte
	Old       []byte
	Version   uint64
	Count     int

	event *Event // of a change here, before the predicate was asked; shared by all listeners
}

// eventsMsg is a run of items for one listener, of one primary's stream. They are numbered from 1, and the next is sent when one was taken.
type eventsMsg struct {
	Listener uint64
	Stream   uint64
	N        uint64
	Items    []item
}

// outbox is what waits at this member for one listener. It is filled under partitions' locks, so nothing here waits.
type outbox struct {
	reg    *registration
	stream uint64

	mu       sync.Mutex // guards what follows; taken alone, or while a partition's lock is held
	registry *Registry  // set before there is anything in the queue
	closed   bool
	queue    []item
	bytes    int
	lost     int                       // changes dropped since the last itemLost
	begun    map[grid.PartitionID]item // partitions that were started here: how far they have come
	moved    map[grid.PartitionID]bool // those of them that have come further than was told
	n        uint64                    // of the message under way, or the last
	flight   []byte                    // the message under way
	sentAt   time.Time
	retry    bool // it failed
}

// publish adds a change and reports whether the listener may want it.
func (o *outbox) publish(it item) bool {
	if !o.reg.wants(it.event) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return false
	case len(o.queue) >= outboxItems || o.bytes > outboxBytes:
		o.lost++
		return true
	}
	o.dropped()
	o.push(it)
	return true
}

// close forgets all: the listener is gone.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.queue, o.bytes, o.lost, o.begun, o.moved, o.flight = true, nil, 0, 0, nil, nil, nil
}

// dropped puts what was dropped into the queue.
func (o *outbox) dropped() {
	if o.lost > 0 {
		o.push(item{Kind: itemLost, Count: o.lost})
		o.lost = 0
	}
}

func (it *item) cost() int {
	if it.event == nil {
		return 160
	}
	return len(it.event.Key) + len(it.event.Value) + len(it.event.Old) + 160
}

func (o *outbox) push(it item) {
	o.queue = append(o.queue, it)
	o.bytes += it.cost()
}

// start adds the start of a partition. How far it had come here before is told first, lest that looks like a gap.
func (o *outbox) start(r *Registry, it item) {
	born, seq := r.marks.at(it.Partition)
	o.progress(it.Partition, born, seq)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.registry = r
	if o.moved[it.Partition] {
		o.push(o.begun[it.Partition])
		delete(o.moved, it.Partition)
	}
	o.push(it)
	it.Kind = itemProgress
	o.begun[it.Partition] = it
}

// progress notes how far a partition has come; the next message, or a later one, tells so.
func (o *outbox) progress(p grid.PartitionID, born, seq uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	it, ok := o.begun[p]
	if !ok || it.Born > born || it.Born == born && it.Seq >= seq {
		return
	}
	it.Born, it.Seq = born, seq
	o.begun[p] = it
	if o.moved == nil {
		o.moved = map[grid.PartitionID]bool{}
	}
	o.moved[p] = true
}

// next returns the message that is to be sent now, or nil. With tick, also one that tells of progress only.
func (o *outbox) next(now time.Time, tick bool) (body []byte, n uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.flight != nil {
		wait := resendBatch
		if o.retry {
			wait = retryBatch
		}
		if now.Sub(o.sentAt) < wait {
			return nil, 0
		}
		o.sentAt, o.retry = now, false
		return o.flight, o.n
	}
	if len(o.queue) == 0 {
		o.dropped()
		if tick {
			for p := range o.moved {
				o.push(o.begun[p])
			}
			o.moved = nil
		}
	}
	items := o.take()
	if len(items) == 0 {
		return nil, 0
	}
	o.n++
	o.flight = encode(registryMsg{Events: &eventsMsg{Listener: o.reg.id.n, Stream: o.stream, N: o.n, Items: items}})
	o.sentAt, o.retry = now, false
	return o.flight, o.n
}

// take takes the next items off the queue, and asks the predicate.
func (o *outbox) take() (items []item) {
	n, size := 0, 0
	for n < len(o.queue) && n < batchExamine && len(items) < batchItems && size < batchBytes {
		it := o.queue[n]
		o.bytes -= it.cost()
		o.queue[n] = item{}
		n++
		if it.Kind != itemChange {
			items = append(items, it)
			continue
		}
		if !o.reg.holds(it.event, o.registry.schemas()) {
			continue
		}
		it = it.packed(o.reg.wire)
		items = append(items, it)
		size += len(it.Key) + len(it.Value) + len(it.Old)
	}
	if o.queue = o.queue[n:]; len(o.queue) == 0 {
		o.queue = nil
	}
	return items
}

// packed returns the change as it travels: with what the listener asked for.
func (it item) packed(w wireReg) item {
	e := it.event
	it.Type, it.Key, it.Version, it.Count = e.Type, e.Key, e.Version, e.Count
	if w.Value {
		it.Value = e.Value
	}
	if w.Old {
		it.Old = e.Old
	}
	it.event = nil
	return it
}

// sent takes the fate of the message n.
func (o *outbox) sent(n uint64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case n != o.n || o.flight == nil:
	case err == nil:
		o.flight = nil
	default:
		o.retry = true
	}
}
