package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	servesDue  = 5 * time.Second  // for the majority side to serve everything after a cut
	refusesDue = 8 * time.Second  // for the smaller side to be sure that it is cut off, and to refuse everything
	atOnce     = time.Second      // for it to refuse what it is asked after that
	backDue    = 30 * time.Second // for all members to be one cluster again after the cut is healed
)

// TestC169_MasterCutOff_ComesBack: the master alone on one side, for longer than silent members are kept. The others serve; it refuses; when the
// network is whole again it comes back by itself, without what only it had, and a job that ran all the time has run once.
func TestC169_MasterCutOff_ComesBack(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3)
	c := w.start("--set", cleanup5s)
	j := c.members[0].start(spec{subtasks: 2, rows: 300, rate: 30})
	c.awaitRunning(j)
	c.awaitMaster()
	old := c.master()
	was := read[clusterView](old, "/api/v1/cluster")
	others := slices.DeleteFunc(c.live(), func(m *member) bool { return m == old })
	writers, keys := startWriters(c.keyOf(old), others...), c.keysOf(old, 5)
	cut := time.Now()
	w.cut([]*member{old}, others)
	c.servesAfterCut(keys, others...)
	c.refusesAfterCut(cut, old)
	c.await(20*time.Second, "the others alone", func() bool {
		v := read[clusterView](others[0], "/api/v1/cluster")
		return v.Size == 2 && v.Master != was.Self
	})
	w.heal()
	healed := time.Now()
	c.awaitBack(3)
	t.Logf("all three are back %v after healing", time.Since(healed).Round(time.Millisecond))
	check(t, writers, c.live()...)
	if now := read[clusterView](old, "/api/v1/cluster"); now.ClusterID != was.ClusterID || now.Self == was.Self || now.Term <= was.Term {
		t.Errorf("after the cut: %+v, before: %+v", now, was)
	}
	c.watch([]job{j}, "FINISHED", 60*time.Second)
	j.exact(t)
}

// TestC183_SplitTwoToThree: clients on both sides count, and claim names by putting what must be absent. A claim has one winner, and the
// counter is as high as increments were acknowledged, or of unknown outcome; the smaller side refuses, jobs too.
func TestC183_SplitTwoToThree(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 5)
	c := w.start("--backup-count", "2") // so that each partition has a replica on the larger side
	c.awaitMaster()
	minority := []*member{c.master()} // with the master on the smaller side there is more to do
	minority = append(minority, c.otherThan(minority[0]))
	majority := slices.DeleteFunc(c.live(), func(m *member) bool { return slices.Contains(minority, m) })
	writers := startWriters(c.keyOf(minority[0]), c.live()...)
	claims := startClaims(c.live())
	keys := c.keysOf(minority[1], 5)
	cut := time.Now()
	w.cut(minority, majority)
	c.servesAfterCut(keys, majority...)
	c.refusesAfterCut(cut, minority...)
	for _, m := range minority {
		if a := m.must("POST", "/submit-job", spec{rows: 1}.config(t.TempDir())); !refusal(a) {
			t.Errorf("%s, on the smaller side, answers a submit with %d %s", m.name, a.status, a.body)
		}
	}
	w.heal()
	c.awaitBack(5)
	claims.check(c.live()...)
	check(t, writers, c.live()...)
	for _, m := range c.live() {
		if jobs := list(m, "/running-jobs"); len(jobs) > 0 {
			t.Errorf("%s lists jobs whose submit was refused: %v", m.name, ids(jobs))
		}
	}
}

// TestC175_OneLinkCut: only the link between the master and one other is cut, which both see the third; first in both directions, then in each
// one alone. At least two members always agree and serve; nobody else acts as master; and after healing all are back.
func TestC175_OneLinkCut(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3)
	c := w.start()
	masters := map[uint64]string{}
	for _, way := range []struct {
		name string
		cut  func(master, other *member)
	}{
		{"both ways", func(a, b *member) { w.cut([]*member{a}, []*member{b}) }},
		{"from the master", w.cutOneWay},
		{"to the master", func(a, b *member) { w.cutOneWay(b, a) }},
	} {
		c.awaitMaster()
		master := c.master()
		other := c.otherThan(master)
		through := c.otherThan(master, other)
		key := c.keyOf(other)
		writers := startWriters(c.keyOf(master), through)
		way.cut(master, other)
		c.await(20*time.Second, way.name+": a member is left out", func() bool {
			c.oneMasterPerTerm(masters)
			return read[clusterView](through, "/api/v1/cluster").Size < 3
		})
		took := c.await(20*time.Second, way.name+": two that agree and serve", func() bool {
			c.oneMasterPerTerm(masters)
			return c.agreeing() >= 2 && (<-writeAgain(through, key)) < time.Second
		})
		t.Logf("%s: two agree after %v more", way.name, took.Round(time.Millisecond))
		w.heal()
		c.awaitBack(3)
		check(t, writers, c.live()...)
	}
}

// agreeing returns how many members name the same members and the same master, who is one of them.
func (c *cluster) agreeing() int {
	c.t.Helper()
	most, count := 0, map[string]int{}
	for _, m := range c.live() {
		var v struct {
			Members []struct {
				ID, Name string
				Master   bool
			}
		}
		a, err := m.call("GET", "/api/v1/members", nil)
		if err != nil || a.status != http.StatusOK || json.Unmarshal(a.body, &v) != nil {
			continue
		}
		if text := fmt.Sprint(v.Members); strings.Contains(text, m.name) && strings.Contains(text, "true") {
			count[text]++
			most = max(most, count[text])
		}
	}
	return most
}

