package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
)

// crashMajority crashes so many voters that those who are left have no majority; the master is one of them if that is said.
func (w *world) crashMajority(withMaster bool) (left []*member) {
	w.t.Helper()
	master := w.master()
	var voters []*member
	for _, m := range w.live() {
		if w.votes(m) && m != master {
			voters = append(voters, m)
		}
	}
	if withMaster {
		voters = append([]*member{master}, voters...)
	} else {
		voters = append(voters, master)
	}
	for _, m := range voters[:(len(voters)+1)/2] {
		w.crash(m)
	}
	return w.live()
}

// noLeases waits until nobody has a lease.
func (w *world) noLeases() {
	w.t.Helper()
	w.await("the end of all leases", 5*time.Second, func() bool {
		return !slices.ContainsFunc(w.live(), func(m *member) bool { return m.LeaseValid() })
	})
}

func TestRecover_SurvivorsGoOn(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 4, 5, 6} {
		for _, withMaster := range []bool{true, false} {
			for _, which := range []int{0, -1} { // who is asked
				synctest.Test(t, func(t *testing.T) {
					w := formedWorld(t, uint64(n), n)
					before, _ := w.master().View()
					left := w.crashMajority(withMaster)
					if len(left) == 0 {
						return
					}
					w.noLeases()
					at := left[0]
					if which < 0 {
						at = left[len(left)-1]
					}
					dry, err := at.Recover(t.Context(), false)
					if err != nil {
						t.Fatalf("%d members: dry run: %v", n, err)
					}
					if s, _ := at.View(); s.ClusterID != before.ClusterID || s.Recoveries != 0 {
						t.Fatal("a dry run changed something")
					}
					start := time.Now()
					report, err := at.Recover(t.Context(), true)
					if err != nil {
						t.Fatalf("%d members: %v", n, err)
					}
					if len(report.Survivors) != len(left) || len(report.Dropped) != n-len(left) || len(dry.Survivors) != len(report.Survivors) {
						t.Errorf("%d of %d survive: %+v", len(left), n, report)
					}
					w.awaitAgreed(len(left), 10*time.Second)
					took := time.Since(start)
					after, _ := at.View()
					if after.ClusterID == before.ClusterID || after.Term <= before.Term || after.Recoveries != 1 || after.Index < before.Index {
						t.Errorf("before: %s term %d index %d, after: %s term %d index %d", before.ClusterID, before.Term, before.Index, after.ClusterID, after.Term, after.Index)
					}
					want := (len(left)-1)/2*2 + 1
					w.await(fmt.Sprint(want, " voters"), 5*time.Second, func() bool { return w.voters() == min(want, maxVoters) })
					t.Logf("%d of %d went on after %v, %d voters", len(left), n, took, w.voters())
					if _, err := at.Recover(t.Context(), true); !errors.Is(err, grid.ErrRefused) {
						t.Errorf("a second recovery: %v", err)
					}
					// It works as any cluster: members join, and the next one dies and is removed.
					w.start("g", func(c *Config) { c.Seeds = seedsOf(left[0].host) })
					w.awaitAgreed(len(left)+1, 10*time.Second)
				})
			}
		}
	}
}

func TestRecover_IsRefusedWhileTheClusterCanDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 1, 5)
		for _, force := range []bool{false, true} {
			if _, err := w.live()[0].Recover(t.Context(), force); !errors.Is(err, grid.ErrRefused) {
				t.Errorf("with a master: %v", err)
			}
		}
		master := w.master()
		w.crash(master)
		time.Sleep(550 * time.Millisecond) // the leases are over, or nearly, and nobody is elected
		if _, err := w.live()[0].Recover(t.Context(), true); !errors.Is(err, grid.ErrRefused) {
			t.Errorf("four of five voters are there: %v", err)
		}
		w.awaitAgreed(4, 10*time.Second) // and the refusal has cost them nothing
		alone := w.start("x", func(c *Config) { c.Seeds, c.Expect = seedsOf("nowhere"), 2 })
		if _, err := alone.Recover(t.Context(), true); !errors.Is(err, grid.ErrNotJoined) {
			t.Errorf("a member that never joined: %v", err)
		}
		alone.cancel()
	})
}

