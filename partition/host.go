package partition

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// View is the newest agreed state that this member has applied, and a channel that is closed when it is superseded.
type View interface {
	View() (*grid.State, <-chan struct{})
}

// Proposer changes the agreed state. nil means that the command is in the log; a command that did not fit is an error of kind Definite.
type Proposer interface {
	Propose(ctx context.Context, c grid.Command) error
}

// Caller reaches other members. Neither method blocks.
type Caller interface {
	// Request sends a request and calls done once with the answer, from any goroutine.
	Request(to grid.MemberID, kind wire.Kind, body []byte, done func([]byte, error))
	// Send hands a message to the connection; it may be lost, and arrives in order while the connection lives.
	Send(to grid.MemberID, kind wire.Kind, body []byte) error
}

// Registrar takes the handlers of this package's messages; a handler must not block. The transport is one.
type Registrar interface {
	Handle(kind wire.Kind, h func(from grid.MemberID, body []byte, reply func([]byte, error)))
}

// Config is what a [Host] needs. All fields are required, but Logger.
type Config struct {
	Self     grid.MemberID
	View     View
	Proposer Proposer
	Caller   Caller
	Leased   func() bool // whether this member may act right now; called often
	NewStore func(p grid.PartitionID) Store
	Logger   *slog.Logger
}

const (
	tickEvery     = 25 * time.Millisecond
	proposeQueue  = 4096
	proposeBatch  = 64
	proposeBudget = 3 * time.Second
	scanReply     = 2 << 20 // bytes of answers after which a member leaves the remaining partitions for the next call
)

// Host owns the replicas of this member.
type Host struct {
	cfg     Config
	log     *slog.Logger
	state   atomic.Pointer[hosted]
	props   chan grid.ReplicaChange
	learned atomic.Uint64 // see Learned
	scans   chan struct{} // tokens: scans running for others
	tasks   tasks
	calls   calls
	lone    *cutOff
	owed    owed
	ctx     context.Context // of Run; ends the goroutines that handlers start
	stop    context.CancelCauseFunc
}

// hosted is an immutable picture: the state, and the replicas in the order of their partitions.
type hosted struct {
	state    *grid.State
	members  map[grid.MemberID]bool // false: it is suspended
	replicas []*replica
}

// NewHost returns a host that owns nothing yet.
func NewHost(cfg Config) *Host {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h := &Host{cfg: cfg, log: log, props: make(chan grid.ReplicaChange, proposeQueue), scans: make(chan struct{}, 2), lone: newCutOff()}
	h.ctx, h.stop = context.WithCancelCause(context.Background())
	h.state.Store(&hosted{state: &grid.State{}})
	return h
}

// Register hands the host's message handlers to the transport. It is called once, before either runs.
func (h *Host) Register(r Registrar) {
	oneWay(h, r, wire.Effects, (*replica).effects)
	oneWay(h, r, wire.Ack, (*replica).ack)
	oneWay(h, r, wire.Sealed, (*replica).sealed)
	oneWay(h, r, wire.Snapshot, (*replica).takePiece)
	oneWay(h, r, wire.Copied, (*replica).copied)
	oneWay(h, r, wire.Seal, func(rep *replica, from grid.MemberID, m sealMsg, _ time.Time) { rep.seal(from, m) })
	oneWay(h, r, wire.Instruct, func(rep *replica, _ grid.MemberID, m instructMsg, now time.Time) { rep.instruct(m, now) })
	r.Handle(wire.Invoke, h.serveInvoke)
	r.Handle(wire.InvokeMany, h.serveMany)
}

// addressed is a message to one partition's replica.
type addressed interface{ partition() grid.PartitionID }

func (m effectsMsg) partition() grid.PartitionID  { return m.Partition }
func (m ackMsg) partition() grid.PartitionID      { return m.Partition }
func (m sealMsg) partition() grid.PartitionID     { return m.Partition }
func (m sealedMsg) partition() grid.PartitionID   { return m.Partition }
func (m copyMsg) partition() grid.PartitionID     { return m.Partition }
func (m copiedMsg) partition() grid.PartitionID   { return m.Partition }
func (m instructMsg) partition() grid.PartitionID { return m.Partition }

