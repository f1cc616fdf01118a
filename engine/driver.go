package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// confirmEvery is how long a running task needs no confirmation from its worker; progress reports count as one.
const confirmEvery = 5 * time.Second

// driver drives one job for one term: it applies what is observed to the job's state and has done what the state then asks for.
type driver struct {
	c           *coordinator
	jobID       string
	incarnation string
	def         *definition
	log         *slog.Logger
	wake        chan struct{}
	calls       sync.WaitGroup
	book        *book

	hold map[int]hold // by pipeline id; of the goroutine of run
	told bool         // that the config cannot be read; of the same

	mu        sync.Mutex
	closed    bool
	inbox     []delivery // not yet durable
	lines     map[lineKey]*line
	confirmed map[taskRef]time.Time
	progress  map[taskRef][]tally
}

// hold makes a restarted pipeline wait. The end of the wait is stored; what is left of it is measured by this process's own clock.
type hold struct {
	restarts int
	until    time.Time
}

// delivery is an observation, with a channel for those who wait until it is durable.
type delivery struct {
	obs  observation
	done chan<- error // may be nil; has room for the answer
}

func newDriver(c *coordinator, def *definition) *driver {
	d := &driver{
		c: c, jobID: def.jobID, incarnation: def.info.Incarnation, def: def,
		log: c.s.cfg.Logger.With("job", def.jobID, "term", c.term), wake: make(chan struct{}, 1),
		hold: map[int]hold{}, lines: map[lineKey]*line{}, confirmed: map[taskRef]time.Time{}, progress: map[taskRef][]tally{},
	}
	d.book = newBook(d)
	return d
}

// run drives the job until it has ended, another took it over, or ctx ends.
func (d *driver) run(ctx context.Context) {
	callCtx, stopCalls := context.WithCancel(ctx)
	err := d.loop(callCtx)
	stopCalls()
	d.calls.Wait() // their observations are in the inbox now
	if ctx.Err() != nil && again(err) {
		err = d.lastWill(ctx)
	}
	d.log.Debug("no longer driven", "reason", err)
	d.close(err)
	d.c.kick(d.c.sweepNow)
	d.c.slots.publish(d.def, nil)
}

func (d *driver) loop(ctx context.Context) error {
	for {
		_, changed := d.c.s.cfg.Cluster.Members()
		freed := d.c.slots.freed()
		st, err := d.step(ctx)
		switch {
		case err == nil && st.Status.Final():
			return errFinal
		case err != nil && (again(err) || isSettled(err)):
			return err
		case err != nil:
			d.log.Error("step failed", "error", err)
			if sleep(ctx, maxBackoff) != nil {
				return fmt.Errorf("%w: %v", ErrRetryable, context.Cause(ctx))
			}
			continue
		}
		if d.def.unreadable() && !st.Cancel {
			if !d.c.s.defs.read(d.jobID, d.def.info).unreadable() {
				return fmt.Errorf("%w: its config can be read now", ErrRetryable) // the next scan has it driven with that
			}
			if !d.told {
				d.log.Warn("a job is left as it is until a master can read its config", "error", d.def.err)
				d.told = true
			}
		} else {
			d.launch(ctx, st)
		}
		if err := d.wait(ctx, st, changed, freed); err != nil {
			return err
		}
	}
}

// cannotRead answers those who report to a master that cannot read the job's config: a later one takes it.
func (d *driver) cannotRead() error {
	return fmt.Errorf("%w: the config of job %s cannot be read here: %v", ErrRetryable, d.jobID, d.def.err)
}

func isSettled(err error) bool {
	return errors.Is(err, errFinal) || errors.Is(err, errNewerTerm) || errors.Is(err, errForeign)
}

// step applies all that was observed so far and writes what follows from it. It returns the state as it is then.
func (d *driver) step(ctx context.Context) (*jobState, error) {
	in := d.pending()
	var next, blind *jobState
	err := update(ctx, d.c.s.cfg.Store, d.jobID, func(snap snapshot) (Txn, error) {
		if err := stepGuard(snap, d.incarnation, d.c.term); err != nil {
			return Txn{}, err
		}
		if blind = nil; d.def.unreadable() && !snap.state.Cancel {
			blind = snap.state
			return Txn{}, errNothing
		}
		if err := d.book.load(ctx, snap.state); err != nil {
			return Txn{}, err
		}
		d.c.slots.publish(d.def, snap.state)
		obs := append(observations(in), d.book.results(snap.state)...)
		for range 1 + len(snap.state.Pipelines) {
			next = decide(snap.state, obs, d.world(snap.state))
			if txn, err := d.stepTxn(ctx, snap, next, obs); !errors.Is(err, errUnstored) {
				return txn, err
			} // else once more, without the end of that pipeline
		}
		return Txn{}, errUnstored
	})
	if err = ignoring(err, errNothing); err != nil {
		return nil, err
	}
	if blind != nil {
		d.c.slots.publish(d.def, blind)
		d.settle(in, d.cannotRead())
		return blind, nil
	}
	for _, o := range d.book.follow(ctx, next) {
		d.add(delivery{obs: o})
	}
	d.c.slots.publish(d.def, next)
	d.settle(in, nil)
	return next, nil
}

func (d *driver) stepTxn(ctx context.Context, snap snapshot, next *jobState, obs []observation) (Txn, error) {
	now := time.Now().UnixMilli()
	if err := d.book.stage(ctx, snap.state, next, obs); err != nil {
		return Txn{}, err
	}
	switch {
	case next.Status.Final():
		d.log.Info("job ends", "status", next.Status, "cause", next.Cause)
		return d.book.add(commitTxn(snap, next, now, d.c.s.cfg.StateCleanupDelay)), nil
	case bytes.Equal(encode(snap.state), encode(next)):
		return Txn{}, errNothing
	}
	if snap.state.Status != next.Status {
		d.log.Info("job state changes", "from", snap.state.Status, "to", next.Status)
	}
	d.tell(snap.state, next)
	return d.book.add(transitionTxn(snap, next, now)), nil
}