// TestRecover_TwoAtOnce: of two recoveries at the same time at most one is carried out, and the survivors end in one cluster.
func TestRecover_TwoAtOnce(t *testing.T) {
	t.Parallel()
	for apart := time.Duration(0); apart < 2*time.Millisecond; apart += 200 * time.Microsecond {
		synctest.Test(t, func(t *testing.T) {
			w := formedWorld(t, uint64(apart), 5)
			left := w.crashMajority(true)
			if len(left) != 3 && len(left) != 2 {
				t.Fatalf("%d are left", len(left))
			}
			w.noLeases()
			var both sync.WaitGroup
			errs := make([]error, 2)
			for i := range 2 {
				both.Go(func() {
					time.Sleep(time.Duration(i) * apart)
					_, errs[i] = left[i].Recover(context.Background(), true)
				})
			}
			both.Wait()
			if errs[0] != nil && errs[1] != nil { // each kept the other off: nothing has happened, and it can be tried again
				w.await("a recovery", recoveryPromise+time.Minute, func() bool {
					_, err := left[0].Recover(context.Background(), true)
					return err == nil
				})
			}
			w.awaitAgreed(len(left), 10*time.Second)
			if s, _ := left[0].View(); s.Recoveries != 1 {
				t.Errorf("%v apart: %d recoveries, %v", apart, s.Recoveries, errs)
			}
		})
	}
}

// A member that was only cut off, or stood still, finds itself removed when that ends: it never acts under its old id again.
func TestRecover_OldMinorityComesBackAsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 9, 5)
		master := w.master()
		others := w.others(master)
		w.crash(master)
		w.crash(others[0])
		late := others[1]
		w.net.Isolate(late.host) // as one that stands still
		w.noLeases()
		report, err := others[2].Recover(t.Context(), true)
		if err != nil || len(report.Survivors) != 2 {
			t.Fatalf("%+v, %v", report, err)
		}
		w.await("two members", 10*time.Second, func() bool { return agreed(others[2:4], 2) })
		w.net.HealAll()
		w.watchLeases(2 * time.Second)
		w.await("the late one's end", 10*time.Second, func() bool {
			select {
			case <-late.done:
				return true
			default:
				return false
			}
		})
		if !errors.Is(late.err, ErrRemoved) {
			t.Errorf("Run ended with %v", late.err)
		}
		w.start(late.host, func(c *Config) { c.Seeds = seedsOf(others[2].host, others[3].host) })
		w.awaitAgreed(3, 10*time.Second)
	})
}

// The majority was only cut off, and went on: the operator was wrong. There are two clusters then, and they never mix.
func TestRecover_OldMajorityLives_TwoClustersThatNeverMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 9, 5)
		all := w.live()
		master := w.master()
		with := []*member{master}
		var without []*member
		for _, m := range w.others(master) {
			if len(with) < 3 {
				with = append(with, m)
			} else {
				without = append(without, m)
			}
		}
		for _, a := range with {
			for _, b := range without {
				w.net.Cut(a.host, b.host)
			}
		}
		w.await("the others' removal", 20*time.Second, func() bool { return agreed(with, 3) })
		if _, err := without[0].Recover(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		w.await("two clusters", 10*time.Second, func() bool { return agreed(without, 2) && agreed(with, 3) })
		w.net.HealAll()
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if !agreed(without, 2) || !agreed(with, 3) {
				for _, m := range all {
					s, _ := m.View()
					t.Logf("%s: %s %d members, master %s, lease %v", m.host, s.ClusterID, len(s.Members), s.Master, m.LeaseValid())
				}
				t.Fatal("the clusters disturb each other")
			}
		}
		a, _ := with[0].View()
		b, _ := without[0].View()
		if a.ClusterID == b.ClusterID {
			t.Error("they have one id")
		}
	})
}

// The majority stood still for a moment only, and the operator was quick, and wrong. It goes on, too, and does not believe the others that it
// was removed, whom it knows as members still and asks while nobody grants it a lease.
func TestRecover_OldMajorityStoodStill_GoesOn(t *testing.T) {
	t.Parallel()
	for i := range 3 { // whom it asks depends on the moment
		synctest.Test(t, func(t *testing.T) {
			w := formedWorld(t, uint64(i), 5)
			master := w.master()
			others := w.others(master)
			still, without := append([]*member{master}, others[:2]...), others[2:]
			for _, m := range still {
				w.net.Isolate(m.host)
			}
			w.noLeases()
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			if _, err := without[0].Recover(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			w.net.HealAll()
			w.await("two clusters", 20*time.Second, func() bool { return agreed(without, 2) && agreed(still, 3) })
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if !agreed(without, 2) || !agreed(still, 3) {
					t.Fatal("the clusters disturb each other")
				}
			}
		})
	}
}

