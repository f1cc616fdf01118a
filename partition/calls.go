package partition

import "sync"

// calls numbers this member's writes and knows which of them are under way.
type calls struct {
	mu    sync.Mutex // guards all below
	last  uint64
	first uint64              // all calls up to this one have ended
	open  map[uint64]struct{} // under way
}

// begin returns the number of a new call, from 1.
func (c *calls) begin() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[uint64]struct{}{}
	}
	c.last++
	c.open[c.last] = struct{}{}
	return c.last
}

// end says that nobody waits for the call any more.
func (c *calls) end(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, seq)
	for c.first < c.last {
		if _, open := c.open[c.first+1]; open {
			return
		}
		c.first++
	}
}

// low returns the number below which all calls have ended.
func (c *calls) low() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first + 1
}
