package main

import (
	"context"
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
		r.out.say("%s: kill -9 %s", f.kind, m.name)
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