// tell logs the points at which a step decides something about checkpoints and commits, before the step is written.
func (d *driver) tell(prev, next *jobState) {
	for i := range next.Pipelines {
		p, q := &prev.Pipelines[i], &next.Pipelines[i]
		switch {
		case q.Committing && !p.Committing:
			d.log.Debug("commit decided", "pipeline", q.ID, "checkpoint", q.Ckpt.Final)
		case q.Ckpt.Done != p.Ckpt.Done:
			d.log.Debug("checkpoint complete", "pipeline", q.ID, "checkpoint", q.Ckpt.Done)
		case q.Ckpt.Open != p.Ckpt.Open && q.Ckpt.Open != 0:
			d.log.Debug("checkpoint begins", "pipeline", q.ID, "checkpoint", q.Ckpt.Open)
		case q.Ckpt.Committed && !p.Ckpt.Committed:
			d.log.Debug("checkpoint committed", "pipeline", q.ID, "checkpoint", q.Ckpt.Done)
		}
	}
}

func (d *driver) world(st *jobState) world {
	members, _ := d.c.s.cfg.Cluster.Members()
	w := world{
		members: memberSet(members, d.c.s.cfg.Cluster.Self()),
		held:    d.held,
		place: func(n int, all bool) placement {
			if !d.c.mayPlace(members) {
				return placement{reason: "the new master is still looking for the jobs of the cluster"}
			}
			return d.c.slots.place(d.jobID, members, n, all)
		},
		nowMs: time.Now().UnixMilli(),
	}
	w.leaving, w.elsewhere = leaversOf(members, d.def.tags())
	d.book.world(st, &w)
	if d.def.plan == nil {
		if d.def.gone {
			w.fatal = fmt.Sprintf("the config cannot be read: %v", d.def.err)
		}
		return w
	}
	w.stateBytes = d.def.bytes
	w.retryTimes, w.retryInterval = d.def.plan.RetryTimes, d.def.plan.RetryInterval
	return w
}

// memberSet returns the ids, or nil if this member is not in the list itself: then the list is not one to judge others by.
func memberSet(members []Member, self string) map[string]bool {
	set := make(map[string]bool, len(members))
	for _, m := range members {
		set[m.ID] = true
	}
	if !set[self] {
		return nil
	}
	return set
}

// held reports whether a restarted pipeline has to wait still.
func (d *driver) held(p *pipelineState) bool {
	if p.Restarts == 0 || d.def.plan == nil {
		return false
	}
	h, ok := d.hold[p.ID]
	if !ok || h.restarts != p.Restarts {
		now := time.Now()
		h = hold{restarts: p.Restarts, until: now.Add(restWait(p.RestartAtMs, now, d.def.plan.RetryInterval))}
		d.hold[p.ID] = h
	}
	return time.Now().Before(h.until)
}

// restWait returns what is left of a stored wait. However wrong a clock is, it is neither negative nor more than the whole wait.
func restWait(untilMs int64, now time.Time, whole time.Duration) time.Duration {
	return min(max(time.UnixMilli(untilMs).Sub(now), 0), whole)
}

// lastWill commits the end of the job if what was observed so far amounts to one, although this member does not lead any more. It does
// nothing else, judges nobody lost, and starts nothing. Without the config nobody knows what a failure amounts to: that is left to the next master.
func (d *driver) lastWill(ctx context.Context) error {
	in := d.pending()
	if len(in) == 0 || d.def.plan == nil {
		return ErrRetryable
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.c.s.cfg.CloseTimeout)
	defer cancel()
	err := update(ctx, d.c.s.cfg.Store, d.jobID, func(snap snapshot) (Txn, error) {
		if err := stepGuard(snap, d.incarnation, d.c.term); err != nil {
			return Txn{}, err
		}
		w := d.world(snap.state)
		w.members = nil
		w.held = func(*pipelineState) bool { return true }
		if err := d.book.load(ctx, snap.state); err != nil {
			return Txn{}, err
		}
		next := decide(snap.state, observations(in), w)
		if !next.Status.Final() {
			return Txn{}, errNothing
		}
		return d.stepTxn(ctx, snap, next, observations(in))
	})
	if err == nil {
		d.log.Info("terminal result committed after the leadership was lost")
		return errFinal
	}
	return err
}

// wait returns nil when there is a reason for another step.
func (d *driver) wait(ctx context.Context, st *jobState, changed, freed <-chan struct{}) error {
	if !hasWaiting(st) {
		freed = nil
	}
	t := time.NewTimer(d.nextLook())
	defer t.Stop()
	select {
	case <-d.wake:
	case <-changed:
	case <-freed:
	case <-t.C:
	case <-ctx.Done():
		return fmt.Errorf("%w: %v", ErrRetryable, context.Cause(ctx))
	}
	return nil
}

func hasWaiting(st *jobState) bool {
	for _, p := range st.Pipelines {
		for _, t := range p.Tasks {
			if t.Status == TaskCreated {
				return true
			}
		}
	}
	return false
}

// nextLook is how long nothing needs to be done by itself.
func (d *driver) nextLook() time.Duration {
	now := time.Now()
	next := now.Add(confirmEvery)
	earlier := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	for _, h := range d.hold {
		earlier(h.until)
	}
	at := d.book.wakeAt()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lines {
		earlier(l.notBefore)
	}
	if !at.IsZero() && at.Before(next) {
		next = at
	}
	return max(next.Sub(now), time.Millisecond)
}