// TestRecover_TakesTheNewestState: a survivor that lags behind learns from the one that knows most, and what stands in a log counts, although
// nobody knows whether it was committed.
func TestRecover_TakesTheNewestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 3, 5)
		master := w.master()
		behind, ahead, others := w.others(master)[0], w.others(master)[1], w.others(master)[2:]
		assign := func(ctx context.Context, p grid.PartitionID) error {
			return master.Propose(ctx, grid.Command{Replica: &grid.ReplicaChange{Op: grid.OpAssign, Partition: p, Members: []grid.MemberID{ahead.Self().ID}}})
		}
		w.net.Isolate(behind.host)
		for p := range grid.PartitionID(5) { // what the one behind does not see
			if err := assign(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range others {
			w.net.Cut(master.host, m.host)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := assign(ctx, 5); err == nil { // two of five have it
			t.Fatal("it was committed")
		}
		if s, _ := ahead.View(); s.Partitions[5].Epoch != 0 {
			t.Fatal("it was applied")
		}
		for _, m := range append(others, master) {
			w.crash(m)
		}
		w.net.HealAll()
		w.noLeases()
		if _, err := behind.Recover(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		w.awaitAgreed(2, 10*time.Second)
		for _, m := range []*member{behind, ahead} {
			s, _ := m.View()
			for i := range 6 {
				if p := s.Partitions[i]; p.Primary() != ahead.Self().ID || p.Epoch < 1000 {
					t.Errorf("%s: partition %d: %+v", m.host, i, p)
				}
			}
			if p := s.Partitions[6]; p.Epoch != 0 || p.Lost {
				t.Errorf("%s: a partition that nobody ever had: %+v", m.host, p)
			}
		}
	})
}

// TestRecover_ASurvivorMissesIt sweeps the instant at which one of three survivors is cut off while the recovery runs. Whenever that is, the
// others go on, and the third is one of them again when the cut ends soon: raft brings it the new state as it does to any that lags.
func TestRecover_ASurvivorMissesIt(t *testing.T) {
	t.Parallel()
	for at := time.Duration(0); at < 2500*time.Microsecond; at += 250 * time.Microsecond {
		synctest.Test(t, func(t *testing.T) {
			w := formedWorld(t, uint64(at), 6)
			left := w.crashMajority(true)
			if len(left) != 3 {
				t.Fatalf("%d are left", len(left))
			}
			w.noLeases()
			done := make(chan error, 1)
			go func() { _, err := left[0].Recover(context.Background(), true); done <- err }()
			time.Sleep(at)
			w.net.Cut(left[2].host, left[0].host)
			w.net.Cut(left[2].host, left[1].host)
			if err := <-done; err != nil {
				t.Fatalf("cut after %v: %v", at, err)
			}
			w.await("two of them", 10*time.Second, func() bool {
				s, _ := left[0].View()
				return s.Recoveries == 1 && left[0].LeaseValid() && left[1].LeaseValid()
			})
			w.net.HealAll()
			w.await("the third is there, or removed", 20*time.Second, func() bool {
				select {
				case <-left[2].done:
					return errors.Is(left[2].err, ErrRemoved) && agreed(left[:2], 2)
				default:
					return agreed(left, 3)
				}
			})
			w.watchLeases(time.Second)
		})
	}
}

// TestLineage: a stream is for one group. A newer group takes over who is its member; an older one, or another one of the same age, nobody.
func TestLineage(t *testing.T) {
	founder, joiner, other := newLineage(nil), newLineage(nil), newLineage(nil)
	after := func(n uint64, ballot string) *lineage {
		return newLineage(&recoveryPlan{Ballot: ballot, State: &grid.State{Recoveries: n}})
	}
	founder.found()
	for _, tc := range []struct {
		name     string
		from, to *lineage
		want     bool
	}{
		{"from who has no group", other, joiner, false},
		{"to who joins", founder, joiner, true},
		{"back", joiner, founder, true},
		{"within a recovered group", after(1, "x"), after(1, "x"), true},
		{"from before a recovery", founder, after(1, "x"), false},
		{"between two recoveries", after(1, "x"), after(1, "y"), false},
		{"from a later one", after(2, "z"), after(1, "x"), true},
		{"to who has missed the recovery", after(1, "x"), joiner, true},
		{"who is of the new group then", founder, joiner, false},
		{"and speaks for it", joiner, after(1, "x"), true},
	} {
		if got := tc.to.accepts(tc.from.label()); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	for _, label := range []string{"", "x", "-1 ", "1"} {
		if after(1, "x").accepts(label) {
			t.Errorf("label %q is taken", label)
		}
	}
}
