package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"

	"gridnode/grid"
	"gridnode/grid/transport"
	"gridnode/grid/wire"
)

// ErrRemoved is what [Cluster.Run] returns when the others have removed this member. Its id is used up: to come back, the process starts
// over with a new one.
var ErrRemoved = errors.New("cluster: the other members have removed this one")

// Cluster is this member's part in the agreement of all.
type Cluster struct {
	cfg   Config
	self  grid.Member
	log   *slog.Logger
	t     *transport.Transport
	fsm   *fsm
	lease *lease
	form  *formation

	raft    atomic.Pointer[raft.Raft] // set while Run runs
	group   atomic.Pointer[group]     // likewise; its raft is the one above
	reign   atomic.Pointer[reign]     // set while this member is master
	beats   chan beatResult
	told    atomic.Pointer[beatReply] // the last one that granted a lease
	leaving atomic.Bool

	heard    sync.Map // grid.MemberID -> time.Time: when it last answered a heartbeat; members only
	recovery *recovery
	watched  watched // watchLoop's

	joined   chan struct{}          // closed when this member is active
	forwards chan struct{}          // semaphore: one token per command that is proposed for another member
	gossip   atomic.Pointer[gossip] // set while Run runs

	mu      sync.Mutex // guards what follows; never held while waiting
	stopped bool
	calls   sync.WaitGroup // calls.Go only under mu, while not stopped
}

// view is one state and the notice that it was superseded.
type view struct {
	state      *grid.State
	index      uint64 // of the last entry of raft's log that is in it
	superseded chan struct{}
}

// New prepares a member. It registers its message handlers, so it comes before the transport's Run.
func New(cfg Config) (*Cluster, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	self := cfg.Self
	if self.Address == "" {
		self.Address = cfg.Transport.AdvertiseAddr()
	}
	if self.Name == "" {
		self.Name = self.Address
	}
	c := &Cluster{
		cfg: cfg, self: self, log: cfg.Logger.With("component", "cluster", "member", self.Name), t: cfg.Transport,
		fsm: newFSM(), lease: newLease(cfg.Lease), form: newFormation(cfg, self),
		// A result that finds the channel full is like one that was lost: the next heartbeat is due soon.
		beats: make(chan beatResult, 64), recovery: newRecovery(),
		joined: make(chan struct{}), forwards: make(chan struct{}, maxForwards),
	}
	c.t.Handle(wire.Hello, c.serveHello)
	c.t.Handle(wire.Join, c.serveJoin)
	c.t.Handle(wire.Heartbeat, c.serveBeat)
	c.t.Handle(wire.Confirm, c.serveConfirm)
	c.t.Handle(wire.Propose, c.servePropose)
	c.t.Handle(wire.RecoverAsk, c.serveRecoverAsk)
	c.t.Handle(wire.RecoverDo, c.serveRecoverDo)
	c.t.OnDown(c.connectionDown)
	c.t.ResolveWith(c.Resolve)
	return c, nil
}

// View returns the agreed state as far as this member knows it, and a channel that is closed when there is a newer one. It takes no lock.
func (c *Cluster) View() (*grid.State, <-chan struct{}) {
	v := c.fsm.view.Load()
	return v.state, v.superseded
}

// Self returns this member as it presents itself.
func (c *Cluster) Self() grid.Member { return c.self }

// Joined returns a channel that is closed when this member is an active member.
func (c *Cluster) Joined() <-chan struct{} { return c.joined }

// LeaseValid reports whether this member may act as one right now. It takes no lock.
func (c *Cluster) LeaseValid() bool { return c.lease.valid() }

// Certain reports whether a state is what this member can rely on to tell how the cluster is: it has a lease, the state is no older than what the
// master had when it granted it, and the master then took nobody who may hold replicas for dead or silent.
func (c *Cluster) Certain(s *grid.State) bool {
	told := c.told.Load()
	return c.lease.valid() && told != nil && !told.Doubt && s.Index >= told.Index
}

// LeaseRenewed returns how long ago this member asked for the lease that the master granted it last; ok is false if none ever was. Only a
// master that lives and leads a majority grants, so this is how long that has been certain.
func (c *Cluster) LeaseRenewed() (ago time.Duration, ok bool) { return c.lease.renewed() }

// LeaseContext returns a context that ends, with the cause grid.ErrNoLease, when the present lease lapses. Without a lease it has ended.
func (c *Cluster) LeaseContext() context.Context { return c.lease.context() }

// Master returns who is master, as far as this member knows, and in which term.
func (c *Cluster) Master() (id grid.MemberID, term uint64, ok bool) {
	s, _ := c.View()
	if _, ok := s.Member(s.Master); !ok {
		return "", s.Term, false
	}
	return s.Master, s.Term, true
}

// Resolve returns the address of a member.
func (c *Cluster) Resolve(id grid.MemberID) (addr string, ok bool) {
	if id == c.self.ID {
		return c.self.Address, true
	}
	s, _ := c.View()
	m, ok := s.Member(id)
	return m.Address, ok
}

