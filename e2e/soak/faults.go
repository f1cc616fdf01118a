package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// strike does one fault, and waits until the cluster is whole and safe again, so that no two faults together take more than the cluster is to survive.
// The jobs go on all the while.
func (r *run) strike(ctx context.Context, f fault) error {
	if err := r.fleet.awaitSafe(ctx, safeLimit); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(r.cfg.seed, uint64(f.at)))
	master := r.fleet.master(ctx)
	var others []*member
	for _, m := range r.fleet.awake() {
		if m != master {
			others = append(others, m)
		}
	}
	if master == nil || len(others) == 0 {
		return fmt.Errorf("nobody is master")
	}
	other := others[rng.IntN(len(others))]
	switch f.kind {
	case killMember:
		return r.replace(ctx, f, other)
	case killMaster:
		return r.replace(ctx, f, master)
	case killTwo:
		return r.replace(ctx, f, master, other)
	case killPoint:
		return r.spring(ctx, f)
	case stopMember:
		return r.stand(ctx, f, other)
	case stopMaster:
		return r.stand(ctx, f, master)
	}
	return r.roll(ctx)
}

// replace kills members and starts as many new ones.
func (r *run) replace(ctx context.Context, f fault, victims ...*member) error {
	for i, m := range victims {
		if i > 0 {
			_ = pause(ctx, f.gap)
		}
		if f.kind != killPoint {
			r.out.say("%s: kill -9 %s", f.kind, m.name)
		}
		r.fleet.kill(m)
	}
	_ = pause(ctx, f.pause)
	for range victims {
		if _, err := r.fleet.add(ctx); err != nil {
			return err
		}
	}
	return r.fleet.awaitSafe(ctx, safeLimit)
}

// errNotThere says that nobody came to a point in time.
var errNotThere = errors.New("nobody came to the point")

// spring kills the first member that comes to a point, and replaces it. So that somebody comes there, it has one more job run.
func (r *run) spring(ctx context.Context, f fault) error {
	t := r.fleet.set(f.point)
	n := r.baits + r.cfg.jobs
	r.baits++
	r.jobs.Go(func() { r.job(ctx, n, bait(rand.New(rand.NewPCG(r.cfg.seed, uint64(n))), f.point), time.Now()) })
	var m *member
	select {
	case m = <-t.hit:
		r.fleet.unset()
	case <-time.After(pointLimit):
		if m = r.fleet.unset(); m == nil {
			r.out.say("%s: nobody came to %v within %v", f.kind, f.point.texts, pointLimit)
			r.missed++
			return errNotThere
		}
	case <-ctx.Done():
		r.fleet.unset()
		return context.Cause(ctx)
	}
	r.out.say("%s: kill -9 %s at %v", f.kind, m.name, f.point.texts)
	return r.replace(ctx, f, m)
}

// stand lets a member stand still for a while.
func (r *run) stand(ctx context.Context, f fault, m *member) error {
	r.out.say("%s: %s stands still for %v", f.kind, m.name, f.pause.Round(10*time.Millisecond))
	r.fleet.freeze(m)
	_ = pause(ctx, f.pause)
	r.fleet.thaw(m)
	return r.fleet.awaitSafe(ctx, safeLimit)
}

// roll replaces every member, one after the other; each leaves by itself.
func (r *run) roll(ctx context.Context) error {
	for _, m := range r.fleet.awake() {
		r.out.say("rolling: %s leaves", m.name)
		if err := r.fleet.term(m, safeLimit); err != nil {
			return err
		}
		if _, err := r.fleet.add(ctx); err != nil {
			return err
		}
		if err := r.fleet.awaitSafe(ctx, safeLimit); err != nil {
			return err
		}
	}
	return nil
}
