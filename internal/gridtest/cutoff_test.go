package gridtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

// TestCutOffMember_RefusesSoon: whoever asks a member that is cut off from all others is told so within a bounded time, not when his own
// patience ends: those who asked before, within the time that such a member needs to be sure; those who ask later, at once, and then nothing
// was done. After healing it serves again.
func TestCutOffMember_RefusesSoon(t *testing.T) {
	const (
		sure = 6 * time.Second        // a lease, the time after it, and some rounds
		soon = 100 * time.Millisecond // to look once more whether it is so
	)
	for _, master := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few)
			defer c.Stop()
			lone := c.Live()[2]
			if master {
				lone = c.Master()
			}
			m := lone.Map("m")
			c.Net.Isolate(lone.Host)
			var early sync.WaitGroup
			for i := range 34 {
				early.Go(func() {
					if took, err := timedPut(m, i); took > sure || grid.KindOf(err) == grid.Definite && err != nil {
						t.Errorf("master %t: a put at the time of the cut took %v: %v", master, took, err)
					}
				})
			}
			early.Wait()
			time.Sleep(sure)
			for i := range 34 {
				if took, err := timedPut(m, i); took > soon || err == nil || grid.KindOf(err) != grid.Retryable {
					t.Errorf("master %t: a put long after the cut took %v: %v", master, took, err)
				}
			}
			start := time.Now()
			if _, err := m.Size(context.Background()); err == nil || time.Since(start) > soon {
				t.Errorf("master %t: a size long after the cut took %v: %v", master, time.Since(start), err)
			}
			c.Net.HealAll()
			c.AwaitSafe(3, time.Minute)
			if _, err := timedPut(lone.Map("m"), 0); err != nil {
				t.Errorf("master %t: after healing: %v", master, err)
			}
		})
	}
}

// TestMemberRemoved_NobodyWaitsForIt: who asked a member that is then cut off and removed does not wait for the end of the connection, of which
// no word comes. The sweep cuts while requests are on their way.
func TestMemberRemoved_NobodyWaitsForIt(t *testing.T) {
	for cut := time.Duration(0); cut < 5*time.Millisecond; cut += time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few)
			defer c.Stop()
			lone := c.Master()
			var others []*Member
			for _, m := range c.Live() {
				if m != lone {
					others = append(others, m)
				}
			}
			start := time.Now()
			removed := make(chan time.Time, 1)
			go func() { // ends when the member is removed, which is waited for
				defer close(removed)
				c.Await(time.Minute, "its removal", func() bool { return len(others[0].Node.State().Members) == 2 })
				removed <- time.Now()
			}()
			var asked sync.WaitGroup
			ends := make([]time.Time, 34)
			for i := range ends {
				asked.Go(func() {
					for time.Since(start) <= cut { // the last of these is on its way when the cut comes
						if _, err := timedPut(others[i%2].Map("m"), i); err != nil {
							t.Errorf("cut after %v: %v", cut, err)
						}
						time.Sleep(100 * time.Microsecond)
					}
					if _, err := others[i%2].Map("m").Size(context.Background()); err != nil {
						t.Errorf("cut after %v: size: %v", cut, err)
					}
					ends[i] = time.Now()
				})
			}
			time.Sleep(cut)
			c.Net.Isolate(lone.Host)
			asked.Wait()
			at := <-removed
			for _, end := range ends {
				if late := end.Sub(at); late > 500*time.Millisecond {
					t.Errorf("cut after %v: a call ended %v after the removal", cut, late)
				}
			}
		})
	}
}

func timedPut(m *imap.Map, i int) (time.Duration, error) {
	start := time.Now()
	_, err := m.Put(context.Background(), key(fmt.Sprint(i)), imap.String("v"), 0)
	return time.Since(start), err
}
