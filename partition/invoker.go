package partition

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

const (
	retryFirst    = 2 * time.Millisecond
	retryMost     = 100 * time.Millisecond
	invokeBudget  = 30 * time.Second // for callers whose context has no deadline
	callBudgetMsg = "no answer in time"
)

// Read runs an operation that changes nothing on the primary of a partition, wherever that is, and returns its answer. It tries again as
// long as it gets none. When ctx ends, or this member has been cut off for a while, the error is retryable. Without a deadline in ctx, half a
// minute is the bound.
func (h *Host) Read(ctx context.Context, p grid.PartitionID, op grid.Op) ([]byte, error) {
	return h.invoke(ctx, p, invocation{call: call{op: op}})
}

// Write runs an operation on the primary of a partition, exactly once, however often it has to be sent. An operation that has to wait for
// something, such as a lock, waits up to wait; then the error is [grid.ErrBusy]: it did not run. When ctx ends, or this member has been cut off
// for a while, the error tells what is known: retryable if the operation cannot have run, else indeterminate. Without a deadline in ctx, half a
// minute is the bound.
func (h *Host) Write(ctx context.Context, p grid.PartitionID, op grid.Op, wait time.Duration) ([]byte, error) {
	seq := h.calls.begin()
	defer h.calls.end(seq)
	return h.invoke(ctx, p, invocation{call: call{op: op, req: Request{Client: h.cfg.Self, Seq: seq}}, until: time.Now().Add(wait)})
}

// invocation is a call and what its attempts have shown.
type invocation struct {
	call
	until   time.Time // an operation may wait at the primary up to then
	unknown error     // an attempt whose outcome is unknown; the operation may have run
}

func (h *Host) invoke(ctx context.Context, p grid.PartitionID, c invocation) ([]byte, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		if closed(h.alone()) {
			return nil, c.gaveUp(errCutOff)
		}
		s, changed := h.cfg.View.View()
		c.prepare(h.calls.low(), time.Now())
		reply, err := h.invokeOnce(ctx, s, p, c.call)
		if err == nil {
			return reply, nil
		}
		if again := c.note(err); !again {
			return nil, err
		}
		select {
		case <-changed:
		case <-time.After(wait):
		case <-h.alone():
		case <-ctx.Done():
			return nil, c.gaveUp(err)
		}
	}
}

// prepare makes the call ready for the next attempt.
func (c *invocation) prepare(low uint64, now time.Time) {
	c.wait = c.until.Sub(now)
	if c.req.Client != "" {
		c.req.Low, c.req.Again = low, c.unknown != nil
	}
}

// note takes what an attempt returned, and reports whether there is to be another.
func (c *invocation) note(err error) bool {
	switch grid.KindOf(err) {
	case grid.Retryable:
		return !errors.Is(err, grid.ErrBusy) || time.Now().Before(c.until)
	case grid.Indeterminate:
		c.unknown = err
		return true
	}
	return false
}

// gaveUp is the error of a call whose time is over. It is retryable only if no attempt can have run, or for an operation that only reads.
func (c *invocation) gaveUp(last error) error {
	switch {
	case c.req.Client == "" && c.unknown != nil:
		return fmt.Errorf("%w: %v", grid.ErrNotReady, c.unknown)
	case c.unknown != nil:
		return c.unknown
	}
	return last
}

// bounded returns ctx itself if it has a deadline: a context costs more than a call that is answered at once.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, invokeBudget)
}

func (h *Host) invokeOnce(ctx context.Context, s *grid.State, p grid.PartitionID, c call) ([]byte, error) {
	if !s.Formed() {
		return nil, grid.ErrNotJoined
	}
	if p < 0 || int(p) >= len(s.Partitions) {
		return nil, fmt.Errorf("%w: no partition %d", grid.ErrBadRequest, p)
	}
	switch primary := s.Partitions[p].Primary(); primary {
	case "":
		if s.Partitions[p].Lost {
			return nil, grid.ErrPartitionLost
		}
		return nil, grid.ErrNotReady
	case h.cfg.Self:
		return h.wait(ctx, p, c)
	default:
		return h.request(ctx, primary, wire.Invoke, encode(invokeMsg{Partition: p, Op: c.op.Encoded(), Request: c.req, Wait: c.wait}))
	}
}

