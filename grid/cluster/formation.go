package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// outlook is what a member without a cluster knows when it decides what to do.
type outlook struct {
	self    helloMsg
	others  []helloMsg // all of its cluster name that answered in this round
	mayLead bool       // with Expect 1: it may form a cluster by itself
}

type stepKind uint8

const (
	wait     stepKind = iota // look again; a declared intent to form is withdrawn
	stay                     // look again; a declared intent stands
	declare                  // declare the intent to form, and look again
	create                   // form the cluster
	join                     // join the cluster of target
	conflict                 // several clusters answer: that is for an operator to solve
)

// step is what to do next.
type step struct {
	kind   stepKind
	target string // for join
	why    string // for wait and conflict: of those that answer, and what is missing
}

// nextStep decides. At most one of several members that start at once forms a cluster, by a bakery: whoever wants to form says so first and
// looks again; the higher address gives way to a lower one, the lower one waits for a higher one that has declared already, because that one
// may have looked before the lower one was there to be seen.
func nextStep(o outlook) step {
	var home *helloMsg
	for i, m := range o.others {
		if m.Phase != formed {
			continue
		}
		if home != nil && home.ClusterID != m.ClusterID {
			return step{kind: conflict, why: twoClusters(*home, m).Error()}
		}
		if home == nil || m.Master != "" && home.Master == "" {
			home = &o.others[i]
		}
	}
	if home != nil {
		return step{kind: join, target: cmp.Or(home.Master, home.Address)}
	}
	higherForms := false
	for _, m := range o.others {
		lower := m.Address < o.self.Address
		if lower || m.Phase == forming && o.self.Phase != forming {
			return step{kind: wait, why: whyWait(o)}
		}
		higherForms = higherForms || m.Phase == forming
	}
	switch {
	case 1+len(o.others) < o.self.Expect:
		return step{kind: wait, why: whyWait(o)}
	case o.self.Expect == 1 && !o.mayLead:
		return step{kind: wait, why: whyWait(o)}
	case o.self.Phase != forming:
		return step{kind: declare}
	case higherForms:
		return step{kind: stay}
	}
	return step{kind: create}
}

// formation is what a member knows of others before it has a cluster.
type formation struct {
	seeds    []string
	discover bool
	self     string

	mu    sync.Mutex // guards what follows; never held while waiting
	phase phase
	own   map[string]bool // addresses at which this member itself answered
	peers map[string]bool // addresses learned
	told  map[string]bool // seeds whose silence was logged
}

func newFormation(cfg Config, self grid.Member) *formation {
	return &formation{
		seeds: slices.Clone(cfg.Seeds), discover: cfg.Discover, self: self.Address,
		own: map[string]bool{self.Address: true}, peers: map[string]bool{}, told: map[string]bool{},
	}
}

func (f *formation) now() phase {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.phase
}

func (f *formation) set(p phase) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.phase = p
}

// learn takes note of an address where a member may be.
func (f *formation) learn(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if addr != "" && !f.own[addr] && len(f.peers) < maxPeers {
		f.peers[addr] = true
	}
}

// forget drops an address that did not answer; seeds stay.
func (f *formation) forget(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.peers, addr)
}

// silent reports whether an operator named the address, and it is the first time that it did not answer.
func (f *formation) silent(addr string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.discover || f.told[addr] || !slices.Contains(f.seeds, addr) {
		return false
	}
	f.told[addr] = true
	return true
}

// mine takes note of an address at which this member itself answers.
func (f *formation) mine(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.own[addr] = true
	delete(f.peers, addr)
}

// known returns the addresses learned.
func (f *formation) known() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]string, 0, len(f.peers))
	for addr := range f.peers {
		out = append(out, addr)
	}
	slices.Sort(out)
	return out
}

