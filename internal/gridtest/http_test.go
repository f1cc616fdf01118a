package gridtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/imap"
)

// clusterRequests are requests that need the cluster, one of each kind.
var clusterRequests = []struct{ method, path, body string }{
	{"GET", "/api/v1/maps", ""},
	{"GET", "/api/v1/maps/m/size", ""},
	{"GET", "/api/v1/maps/m/entries", ""},
	{"GET", "/api/v1/maps/m/entries/k", ""},
	{"PUT", "/api/v1/maps/m/entries/k", "v"},
	{"DELETE", "/api/v1/maps/m/entries/k", ""},
	{"GET", "/overview", ""},
	{"GET", "/running-jobs", ""},
	{"GET", "/job-info/7", ""},
	{"POST", "/submit-job", `{"source":[{"plugin_name":"FakeSource","mode":"sequence","row.num":1,"schema":{"fields":{"id":"bigint"}}}],"sink":[{"plugin_name":"Console"}]}`},
	{"POST", "/stop-job", `{"jobId":7}`},
}

// askAll sends all of them to a member at once, and checks that each is answered within the limit, by 503 or 504 and as these have to be; with
// mayWork, others may be answered well.
func (c *Cluster) askAll(m *Member, limit time.Duration, mayWork bool) {
	var wg sync.WaitGroup
	for _, q := range clusterRequests {
		wg.Go(func() {
			a, err := c.Ask(m, q.method, q.path, q.body)
			what := fmt.Sprintf("%s %s of %s: %d after %v %s", q.method, q.path, m.Host, a.Status, a.Took, strings.TrimSpace(a.Body))
			c.t.Log(what, err)
			switch {
			case err != nil:
				c.t.Errorf("%s %s of %s: %v", q.method, q.path, m.Host, err)
			case a.Took > limit:
				c.t.Errorf("too late: %s", what)
			case a.Status < 500 && mayWork:
			case a.Status != 503 && a.Status != 504:
				c.t.Errorf("status: %s", what)
			case a.Status == 503 && a.Header.Get("Retry-After") == "":
				c.t.Errorf("no Retry-After: %s", what)
			case a.Status == 504 && !strings.Contains(a.Body, `"outcome":"unknown"`):
				c.t.Errorf("outcome not told: %s", what)
			}
		})
	}
	wg.Wait()
}

// TestNoMajority_EveryRequestIsAnsweredInTime: of three members two are gone; the third says so, whatever it is asked, and soon.
func TestNoMajority_EveryRequestIsAnsweredInTime(t *testing.T) {
	for _, after := range []time.Duration{0, 300 * time.Millisecond, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few)
			defer c.Stop()
			c.Crash(c.Live()[0])
			c.Crash(c.Live()[0])
			time.Sleep(after)
			c.askAll(c.Live()[0], 6*time.Second, after < time.Second) // as long as its lease runs it serves what it holds
		})
	}
}

// TestRemovedMember_ComesBackSoon: whatever a removed member is being asked does not keep it from coming back. Those who ask it are told.
func TestRemovedMember_ComesBackSoon(t *testing.T) {
	for _, before := range []time.Duration{0, time.Second} { // when it is asked, before the cut ends
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few)
			defer c.Stop()
			m := c.Live()[2]
			lost := m.ID()
			c.Net.Isolate(m.Host)
			c.Net.Heal(m.Host, "client")
			c.Await(20*time.Second, "its removal", func() bool {
				_, ok := c.Live()[0].Node.State().Member(lost)
				_, ok2 := c.Live()[1].Node.State().Member(lost)
				return !ok && !ok2
			})
			var wg sync.WaitGroup
			wg.Go(func() { c.askAll(m, before+2*time.Second, true) })
			time.Sleep(before)
			c.Net.HealAll()
			healed := time.Now()
			c.Await(time.Minute, "three members", func() bool { return len(c.Live()[0].Node.State().Members) == 3 })
			took := time.Since(healed)
			t.Logf("a member again %v after the cut ended", took)
			if took > 1500*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			wg.Wait()
			c.AwaitSafe(3, time.Minute)
		})
	}
}

// TestLockedKey_RequestsAreToldThatTheyDidNotRun: a request that waits for the lock of somebody else until its time is over ends with 503, for
// it did not run, wherever the primary is. It ended with 504.
func TestLockedKey_RequestsAreToldThatTheyDidNotRun(t *testing.T) {
	withStore(t, func(ctx context.Context, c *Cluster, _ *database) {
		owner := c.Live()[0].Map("m").As(imap.Owner{Session: "s", Thread: 1})
		must(owner.Set(ctx, key("k"), imap.String("v"), 0))
		must(owner.Lock(ctx, key("k"), 0))
		plain := c.Live()[0].Map("plain").As(imap.Owner{Session: "s", Thread: 1})
		must(plain.Lock(ctx, key("k"), 0))
		for _, m := range c.Live() {
			for _, method := range []string{"PUT", "DELETE"} {
				for _, name := range []string{"m", "plain"} {
					a, err := c.Ask(m, method, "/api/v1/maps/"+name+"/entries/k", "x")
					if err != nil || a.Status != 503 || a.Header.Get("Retry-After") == "" || a.Took > 5*time.Second {
						t.Errorf("%s to %s, map %s: %d after %v, %s %v", method, m.Host, name, a.Status, a.Took, a.Body, err)
					}
				}
			}
		}
		if v := must(owner.Get(ctx, key("k"))); string(v.Value) != string(imap.String("v")) {
			t.Errorf("the entry is %q", v.Value)
		}
	})
}
