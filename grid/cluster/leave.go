package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"gridnode/grid"
)

// HandOver takes what others need of this member from it: it declares itself leaving, waits until its replicas are elsewhere or nobody is there to
// take them, and hands leadership of raft over. It is a member still, and answers like one. It ends with ctx at the latest; an error says what was
// not reached.
func (c *Cluster) HandOver(ctx context.Context) error {
	if s, _ := c.View(); !holdsMembership(s, c.self.ID) {
		return nil
	}
	if err := c.declareLeaving(ctx); err != nil {
		return fmt.Errorf("declare leaving: %w", err)
	}
	if err := c.waitView(ctx, func(s *grid.State) bool { return !holdsReplicas(s, c.self.ID) }); err != nil {
		return fmt.Errorf("hand replicas over: %w", err)
	}
	if err := c.handLeadershipOver(ctx); err != nil {
		return fmt.Errorf("hand leadership over: %w", err)
	}
	return nil
}

// Leave takes this member out of the cluster in good order: it hands over what is not handed over yet, gives its lease up and removes itself.
// From then on it can answer nothing that needs the cluster, so its doors have to be closed before. It ends with ctx at the latest; an error says
// what was not reached. Run goes on until its own context ends; so that the others are never without this one's answers, end it after Leave.
func (c *Cluster) Leave(ctx context.Context) error {
	if s, _ := c.View(); !holdsMembership(s, c.self.ID) {
		return nil
	}
	if err := c.HandOver(ctx); err != nil {
		return err
	}
	if s, _ := c.View(); !othersRemain(s, c.self.ID) {
		return nil
	}
	return c.removeSelf(ctx)
}

// DeclareLeaving makes this member leaving in the agreed state: nothing new is given to it. [Cluster.Leave] does so too; it comes first for what
// has to be moved besides replicas. Without a membership there is nothing to do.
func (c *Cluster) DeclareLeaving(ctx context.Context) error {
	if s, _ := c.View(); !holdsMembership(s, c.self.ID) {
		return nil
	}
	return c.declareLeaving(ctx)
}

func holdsMembership(s *grid.State, self grid.MemberID) bool {
	_, ok := s.Member(self)
	return ok
}

func (c *Cluster) declareLeaving(ctx context.Context) error {
	return c.retry(ctx, grid.Command{State: &grid.SetState{ID: c.self.ID, State: grid.Leaving}}, func(s *grid.State) bool {
		m, ok := s.Member(c.self.ID)
		return !ok || m.State == grid.Leaving
	})
}

// removeSelf gives up the lease first: after that it is no matter when the removal takes place.
func (c *Cluster) removeSelf(ctx context.Context) error {
	c.leaving.Store(true)
	c.lease.close()
	err := c.retry(ctx, grid.Command{Remove: &grid.RemoveMember{ID: c.self.ID, Reason: "it has left"}}, func(s *grid.State) bool {
		_, ok := s.Member(c.self.ID)
		return !ok
	})
	if err != nil {
		return fmt.Errorf("remove this member: %w", err)
	}
	if g := c.gossip.Load(); g != nil {
		g.leave()
	}
	c.lingerAsServer(ctx)
	return nil
}

// retry proposes the command until the state shows its effect.
func (c *Cluster) retry(ctx context.Context, cmd grid.Command, done func(*grid.State) bool) error {
	for {
		err := c.Propose(ctx, cmd)
		if s, _ := c.View(); err == nil || done(s) {
			return nil
		}
		if !pause(ctx, c.cfg.Heartbeat/4) {
			return errors.Join(context.Cause(ctx), err)
		}
		if s, _ := c.View(); done(s) {
			return nil
		}
	}
}

// waitView waits until the state satisfies ok.
func (c *Cluster) waitView(ctx context.Context, ok func(*grid.State) bool) error {
	for {
		s, superseded := c.View()
		if ok(s) {
			return nil
		}
		select {
		case <-superseded:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// holdsReplicas reports whether a partition still needs this member, as far as somebody else is there who can hold replicas.
func holdsReplicas(s *grid.State, self grid.MemberID) bool {
	if len(s.DataMembers()) == 0 {
		return false
	}
	return slices.ContainsFunc(s.Partitions, func(p grid.Partition) bool { return p.InSync(self) || p.IsJoining(self) })
}

func othersRemain(s *grid.State, self grid.MemberID) bool {
	return slices.ContainsFunc(s.Members, func(m grid.Member) bool { return m.ID != self })
}

// handLeadershipOver makes a voter leader that stays, if this member leads. The master's loop has been making one of those who stay a voter
// since this one is leaving; until that is done there is nobody to hand over to. If all others are leaving too, they go first: they need this
// one for it, and this one needs nobody.
func (c *Cluster) handLeadershipOver(ctx context.Context) error {
	for {
		r := c.raft.Load()
		if r == nil {
			return errNotRunning()
		}
		s, _ := c.View()
		if r.State() != raft.Leader && s.Master != c.self.ID || !othersRemain(s, c.self.ID) {
			return nil
		}
		if to, ok := successor(s, c.self.ID, r.GetConfiguration().Configuration()); ok && r.State() == raft.Leader {
			if err := c.await(ctx, r.LeadershipTransferToServer(to.ID, to.Address)); err != nil {
				c.log.Debug("leadership not handed over yet", "error", err)
			}
		}
		if !pause(ctx, c.cfg.Heartbeat/4) {
			return context.Cause(ctx)
		}
	}
}

// successor returns the first voter, in the order of joining, that stays.
func successor(s *grid.State, self grid.MemberID, conf raft.Configuration) (raft.Server, bool) {
	for _, m := range s.Members {
		for _, sv := range conf.Servers {
			if m.ID != self && m.State == grid.Active && sv.ID == raft.ServerID(m.ID) && sv.Suffrage == raft.Voter {
				return sv, true
			}
		}
	}
	return raft.Server{}, false
}

// lingerAsServer stays for a moment until the master has taken this member off raft's servers, so that no vote of it is missed.
func (c *Cluster) lingerAsServer(ctx context.Context) {
	limit := time.Now().Add(2 * c.cfg.Heartbeat)
	for time.Now().Before(limit) {
		r := c.raft.Load()
		if r == nil {
			return
		}
		conf := r.GetConfiguration()
		if conf.Error() == nil && !slices.ContainsFunc(conf.Configuration().Servers, func(s raft.Server) bool { return s.ID == raft.ServerID(c.self.ID) }) {
			return
		}
		if !pause(ctx, reignTick) {
			return
		}
	}
}
