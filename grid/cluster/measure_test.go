package cluster

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestMeasureFailover prints how long elections and removals take, in fake time, for several timings. It is run by hand, with
// GRIDNODE_MEASURE=1: the defaults were chosen by it.
func TestMeasureFailover(t *testing.T) {
	if os.Getenv("GRIDNODE_MEASURE") == "" {
		t.Skip("GRIDNODE_MEASURE is not set")
	}
	const ms = time.Millisecond
	for _, x := range []struct{ raft, lease, beat time.Duration }{
		{250 * ms, 500 * ms, 100 * ms}, {300 * ms, 500 * ms, 100 * ms}, {400 * ms, 500 * ms, 100 * ms}, {400 * ms, 1000 * ms, 200 * ms},
	} {
		for _, n := range []int{3, 5} {
			var election, master, follower []time.Duration
			for i := range 60 {
				for _, who := range []string{"master", "follower"} {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, uint64(i))
						w.config = func(c *Config) {
							c.RaftHeartbeat, c.RaftElection, c.RaftLeaderLease = x.raft, x.raft, x.raft/2
							c.Heartbeat, c.Lease = x.beat, x.lease
						}
						hosts := hostNames[:n]
						w.startAll(hosts, func(c *Config) { c.Seeds, c.Expect = seedsOf(hosts...), n })
						w.awaitAgreed(n, 10*time.Second)
						w.await("voters", 5*time.Second, func() bool { return w.voters() == n })
						time.Sleep(time.Second + time.Duration(i)*7*ms)
						old := w.master()
						if who == "follower" {
							w.crash(w.others(old)[0])
							follower = append(follower, w.awaitAgreed(n-1, 10*time.Second))
							return
						}
						w.crash(old)
						e := w.await("new master", 10*time.Second, func() bool {
							id, _, ok := w.live()[0].Master()
							return ok && id != old.Self().ID
						})
						election = append(election, e)
						master = append(master, e+w.awaitAgreed(n-1, 10*time.Second))
					})
				}
			}
			fmt.Printf("raft %s lease %s n=%d: election %s, master removed %s, follower removed %s\n", x.raft, x.lease, n, spread(election), spread(master), spread(follower))
		}
	}
}

func spread(d []time.Duration) string {
	slices.Sort(d)
	return fmt.Sprintf("%s (%s-%s)", d[len(d)/2], d[0], d[len(d)-1])
}
