package gridtest

import (
	"bytes"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/node"
)

// TestC161_TheSameNameAtANewAddress: a member that died comes back under its name elsewhere, at once or long after, and is listed once. A second
// process of the name of one that lives is a member of its own; the one that lives stays.
func TestC161_TheSameNameAtANewAddress(t *testing.T) {
	for _, after := range []time.Duration{time.Second, time.Minute} {
		for _, dies := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				c := Start(t, 3, few, func(cfg *node.Config) {
					if cfg.Name == "m4" {
						cfg.Name = "m3"
					}
				})
				defer c.Stop()
				old := c.Live()[2]
				was := old.ID()
				want := 4
				if dies {
					c.Crash(old)
					want = 3
				}
				time.Sleep(after)
				c.Add()
				c.AwaitSafe(want, 30*time.Second)
				var at []string
				stays := false
				for _, m := range c.Live()[0].Node.State().Members {
					stays = stays || m.ID == was
					if m.Name == "m3" {
						at = append(at, m.Address)
					}
				}
				if got := strings.Join(at, " "); dies && got != "m4:5701" || !dies && (got != "m3:5701 m4:5701" || !stays) {
					t.Errorf("%v after its end (%t) the name is at %s", after, dies, got)
				}
			})
		}
	}
}

// TestC170_ManyLeaveAndStartAtOnce: of 20 members 15 leave at the same moment, and 15 start within a second.
func TestC170_ManyLeaveAndStartAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 20, few)
		defer c.Stop()
		var leavers sync.WaitGroup
		gone := c.Live()[5:]
		for _, m := range gone {
			leavers.Go(func() {
				if err := c.Leave(m); err != nil {
					t.Errorf("%s: %v", m.Host, err)
				}
			})
		}
		leavers.Wait()
		if n := len(c.Live()); n != 5 {
			t.Fatalf("%d are left", n)
		}
		for _, m := range gone {
			c.Restart(m)
			time.Sleep(60 * time.Millisecond)
		}
		t.Logf("all are there after %v", c.AwaitSafe(20, 90*time.Second))
		first := c.Live()[0].Node.State()
		for _, m := range c.Live() {
			s := m.Node.State()
			for i, x := range s.Members {
				if x.State != grid.Active || x.ID != first.Members[i].ID {
					t.Errorf("%s sees %s as %s, and %s has %s in that place", m.Host, x.Name, x.State, c.Live()[0].Host, first.Members[i].Name)
				}
			}
		}
		c.oneMaster()
		index := first.Index
		time.Sleep(5 * time.Second)
		if now := c.Live()[0].Node.State().Index; now != index {
			t.Errorf("the log has grown by %d entries since all is well", now-index)
		}
	})
}

// lines counts what is logged of some text.
type lines struct {
	mu   sync.Mutex
	text string
	n    int
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.Contains(b, []byte(l.text)) {
		l.n++
	}
	return len(b), nil
}

// TestC200_AMemberThatIsDownForGood, and still among the seeds, costs nothing: no goroutines, no heap, hardly a line of the log.
func TestC200_AMemberThatIsDownForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &lines{text: "m3"}
		c := Start(t, 3, few, func(cfg *node.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(seen, logWriter{t}), nil))
		})
		defer c.Stop()
		fill(t, c.Live()[0], 100, 10)
		c.Crash(c.Live()[2])
		time.Sleep(2 * time.Minute)
		measure := func() (goroutines int, heap uint64, logged int) {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			seen.mu.Lock()
			defer seen.mu.Unlock()
			return runtime.NumGoroutine(), m.HeapAlloc, seen.n
		}
		g, heap, logged := measure()
		const lasts = 3 * time.Minute
		time.Sleep(lasts)
		g2, heap2, logged2 := measure()
		if g2 > g+5 || heap2 > heap+heap/5 || logged2-logged > int(lasts/(10*time.Second)) {
			t.Errorf("%d goroutines, %d bytes, %d lines about it; %v before %d, %d, %d", g2, heap2, logged2, lasts, g, heap, logged)
		}
		t.Logf("%d goroutines, %d bytes; %v before %d, %d", g2, heap2, lasts, g, heap)
		full(t, c.Live()[1], 100, 10)
	})
}

// TestTwoMembers_OneCrashesAgainAndAgain: of two members the one that is not master dies as soon as it has joined, and is started again at another
// address at once, many times. What it was may still count as a member when it comes back; the two together must never outvote the master, which
// is there all the time and serves all the time.
func TestTwoMembers_OneCrashesAgainAndAgain(t *testing.T) {
	for _, lives := range []time.Duration{0, 50 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 2, few)
			defer c.Stop()
			c.AwaitSafe(2, time.Minute)
			master := c.Master()
			for range 12 {
				c.Crash(c.others(master)[0])
				fresh := c.Add()
				select {
				case <-fresh.Node.Ready():
				case <-time.After(20 * time.Second):
					t.Fatalf("it lived for %v each time; now it does not join any more", lives)
				}
				time.Sleep(lives)
			}
			a, err := c.Ask(master, "PUT", "/api/v1/maps/m/entries/k", "v")
			if err != nil || a.Status >= 300 {
				t.Errorf("it lived for %v each time; the other one answers %d %s (%v)", lives, a.Status, a.Body, err)
			}
		})
	}
}
