// Package gridtest runs whole clusters in one process, on an in-memory network: real nodes, production timings, fake time. A test runs
// inside a [testing/synctest] bubble; then a failover takes milliseconds.
package gridtest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/grid"
	"gridnode/imap"
	"gridnode/internal/memnet"
	"gridnode/node"
	"gridnode/partition"
)

// memberlistRest is what memberlist's goroutines need to notice its Shutdown, which does not wait for them. The time is fake.
const memberlistRest = time.Minute

// Cluster is a cluster under test.
type Cluster struct {
	t       testing.TB
	Net     *memnet.Net
	members []*Member
	config  func(*node.Config)
}

// Member is one process start in the cluster; a restart at the same host is another Member.
type Member struct {
	Host string
	Node *node.Node

	stop context.CancelCauseFunc
	done chan error
	gone bool
}

// Option changes the config of every member.
type Option func(*node.Config)

// Start forms a cluster of n members, on hosts m1, m2 and so on, and waits until it is safe. It must be called inside a bubble, which the
// members leave when the test ends: call [Cluster.Stop] before that.
func Start(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t, Net: memnet.New(1)}
	c.config = func(cfg *node.Config) {
		cfg.Expect = n
		for _, o := range opts {
			o(cfg)
		}
	}
	for i := range n {
		c.begin(fmt.Sprintf("m%d", i+1))
	}
	c.AwaitSafe(n, time.Minute)
	return c
}

// seeds are the addresses that every member is told to join.
func seeds() []string { return []string{"m1:5701", "m2:5701", "m3:5701"} }

func (c *Cluster) begin(host string) *Member {
	c.t.Helper()
	cfg := node.DefaultConfig()
	cfg.Name, cfg.Network = host, c.Net.Host(host)
	cfg.Bind, cfg.HTTP = host+":5701", host+":8080"
	cfg.GridPortAuto, cfg.HTTPPortAuto, cfg.Discover, cfg.Insecure = false, false, false, true
	cfg.Join = seeds()
	cfg.Logger = slog.New(slog.NewTextHandler(logWriter{c.t}, &slog.HandlerOptions{Level: logLevel()}))
	c.config(&cfg)
	n, err := node.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	m := &Member{Host: host, Node: n, stop: stop, done: make(chan error, 1)}
	go func() { m.done <- n.Run(ctx) }()
	c.members = append(c.members, m)
	return m
}

// logLevel keeps tests quiet unless GRIDTEST_LOG says otherwise.
func logLevel() slog.Level {
	level := slog.LevelError + 4
	if s := os.Getenv("GRIDTEST_LOG"); s != "" {
		_ = level.UnmarshalText([]byte(s))
	}
	return level
}

type logWriter struct{ t testing.TB }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s %s", time.Now().Format("05.000"), b[:len(b)-1])
	return len(b), nil
}

// Add starts one more member, on a new host.
func (c *Cluster) Add() *Member { return c.begin(fmt.Sprintf("m%d", len(c.members)+1)) }

// Restart starts a new member at the host of one that is gone.
func (c *Cluster) Restart(m *Member) *Member { return c.begin(m.Host) }

// Live returns the members that run.
func (c *Cluster) Live() []*Member {
	var out []*Member
	for _, m := range c.members {
		if !m.gone {
			out = append(out, m)
		}
	}
	return out
}

// Crash ends a member as a kill does: its connections are reset, nothing is handed over.
func (c *Cluster) Crash(m *Member) {
	c.t.Helper()
	m.gone = true
	c.Net.Crash(m.Host)
	m.stop(node.ErrCrash)
	<-m.done
}

// Leave ends a member as SIGTERM does, and returns what its Run returned.
func (c *Cluster) Leave(m *Member) error {
	m.gone = true
	m.stop(context.Canceled)
	return <-m.done
}

// Stop ends all members, all at once. The bubble may end after it.
func (c *Cluster) Stop() {
	c.StopNow()
	time.Sleep(memberlistRest)
}

// StopNow is Stop for a cluster outside of a bubble.
func (c *Cluster) StopNow() {
	live := c.Live()
	for _, m := range live {
		m.gone = true
		m.stop(node.ErrCrash)
	}
	for _, m := range live {
		<-m.done
	}
}

// Await waits until cond holds, checking every few milliseconds, and fails the test after limit.
func (c *Cluster) Await(limit time.Duration, what string, cond func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	for !cond() {
		if time.Since(start) > limit {
			for _, m := range c.Live() {
				if s := m.Node.State(); s != nil {
					c.t.Logf("%s: master %s, index %d, complete %t, owes %+v", m.Host, s.Master, s.Index, s.Complete(), partition.Owed(s))
				}
			}
			c.t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(start)
}

// AwaitSafe waits until every live member sees n members and all partitions with their full set of replicas.
func (c *Cluster) AwaitSafe(n int, limit time.Duration) time.Duration {
	c.t.Helper()
	return c.Await(limit, fmt.Sprintf("%d members and safe", n), func() bool {
		for _, m := range c.Live() {
			s := m.Node.State()
			if s == nil || len(s.Members) != n || !m.Node.Safe() {
				return false
			}
			select {
			case <-m.Node.Ready():
			default:
				return false
			}
		}
		return true
	})
}

// Master returns the member that most live members know as master, or nil.
func (c *Cluster) Master() *Member {
	for _, m := range c.Live() {
		s := m.Node.State()
		if s == nil {
			continue
		}
		if i := slices.IndexFunc(c.members, func(x *Member) bool { return !x.gone && x.ID() == s.Master }); i >= 0 {
			return c.members[i]
		}
	}
	return nil
}

// ID returns the member's present id.
func (m *Member) ID() grid.MemberID { return grid.MemberID(m.Node.Info().MemberID) }

// Map returns a map, seen through this member.
func (m *Member) Map(name string) *imap.Map { return m.Node.Maps().Map(name) }

// Jobs returns this member's job engine.
func (m *Member) Jobs() *engine.Service { return m.Node.Jobs() }

// PrimaryOf returns the live member that is primary of a key, or nil.
func (c *Cluster) PrimaryOf(k imap.Key) *Member {
	s := c.Live()[0].Node.State()
	p, ok := c.Live()[0].Node.Maps().Partition(k)
	if !ok {
		return nil
	}
	for _, m := range c.Live() {
		if m.ID() == s.Partitions[p].Primary() {
			return m
		}
	}
	return nil
}