// request asks another member and waits. The outcome is unknown if ctx ends first, or if the member is removed: nothing may come from one that
// was paused or cut off, not even the end of the connection.
func (h *Host) request(ctx context.Context, to grid.MemberID, kind wire.Kind, body []byte) ([]byte, error) {
	type answer struct {
		reply []byte
		err   error
	}
	ch := make(chan answer, 1)
	h.cfg.Caller.Request(to, kind, body, func(b []byte, err error) { ch <- answer{b, err} })
	for {
		s, changed := h.cfg.View.View()
		if _, ok := s.Member(to); !ok {
			return nil, fmt.Errorf("%w: member %s, which was asked, is not a member any more", grid.ErrIndeterminate, to)
		}
		select {
		case a := <-ch:
			return a.reply, a.err
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %s", grid.ErrIndeterminate, callBudgetMsg)
		case <-h.alone():
			return nil, fmt.Errorf("%w: %v", grid.ErrIndeterminate, errCutOff)
		}
	}
}

// InvokeAll runs a read-only operation once on every partition and calls each with the answers, from one goroutine. It fails unless every
// partition answered: there is no partial result.
func (h *Host) InvokeAll(ctx context.Context, op []byte, each func(p grid.PartitionID, reply []byte) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	s, _ := h.cfg.View.View()
	if !s.Formed() {
		return grid.ErrNotJoined
	}
	left := make(map[grid.PartitionID]bool, len(s.Partitions))
	for i := range s.Partitions {
		left[grid.PartitionID(i)] = true
	}
	for wait := retryFirst; ; {
		if closed(h.alone()) {
			return errCutOff
		}
		s, changed := h.cfg.View.View()
		done, err := h.askOnce(ctx, s, left, op, each)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		if done > 0 {
			wait = retryFirst
			continue
		}
		select {
		case <-changed:
		case <-time.After(wait):
		case <-h.alone():
		case <-ctx.Done():
			return fmt.Errorf("%w: %d partitions did not answer", grid.ErrNotReady, len(left))
		}
		wait = min(2*wait, retryMost)
	}
}

// askOnce asks each primary once for the partitions that are left, and takes those that answered off the list.
func (h *Host) askOnce(ctx context.Context, s *grid.State, left map[grid.PartitionID]bool, op []byte, each func(grid.PartitionID, []byte) error) (int, error) {
	type result struct {
		from    grid.MemberID
		replies []manyReply
		err     error
	}
	by := map[grid.MemberID][]grid.PartitionID{}
	for i := range s.Partitions {
		if m := s.Partitions[i].Primary(); m != "" && left[grid.PartitionID(i)] {
			by[m] = append(by[m], grid.PartitionID(i))
		}
	}
	results := make(chan result, len(by))
	for m, list := range by {
		msg := invokeManyMsg{Partitions: list, Op: op}
		if m == h.cfg.Self {
			if !h.tasks.start(func() { results <- result{from: m, replies: h.many(ctx, msg)} }) {
				return 0, grid.ErrClosed
			}
			continue
		}
		h.cfg.Caller.Request(m, wire.InvokeMany, encode(msg), func(b []byte, err error) {
			res := result{from: m}
			if res.err = err; err == nil {
				res.replies, res.err = decode[[]manyReply](b)
			}
			results <- res
		})
	}
	done := 0
	for len(by) > 0 {
		s, changed := h.cfg.View.View()
		maps.DeleteFunc(by, func(m grid.MemberID, _ []grid.PartitionID) bool { // see request
			_, ok := s.Member(m)
			return !ok
		})
		if len(by) == 0 {
			break
		}
		select {
		case res := <-results:
			delete(by, res.from)
			n, err := take(res.replies, left, each)
			if err != nil {
				return done, err
			}
			done += n
			if res.err != nil && errors.Is(res.err, grid.ErrBadMessage) {
				return done, res.err
			}
		case <-changed:
		case <-h.alone():
			return done, errCutOff
		case <-ctx.Done():
			return done, fmt.Errorf("%w: %d partitions did not answer", grid.ErrNotReady, len(left))
		}
	}
	return done, nil
}

func take(replies []manyReply, left map[grid.PartitionID]bool, each func(grid.PartitionID, []byte) error) (done int, err error) {
	for _, rep := range replies {
		if !left[rep.Partition] {
			continue
		}
		if rep.Code != 0 {
			if e := grid.ErrorOf(rep.Code); e.Kind() == grid.Definite {
				return done, fmt.Errorf("%w: partition %d: %s", e, rep.Partition, rep.Text)
			}
			continue
		}
		if err := each(rep.Partition, rep.Reply); err != nil {
			return done, err
		}
		delete(left, rep.Partition)
		done++
	}
	return done, nil
}

// Partitions is the number of partitions; 0 as long as this member has not joined a cluster.
func (h *Host) Partitions() int {
	s, _ := h.cfg.View.View()
	return len(s.Partitions)
}
