package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
)

// TestChaos cuts links, crashes members and starts them again at random, while it checks that no removed member has a lease; at the end the
// cluster must be whole again. GRIDNODE_SEEDS sets how many runs are made.
func TestChaos(t *testing.T) {
	t.Parallel()
	runs := 2
	if n, err := strconv.Atoi(os.Getenv("GRIDNODE_SEEDS")); err == nil {
		runs = n
	}
	for seed := range uint64(runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 5
				rng := rand.New(rand.NewPCG(seed, 1))
				w := formedWorld(t, seed, n)
				hosts := hostNames[:n]
				restart := func() {
					up := map[string]bool{}
					for _, m := range w.live() {
						up[m.host] = true
					}
					for _, h := range hosts {
						if !up[h] {
							w.start(h, func(c *Config) { c.Seeds, c.Expect = seedsOf(hosts...), n })
						}
					}
				}
				for range 8 {
					a, b := hosts[rng.IntN(n)], hosts[rng.IntN(n)]
					switch rng.IntN(5) {
					case 0:
						if live := w.live(); len(live) == n { // one at a time: more may be a majority
							w.crash(live[rng.IntN(n)])
						}
					case 1:
						w.net.CutOneWay(a, b)
					case 2:
						w.net.Cut(a, b)
					case 3:
						w.net.HealAll()
					case 4:
						restart()
					}
					w.watchLeases(time.Duration(rng.IntN(1500)) * time.Millisecond)
				}
				w.net.HealAll()
				w.await("the cluster is whole", 60*time.Second, func() bool {
					restart()
					return agreed(w.live(), n)
				})
			})
		})
	}
}

// TestJoin_BySnapshot joins when the first entries of the log are gone already.
func TestJoin_BySnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 1, 1)
		m := w.master()
		if err := m.Propose(t.Context(), assign(3, 0, m.Self().ID)); err != nil {
			t.Fatal(err)
		}
		var proposals sync.WaitGroup
		for range 50 {
			proposals.Go(func() {
				for range 110 {
					_ = m.Propose(t.Context(), assign(3, 0, m.Self().ID)) // refused, but in the log
				}
			})
		}
		proposals.Wait()
		w.await("a snapshot", 2*time.Minute, func() bool { return m.raft.Load().Stats()["last_snapshot_index"] != "0" })
		joiner := w.start("b", func(c *Config) { c.Seeds = seedsOf("a") })
		w.awaitAgreed(2, 5*time.Second)
		s, _ := joiner.View()
		if s.Partitions[3].Primary() != m.Self().ID || s.Index < 5000 {
			t.Errorf("it has partition %+v at index %d", s.Partitions[3], s.Index)
		}
		if err := joiner.Propose(t.Context(), grid.Command{Replica: &grid.ReplicaChange{}}); grid.KindOf(err) != grid.Definite {
			t.Error(err)
		}
	})
}
