package main

import (
	"context"
	"fmt"
	"time"
)

const (
	leaveLimit = 60 * time.Second
	calm       = 5 * time.Second // that the load runs undisturbed, to compare with
)

// rolling replaces all members, one after the other: a fresh one joins, an old one is told to leave.
func (r *run) rolling(ctx context.Context) (string, error) {
	var leaves []time.Duration
	for i, old := range r.fleet.others(nil) {
		start := time.Now()
		fresh, err := r.fleet.start(ctx, fmt.Sprintf("n%d", r.members+i+1), anyPort, anyPort)
		if err != nil {
			return "", err
		}
		joined, err := r.awaitSafe(ctx, start, safeLimit)
		if err != nil {
			return "", err
		}
		r.load.targets.only(r.fleet.others(old))
		if err := r.load.targets.drained(ctx, old); err != nil {
			return "", err
		}
		master := r.isMaster(ctx, old)
		left, err := r.fleet.term(ctx, old, leaveLimit)
		if err != nil {
			return "", err
		}
		leaves = append(leaves, left)
		if _, err := r.awaitSafe(ctx, time.Now(), safeLimit); err != nil {
			return "", err
		}
		r.say("%s joined within %s, %s%s left within %s", fresh.name, seconds(joined), old.name, asMaster(master), seconds(left))
	}
	_, _, longest := r.load.tally.latency.Load().summary(1)
	return fmt.Sprintf("replaced=%d slowest-leave=%s slowest-request=%s", len(leaves), seconds(worst(leaves)), seconds(longest)), nil
}

// join adds one member to a cluster with data, and compares how long requests take meanwhile with how long they took before.
func (r *run) join(ctx context.Context) (string, error) {
	if err := r.fill(ctx); err != nil {
		return "", err
	}
	before := r.fresh()
	pause(ctx, calm)
	during, start := r.fresh(), time.Now()
	if _, err := r.fleet.start(ctx, fmt.Sprintf("n%d", r.members+1), anyPort, anyPort); err != nil {
		return "", err
	}
	took, err := r.awaitSafe(ctx, start, r.copyLimit())
	if err != nil {
		return "", err
	}
	r.fresh()
	was, calmP99, calmWorst := before.summary(0.99)
	now, p99, longest := during.summary(0.99)
	r.say("before: %d requests in %s, p99=%s worst=%s; during: %d in %s", was, calm, seconds(calmP99), seconds(calmWorst), now, seconds(took))
	return fmt.Sprintf("join entries=%d took=%s p99=%s worst=%s p99-before=%s", r.entries, seconds(took), seconds(p99), seconds(longest),
		seconds(calmP99)), nil
}

// fresh makes the load count in a new histogram and returns that.
func (r *run) fresh() *histogram {
	h := &histogram{}
	r.load.tally.latency.Store(h)
	return h
}

// resafe kills one member of a cluster with data, and measures how long it takes until every partition has its copies again.
func (r *run) resafe(ctx context.Context) (string, error) {
	if err := r.fill(ctx); err != nil {
		return "", err
	}
	r.fresh()
	m, probes, err := r.victim(ctx)
	if err != nil {
		return "", err
	}
	start := time.Now()
	m.kill()
	r.fleet.forget(m)
	_, all, err := r.probe(ctx, probes, start)
	if err != nil {
		return "", err
	}
	killed, err := r.awaitSafe(ctx, start, r.copyLimit())
	if err != nil {
		return "", err
	}
	r.say("%s killed: its partitions took writes after %s, the cluster was safe after %s", m.name, seconds(all), seconds(killed))
	restarted := time.Now()
	if err := r.fleet.restart(ctx, m); err != nil {
		return "", err
	}
	joined, err := r.awaitSafe(ctx, restarted, r.copyLimit())
	return fmt.Sprintf("resafe entries=%d after-kill=%s after-restart=%s kill-to-write=%s", r.entries, seconds(killed), seconds(joined), seconds(all)), err
}

func (r *run) copyLimit() time.Duration {
	return safeLimit + time.Duration(r.entries)*300*time.Microsecond
}
