package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestRecover_ThreeOfFiveKilled: three of five processes are killed at once. The others answer nothing but 503 and 504, in bounded time, and say
// why; gridnode recover says what would happen, and does it with --force; then all is there that had an in-sync replica on one of them.
func TestRecover_ThreeOfFiveKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5)
	c.await(30*time.Second, "partitions on all five", func() bool {
		list := read[struct {
			Members []struct{ Owned, Backups int }
		}](c.members[0], "/api/v1/members").Members
		return !slices.ContainsFunc(list, func(m struct{ Owned, Backups int }) bool { return m.Owned < 50 || m.Backups < 50 })
	})
	c.awaitSafe(5)
	type entry struct {
		key       string
		partition int
	}
	var entries []entry
	for i := range 60 {
		key := fmt.Sprintf("k%d", i)
		a := c.members[i%5].must("PUT", "/api/v1/maps/m/entries/"+key, "v-"+key, "Content-Type", "text/plain")
		var v struct{ Partition int }
		if err := json.Unmarshal(a.body, &v); err != nil || a.status != 201 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		entries = append(entries, entry{key, v.Partition})
	}
	left, killed := c.members[3:], c.members[:3]
	ids := map[string]bool{}
	for _, m := range left {
		ids[read[clusterView](m, "/api/v1/cluster").Self] = true
	}
	table := read[struct{ Partitions []struct{ Replicas []string } }](left[0], "/api/v1/partitions").Partitions
	if a := left[0].must("POST", "/api/v1/cluster/recover", `{"force":true,"cluster":"`+c.name+`"}`); a.status != 409 {
		t.Errorf("a recovery of a cluster that works: %d %s", a.status, a.body)
	}
	var together sync.WaitGroup
	for _, m := range killed {
		together.Go(m.kill)
	}
	together.Wait()

	time.Sleep(time.Second) // their leases are over
	for _, path := range []string{"/api/v1/maps/m/size", "/overview"} {
		begin := time.Now()
		a := left[1].must("GET", path, "")
		if took := time.Since(begin); a.status != 503 && a.status != 504 || took > 8*time.Second || a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), "majority") {
			t.Errorf("GET %s without a majority: %d after %v: %s", path, a.status, took, a.body)
		}
	}
	dry, err := c.command("recover").CombinedOutput()
	if err != nil || !strings.Contains(string(dry), "could be recovered") || !strings.Contains(string(dry), "would be dropped: n1, n2, n3") {
		t.Fatalf("recover: %v\n%s", err, dry)
	}
	if out, err := c.command("recover", "--force", "--cluster", "another").CombinedOutput(); err == nil || !strings.Contains(string(out), c.name) {
		t.Errorf("recover of another cluster: %v\n%s", err, out)
	}
	done, err := c.command("recover", "--force", "--cluster", c.name).CombinedOutput()
	if err != nil || !strings.Contains(string(done), "is recovered") {
		t.Fatalf("recover --force: %v\n%s", err, done)
	}
	t.Logf("%s", done)
	c.awaitSafe(2)
	lost := 0
	for _, e := range entries {
		survives := slices.ContainsFunc(table[e.partition].Replicas, func(id string) bool { return ids[id] })
		a := left[1].get("/api/v1/maps/m/entries/" + e.key)
		if survives && (a.status != 200 || string(a.body) != "v-"+e.key) || !survives && a.status != 404 {
			t.Errorf("%s, in partition %d, of which a replica survives: %v: %d %s", e.key, e.partition, survives, a.status, a.body)
		}
		if !survives {
			lost++
		}
	}
	lostPartitions := 0
	for _, p := range table {
		if !slices.ContainsFunc(p.Replicas, func(id string) bool { return ids[id] }) {
			lostPartitions++
		}
	}
	if want := fmt.Sprintf("lost partitions: %d,", lostPartitions); !strings.Contains(string(done), want) || !strings.Contains(string(dry), want) {
		t.Errorf("%d partitions have no replica left, and it says\n%s", lostPartitions, done)
	}
	t.Logf("%d of %d keys were in lost partitions", lost, len(entries))
	left[0].must("PUT", "/api/v1/maps/m/entries/after", "v", "Content-Type", "text/plain")
	if a := left[1].get("/api/v1/maps/m/entries/after"); string(a.body) != "v" {
		t.Errorf("a write after the recovery: %d %s", a.status, a.body)
	}
	for _, m := range left {
		if v := read[clusterView](m, "/api/v1/cluster"); !ids[v.Self] {
			t.Errorf("%s has a new id", m.name)
		}
		if log := m.output(); !strings.Contains(log, "without a majority") {
			t.Errorf("%s logs nothing of the recovery", m.name)
		}
	}
	c.add(loopback, loopback)
	c.awaitSafe(3)
	c.killMaster()
	c.awaitSafe(2)
}

// TestRecover_PausedMemberComesBackAsNew: one of the members that were taken for gone only stood still. It does not act under its old id, with
// its old data; it comes back as a new member.
func TestRecover_PausedMemberComesBackAsNew(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	late, left := c.members[1], c.members[2]
	was := read[clusterView](late, "/api/v1/cluster")
	late.pause()
	c.members[0].kill()
	c.await(20*time.Second, "a recovery", func() bool {
		return c.command("recover", "--force", "--cluster", c.name).Run() == nil
	})
	c.await(20*time.Second, "a write", func() bool {
		w, err := left.call("PUT", "/api/v1/maps/m/entries/k", []byte("new"), "Content-Type", "text/plain")
		return err == nil && w.status < 300
	})
	late.resume()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if r, err := late.call("GET", "/api/v1/maps/m/entries/k", nil); err == nil && r.status < 500 && string(r.body) != "new" {
			t.Fatalf("it answers from the past: %d %s", r.status, r.body)
		}
	}
	c.awaitSafe(2)
	if now := read[clusterView](late, "/api/v1/cluster"); now.Self == was.Self || now.ClusterID == was.ClusterID {
		t.Errorf("it was %+v, and is %+v", was, now)
	}
	for _, m := range c.live() {
		if r := m.get("/api/v1/maps/m/entries/k"); string(r.body) != "new" {
			t.Errorf("%s: %d %s", m.name, r.status, r.body)
		}
	}
}
