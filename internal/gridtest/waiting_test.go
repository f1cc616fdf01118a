package gridtest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/internal/memnet"
	"gridnode/node"
)

// complaint is a line of the log in which a member says why it is in no cluster.
type complaint struct {
	Time                        time.Time
	Level, Msg, Member, Because string
}

func complaints(l *logged, member string) (out []complaint) {
	for _, line := range l.lines() {
		var x complaint
		if json.Unmarshal([]byte(line), &x) == nil && x.Member == member && x.Msg == "not in a cluster yet" {
			out = append(out, x)
		}
	}
	return out
}

// TestJoin_WhyNotIsSaid: a member that gets into no cluster says why within some seconds, with the addresses that it is about, and goes on to say
// so, but does not flood the log.
func TestJoin_WhyNotIsSaid(t *testing.T) {
	for _, tc := range []struct {
		name  string
		join  map[string][]string // of each member that is started at first
		live  int                 // of these that stay; 0: all
		last  []string            // whom m9, which is started then, is told to join
		words []string            // that m9 says, in the order of the alphabet
	}{
		{"nobody is there", nil, 0, []string{"m1:5701"}, []string{"nobody", "told to join"}},
		{"each is told to join the other", map[string][]string{"m1": {"m9:5701"}}, 0, []string{"m1:5701"}, []string{"in no cluster either", "m1:5701"}},
		{"others are expected", map[string][]string{"m1": {"m9:5701"}}, 0, []string{"m9:5701", "m1:5701"}, []string{"3 members are expected", "m1:5701"}},
		{"two clusters", map[string][]string{"m1": nil, "m2": nil}, 0, []string{"m1:5701", "m2:5701"}, []string{"m1:5701", "m2:5701", "never merge"}},
		{"no majority", map[string][]string{"m1": nil, "m2": {"m1:5701"}, "m3": {"m1:5701"}}, 1, []string{"m1:5701"}, []string{"m1:5701", "no master"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l logged
				join, expect := []string(nil), 1
				c := &Cluster{t: t, Net: memnet.New(1)}
				c.config = func(cfg *node.Config) { l.option(cfg); few(cfg); cfg.Join, cfg.Expect = join, expect }
				defer c.Stop()
				for _, host := range []string{"m1", "m2", "m3"} {
					if seeds, is := tc.join[host]; is {
						join = seeds
						c.begin(host)
						time.Sleep(10 * time.Second)
					}
				}
				for _, m := range c.Live()[min(cmp.Or(tc.live, len(c.Live())), len(c.Live())):] {
					c.Crash(m)
				}
				if strings.Contains(tc.name, "expected") {
					expect = 3
				}
				join = tc.last
				c.begin("m9")
				start := time.Now()
				time.Sleep(3 * time.Minute)
				said := complaints(&l, "m9")
				if len(said) < 3 || len(said) > 10 {
					t.Fatalf("it says so %d times in three minutes: %+v", len(said), said)
				}
				if after := said[0].Time.Sub(start); after > 10*time.Second {
					t.Errorf("it says so after %v", after)
				}
				if i := slices.IndexFunc(tc.words, func(w string) bool { return !strings.Contains(said[0].Because, w) }); i >= 0 {
					t.Errorf("it says %q, without %q", said[0].Because, tc.words[i])
				}
			})
		})
	}
}

// TestNoMajority_IsLogged: the log of a member that is left without a majority says that it refuses everything, once, and once that it serves again.
func TestNoMajority_IsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logged
		c := Start(t, 3, few, l.option)
		defer c.Stop()
		lone := c.others(c.Master())[0]
		count := func(text string) (n int) {
			for _, line := range l.lines() {
				if strings.Contains(line, `"member":"`+lone.Host+`"`) && strings.Contains(line, text) {
					n++
				}
			}
			return n
		}
		for _, m := range c.others(lone) {
			c.Net.Pause(m.Host)
		}
		time.Sleep(20 * time.Second)
		if n := count("is refused"); n != 1 {
			t.Errorf("said %d times that it refuses", n)
		}
		for _, m := range c.others(lone) {
			c.Net.Resume(m.Host)
		}
		c.AwaitSafe(3, time.Minute)
		time.Sleep(10 * time.Second)
		if refused, serves := count("is refused"), count("has a lease again"); refused != 1 || serves != 1 {
			t.Errorf("said %d times that it refuses, %d times that it serves again", refused, serves)
		}
	})
}