// candidates returns all addresses to ask.
func (f *formation) candidates() []string {
	out := f.known()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seeds {
		if !f.own[s] && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// mayLead reports whether a member that expects nobody else may form a cluster after that many rounds of looking in vain.
func (f *formation) mayLead(rounds int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seeds) == 0 {
		return true
	}
	return rounds >= 2 && (f.discover || f.own[f.seeds[0]])
}

// formationLoop brings this member into a cluster, then ends.
func (c *Cluster) formationLoop(ctx context.Context, r *raft.Raft) error {
	w := &waiting{since: time.Now()}
	for rounds := 1; ; rounds++ {
		if s, _ := c.View(); s.Formed() {
			return nil
		}
		others := c.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		next := nextStep(outlook{self: c.hello(), others: others, mayLead: c.form.mayLead(rounds)})
		switch next.kind {
		case declare:
			c.form.set(forming)
			continue // look again at once: every answer from now on comes from somebody who can see the declaration
		case create:
			return c.bootstrap(ctx, r)
		case join:
			c.form.set(alone)
			if done, err := c.joinVia(ctx, next.target, w); done || err != nil {
				return err
			}
		case conflict:
			c.complain(w, slog.LevelError, 0, next.why)
			c.form.set(alone)
		case wait:
			c.complain(w, slog.LevelWarn, joinSoon, next.why)
			c.form.set(alone)
		}
		if !pause(ctx, probeEvery/2+rand.N(probeEvery)) {
			return nil
		}
	}
}

// pause waits; ok is false if ctx ended.
func pause(ctx context.Context, d time.Duration) (ok bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// look asks everybody who may be there, all at once, and returns the answers of other members of the cluster name.
func (c *Cluster) look(ctx context.Context) []helloMsg {
	var mu sync.Mutex
	var out []helloMsg
	var asks sync.WaitGroup
	for _, addr := range c.form.candidates() {
		asks.Go(func() {
			m, err := call[helloMsg, helloMsg](ctx, c, "", addr, wire.Hello, c.hello())
			switch {
			case err != nil:
				level := slog.LevelDebug
				if c.form.silent(addr) {
					level = slog.LevelWarn
				}
				c.log.Log(ctx, level, "no answer from a possible member", "address", addr, "error", err)
				c.form.forget(addr)
				return
			case m.ID == c.self.ID:
				c.form.mine(addr)
				return
			}
			c.form.learn(m.Address)
			for _, p := range m.Peers {
				c.form.learn(p)
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.ContainsFunc(out, func(x helloMsg) bool { return x.ID == m.ID }) {
				out = append(out, m)
			}
		})
	}
	asks.Wait()
	slices.SortFunc(out, func(a, b helloMsg) int { return cmp.Compare(a.Address, b.Address) }) // so that the same ones are always told of alike
	return out
}

// bootstrap makes this member the first server of a raft group and waits until the cluster exists.
func (c *Cluster) bootstrap(ctx context.Context, r *raft.Raft) error {
	c.log.Info("forming a cluster", "cluster", c.cfg.ClusterName, "expect", c.cfg.Expect)
	c.group.Load().lineage.found()
	conf := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(c.self.ID), Address: serverAddress(c.self)}}}
	if err := c.await(ctx, r.BootstrapCluster(conf)); err != nil && ctx.Err() == nil {
		return fmt.Errorf("bootstrap raft: %w", err)
	}
	// This makes it look at its timers at once: nobody else can be leader, so there is nothing to wait for.
	timers := r.ReloadableConfig()
	timers.HeartbeatTimeout, timers.ElectionTimeout = c.cfg.RaftHeartbeat, c.cfg.RaftElection
	if err := r.ReloadConfig(timers); err != nil {
		return fmt.Errorf("bootstrap raft: %w", err)
	}
	for {
		s, superseded := c.View()
		if s.Formed() {
			return nil
		}
		select {
		case <-superseded:
		case <-ctx.Done():
			return nil
		}
	}
}

// joinVia asks for membership at the address, and waits until this member sees itself in the agreed state; done is false if it has to look for
// somebody to ask again.
func (c *Cluster) joinVia(ctx context.Context, addr string, w *waiting) (done bool, err error) {
	q := joinMsg{Member: c.self}
	for failures := 0; failures < 3; {
		s, superseded := c.View()
		if _, ok := s.Member(c.self.ID); ok {
			return true, nil
		}
		a, err := call[joinMsg, joinReply](ctx, c, "", addr, wire.Join, q)
		switch {
		case ctx.Err() != nil:
			return true, nil
		case errors.Is(err, grid.ErrNotReady): // the address is taken, for now
			c.complain(w, slog.LevelInfo, 0, fmt.Sprintf("%s: %v", addr, err))
		case err != nil:
			c.complain(w, slog.LevelWarn, joinSoon, fmt.Sprintf("%s: %v", addr, err))
			failures++
		case a.Removed:
			return true, ErrRemoved
		case a.Accepted:
			q.AcceptedAt = a.Index
		case a.Master != "" && a.Master != addr:
			addr = a.Master
			continue
		default:
			c.complain(w, slog.LevelWarn, joinSoon, addr+" is in a cluster that has no master at the moment")
			failures++
		}
		timer := time.NewTimer(probeEvery)
		select {
		case <-superseded:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	if q.AcceptedAt > 0 { // it is a member, and its id is used up: it cannot ask a second time as if nothing had happened
		return c.awaitSelf(ctx)
	}
	return false, nil
}

// awaitSelf waits, without anybody to ask, until the log brings this member's own membership.
func (c *Cluster) awaitSelf(ctx context.Context) (done bool, err error) {
	limit := time.NewTimer(2 * c.cfg.SessionTimeout)
	defer limit.Stop()
	for {
		s, superseded := c.View()
		if _, ok := s.Member(c.self.ID); ok {
			return true, nil
		}
		select {
		case <-superseded:
		case <-limit.C:
			return true, ErrRemoved
		case <-ctx.Done():
			return true, nil
		}
	}
}
