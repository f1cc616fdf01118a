package gridtest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

// TestWritesOnTheirWayToASilentMember_EndWithItsRemoval: a member stands still, and writes wait for it. They end when it is removed, not when
// its connection is found to be dead, and none of them is told that it is done.
func TestWritesOnTheirWayToASilentMember_EndWithItsRemoval(t *testing.T) {
	for at := time.Duration(0); at < 300*time.Microsecond; at += 50 * time.Microsecond {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few)
			defer c.Stop()
			k := key("k")
			victim := c.PrimaryOf(k)
			var through *Member
			for _, m := range c.Live() {
				if m != victim {
					through = m
				}
			}
			type end struct {
				err  error
				took time.Duration
			}
			ended := make(chan end, 1)
			begin := time.Now()
			go func() {
				_, err := through.Map("m").Set(context.Background(), k, imap.String("v"), 0)
				ended <- end{err, time.Since(begin)}
			}()
			time.Sleep(at)
			lost := victim.ID()
			c.Net.Isolate(victim.Host)
			c.Await(20*time.Second, "its removal", func() bool { _, ok := through.Node.State().Member(lost); return !ok })
			removed := time.Since(begin)
			e := <-ended
			t.Logf("cut off after %v: removed after %v, the write ended after %v: %v", at, removed, e.took, e.err)
			if e.took > removed+500*time.Millisecond {
				t.Errorf("the member was removed after %v, the write ended after %v", removed, e.took)
			}
			if e.err != nil && grid.KindOf(e.err) == grid.Definite {
				t.Errorf("the write ended with %v", e.err)
			}
			c.Net.HealAll()
			c.AwaitSafe(3, time.Minute)
		})
	}
}
