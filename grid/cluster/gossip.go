package cluster

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/vmihailenco/msgpack/v5"

	"gridnode/grid"
	"gridnode/grid/pack"
)

// gossip is this member's part in memberlist. It only gives hints: addresses where members may be, and who seems dead.
type gossip struct {
	c    *Cluster
	list *memberlist.Memberlist
	net  *gossipNet
	stop context.CancelFunc
	done sync.WaitGroup

	mu   sync.Mutex             // guards dead; never held across a call
	dead map[grid.MemberID]bool // whom gossip has taken for dead and not seen since
}

// maxDead bounds the list of the dead. It is of hints only, so it may be lost.
const maxDead = 1024

// gossipMeta is what a member says about itself in gossip. It has to fit into memberlist.MetaMaxSize.
type gossipMeta struct {
	Cluster   string `msgpack:"c"`
	ClusterID string `msgpack:"i"`
	Address   string `msgpack:"a"`
}

// startGossip starts memberlist, and a goroutine that keeps it in touch with the members.
func (c *Cluster) startGossip() (*gossip, error) {
	ctx, cancel := context.WithCancel(context.Background())
	g := &gossip{c: c, stop: cancel, dead: map[grid.MemberID]bool{}}
	g.net = newGossipNet(c.t, g)
	conf := memberlist.DefaultLANConfig()
	conf.Name = string(c.self.ID)
	conf.Transport = g.net
	conf.ProbeInterval, conf.ProbeTimeout = 500*time.Millisecond, 200*time.Millisecond
	conf.SuspicionMult, conf.SuspicionMaxTimeoutMult = 3, 2
	conf.AwarenessMaxMultiplier = 2 // so a probe ends within two intervals, also when gossip is shut down meanwhile
	conf.GossipInterval = 100 * time.Millisecond
	conf.EnableCompression = false // the messages are small: it would cost more than it saves. Members understand both
	conf.TCPTimeout = 2 * time.Second
	conf.Delegate, conf.Events, conf.Alive = g, g, g
	conf.Logger = log.New(gossipLog{c.cfg.Logger.With("component", "gossip", "member", c.self.Name)}, "", 0)
	list, err := memberlist.Create(conf)
	if err != nil {
		cancel()
		g.net.end()
		return nil, fmt.Errorf("start gossip: %w", err)
	}
	g.list = list
	g.done.Go(func() { g.meet(ctx) })
	return g, nil
}

// meet pulls members that the agreed state knows, but gossip does not, into gossip; and tells gossip of the cluster's id.
func (g *gossip) meet(ctx context.Context) {
	clusterID := ""
	for {
		s, superseded := g.c.View()
		if s.ClusterID != clusterID {
			clusterID = s.ClusterID
			_ = g.list.UpdateNode(100 * time.Millisecond) // an error says that the news has not spread yet; it will
		}
		g.joinOne(s)
		timer := time.NewTimer(5 * time.Second)
		select {
		case <-superseded:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// joinOne joins gossip by way of one member that is not in it yet; the others follow by gossip itself.
func (g *gossip) joinOne(s *grid.State) {
	here := map[string]bool{}
	for _, n := range g.list.Members() {
		here[n.Name] = true
	}
	for _, m := range s.Members {
		if here[string(m.ID)] || m.State == grid.Leaving {
			continue
		}
		g.net.learn(string(m.ID), m.Address)
		// The address is only a form: our transport goes by the name.
		if _, err := g.list.Join([]string{string(m.ID) + "/127.0.0.1:1"}); err == nil {
			return
		}
	}
}

// leave tells the others that this member's silence is meant.
func (g *gossip) leave() { _ = g.list.Leave(200 * time.Millisecond) }

// close ends gossip and waits for it, but for a probe that may be under way: memberlist has no way to join it. It ends within a second and
// finds no network any more.
func (g *gossip) close() {
	g.stop()
	g.net.cut()
	g.done.Wait()
	_ = g.list.Shutdown()
	g.net.end()
}

// NodeMeta is called by memberlist for what to say about this member.
func (g *gossip) NodeMeta(limit int) []byte {
	s, _ := g.c.View()
	meta, err := msgpack.Marshal(&gossipMeta{Cluster: g.c.cfg.ClusterName, ClusterID: s.ClusterID, Address: g.c.self.Address})
	if err != nil || len(meta) > limit {
		return nil
	}
	return meta
}

// NotifyMsg, GetBroadcasts, LocalState and MergeRemoteState are not used: nothing of ours travels by gossip.
func (g *gossip) NotifyMsg([]byte) {}

// GetBroadcasts is not used.
func (g *gossip) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is not used.
func (g *gossip) LocalState(bool) []byte { return nil }

// MergeRemoteState is not used.
func (g *gossip) MergeRemoteState([]byte, bool) {}

// NotifyAlive refuses nodes of other clusters.
func (g *gossip) NotifyAlive(n *memberlist.Node) error {
	var meta gossipMeta
	if err := pack.Unmarshal(n.Meta, &meta); err != nil {
		return fmt.Errorf("node %s says nothing about itself: %w", n.Name, err)
	}
	s, _ := g.c.View()
	if meta.Cluster != g.c.cfg.ClusterName || meta.ClusterID != "" && s.ClusterID != "" && meta.ClusterID != s.ClusterID {
		return fmt.Errorf("node %s belongs to cluster %q with id %q", n.Name, meta.Cluster, meta.ClusterID)
	}
	g.net.learn(n.Name, meta.Address)
	return nil
}

// NotifyJoin is called by memberlist, under its lock, so it must not block.
func (g *gossip) NotifyJoin(n *memberlist.Node) {
	g.mu.Lock()
	delete(g.dead, grid.MemberID(n.Name))
	g.mu.Unlock()
	var meta gossipMeta
	if pack.Unmarshal(n.Meta, &meta) == nil && n.Name != string(g.c.self.ID) {
		g.c.form.learn(meta.Address)
	}
}

// NotifyLeave is called by memberlist, under its lock, so it must not block.
func (g *gossip) NotifyLeave(n *memberlist.Node) {
	g.net.unlearn(n.Name)
	id := grid.MemberID(n.Name)
	g.mu.Lock()
	if len(g.dead) >= maxDead {
		clear(g.dead)
	}
	g.dead[id] = true
	g.mu.Unlock()
	g.c.hint(hint{id, takenForDead, false, time.Now()})
}

const takenForDead = "gossip takes it for dead"

// buried reports whether gossip took a member for dead and has not seen it since. On nil it reports false.
func (g *gossip) buried(id grid.MemberID) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dead[id]
}

// NotifyUpdate is not used.
func (g *gossip) NotifyUpdate(*memberlist.Node) {}

// gossipLog passes memberlist's lines on at debug.
type gossipLog struct{ log *slog.Logger }

func (l gossipLog) Write(line []byte) (int, error) {
	l.log.Debug(strings.TrimSpace(string(line)))
	return len(line), nil
}

var _ io.Writer = gossipLog{}
