package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	probeLimit = 60 * time.Second
	wokenReads = 2000 // reads through a member that goes on after a stop
	wokenAtOne = 400  // of them at the same time
)

// samples are what the rounds measured.
type samples struct{ first, all []time.Duration }

// rounds repeats one failure. A sample is the time from the failure until every probed partition of the member has taken a write.
func (r *run) rounds(ctx context.Context, n int, one func(context.Context, int, *samples) error) (string, error) {
	var s samples
	for i := range n {
		if _, err := r.awaitSafe(ctx, time.Now(), safeLimit); err != nil {
			return "", err
		}
		r.load.targets.only(r.fleet.members)
		pause(ctx, time.Duration(100+r.rng.IntN(300))*time.Millisecond) // the load spreads over all members
		if err := one(ctx, i+1, &s); err != nil {
			return "", fmt.Errorf("round %d: %w", i+1, err)
		}
	}
	r.say("the first partition took writes again: p50=%s worst=%s", seconds(quantile(s.first, 0.5)), seconds(worst(s.first)))
	return fmt.Sprintf("%s-to-write p50=%s worst=%s", r.mode, seconds(quantile(s.all, 0.5)), seconds(worst(s.all))), nil
}

// victim picks a member and sends the load elsewhere. It returns keys of partitions that the member is the primary of.
func (r *run) victim(ctx context.Context) (*member, []*slot, error) {
	m := r.fleet.members[r.rng.IntN(len(r.fleet.members))]
	others := r.fleet.others(m)
	partitions, err := r.load.client.partitionsOf(ctx, m, others[0])
	if err != nil {
		return nil, nil, err
	}
	if len(partitions) == 0 {
		return nil, nil, fmt.Errorf("%w: %s is the primary of no partition", errProduct, m.name)
	}
	var probes []*slot
	for _, i := range r.rng.Perm(len(partitions))[:min(maxProbes, len(partitions))] {
		probes = append(probes, r.keys[partitions[i]])
	}
	r.load.targets.only(others)
	return m, probes, r.load.targets.drained(ctx, m)
}

// killOne is kill -9 of one member, and its restart.
func (r *run) killOne(ctx context.Context, i int, s *samples) error {
	m, probes, err := r.victim(ctx)
	if err != nil {
		return err
	}
	master := r.isMaster(ctx, m)
	start := time.Now()
	m.kill()
	r.fleet.forget(m)
	first, all, err := r.probe(ctx, probes, start)
	if err != nil {
		return fmt.Errorf("after the kill of %s: %w", m.name, err)
	}
	s.first, s.all = append(s.first, first), append(s.all, all)
	restarted := time.Now()
	if err := r.fleet.restart(ctx, m); err != nil {
		return err
	}
	safe, err := r.awaitSafe(ctx, restarted, safeLimit)
	if err != nil {
		return err
	}
	r.say("kill %d: %s%s  first write %s, all %d partitions %s; safe with it again %s after its restart", i, m.name, asMaster(master), seconds(first),
		len(probes), seconds(all), seconds(safe))
	return nil
}

// stopOne stops one member with SIGSTOP for a while, at least until others have taken its place, and lets it answer reads the moment it goes on.
func (r *run) stopOne(ctx context.Context, i int, s *samples) error {
	m, probes, err := r.victim(ctx)
	if err != nil {
		return err
	}
	master := r.isMaster(ctx, m)
	lasts := r.options.pause/2 + time.Duration(r.rng.Int64N(int64(r.options.pause/2)+1))
	if err := m.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err = poll(ctx, 10*time.Second, m.name+" stands still", func() bool { return standsStill(m.cmd.Process.Pid) })
	if err != nil {
		return err
	}
	start := time.Now()
	first, all, err := r.probe(ctx, probes, start)
	if err != nil {
		return fmt.Errorf("after the stop of %s: %w", m.name, err)
	}
	s.first, s.all = append(s.first, first), append(s.all, all)
	pause(ctx, lasts-time.Since(start))
	stopped := time.Since(start)
	woken := time.Now()
	right, err := r.wake(ctx, m, probes)
	if err != nil {
		return err
	}
	safe, err := r.awaitSafe(ctx, woken, safeLimit)
	if err != nil {
		return err
	}
	r.say("stop %d: %s%s  first write %s, all %d partitions %s; stopped %s, then %d of %d reads answered; safe with it %s after that", i, m.name,
		asMaster(master), seconds(first), len(probes), seconds(all), seconds(stopped), right, wokenReads, seconds(safe))
	return nil
}

func asMaster(is bool) string {
	if is {
		return " (master)"
	}
	return ""
}

// probe writes each key until that succeeds, through members that live, and returns when the first and the last were written.
func (r *run) probe(ctx context.Context, probes []*slot, start time.Time) (first, all time.Duration, err error) {
	took := make([]time.Duration, len(probes))
	errs := make([]error, len(probes))
	var wg sync.WaitGroup
	for i, s := range probes {
		wg.Go(func() {
			errs[i] = poll(ctx, probeLimit, "a write to partition "+fmt.Sprint(s.partition), func() bool { return r.load.write(ctx, s, i) })
			took[i] = time.Since(start)
		})
	}
	wg.Wait()
	for i := range probes {
		if errs[i] != nil {
			return 0, 0, errs[i]
		}
	}
	return quantile(took, 0), worst(took), nil
}

// wake lets a stopped member go on while reads already wait for it, and returns how many it answered with a value. What it does not answer, it
// may refuse; a value that is older than what others have written meanwhile is a fault.
func (r *run) wake(ctx context.Context, m *member, probes []*slot) (int, error) {
	var next, answered atomic.Int64
	waiting := make(chan struct{}, wokenAtOne)
	var wg sync.WaitGroup
	for range wokenAtOne {
		wg.Go(func() {
			waiting <- struct{}{}
			for i := next.Add(1); i <= wokenReads && ctx.Err() == nil; i = next.Add(1) {
				if r.readWoken(ctx, m, probes[int(i)%len(probes)].key) {
					answered.Add(1)
				}
			}
		})
	}
	for range wokenAtOne {
		<-waiting
	}
	pause(ctx, 100*time.Millisecond) // most of the first have connected; those that have not come a little later
	err := m.cmd.Process.Signal(syscall.SIGCONT)
	wg.Wait()
	return int(answered.Load()), err
}

func (r *run) readWoken(ctx context.Context, m *member, key string) bool {
	floor := r.load.ledger.floor(key)
	a, err := r.load.client.do(ctx, http.MethodGet, m.http+mapPath+key, "")
	if err != nil || a.status == http.StatusServiceUnavailable || a.status == http.StatusGatewayTimeout {
		return false
	}
	if err := r.load.judge(key, floor, a); err != nil {
		r.load.tally.fault("%s, just woken: %v", m.name, err)
		return false
	}
	return true
}
