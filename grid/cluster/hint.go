package cluster

import (
	"context"
	"errors"
	"time"

	"gridnode/grid"
	"gridnode/grid/transport"
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
		began := time.Now()
		_, err := call[helloMsg, helloMsg](context.Background(), c, id, "", wire.Hello, c.hello())
		if errors.Is(err, grid.ErrUnreachable) {
			c.hint(hint{id, "it cannot be reached", errors.Is(err, transport.ErrNobody), began})
		}
	})
}

// ask looks whether a member that is silent is there, and takes no answer for a hint that it is dead. It does not wait.
func (c *Cluster) ask(id grid.MemberID) {
	c.background(func() {
		began := time.Now()
		_, err := call[helloMsg, helloMsg](context.Background(), c, id, "", wire.Hello, c.hello())
		if errors.Is(err, grid.ErrUnreachable) || errors.Is(err, grid.ErrIndeterminate) {
			c.hint(hint{id, "it is silent and does not answer", errors.Is(err, transport.ErrNobody), began})
		}
	})
}

// hint tells the master, if that is this member, that a member may be dead.
func (c *Cluster) hint(h hint) {
	if m := c.reign.Load(); m != nil {
		m.offerHint(h)
	}
}