// oneMasterPerTerm fails the test when two members name different masters of one term.
func (c *cluster) oneMasterPerTerm(seen map[uint64]string) {
	c.t.Helper()
	for _, m := range c.live() {
		var v clusterView
		a, err := m.call("GET", "/api/v1/cluster", nil)
		if err != nil || a.status != http.StatusOK || json.Unmarshal(a.body, &v) != nil || v.Master == "" {
			continue
		}
		if had := seen[v.Term]; had != "" && had != v.Master {
			c.t.Fatalf("%s names %s as master of term %d, another named %s", m.name, v.Master, v.Term, had)
		}
		seen[v.Term] = v.Master
	}
}

// keysOf returns some keys that a member is the primary of.
func (c *cluster) keysOf(owner *member, n int) (keys []string) {
	c.t.Helper()
	for range n {
		keys = append(keys, c.keyOf(owner))
	}
	return keys
}

// servesAfterCut waits until keys of a member that is cut off can be written through all of these.
func (c *cluster) servesAfterCut(keys []string, side ...*member) {
	c.t.Helper()
	limit := time.After(servesDue)
	var waits []<-chan time.Duration
	for _, m := range side {
		for _, key := range keys {
			waits = append(waits, writeAgain(m, key))
		}
	}
	longest := time.Duration(0)
	for _, wait := range waits {
		select {
		case took := <-wait:
			longest = max(longest, took)
		case <-limit:
			c.t.Fatalf("the larger side does not serve %v after the cut", servesDue)
		}
	}
	c.t.Logf("the larger side serves %v after the cut", longest.Round(time.Millisecond))
}

// refusesAfterCut asks each of these to write and to read some keys, all at once. What they are asked at first they may wait with, and may not
// know the outcome of; after some time they refuse everything at once, with 503 and when to ask again.
func (c *cluster) refusesAfterCut(cut time.Time, side ...*member) {
	c.t.Helper()
	ask := func(due time.Duration, allowed func(a answer) bool) {
		c.t.Helper()
		var wg sync.WaitGroup
		for _, m := range side {
			for n := range 40 {
				wg.Go(func() {
					method, start := []string{"PUT", "GET"}[n%2], time.Now()
					a, err := m.call(method, fmt.Sprintf("%scut-%d", probes, n), []byte("1"), "Content-Type", "text/plain")
					if took := time.Since(start); err != nil || took > due || !allowed(a) && !refusal(a) {
						c.t.Errorf("%s, cut off for %v, answers a %s after %v with %d %s (%v)", m.name, start.Sub(cut), method, took, a.status, a.body, err)
					}
				})
			}
		}
		wg.Wait()
	}
	ask(refusesDue, func(a answer) bool { return a.status == http.StatusGatewayTimeout })
	c.t.Logf("the smaller side has refused %v after the cut", time.Since(cut).Round(time.Millisecond))
	c.await(refusesDue, "a refusal at once", func() bool { return time.Since(cut) > refusesDue })
	ask(atOnce, func(answer) bool { return false })
}

func refusal(a answer) bool {
	return a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != ""
}

// awaitBack waits until all members are one safe cluster again.
func (c *cluster) awaitBack(n int) {
	c.t.Helper()
	c.await(backDue, "all members back", func() bool {
		for _, m := range c.live() {
			var v clusterView
			a, err := m.call("GET", "/api/v1/cluster", nil)
			if err != nil || json.Unmarshal(a.body, &v) != nil || v.Size != n || !v.Safe || v.Master == "" {
				return false
			}
		}
		return c.master() != nil
	})
}

// claims are names that clients at several members put if they are absent, all the same names in the same order.
type claims struct {
	c   *cluster
	end func() // ends the clients and waits for them

	mu    sync.Mutex          // guards what follows
	won   map[string][]string // by name
	maybe map[string][]string // of unknown outcome
}

const claimed = "/api/v1/maps/claims/entries/"

func startClaims(at []*member) *claims {
	s := &claims{c: at[0].c, won: map[string][]string{}, maybe: map[string][]string{}}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for _, m := range at {
		clients.Go(func() { s.claim(m, stop) })
	}
	s.end = sync.OnceFunc(func() {
		close(stop)
		clients.Wait()
	})
	s.c.t.Cleanup(s.end)
	return s
}

// claim claims one name every 20 ms, whether or not the one before was answered with success.
func (s *claims) claim(m *member, stop <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		name := fmt.Sprintf("c%d", i)
		a, err := m.call("PUT", claimed+name, []byte(m.name), "Content-Type", "text/plain", "If-None-Match", "*")
		s.mu.Lock()
		switch {
		case err != nil || a.status == http.StatusGatewayTimeout:
			s.maybe[name] = append(s.maybe[name], m.name)
		case a.status < 300:
			s.won[name] = append(s.won[name], m.name)
		case a.status != http.StatusPreconditionFailed && a.status != http.StatusServiceUnavailable:
			s.c.t.Errorf("%s answers a claim with %d %s", m.name, a.status, a.body)
		}
		s.mu.Unlock()
	}
}

// check ends the clients and looks at each name: who was told that he has it, has it, and he alone.
func (s *claims) check(readers ...*member) {
	s.c.t.Helper()
	s.end()
	i := 0
	for name, winners := range s.won {
		i++
		got := string(readers[i%len(readers)].get(claimed + name).body)
		if len(winners) > 1 || got != winners[0] {
			s.c.t.Errorf("%s was won by %v, of unknown outcome for %v, and reads %q", name, winners, s.maybe[name], got)
		}
	}
	s.c.t.Logf("%d names claimed", len(s.won))
	if len(s.won) == 0 {
		s.c.t.Error("no claim was won at all")
	}
}
