package partition

import (
	"slices"
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

const (
	maxParked = 4096
	parkMost  = 10 * time.Second // then the caller asks again
)

// call is an operation that a caller asks for.
type call struct {
	op   grid.Op
	req  Request
	wait time.Duration // how long it may be parked
}

// parked is an operation that waits for something. It has not run.
type parked struct {
	call
	name  string
	until time.Time // then the caller is answered, if only to ask again
	end   time.Time // of the caller's patience
	done  func([]byte, error)
}

// park keeps an operation until what it waits for has come. Those that wait for one thing are tried in the order in which they came.
func (r *replica) park(name string, c call, now time.Time, done func([]byte, error)) {
	switch {
	case c.wait <= 0:
		r.waitedEnough(c, now, done)
	case len(r.parked) >= maxParked:
		r.answer(done, nil, grid.ErrOverloaded)
	default:
		r.parked = append(r.parked, parked{c, name, now.Add(min(c.wait, parkMost)), now.Add(c.wait), done})
	}
}

// wake runs the operations whose waiting is over. One that finds that it still cannot run is parked again, with the time that it has left.
func (r *replica) wake() {
	if len(r.woken) == 0 {
		return
	}
	now := time.Now()
	for len(r.woken) > 0 {
		names := r.woken
		r.woken = nil
		var ready []parked
		r.parked = slices.DeleteFunc(r.parked, func(p parked) bool {
			if !slices.Contains(names, p.name) {
				return false
			}
			ready = append(ready, p)
			return true
		})
		for _, p := range ready {
			p.wait = max(p.end.Sub(now), 1)
			r.run(p.call, now, p.done)
		}
	}
}

// overPark gives up on operations that have waited for as long as they may.
func (r *replica) overPark(now time.Time) {
	var over []parked
	r.parked = slices.DeleteFunc(r.parked, func(p parked) bool {
		if !now.Before(p.until) {
			over = append(over, p)
			return true
		}
		return false
	})
	for _, p := range over {
		if p.until.Equal(p.end) {
			r.waitedEnough(p.call, now, p.done)
		} else {
			r.answer(p.done, nil, grid.ErrBusy)
		}
	}
}

// waitedEnough answers a call that does not want to wait any longer. As for every other end of a call that was sent again, this one is kept.
func (r *replica) waitedEnough(c call, now time.Time, done func([]byte, error)) {
	if !c.req.Again || r.mayServe(c.req) != nil {
		r.answer(done, nil, grid.ErrBusy)
		return
	}
	e := Effect{Seq: r.seq() + 1, Epoch: r.row.Epoch, Outcome: &outcome{
		Client: c.req.Client, Seq: c.req.Seq, Low: c.req.Low, Failed: wire.AppendError(nil, grid.ErrBusy),
	}}
	r.replicate(e, now)
	r.waiters = append(r.waiters, waiter{e.Seq, true, nil, grid.ErrBusy, done})
	r.advance()
}
