package partition

import (
	"sync"
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// phase is what a replica does as primary.
type phase uint8

const (
	follower phase = iota // not primary, or not allowed to act as one
	takeover              // primary of a new reign: seals and levels, serves nothing yet
	serving
)

// env is what a replica may do to the world. None of it blocks.
type env interface {
	// send hands a message to the connection of a member; it may be lost.
	send(to grid.MemberID, kind wire.Kind, body []byte)
	// propose hands a change of the table to the master; its fate shows in the table.
	propose(c grid.ReplicaChange)
	// leased reports whether this member may act right now.
	leased() bool
	// isMember reports whether the newest view has the member.
	isMember(m grid.MemberID) bool
	// mayAct reports whether by the newest view the member may still act on an older one: it is there, and not suspended. A suspended member
	// gets no lease before it knows the view that suspended it.
	mayAct(m grid.MemberID) bool
	newStore() Store
	event(name string, p grid.PartitionID, e grid.Epoch, args ...any)
}

// peer is what a primary knows of another replica. It is forgotten at every takeover.
type peer struct {
	acked    uint64 // it holds all effects up to this one
	sealed   bool   // takeover: it has adopted this reign's epoch
	level    bool   // takeover: it holds exactly what the primary holds
	holdsSeq uint64 // takeover: what it reported when sealed
	holds    grid.Epoch
	born     grid.Epoch

	copy       *outCopy // a full copy under way
	joining    bool     // not in-sync: being brought up
	required   bool     // a joiner whose acks are waited for
	proposed   bool     // a joiner that has been proposed as in-sync in this epoch
	proposedAt time.Time
	sentAt     time.Time // when something that wants an answer was last sent
	silent     time.Time // since when it owes an answer; zero: it does not
}

// outCopy is a full copy on its way to a peer: first the pieces of the store's content, then those of the table of calls.
type outCopy struct {
	id      uint64
	seq     uint64
	last    grid.Epoch
	content int // pieces of the content
	piece   func(i int, now time.Time) []byte
	calls   [][]byte
	sizes   []int // of the pieces that were encoded
	next    int   // pieces acknowledged
	sent    int   // pieces sent
}

// of is how many pieces there are. Of nothing there is one, with nothing in it.
func (c *outCopy) of() int { return max(1, c.content+len(c.calls)) }

func (c *outCopy) encoded(i int, now time.Time) (b []byte) {
	switch {
	case i < c.content:
		b = c.piece(i, now)
	case i < c.content+len(c.calls):
		b = c.calls[i-c.content]
	}
	if i == len(c.sizes) {
		c.sizes = append(c.sizes, len(b))
	}
	return b
}

// arrived takes note of the pieces before next, and returns how many bytes are new in them.
func (c *outCopy) arrived(next int) (bytes int64) {
	for _, n := range c.sizes[c.next:next] {
		bytes += int64(n)
	}
	c.next = next
	return bytes
}

// inCopy is a full copy being received; it is staged beside the old data.
type inCopy struct {
	from  grid.MemberID
	id    uint64
	next  int
	store Store // nil, like calls, once it has been swapped in
	calls *outcomes
}

// waiter is an answer that waits for the commit of seq.
type waiter struct {
	seq   uint64
	wrote bool
	reply []byte
	err   error
	done  func([]byte, error)
}

// replica is one member's copy of one partition, whatever its role. All methods are called under mu, except those of the exported kind
// (execute, learn, tick, handle…), which take it and run the answers that became due after releasing it.
type replica struct {
	id   grid.PartitionID
	self grid.MemberID
	env  env

	mu    sync.Mutex // guards all below; held for short, never across anything that waits
	due   []func()   // answers to run after mu is released
	store Store
	calls *outcomes
	log   ring
	known grid.Epoch     // highest epoch met, in the table or in a message
	row   grid.Partition // newest row of the table that was learned
	born  grid.Epoch     // birth of the data held
	ackAt grid.Epoch     // the epoch at which this backup last acknowledged ...
	acked uint64         // ... and up to where: a copy at that epoch never takes it back behind
	in    *inCopy

	phase       phase
	reign       grid.Epoch
	committed   uint64
	peers       map[grid.MemberID]*peer
	need        map[grid.MemberID]bool // takeover: to be sealed
	waiters     []waiter               // in the order of their coming
	parked      []parked               // in the order of their coming
	woken       []string               // what parked operations wait for and effects of this turn have brought
	drain       *draining
	copies      uint64 // numbers outgoing copies
	copiedBytes int64  // of them that have arrived
	forgotAt    time.Time
	askedAt     time.Time
	startedAt   time.Time // of the takeover
}

// draining is a planned hand-over under way: no new operation starts, and once all is committed the change is proposed.
type draining struct {
	to       grid.MemberID
	until    time.Time
	proposed bool
}

func newReplica(id grid.PartitionID, self grid.MemberID, e env) *replica {
	return &replica{id: id, self: self, env: e, store: e.newStore(), calls: newOutcomes()}
}

// do runs f under the lock and then, without it, the answers that became due.
func (r *replica) do(f func()) {
	r.mu.Lock()
	f()
	r.wake()
	due := r.due
	r.due = nil
	r.mu.Unlock()
	for _, d := range due {
		d()
	}
}

func (r *replica) answer(done func([]byte, error), reply []byte, err error) {
	r.due = append(r.due, func() { done(reply, err) })
}

// seq is the number of the last applied effect.
func (r *replica) seq() uint64 { s, _ := r.log.last(); return s }

// isPrimary reports whether this member may act as primary of the epoch that it has learned.
func (r *replica) isPrimary() bool { return r.phase != follower && r.known == r.row.Epoch }

// adopt takes note of an epoch met in a message. A primary stops at once: somebody else is taking over, or has.
func (r *replica) adopt(e grid.Epoch) {
	if e <= r.known {
		return
	}
	r.known, r.in = e, nil
	r.stepDownIfPrimary()
}

// stepDown ends the primary's role. Waiting writes may or may not survive; waiting reads did not run.
func (r *replica) stepDown() {
	for _, w := range r.waiters {
		if w.wrote {
			r.answer(w.done, nil, grid.ErrIndeterminate)
		} else {
			r.answer(w.done, nil, grid.ErrNotPrimary)
		}
	}
	for _, p := range r.parked {
		r.answer(p.done, nil, grid.ErrNotPrimary)
	}
	r.phase, r.waiters, r.parked, r.peers, r.need, r.drain, r.reign = follower, nil, nil, nil, nil, nil, 0
}

// wipe forgets all data: it was never this replica's, or is worth nothing any more.
func (r *replica) wipe() {
	r.store, r.calls = r.env.newStore(), newOutcomes()
	r.log.reset(0, 0)
	r.in, r.ackAt, r.acked = nil, 0, 0
}

// learn takes a row of the table. Rows may be skipped, never repeated or reordered.
func (r *replica) learn(row grid.Partition, now time.Time) {
	r.do(func() {
		old := r.row
		if row.Epoch < old.Epoch || row.Epoch == old.Epoch && sameMembers(row.Joining, old.Joining) {
			r.takeoverStep(now) // a member that was waited for may be gone
			return
		}
		r.row = row
		if row.Epoch == old.Epoch {
			if r.isPrimary() && r.phase == serving {
				r.joiners(false)
				r.advance()
			}
			return
		}
		r.newEpoch(row, now)
	})
}

// newEpoch takes on the role that a row of a new epoch gives this member.
func (r *replica) newEpoch(row grid.Partition, now time.Time) {
	holds := row.InSync(r.self) || row.IsJoining(r.self)
	if row.Born != r.born {
		if r.born != 0 && row.Born > r.born {
			r.env.event("partition started empty", r.id, row.Epoch)
		}
		if row.Born > r.born {
			r.wipe()
			r.born = row.Born
		}
	}
	if row.Epoch < r.known { // a later epoch has been met already: whatever this row says has passed
		r.stepDownIfPrimary()
		return
	}
	if row.Epoch > r.known {
		r.known, r.in = row.Epoch, nil
	}
	switch {
	case row.Primary() != r.self:
		r.stepDownIfPrimary()
		if !holds && row.Epoch > r.ackAt { // data that came at this very epoch belongs to a join that a later row tells of
			r.wipe()
		}
	case r.phase != follower && r.reign == row.Reign:
		r.sameReign(now)
	default:
		r.stepDownIfPrimary()
		r.startTakeover(now)
	}
}

func (r *replica) stepDownIfPrimary() {
	if r.phase != follower {
		r.stepDown()
	}
}

// sameReign goes on as primary at a new epoch.
func (r *replica) sameReign(now time.Time) {
	if d := r.drain; d != nil {
		r.drain = nil // the hand-over lost to another change
	}
	for m, p := range r.peers {
		p.proposed = false
		if !r.row.InSync(m) && !r.row.IsJoining(m) && !r.need[m] {
			delete(r.peers, m)
		}
	}
	if r.phase == takeover {
		r.addNeed()
		for _, p := range r.peers {
			p.level, p.copy = false, nil
		}
		r.takeoverStep(now)
		return
	}
	for _, m := range r.row.Replicas {
		if p := r.peers[m]; p != nil {
			p.joining, p.required = false, false
			p.copy = nil // copies of the old epoch are refused now
			p.sentAt = time.Time{}
		} else if m != r.self {
			r.peers[m] = &peer{}
		}
	}
	r.joiners(true)
	r.resend(now)
	r.advance()
}

func sameMembers(a, b []grid.MemberID) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
