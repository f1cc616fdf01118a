package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	rescanEvery      = 5 * time.Second        // between two scans for jobs that nobody drives
	rescanAfterError = 500 * time.Millisecond // after one that did not see everything
	parallelRecovery = 16
	parallelCommits  = 16
	parallelCleanups = 8
)

// coordinator is this member as master of one term.
type coordinator struct {
	s        *Service
	term     uint64
	done     <-chan struct{} // closed when the term is over for this member
	slots    *slots
	commits  chan struct{} // bounds the commits under way
	scanned  atomic.Bool   // all live jobs are known
	rescan   chan struct{}
	sweepNow chan struct{}

	overviews shared[Overview]
	endedJobs shared[[]endedJob]

	mu       sync.Mutex
	drivers  map[string]*driver // by job id
	adopting map[string]bool    // ids that were submitted here and are to be driven
	cleaning map[string]bool
}

func newCoordinator(s *Service, term uint64, done <-chan struct{}) *coordinator {
	return &coordinator{
		s: s, term: term, done: done, slots: newSlots(s.cfg), commits: make(chan struct{}, parallelCommits),
		rescan: make(chan struct{}, 1), sweepNow: make(chan struct{}, 1),
		drivers: map[string]*driver{}, adopting: map[string]bool{}, cleaning: map[string]bool{},
	}
}

// over reports whether this member does not lead any more.
func (c *coordinator) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *coordinator) kick(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run coordinates until ctx ends. It returns when all drivers have committed what they had observed.
func (c *coordinator) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { c.sweepLoop(ctx) })
	var drivers sync.WaitGroup
	c.recoverLoop(ctx, &drivers)
	loops.Wait()
	drivers.Wait()
}

// mayPlace reports whether tasks may get workers: with fixed slots only once the usage of all live jobs is known.
func (c *coordinator) mayPlace(members []Member) bool {
	return c.scanned.Load() || !c.slots.bounded(members)
}

// recoverLoop finds the jobs that nobody drives: at first all of them, later those that were submitted here, and from time to time all
// again, which finds what a deposed master still accepted.
func (c *coordinator) recoverLoop(ctx context.Context, drivers *sync.WaitGroup) {
	for ctx.Err() == nil {
		next := rescanEvery
		if err := c.recoverAll(ctx, drivers); err != nil {
			c.s.cfg.Logger.Warn("the scan for jobs did not see everything", "term", c.term, "error", err)
			next = rescanAfterError
		} else if !c.scanned.Swap(true) {
			c.wakeAll()
		}
		deadline := time.NewTimer(next)
		for waiting := true; waiting; {
			select {
			case <-c.rescan:
				c.adoptAll(ctx, c.submitted(), drivers)
			case <-deadline.C:
				waiting = false
			case <-ctx.Done():
				deadline.Stop()
				return
			}
		}
	}
}

// recoverAll adopts every job that any of the maps names.
func (c *coordinator) recoverAll(ctx context.Context, drivers *sync.WaitGroup) error {
	ids := map[string]bool{}
	for _, m := range []string{MapRunningJobInfo, MapRunningJobState, MapPendingJobCleanup} {
		err := c.s.cfg.Store.Scan(ctx, m, func(e Entry) error {
			ids[e.Key.Key] = true
			return nil
		})
		if err != nil {
			return fmt.Errorf("scan %s: %w", m, err)
		}
	}
	return c.adoptAll(ctx, ids, drivers)
}

// adoptAll adopts jobs in parallel. One that fails is looked at again later, and does not stop the others.
func (c *coordinator) adoptAll(ctx context.Context, ids map[string]bool, drivers *sync.WaitGroup) error {
	var (
		g    errgroup.Group
		mu   sync.Mutex
		errs []error
	)
	g.SetLimit(parallelRecovery)
	for id := range ids {
		if c.driver(id) != nil {
			continue
		}
		g.Go(func() error {
			if err := c.adopt(ctx, id, drivers); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("adopt job %s: %w", id, err))
			}
			return nil
		})
	}
	err := errors.Join(g.Wait(), errors.Join(errs...))
	if err != nil && !again(err) {
		c.s.cfg.Logger.Error("jobs that cannot be recovered are left as they are", "term", c.term, "error", err)
		return nil
	}
	return err
}

