package imap

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gridnode/grid"
	"gridnode/imap/query"
)

// EventType is what happened to an entry. The values are bits, so that a set of them is their sum.
type EventType uint16

// The types of event.
const (
	Added   EventType = 1 << iota
	Updated           // a value took the place of another
	Removed           // by a caller
	Evicted           // to make room; without a key: all of the map in one partition that were not locked, and Count tells how many
	Expired           // its time was over
	Cleared           // all entries of the map in one partition that were not locked: Count tells how many
	Lost              // events are missing here: Count tells how many, 0 that it is not known, and may be none. Every listener gets it
)

func (t EventType) String() string {
	for i, name := range []string{"added", "updated", "removed", "evicted", "expired", "cleared", "lost"} {
		if t == 1<<i {
			return name
		}
	}
	return fmt.Sprintf("events %#x", uint16(t))
}

// Event is a change of a map that is committed: no failover undoes it. The slices are shared with other listeners and must not be changed.
type Event struct {
	Type      EventType
	Map       string
	Key       Data // nil for Cleared, Lost, and Evicted of all
	Value     Data // Added, Updated: the new value, if it was asked for
	Old       Data // the value before, if there was one and it was asked for
	Version   uint64
	Partition grid.PartitionID
	Count     int           // Cleared, Lost, and Evicted without a key
	From      grid.MemberID // the primary that told of it
}

// sweep reports whether the event is about several entries that went at once.
func (e *Event) sweep() bool { return len(e.Key) == 0 }

// ListenerConfig says which events of a map a listener gets.
type ListenerConfig struct {
	Key       Data             // only those of this key; nil: of all
	Where     *query.Predicate // only those for whose value it holds: the new one or, where there is none, the old one
	Events    EventType        // only these; 0: all
	Value     bool             // with the new value
	Old       bool             // with the old value
	LocalOnly bool             // only of partitions whose primary is this member
	Again     bool             // LocalOnly: rather twice than never. A new primary tells what the one before may have told, if it still knows it
	Queue     int              // events that may wait for the listener; 0: DefaultQueue
}

// Limits of listeners.
const (
	DefaultQueue = 10000
	MaxQueue     = 1 << 20
	MaxListeners = 1024 // of one member

	listenBudget = 30 * time.Second // for callers whose context has no deadline
)

// Listener is a registration. It ends by Close, or with the member that registered it.
type Listener struct {
	r  *Registry
	in *inbox
}

// Close ends the registration: no call begins after it. It does not wait for a call that is under way, and may be called from one, and twice.
func (l *Listener) Close() { l.r.unlisten(l.in) }

// Done is closed when the listener will not be called any more: after [Listener.Close], or because its member has stopped or was removed by the
// others. In the latter case the caller listens again, on the member that came back.
func (l *Listener) Done() <-chan struct{} { return l.in.done }

// Pending is how many events wait for the listener.
func (l *Listener) Pending() int { return l.in.pending() }

func (m *Map) registration(cfg *ListenerConfig) (*registration, error) {
	key := Key{Data: cfg.Key}
	if cfg.Key == nil {
		key.Data = String("")
	}
	if err := m.check(key, nil); err != nil {
		return nil, err
	}
	if cfg.Queue == 0 {
		cfg.Queue = DefaultQueue
	}
	if cfg.Queue < 1 || cfg.Queue > MaxQueue {
		return nil, fmt.Errorf("%w: Queue %d, there may be 1 to %d events", grid.ErrBadRequest, cfg.Queue, MaxQueue)
	}
	w := wireReg{Map: m.name, Key: cfg.Key, Events: cfg.Events, Value: cfg.Value, Old: cfg.Old, Where: nil}
	if cfg.Where != nil {
		w.Where = cfg.Where.Append(nil)
	}
	reg, err := w.compile(m.g.registry.self)
	if err == nil && cfg.LocalOnly {
		reg.local, reg.heeds = true, !cfg.Again
	}
	return reg, err
}

// Listen calls fn with the events of the map, one after the other from one goroutine, in order for each key. It returns when every member
// knows the listener: each change that is made from then on gives one event. fn may be called before that. An event comes only after its
// change is committed; [Lost] tells where some may be missing.
func (m *Map) Listen(ctx context.Context, cfg ListenerConfig, fn func(Event)) (*Listener, error) {
	if m.g.registry == nil {
		return nil, fmt.Errorf("%w: listeners are not available here", grid.ErrRefused)
	}
	reg, err := m.registration(&cfg)
	if err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, listenBudget)
		defer cancel()
	}
	in, version, err := m.g.registry.listen(reg, cfg.Queue, fn)
	if err != nil {
		return nil, err
	}
	l := &Listener{r: m.g.registry, in: in}
	err = m.g.registry.awaitKnown(ctx, version)
	if err == nil {
		err = m.g.inv.InvokeAll(ctx, encode(op{Kind: opAttend}), func(p grid.PartitionID, reply []byte) error {
			rep, err := decode[attendReply](reply)
			if err == nil {
				in.baseline(p, rep)
			}
			return err
		})
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// AddIndex gives a map an index on every member, present and future, for as long as one member lives. It returns when all present ones know
// it; queries are right before and after.
func (g *Grid) AddIndex(ctx context.Context, mapName string, cfg IndexConfig) error {
	if g.registry == nil {
		return fmt.Errorf("%w: indexes are not available here", grid.ErrRefused)
	}
	if err := g.Map(mapName).check(Key{Data: String("")}, nil); err != nil {
		return err
	}
	version, err := g.registry.addIndexes(mapName, []IndexConfig{cfg})
	if err != nil {
		return err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, listenBudget)
		defer cancel()
	}
	return g.registry.awaitKnown(ctx, version)
}

// Indexes returns the indexes that a map is to have, as this member knows them.
func (g *Grid) Indexes(mapName string) []IndexConfig {
	list, _ := g.registry.wanted(mapName)
	return slices.Clone(list)
}

// Listeners is how many listeners, of all members, this member knows.
func (g *Grid) Listeners() int {
	if a := g.registry.announced(); a != nil {
		return len(a.regs)
	}
	return 0
}
