package gridtest

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
)

// TestJoin_NotSafeBeforeItHasItsShare: whoever knows a new member as active and says that the cluster is safe knows that the member has its
// share, as primary and as backup. There is no moment between its coming and the first plan in which it looks done.
func TestJoin_NotSafeBeforeItHasItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3)
		defer c.Stop()
		c.fill(c.Live()[0], 200)
		fresh := c.Add()
		unsafe, start := 0, time.Now()
		for time.Since(start) < 20*time.Second {
			time.Sleep(time.Millisecond)
			done := true
			for _, m := range c.Live() {
				s := m.Node.State()
				if s == nil || !m.Node.Safe() || len(s.Members) < 4 {
					done = false
					unsafe++
					continue
				}
				owned, held := shareOf(s, fresh.ID())
				if owned < len(s.Partitions)/4 || held < len(s.Partitions)*2/4 {
					t.Fatalf("after %v %s says that all is safe, and the new member is primary of %d and holds %d of %d partitions",
						time.Since(start), m.Host, owned, held, len(s.Partitions))
				}
			}
			if done {
				t.Logf("safe with its share after %v", time.Since(start))
				return
			}
		}
		t.Error("it never became safe")
	})
}

func shareOf(s *grid.State, m grid.MemberID) (owned, held int) {
	for _, p := range s.Partitions {
		if p.Primary() == m {
			owned++
		}
		if p.InSync(m) {
			held++
		}
	}
	return owned, held
}

// TestSafe_NotWhileAMemberIsSilent: members die, stand still or are cut off. As long as the agreed state still has them, nobody says that the
// cluster is safe, but for the moment that it takes to notice; and who is left without a majority never says so.
func TestSafe_NotWhileAMemberIsSilent(t *testing.T) {
	for _, fault := range []struct {
		name   string
		strike func(*Cluster, *Member)
		notice time.Duration
	}{
		{"dies", (*Cluster).Crash, 600 * time.Millisecond}, // a lease, if it was the master or the majority is gone
		{"stands still", func(c *Cluster, m *Member) { c.Net.Pause(m.Host) }, 800 * time.Millisecond},
		{"is cut off", func(c *Cluster, m *Member) { c.Net.Isolate(m.Host) }, 800 * time.Millisecond},
	} {
		for _, victims := range []int{1, 2} {
			for _, master := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d %s, master %v", victims, fault.name, master), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := Start(t, 3, few)
						defer c.Stop()
						struck := c.others(c.Master())[:victims]
						if master {
							struck = append([]*Member{c.Master()}, c.others(c.Master())[:victims-1]...)
						}
						var gone []grid.MemberID
						for _, m := range struck {
							gone = append(gone, m.ID())
							fault.strike(c, m)
						}
						time.Sleep(fault.notice)
						for start := time.Now(); time.Since(start) < 8*time.Second; time.Sleep(20 * time.Millisecond) {
							for _, m := range c.Live() {
								if slices.Contains(struck, m) && fault.name == "stands still" {
									continue // it runs on in this test, and would not outside of it
								}
								s := m.Node.State()
								if has := slices.ContainsFunc(gone, func(id grid.MemberID) bool { _, is := s.Member(id); return is }); m.Node.Safe() && has {
									t.Fatalf("%s says so %v after that", m.Host, fault.notice+time.Since(start))
								}
							}
						}
					})
				})
			}
		}
	}
}
