package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"gridnode/engine"
)

// Why a context of a member ends.
var (
	errKilled  = errors.New("killed")
	errDeposed = errors.New("deposed: a newer master was elected")
	errLapsed  = errors.New("the lease lapsed")
	errLeft    = errors.New("left the cluster")
)

// Options say how a [Grid] is to be.
type Options struct {
	Members int           // at the start; at least 1
	Latency time.Duration // of each store operation and call; it also spreads what happens over (fake) time
	Detect  time.Duration // from a member's death to its removal and, if it was master, to the next master
	Output  *Output       // of the jobs; nil: a new one
	Tune    func(*engine.Config)
	Logger  *slog.Logger
	Call    func(from, to string) Fault                  // fault of a call; nil: none
	Txn     func(member string, t engine.Txn) Fault      // fault of a transaction; nil: none
	Down    func(member string) bool                     // the store cannot be reached; nil: never
	OnTxn   func(member string, t engine.Txn, done bool) // sees every transaction that was run; nil: nothing
}

// Fault is what happens to a call or a transaction.
type Fault int

// The faults.
const (
	NoFault    Fault = iota
	LostBefore       // it does not run; the caller cannot know
	LostAfter        // it runs; the caller cannot know
	LostLate         // it runs some time after the caller was told that the outcome is unknown; of transactions only
	Refused          // it does not run, and the caller knows
)

// Grid is a cluster in one process, over one [MemStore].
type Grid struct {
	Store  *MemStore
	Output *Output
	opts   Options

	mu      sync.Mutex
	ctx     context.Context // of Run
	wg      sync.WaitGroup
	members []*node // living or not, in the order of joining
	changed chan struct{}
	master  string
	term    uint64
}

// node is one member.
type node struct {
	g       *Grid
	id      string
	seq     uint64
	svc     *engine.Service
	cancel  context.CancelCauseFunc
	elected chan uint64 // terms to lead

	// guarded by Grid.mu
	dead    bool // does nothing any more
	leaving bool
	removed bool // by agreement
	depose  context.CancelCauseFunc
	alive   context.Context
	lapse   context.CancelCauseFunc
}

// NewGrid returns a grid that does nothing until [Grid.Run].
func NewGrid(opts Options) *Grid {
	if opts.Output == nil {
		opts.Output = NewOutput()
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Grid{Store: NewMemStore(), Output: opts.Output, opts: opts, changed: make(chan struct{})}
}

// Run runs the grid until ctx ends, and joins everything. ready is closed when members and a master are there.
func (g *Grid) Run(ctx context.Context, ready chan<- struct{}) {
	defer g.wg.Wait()
	g.mu.Lock()
	g.ctx = ctx
	g.mu.Unlock()
	for range g.opts.Members {
		g.Join()
	}
	g.elect()
	close(ready)
	<-ctx.Done()
}

// Join starts another member and returns its id.
func (g *Grid) Join() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := &node{g: g, seq: uint64(len(g.members) + 1), elected: make(chan uint64, 100)}
	n.id = fmt.Sprintf("m%d", n.seq)
	n.alive, n.lapse = context.WithCancelCause(context.Background())
	cfg := engine.DefaultConfig()
	cfg.Store = &storeView{n: n}
	cfg.Cluster = n
	cfg.Parse = Parser(g.Output, n.id)
	cfg.Logger = g.opts.Logger.With("member", n.id)
	if g.opts.Tune != nil {
		g.opts.Tune(&cfg)
	}
	svc, err := engine.New(cfg)
	if err != nil {
		panic(err)
	}
	n.svc = svc
	ctx, cancel := context.WithCancelCause(g.ctx)
	n.cancel = cancel
	g.members = append(g.members, n)
	g.supersede()
	g.wg.Go(func() { _ = svc.Run(ctx) })
	g.wg.Go(func() { n.lead(ctx) })
	return n.id
}

// lead leads the terms that this member is elected for, one after the other.
func (n *node) lead(ctx context.Context) {
	for {
		select {
		case term := <-n.elected:
			leadCtx, cancel := context.WithCancelCause(ctx)
			n.g.mu.Lock()
			n.depose = cancel
			if n.g.term != term {
				cancel(errDeposed)
			}
			n.g.mu.Unlock()
			if err := n.svc.Lead(leadCtx, term); err != nil {
				panic(err)
			}
			cancel(nil)
		case <-ctx.Done():
			return
		}
	}
}

func (g *Grid) supersede() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// elect makes the oldest living member that is not master yet the master of the next term; one that is the only candidate leads again.
func (g *Grid) elect() {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.master
	g.master = ""
	var next *node
	for _, n := range g.members {
		if !n.dead && !n.removed && !n.leaving && (next == nil || next.id == old) {
			next = n
		}
		if n.id == old && n.depose != nil {
			n.depose(errDeposed)
		}
	}
	if next == nil {
		return
	}
	g.term++
	g.master = next.id
	next.elected <- g.term
}

// Depose makes another member master; the old one lives on.
func (g *Grid) Depose() { g.elect() }