// Run takes part until ctx ends; the error is nil then, [ErrRemoved] if this member was removed, and otherwise says what made going on
// impossible. When it returns, raft and gossip have ended with all goroutines, but for a probe of memberlist's that ends within a second. It
// must be called once, while the transport runs.
func (c *Cluster) Run(ctx context.Context) error {
	g, err := c.newGroup(nil)
	if err != nil {
		return err
	}
	c.enter(g)
	gsp, err := c.startGossip()
	if err == nil {
		c.gossip.Store(gsp)
		err = c.runGroups(ctx)
		c.gossip.Store(nil)
		c.lease.close()
		gsp.close()
	}
	c.lease.close()
	c.exit()
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.calls.Wait()
	return err
}

// runGroups runs in one raft after the other: there is a next one only after a recovery.
func (c *Cluster) runGroups(ctx context.Context) error {
	for {
		var next *recoveryPlan
		err := c.runLoops(ctx, c.group.Load().raft, &next)
		if !errors.Is(err, errReform) {
			return err
		}
		c.exit()
		g, err := c.newGroup(next)
		if err != nil {
			return err
		}
		c.enter(g)
		c.log.Warn("raft is formed anew from the survivors of a recovery", "members", len(next.Servers), "term", next.Term, "cluster_id", next.State.ClusterID)
	}
}

func (c *Cluster) enter(g *group) {
	c.group.Store(g)
	c.raft.Store(g.raft)
}

// exit ends raft.
func (c *Cluster) exit() {
	c.raft.Store(nil)
	g := c.group.Swap(nil)
	if g == nil {
		return
	}
	if err := g.stop(); err != nil {
		c.log.Warn("raft did not stop cleanly", "error", err)
	}
}

// runLoops runs until ctx ends or one of the loops does; with errReform, next is what raft is to be formed anew from.
func (c *Cluster) runLoops(ctx context.Context, r *raft.Raft, next **recoveryPlan) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.formationLoop(ctx, r) })
	group.Go(func() error { return c.heartbeatLoop(ctx) })
	group.Go(func() error { return c.masterLoop(ctx, r) })
	group.Go(func() error { return c.watchLoop(ctx) })
	group.Go(func() error { return c.reformLoop(ctx, next) })
	return group.Wait()
}

// watched is what watchLoop has seen last. It outlives a recovery, over which members are lost, too.
type watched struct {
	known, active bool // this member, in the agreed state
	members       []grid.Member
	master        grid.MemberID
}

// watchLoop watches this member's own membership, and what becomes of the others.
func (c *Cluster) watchLoop(ctx context.Context) error {
	w := &c.watched
	for {
		s, superseded := c.View()
		me, ok := s.Member(c.self.ID)
		if w.known && !ok && !c.leaving.Load() {
			return ErrRemoved
		}
		w.known = w.known || ok
		if ok && me.State != grid.Joining && !w.active {
			w.active = true
			close(c.joined)
			c.log.Info("joined", "cluster", s.ClusterName, "cluster_id", s.ClusterID, "id", c.self.ID)
			c.logOverruled(s)
		}
		c.logChange(w.members, s.Members)
		c.dropGone(ctx, w.members, s)
		if s.Master != w.master {
			c.log.Info("new master", "id", s.Master, "term", s.Term)
		}
		w.members, w.master = s.Members, s.Master
		select {
		case <-superseded:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *Cluster) logChange(old, now []grid.Member) {
	index := func(list []grid.Member) map[grid.MemberID]bool {
		m := make(map[grid.MemberID]bool, len(list))
		for _, x := range list {
			m[x.ID] = true
		}
		return m
	}
	before, after := index(old), index(now)
	for _, m := range now {
		if !before[m.ID] {
			c.log.Info("member added", "id", m.ID, "name", m.Name, "address", m.Address, "members", len(now))
		}
	}
	for _, m := range old {
		if !after[m.ID] {
			c.log.Info("member gone", "id", m.ID, "name", m.Name, "address", m.Address, "members", len(now))
		}
	}
}

// background runs f in a goroutine that Run waits for; f must end soon after raft has shut down. ok is false when it is too late for that.
func (c *Cluster) background(f func()) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	c.calls.Go(f)
	return true
}

// errNotRunning is what requests get before and after Run.
func errNotRunning() error { return fmt.Errorf("%w: not running", grid.ErrNotJoined) }

// logOverruled says which of this member's settings have no effect, because the cluster was formed with others. A default is no wish.
func (c *Cluster) logOverruled(s *grid.State) {
	standard := DefaultConfig()
	for _, x := range []struct {
		key              string
		here, there, std int
	}{{"partition-count", c.cfg.Partitions, len(s.Partitions), standard.Partitions}, {"backup-count", c.cfg.Backups, s.Backups, standard.Backups}} {
		if x.here != x.there && x.here != x.std {
			c.log.Warn("a setting has no effect: the cluster was formed with another", "setting", x.key, "here", x.here, "cluster", x.there)
		}
	}
}
