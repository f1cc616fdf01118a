package cluster

import (
	"context"
	"errors"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// connectionDown is told by the transport that a connection has ended. A master looks whether the member can be reached again; if not, that is
// a hint. It must not block.
func (c *Cluster) connectionDown(_ string, id grid.MemberID) {
	if c.reign.Load() == nil {
		return
	}
	c.background(func() {
		_, err := call[helloMsg, helloMsg](context.Background(), c, id, "", wire.Hello, c.hello())
		if errors.Is(err, grid.ErrUnreachable) {
			c.hint(id, "its connection is down and it cannot be reached")
		}
	})
}

// hint tells the master, if that is this member, that a member may be dead.
func (c *Cluster) hint(id grid.MemberID, why string) {
	if m := c.reign.Load(); m != nil {
		m.offerHint(id, why)
	}
}
