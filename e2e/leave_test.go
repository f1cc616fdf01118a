package e2e

import (
	"testing"
	"time"
)

// TestRollingTermination: members are told to leave one after the other, the master among them, while a fresh one comes each time. Nothing that
// was acknowledged is lost, jobs go on, and those who stay serve all the time.
func TestRollingTermination(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	j := c.members[0].start(spec{subtasks: 3, rows: 300, rate: 50})
	c.awaitRunning(j)
	for range 3 {
		fresh := c.add(loopback, loopback)
		c.awaitSafe(4)
		old := c.live()[0]
		writers := startWriters(c.keyOf(old), fresh, c.otherThan(old, fresh))
		old.term(leaveLimit)
		c.awaitSafe(3)
		check(t, writers, c.live()...)
		for _, w := range writers {
			if w.unreachable > 0 || w.unknown > 0 {
				t.Errorf("%s, which stays: %d requests unanswered, %d increments of unknown outcome", w.m.name, w.unreachable, w.unknown)
			}
		}
		for _, m := range c.live() {
			c.poll(m)
		}
	}
	c.watch([]job{j}, "FINISHED", 60*time.Second)
	j.exact(t)
}

// TestTermination_MasterWithJobs: the master is told to leave with no one to replace it, and its tasks end well elsewhere.
func TestTermination_MasterWithJobs(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--set", cleanup5s)
	jobs := c.startEvenly(spec{subtasks: 3, rows: 200, rate: 100}, spec{subtasks: 1, rows: 200, rate: 100})
	c.awaitRunning(jobs...)
	c.awaitMaster()
	c.master().term(leaveLimit)
	c.watch(jobs, "FINISHED", 60*time.Second)
	for _, j := range jobs {
		j.exact(t)
	}
	c.mapsEmptyWithin(20 * time.Second)
}

// TestRestartAtTheSameAddress: a killed member that starts again under its ports is a new, empty member, and joins.
func TestRestartAtTheSameAddress(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	for round := range 3 {
		victim := c.other()
		if round == 2 {
			victim = c.master()
		}
		key := c.keyOf(victim)
		before := read[clusterView](victim, "/api/v1/cluster")
		back := victim.restart()
		c.awaitSafe(3)
		after := read[clusterView](back, "/api/v1/cluster")
		if after.Self == before.Self || after.ClusterID != before.ClusterID || after.LostPartitions > 0 {
			t.Errorf("restarted as %+v, before %+v", after, before)
		}
		for _, m := range c.live() {
			if a := m.get(probes + key); string(a.body) != "1" {
				t.Errorf("%s after the restart: %d %s", m.name, a.status, a.body)
			}
		}
	}
}