// Revoke ends the master's leadership and leaves the cluster without a master until [Grid.Depose].
func (g *Grid) Revoke() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.members {
		if n.id == g.master && n.depose != nil {
			n.depose(errDeposed)
		}
	}
	g.master = ""
}

// Master returns the master's id.
func (g *Grid) Master() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.master
}

// Workers returns the ids of the living members that are not master.
func (g *Grid) Workers() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ids []string
	for _, n := range g.members {
		if !n.dead && n.id != g.master {
			ids = append(ids, n.id)
		}
	}
	return ids
}

// Service returns the service of a member.
func (g *Grid) Service(id string) *engine.Service { return g.node(id).svc }

// Any returns the service of a living member that is not master if there is one.
func (g *Grid) Any() *engine.Service {
	if ids := g.Workers(); len(ids) > 0 {
		return g.Service(ids[len(ids)-1])
	}
	return g.Service(g.Master())
}

func (g *Grid) node(id string) *node {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.members, func(n *node) bool { return n.id == id })
	return g.members[i]
}

// Kill cuts a member off from everything at once; after Options.Detect the others agree on it.
func (g *Grid) Kill(id string) {
	n := g.node(id)
	g.mu.Lock()
	n.dead = true
	g.mu.Unlock()
	g.Output.LoseMember(id)
	n.cancel(errKilled)
	g.wg.Go(func() {
		if sleepOrDone(g.ctx, g.opts.Detect) == nil {
			g.remove(n)
		}
	})
}

// Leave takes a member out in good order: it declares that it leaves, waits for its tasks to be moved, hands leadership over, and goes. It returns
// what [engine.Service.Drain] returned.
func (g *Grid) Leave(ctx context.Context, id string) error {
	n := g.node(id)
	g.mu.Lock()
	n.leaving = true
	g.supersede()
	g.mu.Unlock()
	err := n.svc.Drain(ctx)
	if g.Master() == id {
		g.elect()
	}
	g.mu.Lock()
	n.dead = true
	g.mu.Unlock()
	g.Output.LoseMember(id)
	n.cancel(errLeft)
	g.remove(n)
	return err
}

func (g *Grid) remove(n *node) {
	g.mu.Lock()
	n.removed = true
	g.supersede()
	wasMaster := g.master == n.id
	g.mu.Unlock()
	if wasMaster {
		g.elect()
	}
}

// Lapse ends a member's lease for a while; the member stays one.
func (g *Grid) Lapse(id string, d time.Duration) {
	n := g.node(id)
	g.mu.Lock()
	n.lapse(errLapsed)
	g.mu.Unlock()
	g.wg.Go(func() {
		if sleepOrDone(g.ctx, d) != nil {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		n.alive, n.lapse = context.WithCancelCause(context.Background())
	})
}

// Self implements [engine.Cluster].
func (n *node) Self() string { return n.id }

// Members implements [engine.Cluster].
func (n *node) Members() ([]engine.Member, <-chan struct{}) {
	n.g.mu.Lock()
	defer n.g.mu.Unlock()
	var out []engine.Member
	for _, m := range n.g.members {
		if !m.removed {
			out = append(out, engine.Member{ID: m.id, Name: m.id, Worker: true, JoinSeq: m.seq, Leaving: m.leaving})
		}
	}
	return out, n.g.changed
}

// Master implements [engine.Cluster].
func (n *node) Master() (string, uint64, bool) {
	n.g.mu.Lock()
	defer n.g.mu.Unlock()
	return n.g.master, n.g.term, n.g.master != ""
}

// Hopeless implements [engine.Cluster].
func (n *node) Hopeless() error { return nil }

// Alive implements [engine.Cluster].
func (n *node) Alive() context.Context {
	n.g.mu.Lock()
	defer n.g.mu.Unlock()
	return n.alive
}

func (n *node) isDead() bool {
	n.g.mu.Lock()
	defer n.g.mu.Unlock()
	return n.dead
}

// Call implements [engine.Cluster].
func (n *node) Call(ctx context.Context, to string, request []byte) ([]byte, error) {
	fault := NoFault
	if n.g.opts.Call != nil {
		fault = n.g.opts.Call(n.id, to)
	}
	if err := n.delay(ctx); err != nil {
		return nil, err
	}
	peer := n.g.node(to)
	if fault == Refused || peer.isDead() {
		return nil, fmt.Errorf("%w: %s cannot be reached", engine.ErrRetryable, to)
	}
	if fault == LostBefore {
		return nil, fmt.Errorf("%w: no answer of %s", engine.ErrIndeterminate, to)
	}
	ans, err := peer.svc.Serve(ctx, n.id, request)
	if lerr := n.delay(context.WithoutCancel(ctx)); lerr != nil || fault == LostAfter || peer.isDead() || ctx.Err() != nil {
		return nil, fmt.Errorf("%w: no answer of %s", engine.ErrIndeterminate, to)
	}
	return ans, err
}

// delay takes the time of one way, and fails if this member is dead.
func (n *node) delay(ctx context.Context) error {
	err := sleepOrDone(ctx, n.g.opts.Latency)
	if n.isDead() || err != nil {
		return fmt.Errorf("%w: %s is cut off: %v", engine.ErrRetryable, n.id, err)
	}
	return nil
}
