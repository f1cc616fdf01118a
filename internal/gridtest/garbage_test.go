package gridtest

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"gridnode/imap"
	"gridnode/node"
)

// use has a member hold entries, one with a time to live and one that is locked, with a listener, and a job that has ended.
func use(t *testing.T, c *Cluster, m *Member, dir string) {
	t.Helper()
	ctx := context.Background()
	r, l := listen(t, m, "m", imap.ListenerConfig{Value: true})
	for i := range 50 {
		if _, err := m.Map("m").Set(ctx, key(fmt.Sprint(i)), imap.String("v"), time.Duration(i%2)*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	c.Await(10*time.Second, "50 events", func() bool { return r.count(imap.Added|imap.Updated) == 50 })
	l.Close()
	if id := submit(t, m, sequenceJob(dir, 2, 10, 100)); c.awaitEnd(id, time.Minute) == "" {
		t.Fatal("the job did not end")
	}
}

// isGarbage lets the collector run until it has taken what p points to.
func isGarbage[T any](t *testing.T, what string, p weak.Pointer[T]) {
	t.Helper()
	for range 100 {
		if runtime.GC(); p.Value() == nil {
			return
		}
	}
	t.Errorf("%s is still there", what)
}

// TestMembersThatEnded_AreGarbage: whatever they were used for, and however they ended.
func TestMembersThatEnded_AreGarbage(t *testing.T) {
	var ended []weak.Pointer[node.Node]
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, shortCleanup)
		defer c.Stop()
		for _, m := range c.Live() {
			use(t, c, m, t.TempDir())
			ended = append(ended, weak.Make(m.Node))
		}
		c.Crash(c.Live()[0])
		c.AwaitSafe(2, time.Minute)
		if err := c.Leave(c.Live()[0]); err != nil {
			t.Error(err)
		}
	})
	for i, p := range ended {
		isGarbage(t, []string{"a member that crashed", "a member that left", "a member that was stopped"}[i], p)
	}
}

// TestMemberThatComesBackAsNew_KeepsNothing: a member that was removed while it was cut off, and is back as another, has given up all that it held.
func TestMemberThatComesBackAsNew_KeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, shortCleanup)
		defer c.Stop()
		m := c.Live()[2]
		use(t, c, m, t.TempDir())
		was, before := m.ID(), weak.Make(m.Node.Maps())
		c.Net.Isolate(m.Host)
		c.Await(time.Minute, "its removal", func() bool { return len(c.Live()[0].Node.State().Members) == 2 })
		c.Net.HealAll()
		c.AwaitSafe(3, time.Minute)
		if m.ID() == was {
			t.Fatal("it is the same member")
		}
		time.Sleep(time.Minute) // calls that were under way have ended
		isGarbage(t, "what it held before", before)
	})
}
