package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"gridnode/engine"
	"gridnode/grid"
	"gridnode/grid/cluster"
	"gridnode/grid/transport"
	"gridnode/imap"
)

const (
	engineCallBudget = 30 * time.Second
	maxEngineCalls   = 256
	rejoinAfter      = 500 * time.Millisecond
	maxMet           = 64 // addresses of members met, in this life and those before
)

// Info says who a running member is and where it is reached.
type Info struct {
	Name        string
	MemberID    string // of this life: a member that was removed and comes back has a new one
	GridAddr    string // host:port for members and clients
	HTTPAddr    string // base URL
	ClusterName string
	ClusterID   string
	Members     int
}

// Node is one gridnode process, or a stand-in for one in a test: a member of a cluster with all that a member does.
type Node struct {
	cfg   Config
	log   *slog.Logger
	ready chan struct{} // closed when the node is a member for the first time

	mu   sync.Mutex // guards what follows
	life *life
	seen bool // ready is closed
	at   addresses
	met  []string // where other members were, those of the last life first
}

// addresses are kept from one life to the next.
type addresses struct{ grid, http string }

// New returns a node that is not running yet. It checks the config.
func New(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg.Network == nil {
		cfg.Network = transport.TCP()
	}
	return &Node{cfg: cfg, log: log, ready: make(chan struct{})}, nil
}

// Run is a member until ctx ends; then it leaves the cluster, within the leave timeout, and returns nil. It returns early only with an
// error. A member that the others have removed comes back by itself, as a new and empty member.
func (n *Node) Run(ctx context.Context) error {
	for {
		l, err := n.begin()
		if err != nil {
			return err
		}
		err = l.run(ctx)
		if ctx.Err() != nil || !errors.Is(err, cluster.ErrRemoved) {
			return err
		}
		n.meet(l)
		n.log.Warn("removed by the others: coming back as a new member", "was", l.self)
		select {
		case <-time.After(rejoinAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

// meet keeps where the others of a life were. The next one joins them: it must not form a cluster of its own beside theirs.
func (n *Node) meet(l *life) {
	s, _ := l.cluster.View()
	var now []string
	for _, m := range s.Members {
		if m.ID != l.self {
			now = append(now, m.Address)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.met = newestMet(now, n.met)
}

// newestMet puts where the others are now before where they were in earlier lives, each once, and forgets the oldest beyond a limit: who comes back
// again and again, to members that move, must not ask more and more addresses where nobody is.
func newestMet(now, before []string) (all []string) {
	for _, addr := range slices.Concat(now, before) {
		if !slices.Contains(all, addr) && len(all) < maxMet {
			all = append(all, addr)
		}
	}
	return all
}

func (n *Node) metBefore() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.met)
}

// begin starts to listen as a new member.
func (n *Node) begin() (*life, error) {
	l, err := newLife(n, grid.MemberID(uuid.NewString()))
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.life = l
	n.at = addresses{grid: l.transport.Addr(), http: l.http.Addr().String()}
	n.mu.Unlock()
	return l, nil
}

func (n *Node) current() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

func (n *Node) setReady() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.seen {
		n.seen = true
		close(n.ready)
	}
}

// Ready is closed when the node has become a member and its partitions have primaries, for the first time.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Info tells who the node is. It is complete once [Node.Ready] is closed, and nearly empty before Run listens.
func (n *Node) Info() Info {
	l := n.current()
	if l == nil {
		return Info{Name: n.cfg.Name, ClusterName: n.cfg.ClusterName}
	}
	s, _ := l.cluster.View()
	return Info{
		Name: l.name, MemberID: string(l.self), GridAddr: l.transport.AdvertiseAddr(), HTTPAddr: l.httpURL,
		ClusterName: n.cfg.ClusterName, ClusterID: s.ClusterID, Members: len(s.Members),
	}
}

// Maps gives access to the distributed maps; nil before Run listens.
func (n *Node) Maps() *imap.Grid {
	if l := n.current(); l != nil {
		return l.maps
	}
	return nil
}

// MapStats returns the figures of this member's maps, ordered by name; nil before Run listens. Those of the cluster are in [imap.Map.Stats].
func (n *Node) MapStats() []imap.LocalStats {
	if l := n.current(); l != nil {
		return l.mapStats()
	}
	return nil
}

// Jobs gives access to the job engine; nil before Run listens.
func (n *Node) Jobs() *engine.Service {
	if l := n.current(); l != nil {
		return l.engine
	}
	return nil
}

// State returns the agreed state as this member knows it; nil before Run listens. It is never changed.
func (n *Node) State() *grid.State {
	l := n.current()
	if l == nil {
		return nil
	}
	s, _ := l.cluster.View()
	return s
}

// Safe reports whether every partition has its full set of replicas, as far as there are members, and nothing is under way or owed: a member
// that has just joined has its share. It is false as well if this node cannot know, or a member that may hold replicas does not seem to be there.
func (n *Node) Safe() bool {
	l := n.current()
	if l == nil {
		return false
	}
	s, _ := l.cluster.View()
	return l.safe(s)
}

func (l *life) safe(s *grid.State) bool {
	return s.Complete() && l.host.Moves(s).Done() && l.cluster.Certain(s)
}

// Recover makes those members that this one can reach go on without the others, after the majority of the voters is gone for good; without
// force it only says what that would mean. See [cluster.Cluster.Recover].
func (n *Node) Recover(ctx context.Context, force bool) (grid.Recovery, error) {
	l := n.current()
	if l == nil {
		return grid.Recovery{}, grid.ErrNotJoined
	}
	return l.cluster.Recover(ctx, force)
}

// JobStore gives access to the maps as the job engine sees them; nil before Run listens.
func (n *Node) JobStore() engine.Store {
	if l := n.current(); l != nil {
		return engineStore{l.maps}
	}
	return nil
}
