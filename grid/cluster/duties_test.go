package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"gridnode/grid"
)

// slowDuty takes a while to return when its term is over, as one does that still has something to write.
type slowDuty struct {
	takes time.Duration

	mu      sync.Mutex
	running int
	most    int
	began   []uint64
}

func (d *slowDuty) run(ctx context.Context, term uint64) error {
	d.mu.Lock()
	d.running++
	d.most = max(d.most, d.running)
	d.began = append(d.began, term)
	d.mu.Unlock()
	<-ctx.Done()
	time.Sleep(d.takes)
	d.mu.Lock()
	d.running--
	d.mu.Unlock()
	return nil
}

func (d *slowDuty) terms() []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.began)
}

func (w *world) hand(from, to *member) {
	w.t.Helper()
	id := raft.ServerID(to.Self().ID)
	if err := from.raft.Load().LeadershipTransferToServer(id, serverAddress(to.Self())).Error(); err != nil {
		w.t.Fatal(err)
	}
	w.await("the other reigns", 2*time.Second, func() bool { return to.reign.Load() != nil })
}

// TestDuty_TheNextTermDoesNotWaitForIt: a member that is master again while a duty of its former term still ends grants leases at once, and does
// its other duties; the slow one never runs twice at a time, and does begin in the new term.
func TestDuty_TheNextTermDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7)
		hosts := hostNames[:3]
		slow := map[string]*slowDuty{}
		w.config = func(c *Config) {
			d := &slowDuty{takes: 8 * time.Second}
			slow[c.Self.Name] = d
			c.OnMaster = append(c.OnMaster, d.run)
		}
		w.startAll(hosts, func(c *Config) { c.Seeds, c.Expect = seedsOf(hosts...), 3 })
		w.awaitAgreed(3, 10*time.Second)
		w.await("voters", 5*time.Second, func() bool { return w.settled(3) })
		first := w.master()
		other := w.others(first)[0]
		w.hand(first, other)
		w.hand(other, first)
		back := time.Now()
		w.await("its quick duty and a lease", time.Second, func() bool { return first.rulesOnce() && first.LeaseValid() && other.LeaseValid() })
		for time.Since(back) < 12*time.Second {
			if !first.LeaseValid() || !other.LeaseValid() {
				t.Fatalf("without a lease %s after the member was master again", time.Since(back))
			}
			time.Sleep(20 * time.Millisecond)
		}
		_, term, _ := first.Master()
		d := slow[first.host]
		if began := d.terms(); len(began) != 2 || began[1] != term || d.most != 1 {
			t.Errorf("the slow duty began in terms %v, %d at a time; the term is %d", began, d.most, term)
		}
	})
}

// TestDuty_WhatItFailsWithEndsTheMember: and a failure that comes when the term is over already does not.
func TestDuty_WhatItFailsWithEndsTheMember(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 8)
		m := w.start("a", func(c *Config) {
			c.OnMaster = append(c.OnMaster, func(context.Context, uint64) error { return wrong })
		})
		w.await("the member's end", 5*time.Second, func() bool { return len(w.live()) == 0 })
		if !errors.Is(m.err, wrong) {
			t.Errorf("Run ended with %v", m.err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 9)
		m := w.start("a", func(c *Config) {
			c.OnMaster = append(c.OnMaster, func(ctx context.Context, _ uint64) error { <-ctx.Done(); return wrong })
		})
		w.awaitAgreed(1, 10*time.Second)
		m.cancel()
		<-m.done
		if errors.Is(m.err, wrong) || errors.Is(m.err, grid.ErrNotMaster) {
			t.Errorf("Run ended with %v", m.err)
		}
	})
}
