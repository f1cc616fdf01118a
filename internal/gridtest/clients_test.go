package gridtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// client is one caller, at home on one member.
type client struct {
	id    int
	m     *Member
	rnd   *rand.Rand
	n     int
	seen  map[string]string // register to the value that it last saw there
	local bool              // it has little patience, and keeps to keys whose primary it takes its own member to be
	reads bool              // it only reads registers: a write that cannot be committed hides from reads what a primary without a lease shows
	focus func() string     // a key of the partition that the faults are about
	aside func(func())      // runs a call beside the client's others; it must end by itself
}

// choose returns one of the keys.
func (c *client) choose(keys []string) string {
	if c.local {
		if near := c.near(keys); len(near) > 0 {
			return near[c.rnd.IntN(len(near))]
		}
	}
	return keys[c.rnd.IntN(len(keys))]
}

// near returns the keys whose primary the client's member is, as it believes itself.
func (c *client) near(keys []string) (out []string) {
	s, g := c.m.Node.State(), c.m.Node.Maps()
	for _, k := range keys {
		if p, ok := g.Partition(key(k)); ok && int(p) < len(s.Partitions) && s.Partitions[p].Primary() == c.m.ID() {
			out = append(out, k)
		}
	}
	return out
}

// unique returns a value that nobody else ever writes.
func (c *client) unique() string {
	c.n++
	return fmt.Sprintf("%d-%d", c.id, c.n)
}

const clientsEach = 3

// employ starts the clients of a member.
func (n *nemesis) employ(ctx context.Context, m *Member) {
	ctx, n.stops[m] = context.WithCancel(ctx)
	for i := range clientsEach {
		cl := n.client(m)
		cl.local = i == 0
		cl.reads = cl.local && cl.id%2 == 0 // on every other member
		n.clients.Go(func() { n.work(ctx, cl) })
	}
}

func (n *nemesis) client(m *Member) *client {
	n.lastID++
	return &client{id: n.lastID, m: m, rnd: rand.New(rand.NewPCG(n.plan.seed, uint64(n.lastID))), seen: map[string]string{}, focus: n.focused, aside: n.clients.Go}
}

func (n *nemesis) focused() string { return *n.focus.Load() }

func (n *nemesis) refocus(name string) { n.focus.Store(&name) }

// work makes calls until ctx ends. Some have little time, so that their outcome stays unknown.
func (n *nemesis) work(ctx context.Context, cl *client) {
	for ctx.Err() == nil {
		budget := pick(cl.rnd, 10*time.Second, 10*time.Second, 2*time.Second, 100*time.Millisecond)
		load := n.loads[cl.rnd.IntN(len(n.loads))]
		if cl.local {
			budget = 50 * time.Millisecond
			if cl.reads || cl.rnd.IntN(2) == 0 {
				load = n.loads[0]
			}
		}
		call, done := context.WithTimeout(context.WithoutCancel(ctx), budget)
		if maps := cl.m.Node.Maps(); maps != nil {
			load.step(call, n.f, cl)
		}
		done()
		if rest := n.hotUntil.Load() - time.Now().UnixNano(); rest > 0 {
			time.Sleep(time.Duration(cl.rnd.IntN(400)) * time.Microsecond)
		} else {
			time.Sleep(time.Duration(10+cl.rnd.IntN(60)) * time.Millisecond)
		}
	}
}

// hurry lets the clients make many calls for a while.
func (n *nemesis) hurry(d time.Duration) {
	n.hotUntil.Store(max(n.hotUntil.Load(), time.Now().Add(d).UnixNano()))
}
