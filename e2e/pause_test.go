package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMasterPaused: a master that stands still for longer than it may is replaced. When it goes on, it does not act as master, neither for
// clients nor for jobs, and comes back as a new member.
// It is ZK of the engine's zetaRows.
func TestMasterPaused(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--set", cleanup5s)
	j := c.members[0].start(spec{subtasks: 3, rows: 400, rate: 100})
	c.awaitRunning(j)
	old := c.master()
	was := read[clusterView](old, "/api/v1/cluster")
	key, through := c.keyOf(old), c.otherThan(old)
	old.pause()
	written := writeAgain(through, key)
	took := c.awaitMaster()
	c.t.Logf("paused %s, the master: %s is after %v", old.name, c.master().name, took.Round(time.Millisecond))
	c.await(20*time.Second, "a member less", func() bool { return read[clusterView](through, "/api/v1/cluster").Size == 2 })
	c.t.Logf("a key that it owned could be written after %v", (<-written).Round(time.Millisecond))
	old.signal(syscall.SIGCONT)
	if a, err := old.call("GET", probes+key, nil); err == nil && a.status == 200 && string(a.body) != "2" {
		t.Errorf("the member that was paused answers with an old value: %s", a.body)
	}
	old.paused = false
	c.awaitSafe(3)
	if now := read[clusterView](old, "/api/v1/cluster"); now.Self == was.Self || now.Master == was.Self || now.Term <= was.Term {
		t.Errorf("after the pause: %+v, before: %+v", now, was)
	}
	c.watch([]job{j}, "FINISHED", 60*time.Second)
	j.exact(t)
	c.mapsEmptyWithin(20 * time.Second)
}

// TestC028_MemberPausedWhileAJobFails: the failure is seen although the member that may hold the job's state stands still.
func TestC028_MemberPausedWhileAJobFails(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	dir := t.TempDir()
	j := job{dir: dir, id: c.members[0].submit(`{"env":{"job.retry.times":0,"read_limit.rows_per_second":20},
"source":[{"plugin_name":"FakeSource","mode":"sequence","row.num":20,"schema":{"fields":{"id":"bigint"}}}],
"sink":[{"plugin_name":"Assert","rules":{"row_rules":[{"rule_type":"MIN_ROW","rule_value":30}]}}]}`, "")}
	c.awaitRunning(j)
	task := info(c.members[0], j.id).Tasks[0].Member
	var idle *member // neither the master nor busy with the task
	for _, m := range c.live() {
		if m != c.master() && read[clusterView](m, "/api/v1/cluster").Self != task {
			idle = m
		}
	}
	idle.pause()
	c.watch([]job{j}, "FAILED", 30*time.Second)
	if cause := info(c.live()[0], j.id).cause(); !strings.Contains(cause, "MIN_ROW") {
		t.Errorf("cause: %q", cause)
	}
	idle.resume()
	c.awaitSafe(3)
	for _, m := range c.live() {
		c.poll(m)
	}
}
