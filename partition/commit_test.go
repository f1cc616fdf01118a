package partition

import "gridnode/grid"

var _ Watcher = (*staged)(nil)

// Committed takes part in the simulation: what a store was told to be committed counts as shown, so no read may go back behind it. An effect
// increments at most once, so the number at upTo is at most as far behind the present one as the effects are.
func (c *staged) Committed(upTo uint64, _, _ grid.Epoch) {
	if c.show == nil { // in no simulation
		return
	}
	n, seq := c.n, Version(c.version).Seq()
	if seq > upTo {
		n -= min(n, seq-upTo)
	}
	c.show(n)
}

func (s *sim) committed(n uint64) { s.high = max(s.high, n) }