// adopt does for one job what its entries ask for: repair it, give it a cleanup record, or take it over and drive it.
func (c *coordinator) adopt(ctx context.Context, id string, drivers *sync.WaitGroup) error {
	snap, err := read(ctx, c.s.cfg.Store, id)
	if err != nil {
		return err
	}
	switch {
	case snap.record != nil:
		c.kick(c.sweepNow)
		return nil
	case snap.state == nil && snap.info == nil:
		return nil
	case snap.state == nil:
		return c.repair(ctx, id, *snap.info, drivers)
	case snap.state.Status.Final():
		return c.settle(ctx, id)
	}
	err = update(ctx, c.s.cfg.Store, id, func(s snapshot) (Txn, error) {
		snap = s
		return takeOverTxn(s, c.term)
	})
	if err := ignoring(err, errNothing); err != nil {
		return ignoring(err, errFinal, errForeign, errNewerTerm) // the next scan sees what it is now
	}
	def := c.definitionOf(snap)
	c.slots.publish(def, snap.state)
	c.drive(ctx, def, drivers)
	return nil
}

// definitionOf returns the definition of a live job; a job whose info is missing gets one that says so, with which it fails.
func (c *coordinator) definitionOf(snap snapshot) *definition {
	if snap.info == nil || snap.info.Incarnation != snap.state.Incarnation {
		info := jobInfo{Incarnation: snap.state.Incarnation, CreatedMs: snap.state.CreatedMs}
		return &definition{jobID: snap.jobID, info: info, err: errors.New("it is not stored"), gone: true}
	}
	return c.s.defs.of(snap.jobID, *snap.info)
}

func (c *coordinator) repair(ctx context.Context, id string, info jobInfo, drivers *sync.WaitGroup) error {
	def := c.s.defs.of(id, info)
	if def.unreadable() {
		if def = c.s.defs.read(id, info); def.unreadable() { // a state made without the plan would be wrong for every master
			return fmt.Errorf("its config cannot be read here: %w", def.err)
		}
	}
	st := newState(info, def.plan, c.term)
	err := update(ctx, c.s.cfg.Store, id, func(s snapshot) (Txn, error) { return repairTxn(s, st, time.Now().UnixMilli()) })
	if err != nil {
		return ignoring(err, errNothing, errForeign)
	}
	c.s.cfg.Logger.Info("an accepted job without a state was repaired", "job", id, "term", c.term)
	c.drive(ctx, def, drivers)
	return nil
}

func (c *coordinator) settle(ctx context.Context, id string) error {
	err := update(ctx, c.s.cfg.Store, id, func(s snapshot) (Txn, error) {
		return settleTxn(s, time.Now().UnixMilli(), c.s.cfg.StateCleanupDelay)
	})
	c.kick(c.sweepNow)
	return ignoring(err, errNothing)
}

// drive starts a driver, joined by drivers.
func (c *coordinator) drive(ctx context.Context, def *definition, drivers *sync.WaitGroup) {
	d := newDriver(c, def)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drivers[def.jobID] != nil || ctx.Err() != nil {
		return
	}
	c.drivers[def.jobID] = d
	drivers.Go(func() {
		d.run(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.drivers, def.jobID)
	})
}

func (c *coordinator) driver(id string) *driver {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drivers[id]
}

func (c *coordinator) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.drivers {
		d.poke()
	}
}

// adoptSoon has a job driven that was just submitted here.
func (c *coordinator) adoptSoon(id string) {
	c.mu.Lock()
	c.adopting[id] = true
	c.mu.Unlock()
	c.kick(c.rescan)
}

func (c *coordinator) submitted() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := c.adopting
	c.adopting = map[string]bool{}
	return ids
}

// report takes a worker's report: durably, or as a no-op if nobody waits for it any more.
func (c *coordinator) report(ctx context.Context, r report) error {
	if d := c.driver(r.JobID); d != nil && d.incarnation == r.Incarnation {
		return d.deliver(ctx, observation{kind: obsEnded, ref: r.Ref, status: r.Status, err: r.Error, permanent: r.Permanent,
			prepared: r.Prepared, tallies: r.Tallies, end: r.End})
	}
	snap, err := read(ctx, c.s.cfg.Store, r.JobID)
	if err != nil {
		return err
	}
	if settled(snap.state, r.Incarnation, r.Ref) {
		return nil
	}
	return fmt.Errorf("%w: job %s is not driven yet", ErrRetryable, r.JobID)
}

// progress notes the figures of running tasks.
func (c *coordinator) progress(p progressReport) {
	for _, t := range p.Tasks {
		if d := c.driver(t.JobID); d != nil && d.incarnation == t.Incarnation {
			d.confirm(t.Ref, t.Tallies)
		}
	}
}
