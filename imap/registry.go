package imap

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gridnode/grid"
	"gridnode/imap/query"
)

// Members is how the members' registries reach each other.
type Members interface {
	// View is the newest agreed state that this member has applied, and a channel that is closed when it is superseded.
	View() (*grid.State, <-chan struct{})
	// Ask sends a message to another member's [Registry.Serve] and calls done once with the answer, from any goroutine. It does not block;
	// without an answer done may be late, or never called.
	Ask(to grid.MemberID, body []byte, done func([]byte, error))
}

// Pacing of a registry.
const (
	registryTick  = 50 * time.Millisecond
	progressTicks = 4 // ticks between two reports of progress
	announceAgain = time.Second
	localRounds   = 16          // messages to a listener of this member before others get their turn
	strangerFor   = time.Minute // how long registrations of somebody are kept who is not a member yet
	maxNamedMaps  = 1 << 12
)

// announced is what this member knows: all registrations and indexes. It is never changed.
type announced struct {
	regs    map[regID]*registration
	byMap   map[string][]*registration
	indexes indexDefs
	schemas *query.Schemas
}

// announcement is what a member tells the others, whole each time: its own registrations, and all indexes and schemas that it knows of. A higher
// version replaces a lower one; schemas are only ever added.
type announcement struct {
	Version uint64
	Regs    []wireReg
	Indexes []wireIndex
	Schemas []wireSchema
	Heeds   bool // it has listeners that heed marks
	Clock   uint64
	Dropped []wireDrop
}

type wireIndex struct {
	Map    string
	Config IndexConfig
	At     uint64
}

// wireDrop says that all indexes of a map that were added at that time or before are gone.
type wireDrop struct {
	Map string
	At  uint64
}

type wireSchema struct {
	Type   string
	Fields []query.Field
}

// registryMsg is a message between registries; one part of it is set.
type registryMsg struct {
	Announce *announcement
	Events   *eventsMsg
	Marks    []mark
}

// owner is another member's part.
type owner struct {
	version uint64
	regs    map[uint64]*registration
	heeds   bool // it is told marks
	member  bool // it has been seen as a member
	since   time.Time
}

// told is how far another member knows this one's announcement.
type told struct {
	known, asked uint64
	at           time.Time
}

// Registry is what a member knows of listeners and indexes, its own and others'. It tells the others of its own, the listeners of changes, and
// forgets those of members that are gone.
type Registry struct {
	self    grid.MemberID
	members Members
	now     atomic.Pointer[announced]
	wake    chan struct{} // one token: there is something to do
	marks   marks
	before  map[grid.PartitionID]attendReply // of Run alone: what moved before the last report of progress

	indexStep int              // entries that one query takes into indexes; set once
	configs   table[MapConfig] // of maps, for their indexes; set once

	mu      sync.Mutex // guards what follows; never held while another lock is taken but an inbox's or outbox's
	version uint64
	next    uint64 // id of the next listener
	own     map[uint64]*registration
	inboxes map[uint64]*inbox
	heeders int // how many of them heed marks
	owners  map[grid.MemberID]*owner
	told    map[grid.MemberID]*told
	indexes indexDefs
	clock   uint64             // a logical one: later than all that it has heard of
	dropped map[string]dropped // indexes that are gone, until all members know that
	known   *query.Schemas
	changed chan struct{} // closed, and replaced, when a member has come to know more
	ended   bool
	wg      sync.WaitGroup // one for each inbox; wg.Go only under mu, while not ended
}

// NewRegistry returns a registry that knows nothing. It works while [Registry.Run] runs.
func NewRegistry(self grid.MemberID, members Members) *Registry {
	r := &Registry{
		self: self, members: members, indexStep: examined, configs: newTable[MapConfig](nil, &noConfig), wake: make(chan struct{}, 1), own: map[uint64]*registration{}, inboxes: map[uint64]*inbox{},
		owners: map[grid.MemberID]*owner{}, told: map[grid.MemberID]*told{}, changed: make(chan struct{}),
	}
	r.now.Store(&announced{})
	return r
}

// WithRegistry makes listeners and indexes available. It returns g, and must be called before g is used.
func (g *Grid) WithRegistry(r *Registry) *Grid {
	g.registry = r
	return g
}

// announced returns what is known; nil without a registry.
func (r *Registry) announced() *announced {
	if r == nil {
		return nil
	}
	return r.now.Load()
}

// rebuild publishes what is known. It is called under mu.
func (r *Registry) rebuild() {
	a := &announced{regs: map[regID]*registration{}, byMap: map[string][]*registration{}, indexes: r.indexes, schemas: r.known}
	add := func(regs map[uint64]*registration) {
		for _, n := range slices.Sorted(maps.Keys(regs)) {
			reg := regs[n]
			a.regs[reg.id] = reg
			a.byMap[reg.wire.Map] = append(a.byMap[reg.wire.Map], reg)
		}
	}
	add(r.own)
	for _, o := range r.owners {
		add(o.regs)
	}
	old := r.now.Swap(a)
	for id, reg := range old.regs {
		if a.regs[id] == nil {
			reg.out.close()
		}
	}
	r.signal()
}

