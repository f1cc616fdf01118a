package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"gridnode/clientproto"
	"gridnode/engine"
	"gridnode/engine/catalog"
	"gridnode/engine/checkpointdir"
	"gridnode/engine/config"
	"gridnode/grid"
	"gridnode/grid/cluster"
	"gridnode/grid/transport"
	"gridnode/grid/wire"
	"gridnode/imap"
	"gridnode/partition"
	"gridnode/rest"
)

// Bounds on moving partitions about, so that it does not crowd out what callers want.
const (
	transfers          = 16
	transfersPerMember = 8
)

// life is the node as one member, from joining to leaving or removal.
type life struct {
	node *Node
	self grid.MemberID
	name string
	log  *slog.Logger

	transport *transport.Transport
	cluster   *cluster.Cluster
	host      *partition.Host
	home      *imap.Home
	maps      *imap.Grid
	registry  *imap.Registry
	engine    *engine.Service
	http      *rest.Server
	clients   *clientproto.Server
	httpURL   string

	ctx   context.Context // of run; for handlers
	calls errgroup.Group  // calls of other members being answered
}

// newLife builds all parts and listens; nothing runs yet. On an error nothing is left open.
func newLife(n *Node, self grid.MemberID) (l *life, err error) {
	built := &life{node: n, self: self, name: n.cfg.Name, log: n.log, ctx: context.Background()}
	l = built
	l.calls.SetLimit(maxEngineCalls)
	httpLn, err := listen(n.cfg, n.at)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = httpLn.Close()
			if built.transport != nil { // l is nil by now
				built.transport.Close()
			}
		}
	}()
	l.httpURL = n.cfg.HTTPAdvertise
	if l.httpURL == "" {
		l.httpURL = "http://" + reachable(httpLn.Addr().String(), n.cfg)
	}
	if l.transport, err = l.newTransport(); err != nil {
		return nil, err
	}
	if l.name == "" {
		l.name = selfName(l.transport.AdvertiseAddr())
	}
	if err = l.newCluster(); err != nil {
		return nil, err
	}
	l.home = newHome(n.cfg, l.cluster.View, func(client string, after time.Time) (grid.MemberID, bool) { return l.clients.Where(client, after) })
	l.registry = imap.NewRegistry(self, registryMembers{l}).WithConfigs(n.cfg.Maps)
	l.host = partition.NewHost(partition.Config{
		Self: self, View: l.cluster, Proposer: l.cluster, Caller: l.transport, Leased: l.cluster.LeaseValid,
		NewStore: l.newStore, Logger: l.component("partition"),
	})
	l.maps = imap.NewAt(guarded{l.host, l.cluster.Quorum}, self).WithRegistry(l.registry).WithLoaders(n.cfg.Loaders)
	if err = l.newEngine(); err != nil {
		return nil, err
	}
	l.clients = clientproto.New(clientproto.Config{
		Self: self, ClusterName: n.cfg.ClusterName, View: l.cluster, Maps: l.maps, Listener: l.transport.ClientListener(),
		Peers:       clientPeers{l},
		Login:       login(n.cfg.ClientUsers),
		Token:       byToken(n.cfg.ClientTokens),
		Comparators: n.cfg.Comparators,
		Logger:      l.component("clients"),
	})
	l.http, err = rest.New(rest.Config{
		Listener: httpLn, Jobs: l.engine, Maps: restMaps{l.maps}, Grid: restGrid{l}, Logger: l.component("rest"),
		Collectors: []prometheus.Collector{newMapCollector(l)},
	})
	return l, err
}

func (l *life) component(name string) *slog.Logger {
	return l.log.With("component", name, "member", l.name)
}

func (l *life) newTransport() (*transport.Transport, error) {
	cfg := l.node.cfg
	var t *transport.Transport
	err := tryPorts(cfg.Bind, l.node.at.grid, cfg.GridPortAuto, func(addr string) (err error) {
		t, err = transport.New(transport.Config{
			Network: cfg.Network, Bind: addr, Advertise: cfg.Advertise, Self: l.self, ClusterName: cfg.ClusterName,
			Logger: l.log.With("member", l.name),
		})
		return err
	})
	return t, err
}

