package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	loopback   = "127.0.0.1:0"
	leaveLimit = 20 * time.Second // for a member that is told to leave
	masterDue  = 5 * time.Second  // for a new master after the death of the old one
)

// cluster is a set of processes that know each other, and what the test knows about their jobs.
type cluster struct {
	t       *testing.T
	name    string
	args    []string        // of every member
	place   func(*exec.Cmd) // changes the command of a member, if set, so that it runs on a host of its own
	members []*member
	jobs    map[string]bool   // ids of all jobs that were accepted
	ended   map[string]string // how those ended that were seen to have ended
}

var clusters atomic.Int64

// newCluster is a cluster without members yet. When the test is over, what lives is told to leave, all at once.
func newCluster(t *testing.T, args ...string) *cluster {
	t.Helper()
	name := fmt.Sprintf("e2e-%d-%d", os.Getpid(), clusters.Add(1))
	c := &cluster{t: t, name: name, args: args, jobs: map[string]bool{}, ended: map[string]string{}}
	t.Cleanup(c.stop)
	return c
}

// startCluster starts n members and waits until they are one safe cluster.
func startCluster(t *testing.T, n int, args ...string) *cluster {
	t.Helper()
	c := newCluster(t, args...)
	for range n {
		c.add(loopback, loopback)
	}
	c.awaitSafe(n)
	return c
}

// live returns the members that the test has neither ended nor paused.
func (c *cluster) live() []*member {
	var out []*member
	for _, m := range c.members {
		if !m.gone && !m.paused {
			out = append(out, m)
		}
	}
	return out
}

func (c *cluster) stop() {
	if !c.t.Failed() {
		c.leaveAtOnce()
	}
	for _, m := range c.members {
		m.kill()
	}
	if c.t.Failed() {
		for _, m := range c.members {
			c.t.Logf("---- %s\n%s", m.name, tail(m.output(), 6000))
		}
	}
}

// leaveAtOnce tells all members to leave at the same time.
func (c *cluster) leaveAtOnce() {
	live := c.live()
	for _, m := range live {
		m.signal(syscall.SIGTERM)
	}
	for _, m := range live {
		m.gone = true
		m.awaitExit(leaveLimit)
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// await polls until cond holds, and tells how long that took.
func (c *cluster) await(limit time.Duration, what string, cond func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	for !cond() {
		if time.Since(start) > limit {
			c.t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(start)
}

type clusterView struct {
	ClusterID, Name, Master, MasterName, Self string
	Size, Partitions, LostPartitions          int
	Term                                      uint64
	Safe                                      bool
}

func (c *cluster) awaitSafe(n int) {
	c.t.Helper()
	c.await(30*time.Second, fmt.Sprintf("%d members and safe", n), func() bool {
		for _, m := range c.live() {
			if v := read[clusterView](m, "/api/v1/cluster"); v.Size != n || !v.Safe || v.Master == "" {
				return false
			}
		}
		return true
	})
}

// master returns the live member that all live members call master; nil as long as they do not agree on one.
func (c *cluster) master() *member {
	name := ""
	for _, m := range c.live() {
		a, err := m.call("GET", "/api/v1/cluster", nil)
		var v clusterView
		if err != nil || json.Unmarshal(a.body, &v) != nil || name != "" && v.MasterName != name {
			return nil
		}
		name = v.MasterName
	}
	for _, m := range c.live() {
		if m.name == name {
			return m
		}
	}
	return nil
}

// awaitMaster waits for a master that all agree on.
func (c *cluster) awaitMaster() time.Duration {
	c.t.Helper()
	return c.await(masterDue, "a master that all agree on", func() bool { return c.master() != nil })
}

// other returns a live member that is not the master.
func (c *cluster) other() *member {
	c.t.Helper()
	c.awaitMaster()
	return c.otherThan(c.master())
}

// otherThan returns a live member that is none of these.
func (c *cluster) otherThan(these ...*member) *member {
	c.t.Helper()
next:
	for _, m := range c.live() {
		for _, x := range these {
			if m == x {
				continue next
			}
		}
		return m
	}
	c.t.Fatal("there is no other member")
	return nil
}

// killMaster kills the master and waits for the next.
func (c *cluster) killMaster() *member {
	c.t.Helper()
	c.awaitMaster()
	old := c.master()
	c.killMember(old)
	return old
}

// killMember kills a member and logs how long the others could not write what it owned, and how long they had no master if it was that.
func (c *cluster) killMember(victim *member) {
	c.t.Helper()
	wasMaster, term := victim == c.master(), read[clusterView](victim, "/api/v1/cluster").Term
	key, through := c.keyOf(victim), c.otherThan(victim)
	victim.kill()
	written := writeAgain(through, key)
	if wasMaster {
		took := c.awaitMaster()
		c.t.Logf("killed %s, the master: %s is after %v", victim.name, c.master().name, took.Round(time.Millisecond))
		if now := read[clusterView](through, "/api/v1/cluster").Term; now <= term {
			c.t.Errorf("the new master's term is %d, the old one's was %d", now, term)
		}
	}
	select {
	case took := <-written:
		c.t.Logf("killed %s: a key that it owned could be written after %v", victim.name, took.Round(time.Millisecond))
	case <-time.After(20 * time.Second):
		c.t.Fatalf("a key that %s owned could not be written within 20 s", victim.name)
	}
}

// keyOf returns a key that a member is the primary of.
func (c *cluster) keyOf(owner *member) string {
	c.t.Helper()
	key := ""
	c.await(20*time.Second, "a key of "+owner.name, func() bool {
		key = fmt.Sprintf("of-%s-%d", owner.name, time.Now().UnixNano())
		a, err := owner.call("PUT", probes+key, []byte("1"), "Content-Type", "text/plain")
		var v struct{ Primary string }
		return err == nil && a.status < 300 && json.Unmarshal(a.body, &v) == nil && v.Primary == owner.name
	})
	return key
}

const probes = "/api/v1/maps/probes/entries/"

// writeAgain writes a key until that succeeds, and sends how long that took.
func writeAgain(m *member, key string) <-chan time.Duration {
	took := make(chan time.Duration, 1)
	start := time.Now()
	go func() {
		for {
			select {
			case <-m.ended:
				return
			default:
			}
			if a, err := m.call("PUT", probes+key, []byte("2"), "Content-Type", "text/plain"); err == nil && a.status < 300 {
				took <- time.Since(start)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return took
}
