package gridtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/imap"
)

// TestAllMembersLeaveAtOnce sweeps how far apart their ends begin: each must end by itself and soon, and whoever starts at the same time must
// find a cluster or form one.
func TestAllMembersLeaveAtOnce(t *testing.T) {
	for apart := time.Duration(0); apart < 400*time.Millisecond; apart += 37 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few)
			defer c.Stop()
			old := c.Live()
			var wg sync.WaitGroup
			start := time.Now()
			for i, m := range old {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * apart)
					if err := c.Leave(m); err != nil {
						t.Errorf("%s: %v", m.Host, err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("begun %v apart, the last was gone after %v", apart, took)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// TestRollingReplacement replaces every member in turn, the master included, under load: nobody gets an error.
func TestRollingReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3)
		defer c.Stop()
		for _, m := range c.Live() {
			fresh := c.Add()
			c.AwaitSafe(4, time.Minute)
			w := &tally{acked: map[string]string{}}
			ctx, cancel := context.WithCancel(context.Background())
			wg := w.run(ctx, []*Member{fresh}, 4, 100000)
			time.Sleep(50 * time.Millisecond)
			start := time.Now()
			if err := c.Leave(m); err != nil {
				t.Errorf("%s: %v", m.Host, err)
			}
			took := time.Since(start)
			c.AwaitSafe(3, time.Minute)
			cancel()
			wg.Wait()
			t.Logf("%s left in %v; %d increments meanwhile, %d unknown, %d refused", m.Host, took, w.added, w.unknown, w.refused)
			if w.unknown > 0 || w.refused > 0 {
				t.Errorf("errors reached callers while %s left", m.Host)
			}
			w.check(t, fresh)
			for i := range 3 {
				if _, err := fresh.Map("counters").Remove(context.Background(), imap.Key{Data: imap.String("c" + string(rune('0'+i)))}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestLeave_WhoeverAsksTheLeaverIsAnswered: clients that ask a member over HTTP while it leaves are served until its door closes, and find it
// closed after that. So none of them waits for what it can no longer do, and neither does the end of the member.
func TestLeave_WhoeverAsksTheLeaverIsAnswered(t *testing.T) {
	for _, members := range []int{2, 3} {
		for _, master := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := Start(t, members, few)
				defer c.Stop()
				c.AwaitSafe(members, time.Minute)
				m := c.Master()
				if !master {
					m = c.others(m)[0]
				}
				askers := c.keepAsking(m, 8)
				time.Sleep(100 * time.Millisecond)
				start := time.Now()
				if err := c.Leave(m); err != nil {
					t.Errorf("%s: %v", m.Host, err)
				}
				took := time.Since(start)
				askers.Wait()
				if took > 3*time.Second {
					t.Errorf("of %d members one, master: %v, was gone after %v", members, master, took)
				}
			})
		}
	}
}

// keepAsking lets clients write and read through a member until it does not answer any more. What it answers must be right, and soon.
func (c *Cluster) keepAsking(m *Member, clients int) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for n := 0; ; n++ {
				path := fmt.Sprintf("/api/v1/maps/m/entries/k%d-%d", i, n/2%50)
				start := time.Now()
				a, err := c.Ask(m, []string{"PUT", "GET"}[n%2], path, "v")
				if took := time.Since(start); took > time.Second || err == nil && a.Status >= 300 {
					c.t.Errorf("%s answers after %v: %d %s (%v)", m.Host, took, a.Status, a.Body, err)
				}
				if err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	return &wg
}