func (l *life) newCluster() error {
	cfg := l.node.cfg
	roles := agreedRoles(cfg.Roles)
	c := cluster.DefaultConfig()
	c.Self = grid.Member{
		ID: l.self, Name: l.name, Address: l.transport.AdvertiseAddr(), HTTP: l.httpURL, Roles: roles, Attributes: cfg.Attributes,
		Slots: cfg.Engine.slots(),
	}
	c.ClusterName, c.Seeds, c.Expect = cfg.ClusterName, cfg.Join, cfg.Expect
	c.Partitions, c.Backups = cfg.Partitions, cfg.BackupCount
	c.Heartbeat, c.Lease, c.SessionTimeout, c.LossPatience = cfg.HeartbeatInterval, cfg.Lease, cfg.SessionTimeout, cfg.LossPatience
	c.Transport, c.Logger = l.transport, l.log
	c.Learned = func() uint64 { return l.host.Learned() }
	c.OnMaster = []func(context.Context, uint64) error{
		l.plan,
		func(ctx context.Context, term uint64) error { return l.engine.Lead(ctx, term) },
	}
	if cfg.Discover && len(cfg.Join) == 0 {
		c.Discover, c.Seeds = true, discoverSeeds(c.Self.Address)
	}
	if met := l.node.metBefore(); len(met) > 0 {
		c.Discover, c.Seeds = false, slices.Concat(met, c.Seeds)
	}
	var err error
	l.cluster, err = cluster.New(c)
	return err
}

// discoverSeeds are the places on this machine where other members may be.
func discoverSeeds(self string) []string {
	if !Loopback(self) {
		return nil
	}
	seeds := make([]string, 0, DiscoverPorts)
	for i := range DiscoverPorts {
		seeds = append(seeds, net.JoinHostPort("127.0.0.1", strconv.Itoa(DefaultGridPort+i)))
	}
	return seeds
}

func (l *life) newEngine() error {
	cfg, cat := l.node.cfg.Engine, catalog.New()
	c := engine.DefaultConfig()
	c.Store, c.Logger = engineStore{l.maps}, l.component("engine")
	c.Cluster = engineCluster{self: l.self, cluster: l.cluster, transport: l.transport}
	c.Parse = func(body []byte) (*config.Job, error) { return config.Parse(body, cat) }
	c.StateCleanupDelay, c.HistoryTTL, c.HistoryMax = cfg.StateCleanupDelay, cfg.HistoryJobExpire, cfg.HistoryMax
	c.DynamicSlot, c.SlotNum = cfg.DynamicSlot, cfg.SlotNum
	c.ScheduleStrategy = engine.ScheduleStrategy(cfg.JobScheduleStrategy)
	c.Checkpoint = engine.CheckpointConfig{Interval: cfg.CheckpointInterval, Timeout: cfg.CheckpointTimeout, MaxRetained: cfg.CheckpointRetained}
	if cfg.CheckpointStorage == StorageLocalFile {
		files, err := checkpointdir.New(cfg.CheckpointNamespace)
		if err != nil {
			return err
		}
		c.Checkpoint.Storage = files
	}
	var err error
	l.engine, err = engine.New(c)
	return err
}

// newHome returns what the stores of this member have in common.
func newHome(cfg Config, view func() (*grid.State, <-chan struct{}), where imap.Where) *imap.Home {
	spread := func() (members, partitions int) {
		s, _ := view()
		for _, m := range s.Members {
			if m.Has(grid.RoleData) {
				members++
			}
		}
		return members, len(s.Partitions)
	}
	return imap.NewHome(imap.HomeConfig{
		Maps: cfg.Maps, MaxBytes: int64(cfg.MapMemoryLimitMB) << 20, Spread: spread, Processors: cfg.Processors, Interceptors: cfg.Interceptors,
		Where: where,
	})
}

func (l *life) newStore(p grid.PartitionID) partition.Store {
	s := store{l.home.NewStore(func(v uint64) uint64 { return partition.Version(v).Seq() })}
	s.Attach(p, l.registry)
	return s
}

// store joins imap's store and the partition's idea of one.
type store struct{ *imap.Store }

func (s store) Execute(op grid.Op, v partition.Version, now time.Time) partition.Outcome {
	return partition.Outcome(s.Store.Do(op, uint64(v), now))
}