func oneWay[M addressed](h *Host, r Registrar, kind wire.Kind, f func(*replica, grid.MemberID, M, time.Time)) {
	r.Handle(kind, func(from grid.MemberID, body []byte, _ func([]byte, error)) {
		m, err := decode[M](body)
		if err != nil {
			h.log.Warn("malformed message", "from", from, "error", err)
			return
		}
		if rep := h.replica(m.partition()); rep != nil {
			f(rep, from, m, time.Now())
		}
	})
}

// replica returns the replica of a partition, or nil if there is no such partition.
func (h *Host) replica(p grid.PartitionID) *replica {
	s := h.state.Load()
	if p < 0 || int(p) >= len(s.replicas) {
		return nil
	}
	return s.replicas[p]
}

// Run follows the agreed state until ctx ends; then everything that waits has been answered.
func (h *Host) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return h.follow(ctx) })
	g.Go(func() error { return h.ticks(ctx) })
	g.Go(func() error { return h.proposals(ctx) })
	err := g.Wait()
	h.stop(grid.ErrClosed)
	h.tasks.close()
	for _, r := range h.state.Load().replicas {
		r.do(r.stepDownIfPrimary)
	}
	return err
}

func (h *Host) follow(ctx context.Context) error {
	for {
		s, changed := h.cfg.View.View()
		h.apply(s)
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// apply learns a state. It runs on one goroutine only.
func (h *Host) apply(s *grid.State) {
	old := h.state.Load()
	if s == old.state {
		return
	}
	next := &hosted{state: s, members: make(map[grid.MemberID]bool, len(s.Members)), replicas: old.replicas}
	for _, m := range s.Members {
		next.members[m.ID] = m.State != grid.Suspended
	}
	if len(next.replicas) != len(s.Partitions) {
		next.replicas = make([]*replica, len(s.Partitions))
		for i := range next.replicas {
			p := grid.PartitionID(i)
			next.replicas[i] = newReplica(p, h.cfg.Self, hostEnv{h, p})
		}
	}
	h.state.Store(next)
	now := time.Now()
	for i, r := range next.replicas {
		r.learn(s.Partitions[i], now)
	}
	h.learned.Store(s.Index)
}

// Learned is how far in the log all replicas of this member have taken in the agreed state: none of them acts on an older one any more.
func (h *Host) Learned() uint64 { return h.learned.Load() }

func (h *Host) ticks(ctx context.Context) error {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			now := time.Now()
			h.lookForLease(now)
			for _, r := range h.state.Load().replicas {
				r.tick(now)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// proposals sends the replicas' proposals to the master, as many in one command as have come up.
func (h *Host) proposals(ctx context.Context) error {
	for {
		var batch []grid.Command
		select {
		case c := <-h.props:
			batch = append(batch, grid.Command{Replica: &c})
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for more := true; more && len(batch) < proposeBatch; {
			select {
			case c := <-h.props:
				batch = append(batch, grid.Command{Replica: &c})
			default:
				more = false
			}
		}
		pctx, cancel := context.WithTimeout(ctx, proposeBudget)
		if err := h.cfg.Proposer.Propose(pctx, grid.Command{Batch: batch}); err != nil {
			h.log.Debug("proposal", "changes", len(batch), "error", err)
		}
		cancel()
	}
}

// hostEnv is the world of one replica.
type hostEnv struct {
	h *Host
	p grid.PartitionID
}

func (e hostEnv) send(to grid.MemberID, kind wire.Kind, body []byte) {
	_ = e.h.cfg.Caller.Send(to, kind, body) // a lost message is sent again
}

func (e hostEnv) propose(c grid.ReplicaChange) {
	select {
	case e.h.props <- c:
	default: // the replica proposes again
	}
}

func (e hostEnv) leased() bool                  { return e.h.cfg.Leased() }
func (e hostEnv) isMember(m grid.MemberID) bool { _, ok := e.h.state.Load().members[m]; return ok }
func (e hostEnv) mayAct(m grid.MemberID) bool   { return e.h.state.Load().members[m] }
func (e hostEnv) newStore() Store               { return e.h.cfg.NewStore(e.p) }
func (e hostEnv) event(name string, p grid.PartitionID, ep grid.Epoch, args ...any) {
	e.h.log.Debug(name, append([]any{"partition", int(p), "epoch", uint64(ep)}, args...)...)
}

// serveInvoke runs another member's operation; it does so on the connection's own goroutine.
func (h *Host) serveInvoke(_ grid.MemberID, body []byte, reply func([]byte, error)) {
	m, err := decode[invokeMsg](body)
	if err != nil {
		reply(nil, err)
		return
	}
	h.execute(m.Partition, call{op: grid.RawOp(m.Op), req: m.Request, wait: m.Wait}, reply)
}

func (h *Host) execute(p grid.PartitionID, c call, done func([]byte, error)) {
	r := h.replica(p)
	if r == nil {
		done(nil, grid.ErrNotReady)
		return
	}
	r.execute(c, time.Now(), done)
}

// serveMany runs an operation on several partitions. It may take long, so it leaves the connection's goroutine.
func (h *Host) serveMany(_ grid.MemberID, body []byte, reply func([]byte, error)) {
	m, err := decode[invokeManyMsg](body)
	if err != nil {
		reply(nil, err)
		return
	}
	if len(m.Partitions) > grid.MaxPartitions {
		reply(nil, fmt.Errorf("%w: %d partitions", grid.ErrTooLarge, len(m.Partitions)))
		return
	}
	started := h.tasks.start(func() {
		select {
		case h.scans <- struct{}{}:
			defer func() { <-h.scans }()
			reply(encode(h.many(h.ctx, m)), nil)
		case <-h.ctx.Done():
			reply(nil, grid.ErrNotReady)
		}
	})
	if !started {
		reply(nil, grid.ErrNotReady)
	}
}

// tasks are the goroutines that handlers start; none starts after close, which waits for all.
type tasks struct {
	mu     sync.Mutex // guards closed, and that no start overlaps close
	closed bool
	wg     sync.WaitGroup
}

func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Go(f)
	return true
}

func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wg.Wait()
}

// many runs the operation on partition after partition. Those that it did not get to are answered ErrOverloaded.
func (h *Host) many(ctx context.Context, m invokeManyMsg) []manyReply {
	out := make([]manyReply, 0, len(m.Partitions))
	bytes := 0
	for _, p := range m.Partitions {
		rep := manyReply{Partition: p}
		var err error
		if bytes > scanReply {
			err = grid.ErrOverloaded
		} else {
			rep.Reply, err = h.wait(ctx, p, call{op: grid.RawOp(m.Op)})
		}
		if err != nil {
			rep.Code, rep.Text = grid.SentinelOf(err).Code(), err.Error()
		}
		bytes += len(rep.Reply)
		out = append(out, rep)
	}
	return out
}

// wait runs an operation on a local replica and waits for its answer.
func (h *Host) wait(ctx context.Context, p grid.PartitionID, c call) ([]byte, error) {
	type answer struct {
		reply []byte
		err   error
	}
	ch := make(chan answer, 1)
	h.execute(p, c, func(b []byte, err error) { ch <- answer{b, err} })
	select {
	case a := <-ch: // most reads are answered by now, and need nothing of ctx
		return a.reply, a.err
	default:
	}
	select {
	case a := <-ch:
		return a.reply, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %v", grid.ErrIndeterminate, context.Cause(ctx))
	case <-h.alone():
		return nil, fmt.Errorf("%w: %v", grid.ErrIndeterminate, errCutOff)
	}
}
