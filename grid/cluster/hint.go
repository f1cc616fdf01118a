package cluster

import (
	"context"
	"errors"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// connectionDown is told by the transport that a connection has ended. It must not block.
func (c *Cluster) connectionDown(_ string, id grid.MemberID) { c.probe(id) }

// probe looks, if this member is master, whether another one can be reached; if not, that is a hint that it is dead. It does not wait.
func (c *Cluster) probe(id grid.MemberID) {
	if c.reign.Load() == nil || id == c.self.ID {
		return
	}
	c.background(func() {
		_, err := call[helloMsg, helloMsg](context.Background(), c, id, "", wire.Hello, c.hello())
		if errors.Is(err, grid.ErrUnreachable) {
			c.hint(id, "it cannot be reached")
		}
	})
}

// hint tells the master, if that is this member, that a member may be dead.
func (c *Cluster) hint(id grid.MemberID, why string) {
	if m := c.reign.Load(); m != nil {
		m.offerHint(id, why)
	}
}