func (r *Registry) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// listen adds a listener of this member; the version is what the others have to know then.
func (r *Registry) listen(reg *registration, queue int, fn func(Event)) (*inbox, uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, 0, grid.ErrClosed
	}
	if len(r.own) == MaxListeners {
		return nil, 0, fmt.Errorf("%w: this member has %d listeners already", grid.ErrTooLarge, MaxListeners)
	}
	r.next++
	reg.id.n, reg.wire.N = r.next, r.next
	in := newInbox(reg, queue, fn)
	r.own[r.next], r.inboxes[r.next] = reg, in
	if reg.heeds {
		r.heeders++
	}
	if !reg.local || reg.heeds && r.heeders == 1 {
		r.version++
	}
	r.wg.Go(in.run)
	r.rebuild()
	return in, r.version, nil
}

func (r *Registry) unlisten(in *inbox) {
	in.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own[in.reg.id.n] != in.reg {
		return
	}
	delete(r.own, in.reg.id.n)
	delete(r.inboxes, in.reg.id.n)
	if in.reg.heeds {
		r.heeders--
	}
	if !in.reg.local || in.reg.heeds && r.heeders == 0 {
		r.version++
	}
	r.rebuild()
}

// DefineIndexes adds indexes on every member; the others learn of them in time.
func (r *Registry) DefineIndexes(mapName string, list ...IndexConfig) error {
	_, err := r.addIndexes(mapName, list)
	return err
}

func (r *Registry) addIndexes(name string, list []IndexConfig) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cfg := range list {
		if def := r.indexes[name]; def != nil && slices.ContainsFunc(def.list, func(c IndexConfig) bool { return c.Key() == cfg.Key() }) {
			continue
		}
		r.clock++
		if err := r.addIndexesLocked(name, []IndexConfig{cfg}, r.clock); err != nil {
			return r.version, err
		}
	}
	return r.version, nil
}

func (r *Registry) addIndexesLocked(name string, list []IndexConfig, at uint64) error {
	before := len(r.indexes)
	var had *indexDef
	if had = r.indexes[name]; had == nil && before == maxNamedMaps {
		return fmt.Errorf("%w: %d maps have indexes already", grid.ErrTooLarge, maxNamedMaps)
	}
	next := r.indexes
	for _, cfg := range list {
		var err error
		if next, err = next.with(name, cfg, at); err != nil {
			return err
		}
	}
	if next[name] != had {
		r.indexes = next
		r.version++
		r.rebuild()
	}
	return nil
}

// awaitKnown waits until every member knows that version of what this one announces.
func (r *Registry) awaitKnown(ctx context.Context, version uint64) error {
	for {
		s, newer := r.members.View()
		r.mu.Lock()
		missing := ""
		for _, m := range s.Members {
			known := uint64(0)
			if t := r.told[m.ID]; t != nil {
				known = t.known
			}
			if m.ID != r.self && known < version {
				missing = m.Name
			}
		}
		changed := r.changed
		r.mu.Unlock()
		switch {
		case !s.Formed():
			missing = "this member: it has not joined"
		case missing == "":
			return nil
		}
		select {
		case <-changed:
		case <-newer:
		case <-ctx.Done():
			return fmt.Errorf("%w: not every member knows of it yet: %s", grid.ErrNotReady, missing)
		}
	}
}

// Serve takes another member's message. It does not block.
func (r *Registry) Serve(from grid.MemberID, body []byte) ([]byte, error) {
	m, err := decode[registryMsg](body)
	switch {
	case err != nil:
		return nil, err
	case m.Announce != nil:
		return nil, r.learn(from, *m.Announce)
	case m.Events != nil:
		r.deliver(from, *m.Events)
		return nil, nil
	case m.Marks != nil:
		return nil, r.heed(m.Marks)
	}
	return nil, fmt.Errorf("%w: a message of no kind", grid.ErrBadMessage)
}

// deliver hands events to the listener they are for; if it is gone, nobody misses them.
func (r *Registry) deliver(from grid.MemberID, m eventsMsg) {
	r.mu.Lock()
	in := r.inboxes[m.Listener]
	r.mu.Unlock()
	if in != nil {
		in.receive(from, m, time.Now())
	}
}

// learn takes what another member announces. What cannot be understood of it is refused as a whole.
func (r *Registry) learn(from grid.MemberID, a announcement) error {
	if len(a.Regs) > MaxListeners || len(a.Indexes) > maxNamedMaps*MaxIndexes || len(a.Dropped) > maxNamedMaps || len(a.Schemas) > query.MaxSchemas {
		return fmt.Errorf("%w: an announcement of %d listeners, %d indexes and %d schemas", grid.ErrTooLarge, len(a.Regs), len(a.Indexes), len(a.Schemas))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return grid.ErrClosed
	}
	o := r.owners[from]
	if o == nil {
		o = &owner{since: time.Now()}
	}
	if from == r.self || a.Version <= o.version {
		return nil
	}
	regs := make(map[uint64]*registration, len(a.Regs))
	for _, w := range a.Regs {
		if reg := o.regs[w.N]; reg != nil {
			regs[w.N] = reg // an id is never used twice
			continue
		}
		reg, err := w.compile(from)
		if err != nil {
			return err
		}
		regs[w.N] = reg
	}
	if err := r.learnIndexes(a); err != nil {
		return err
	}
	if err := r.learnSchemas(a.Schemas); err != nil {
		return err
	}
	o.version, o.regs, o.heeds = a.Version, regs, a.Heeds
	r.owners[from] = o
	r.rebuild()
	return nil
}
