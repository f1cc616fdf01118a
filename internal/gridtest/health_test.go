package gridtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/node"
)

// TestDeadMaster_IsNotReadyMaster: from when their leases are over until there is another master, the others do not say that there is one.
func TestDeadMaster_IsNotReadyMaster(t *testing.T) {
	for _, n := range []int{2, 3} { // with two, there never is another one
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, n, few)
			defer c.Stop()
			old := c.Master()
			c.Crash(old)
			time.Sleep(510 * time.Millisecond) // a lease
			m := c.Live()[0]
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				a, err := c.Ask(m, "GET", "/readyz", "")
				if err != nil {
					t.Fatal(err)
				}
				if next := m.Node.State().Master; next != old.ID() {
					break
				}
				if a.Status != 503 || !strings.Contains(a.Body, "[-]master failed: nothing has come from a master for") || !strings.Contains(a.Body, old.Host) {
					t.Fatalf("the master is dead and no other known, and readyz says %d\n%s", a.Status, a.Body)
				}
			}
			if n == 3 {
				c.Await(10*time.Second, "ready again", func() bool {
					a, err := c.Ask(m, "GET", "/readyz", "")
					return err == nil && a.Status == 200 && strings.Contains(a.Body, "[+]master ok")
				})
			}
		})
	}
}

// clusterView is what GET /api/v1/cluster says about safety.
type clusterView struct {
	BackupCount, Backups, DataMembers, LostPartitions, PartitionLosses int
	Safe                                                               bool
}

func (c *Cluster) view(m *Member) (v clusterView) {
	c.t.Helper()
	a, err := c.Ask(m, "GET", "/api/v1/cluster", "")
	if err == nil {
		err = json.Unmarshal([]byte(a.Body), &v)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

// allSee reports whether every live member sees n members.
func (c *Cluster) allSee(n int) bool {
	for _, m := range c.Live() {
		if s := m.Node.State(); s == nil || len(s.Members) != n {
			return false
		}
	}
	return true
}

// TestClusterView_SaysHowManyBackupsThereAre: safe means as safe as the members allow; how safe that is stands beside it.
func TestClusterView_SaysHowManyBackupsThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := func(cfg *node.Config) { cfg.BackupCount = 2 }
		c := Start(t, 1, few, two)
		defer c.Stop()
		for n := 1; n <= 4; n++ {
			want := clusterView{BackupCount: 2, Backups: min(n-1, 2), DataMembers: n, Safe: true}
			if got := c.view(c.Live()[0]); got != want {
				t.Errorf("%d members: %+v, want %+v", n, got, want)
			}
			if n < 4 {
				c.Add()
				c.AwaitSafe(n+1, time.Minute)
			}
		}
	})
}

// TestPartitionLosses_AreCounted: each partition whose replicas all die at once counts once, on every member, and goes on counting.
func TestPartitionLosses_AreCounted(t *testing.T) {
	for _, policy := range []node.LossPolicy{node.LossEmpty, node.LossBlock} {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 5, func(cfg *node.Config) { cfg.OnPartitionLoss = policy })
			defer c.Stop()
			losses := 0
			for round := 1; round <= 2; round++ {
				c.awaitBalance(100)
				s, both := c.Live()[0].Node.State(), 0
				victims := c.Live()[3:5]
				for _, p := range s.Partitions {
					if len(p.Replicas) == 2 && p.InSync(victims[0].ID()) && p.InSync(victims[1].ID()) {
						both++
					}
				}
				for _, m := range victims {
					c.Crash(m)
				}
				c.Await(20*time.Second, "their removal", func() bool { return c.allSee(3) })
				if losses += both; both == 0 {
					t.Fatal("no partition was on both")
				}
				for range 2 {
					c.Add()
				}
				c.Await(time.Minute, "five members", func() bool { return c.allSee(5) })
				for _, m := range c.Live() { // the new ones have been told
					v := c.view(m)
					if v.PartitionLosses != losses {
						t.Errorf("%s after round %d: %d losses, want %d", m.Host, round, v.PartitionLosses, losses)
					}
					if policy == node.LossBlock && v.LostPartitions != losses {
						t.Errorf("%s: %d partitions are lost, want %d", m.Host, v.LostPartitions, losses)
					}
					a, err := c.Ask(m, "GET", "/metrics", "")
					if want := fmt.Sprintf("gridnode_partition_losses_total %d\n", losses); err != nil || !strings.Contains(a.Body, want) {
						t.Errorf("%s: /metrics does not say %s", m.Host, want)
					}
				}
				if policy == node.LossBlock {
					break
				}
				c.AwaitSafe(5, time.Minute)
			}
		})
	}
}

// awaitBalance waits until every live member is in-sync for at least so many partitions, and nothing moves any more. Right after a member has
// come the cluster may seem safe, for no move has been planned yet.
func (c *Cluster) awaitBalance(least int) {
	c.t.Helper()
	c.Await(time.Minute, "a balanced cluster", func() bool {
		s := c.Live()[0].Node.State()
		for _, m := range c.Live() {
			n := 0
			for _, p := range s.Partitions {
				if p.InSync(m.ID()) {
					n++
				}
			}
			if n < least {
				return false
			}
		}
		return c.Live()[0].Node.Safe()
	})
}
