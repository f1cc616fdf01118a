package partition

import (
	"fmt"
	"sync/atomic"
	"time"

	"gridnode/grid"
)

// cutOffAfter is how long a member may be without a lease before it takes itself for cut off. Elections take less, so who waits for one is
// answered; and a member that has been silent for so long is on its way out anyway.
const cutOffAfter = 5 * time.Second

// errCutOff tells a caller at once what waiting would not change.
var errCutOff = fmt.Errorf("%w: it has had none for %v, so it seems to be cut off from the master; ask another member", grid.ErrNoLease, cutOffAfter)

// cutOff tells those who wait for other members that waiting is of no use. look is called by one goroutine, happened by any.
type cutOff struct {
	since time.Time // from when on there is no lease; zero while there is one
	had   bool      // there has been one
	is    bool
	said  atomic.Pointer[chan struct{}] // closed while this member is cut off
}

func newCutOff() *cutOff {
	c := &cutOff{}
	c.said.Store(new(make(chan struct{})))
	return c
}

// look takes in whether there is a lease now. It reports whether that makes a member that has served cut off, or not any more.
func (c *cutOff) look(leased bool, now time.Time) (news bool) {
	switch {
	case leased:
		news = c.had && c.is
		c.since, c.had = time.Time{}, true
		if c.is {
			c.is = false
			c.said.Store(new(make(chan struct{})))
		}
	case c.since.IsZero():
		c.since = now
	case !c.is && now.Sub(c.since) >= cutOffAfter:
		c.is, news = true, c.had
		close(*c.said.Load())
	}
	return news
}

// lookForLease is what is done at each tick.
func (h *Host) lookForLease(now time.Time) {
	switch news := h.lone.look(h.cfg.Leased(), now); {
	case news && h.lone.is:
		h.log.Warn("cut off from the master, or there is none: all that needs a lease is refused", "without_lease_for", cutOffAfter)
	case news:
		h.log.Info("this member has a lease again and serves")
	}
}

// happened returns a channel that is closed once this member is cut off.
func (c *cutOff) happened() <-chan struct{} { return *c.said.Load() }

// closed reports whether a channel is closed that nobody sends to.
func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// alone returns a channel that is closed while this member is cut off. A lease that has just come back is seen here at once, and only at the
// next tick by what looks for it; until then nothing is said.
func (h *Host) alone() <-chan struct{} {
	ch := h.lone.happened()
	if closed(ch) && h.cfg.Leased() {
		return nil
	}
	return ch
}
