package gridtest

import (
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