func (s store) Apply(effect []byte, v partition.Version, now time.Time) ([]string, error) {
	return s.Store.Apply(effect, uint64(v), now)
}

// plan moves partitions while this member is master, until ctx ends.
func (l *life) plan(ctx context.Context, _ uint64) error {
	return l.host.Rebalance(ctx, partition.Limits{
		Transfers: transfers, PerMember: transfersPerMember, ReviveLost: l.node.cfg.OnPartitionLoss == LossEmpty,
	})
}

var errStopped = errors.New("stopped")

// ErrCrash, as the cause with which Run's context is cancelled, makes the node stop without leaving, as if its process had been killed.
var ErrCrash = errors.New("crash")

// run is a member until ctx ends or the member is removed. Parts stop in the reverse order of what they need of each other: the doors, the
// engine, the partitions, the cluster, the connections.
func (l *life) run(ctx context.Context) error {
	l.transport.Handle(wire.EngineCall, l.serveEngine)
	l.transport.Handle(wire.SystemInfo, l.serveSystemInfo)
	l.transport.Handle(wire.Registry, l.serveRegistry)
	l.transport.Handle(wire.ClientAsk, l.serveClientAsk)
	l.host.Register(registrar{l.transport})
	base := context.WithoutCancel(ctx)
	all, stopAll := context.WithCancelCause(base)
	defer stopAll(errStopped)
	l.ctx = all

	net := begin(base, "transport", l.transport.Run)
	clu := begin(base, "cluster", l.cluster.Run)
	host := begin(base, "partitions", l.host.Run)
	reg := begin(base, "registry", l.registry.Run)
	eng := begin(base, "engine", l.engine.Run)
	door := begin(base, "rest", l.http.Run)
	clients := begin(base, "clients", l.clients.Run)
	parts := []*part{door, clients, eng, reg, host, clu, net}

	ready := begin(base, "ready", l.awaitReady)
	var err error
	orderly := false
	select {
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), ErrCrash) {
			l.leave(base, door)
			orderly = true
		}
	case p := <-firstEnded(parts):
		err = p.err
		if err == nil {
			err = fmt.Errorf("%s ended by itself", p.name)
		}
	}
	ready.stop()
	if !orderly { // no request can succeed here any more, so none is waited for
		l.http.End(cmp.Or(err, errStopped))
	}
	l.transport.Refuse() // else a client that is let go would come back here first, and be let go again
	stopAll(errStopped)
	door.stop()
	clients.stop()
	eng.stop()
	_ = l.calls.Wait()
	for _, p := range parts[3:] {
		p.stop()
	}
	return err
}

func (l *life) awaitReady(ctx context.Context) error {
	for {
		ready := true
		for _, c := range (restGrid{l}).Checks() {
			ready = ready && c.OK
		}
		if ready {
			l.node.setReady()
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

// leave hands over what this member holds. It keeps working meanwhile, and serves at its door as long as it can answer: a request that came in
// after the removal would wait in vain, and the end of the member for it.
func (l *life) leave(base context.Context, door *part) {
	ctx, cancel := context.WithTimeout(base, l.node.cfg.LeaveTimeout)
	defer cancel()
	l.drain(ctx)
	err := l.cluster.HandOver(ctx)
	if err == nil {
		door.stop()
		err = l.cluster.Leave(ctx)
	}
	if err != nil {
		l.log.Warn("left without handing everything over", "error", err)
	}
}

// drain waits until the master has had this member's tasks started elsewhere, for at most half of the time that is left: the other half is for
// the partitions, which move meanwhile.
func (l *life) drain(ctx context.Context) {
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Until(deadline)/2)
	defer cancel()
	err := l.cluster.DeclareLeaving(ctx)
	if err == nil {
		err = l.engine.Drain(ctx)
	}
	if err != nil {
		l.log.Warn("tasks are left behind", "error", err)
	}
}

// registrar fits the transport to what partition declares.
type registrar struct{ t *transport.Transport }

func (r registrar) Handle(kind wire.Kind, h func(from grid.MemberID, body []byte, reply func([]byte, error))) {
	r.t.Handle(kind, h)
}

func selfName(addr string) string {
	host, _ := os.Hostname()
	host, _, _ = strings.Cut(host, ".")
	_, port, _ := net.SplitHostPort(addr)
	return host + "-" + port
}
