package e2e

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestC173_MemberHangs_AgainAndAgain: one of five stands still, for shorter and for longer than silent members are kept, and goes on in between.
// The other four see each other all the time; it may come and go, and is back in the end without having been started again.
func TestC173_MemberHangs_AgainAndAgain(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5)
	bad := c.other()
	good := slices.DeleteFunc(c.live(), func(m *member) bool { return m == bad })
	writers := startWriters(c.keyOf(bad), good[:2]...)
	for _, pause := range []time.Duration{2 * time.Second, 6 * time.Second, time.Second} {
		bad.pause()
		c.togetherFor(pause, good)
		bad.resume()
		c.togetherFor(time.Second, good)
	}
	took := c.await(30*time.Second, "all five members", func() bool { return slices.Min(sizes(c.live())) == 5 && c.master() != nil })
	t.Logf("all five are back %v after the last pause", took.Round(time.Millisecond))
	c.awaitSafe(5)
	check(t, writers, c.live()...)
	select {
	case <-bad.ended:
		t.Errorf("%s has ended: %v", bad.name, bad.cmd.ProcessState)
	default:
	}
}

// togetherFor checks for a while that each of the members lists all of them.
func (c *cluster) togetherFor(d time.Duration, these []*member) {
	c.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, m := range these {
			body := string(m.get("/api/v1/members").body)
			for _, x := range these {
				if !strings.Contains(body, strconv.Quote(x.name)) {
					c.t.Fatalf("%s does not see %s any more: %s", m.name, x.name, body)
				}
			}
		}
	}
}

func sizes(members []*member) (out []int) {
	for _, m := range members {
		out = append(out, read[clusterView](m, "/api/v1/cluster").Size)
	}
	return out
}

// TestPausedPrimary_WakesToManyReads: a primary stands still until others have taken its place and written its key. Reads that wait in its
// socket, and more of them when it goes on, show nothing old, whatever its clock says.
func TestPausedPrimary_WakesToManyReads(t *testing.T) {
	t.Parallel()
	const atOnce, reads = 100, 2000
	c := startCluster(t, 3)
	bad := c.other()
	through := c.otherThan(bad)
	key := c.keyOf(bad)
	bad.pause()
	took := <-writeAgain(through, key) // with the value 2
	t.Logf("written after %v", took.Round(time.Millisecond))
	var next, right, refusals, old atomic.Int64
	asked := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			asked <- struct{}{}
			for next.Add(1) <= reads {
				a, err := bad.call("GET", probes+key, nil)
				switch {
				case err != nil || a.status == http.StatusServiceUnavailable || a.status == http.StatusGatewayTimeout:
					refusals.Add(1)
				case a.status == http.StatusOK && string(a.body) == "2":
					right.Add(1)
				default:
					old.Add(1)
					t.Errorf("%s, just woken, reads %d %s", bad.name, a.status, a.body)
				}
			}
		})
	}
	for range atOnce {
		<-asked
	}
	bad.resume()
	wg.Wait()
	t.Logf("%d reads right, %d refused", right.Load(), refusals.Load())
	c.awaitSafe(3)
	if a := bad.get(probes + key); string(a.body) != "2" {
		t.Errorf("%s, back again, reads %d %s", bad.name, a.status, a.body)
	}
	if n := right.Load() + refusals.Load() + old.Load(); n != reads {
		t.Errorf("%d reads ended", n)
	}
}
