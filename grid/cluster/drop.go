package cluster

import (
	"context"

	"gridnode/grid"
)

// dropGone ends the connections with members that the agreed state has lost, or that were suspended: whoever waits for one learns at once that
// it will not answer.
// A member that was leaving is given another moment, for it is alive and still answers what it was asked, if only with a refusal; its own end
// closes the connection.
func (c *Cluster) dropGone(ctx context.Context, before []grid.Member, s *grid.State) {
	for _, m := range before {
		now, ok := s.Member(m.ID)
		if ok && now.State == grid.Suspended && now.Fence != m.Fence && m.ID != c.self.ID {
			c.t.Drop(m.ID)
		}
		if ok || m.ID == c.self.ID {
			continue
		}
		c.heard.Delete(m.ID)
		if m.State != grid.Leaving {
			c.t.Drop(m.ID)
			continue
		}
		c.background(func() {
			pause(ctx, c.cfg.Lease)
			c.t.Drop(m.ID)
		})
	}
}
