package gridtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/node"
)

// TestC169_AnOutageOfTwoMinutes: the member that was cut off comes back by itself and knows what was written meanwhile.
func TestC169_AnOutageOfTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		lost := c.Live()[2]
		c.Net.Isolate(lost.Host)
		time.Sleep(10 * time.Second)
		fill(t, c.Live()[0], 100, 10)
		time.Sleep(110 * time.Second)
		c.Net.HealAll()
		c.AwaitSafe(3, 60*time.Second)
		full(t, lost, 100, 10)
		c.oneMaster()
	})
}

// TestC173_AMemberThatHangsAgainAndAgain: the others always see each other, and after the end all are there.
func TestC173_AMemberThatHangsAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 5, few)
		defer c.Stop()
		hangs := c.Live()[2]
		steady := slices.DeleteFunc(c.Live(), func(m *Member) bool { return m == hangs })
		ids := map[grid.MemberID]bool{}
		for _, m := range steady {
			ids[m.ID()] = true
		}
		watch := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
				for _, m := range steady {
					s, n := m.Node.State(), 0
					for _, x := range s.Members {
						if ids[x.ID] {
							n++
						}
					}
					if n != len(steady) {
						t.Fatalf("violation: %s sees %d of the %d steady members", m.Host, n, len(steady))
					}
				}
			}
		}
		for range 6 {
			c.Net.Pause(hangs.Host)
			watch(20 * time.Second)
			c.Net.Resume(hangs.Host)
			watch(5 * time.Second)
		}
		c.AwaitSafe(5, 60*time.Second)
		c.oneMaster()
	})
}

// TestC175_OneLinkOfThree is cut, the master's to another: the views agree, there are never two masters, and after healing all are there.
func TestC175_OneLinkOfThree(t *testing.T) {
	for _, cut := range []string{"both ways", "from the master", "to the master"} {
		t.Run(cut, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := Start(t, 3, few)
				defer c.Stop()
				master := c.Master()
				other := c.Live()[(slices.Index(c.Live(), master)+1)%3]
				if cut != "to the master" {
					c.Net.CutOneWay(master.Host, other.Host)
				}
				if cut != "from the master" {
					c.Net.CutOneWay(other.Host, master.Host)
				}
				terms := map[uint64]grid.MemberID{}
				for range 240 {
					time.Sleep(500 * time.Millisecond)
					for _, m := range c.Live() {
						s := m.Node.State()
						if s == nil || s.Term == 0 {
							continue
						}
						if was, ok := terms[s.Term]; ok && was != s.Master {
							t.Fatalf("violation: %s and %s are both master in term %d", was, s.Master, s.Term)
						}
						terms[s.Term] = s.Master
					}
				}
				c.Net.HealAll()
				c.AwaitSafe(3, 60*time.Second)
				c.oneMaster()
			})
		})
	}
}

// TestC183_SplitOfTwoAndThree for a minute: the minority refuses, and after healing every claim has one owner and the counter is exact.
func TestC183_SplitOfTwoAndThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 5, few, func(cfg *node.Config) { cfg.BackupCount = 2 })
		defer c.Stop()
		var minor, major []string
		for i, m := range c.Live() {
			if i < 2 {
				minor = append(minor, m.Host)
			} else {
				major = append(major, m.Host)
			}
		}
		all := c.Live()
		w := &tally{acked: map[string]string{}}
		ctx, cancel := context.WithCancel(context.Background())
		c.Net.Split(minor, major)
		apart, stop := context.WithCancel(ctx)
		wg := w.run(apart, all, 5, 100)
		winners := map[string][]string{}
		var mu sync.Mutex
		claim := func(m *Member, k string) error {
			call, done := context.WithTimeout(ctx, 2*time.Second)
			defer done()
			res, err := m.Map("claims").PutIfAbsent(call, key(k), imap.String(m.Host), 0)
			if err == nil && res.Applied {
				mu.Lock()
				winners[k] = append(winners[k], m.Host)
				mu.Unlock()
			}
			return err
		}
		time.Sleep(20 * time.Second)
		for i := range 10 {
			for _, m := range all {
				err := claim(m, fmt.Sprintf("x%d", i))
				if minority := slices.Contains(minor, m.Host); minority && err == nil {
					t.Errorf("violation: %s is in the minority and answers", m.Host)
				} else if !minority && err != nil {
					t.Errorf("%s is in the majority and does not answer: %v", m.Host, err)
				}
			}
		}
		time.Sleep(20 * time.Second)
		stop()
		wg.Wait()
		wg = w.run(ctx, all, 5, 100)
		c.Net.HealAll()
		c.AwaitSafe(5, 60*time.Second)
		wg.Wait()
		cancel()
		for k, list := range winners {
			e, err := all[0].Map("claims").Get(context.Background(), key(k))
			if err != nil || len(list) != 1 || present(e) != list[0] {
				t.Errorf("violation: claim %s was given to %v and belongs to %q, %v", k, list, present(e), err)
			}
		}
		w.check(t, all[0])
		t.Logf("%d increments, %d unknown, %d refused", w.added, w.unknown, w.refused)
	})
}
