package gridtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/imap"
)

// TestC140_EqualIsByteForByte: values are the same if their types and bytes are, for both verbs and through every member. So JSON in another
// order is another value, and so is a number of another width; but what was read can always be given back.
func TestC140_EqualIsByteForByte(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		for i, m := range c.Live() {
			k := fmt.Sprint("k", i)
			for _, v := range []struct {
				is    any
				other []any
			}{
				{json.RawMessage(`{"a":1,"b":2}`), []any{json.RawMessage(`{"b":2,"a":1}`), json.RawMessage(`{"a": 1,"b":2}`), `{"a":1,"b":2}`}},
				{int32(5), []any{int64(5), 5.0, "5", json.RawMessage(`5`)}},
			} {
				is, next := must(imap.EncodeValue(v.is)), imap.String("next")
				must(m.Map("m").Set(ctx, key(k), is, 0))
				for _, o := range v.other {
					other := must(imap.EncodeValue(o))
					if must(m.Map("m").ReplaceIfSame(ctx, key(k), other, next, 0)).Applied || must(m.Map("m").RemoveIfSame(ctx, key(k), other)).Applied {
						t.Errorf("violation: through %s, %T %v is taken for %T %v", m.Host, o, o, v.is, v.is)
					}
				}
				if !must(m.Map("m").ReplaceIfSame(ctx, key(k), must(imap.EncodeValue(v.is)), is, 0)).Applied {
					t.Errorf("through %s, %T %v is not taken for the same", m.Host, v.is, v.is)
				}
			}
			through := c.Live()[(i+1)%3].Map("m")
			for round := range 1000 { // what one member answers, another takes
				e := must(m.Map("m").Get(ctx, key(k)))
				if res := must(through.ReplaceIfSame(ctx, key(k), e.Value, imap.JSON(fmt.Appendf(nil, `{"round": %d}`, round)), 0)); !res.Applied {
					t.Fatalf("violation: round %d: what was read is not the same", round)
				}
			}
			if res := must(through.RemoveIfSame(ctx, key(k), must(m.Map("m").Get(ctx, key(k))).Value)); !res.Applied {
				t.Error("violation: what was read is not removed")
			}
		}
	})
}

// TestC143_ListenersAfterRestarts: a listener goes on through the restart of another member, without a gap; one on a member that dies is gone
// with it, and one that is registered on its successor gets everything from then on.
func TestC143_ListenersAfterRestarts(t *testing.T) {
	bubble(t, 2, func(ctx context.Context, c *Cluster) {
		put := func(m *Member, name string, n int) {
			for i := range n {
				must(m.Map("m").Set(ctx, key(fmt.Sprint(name, i)), imap.String("v"), 0))
			}
		}
		first := c.Master() // of two members only the other's death is survived
		other := c.Live()[0]
		if other == first {
			other = c.Live()[1]
		}
		r, _ := listen(t, first, "m", imap.ListenerConfig{})
		put(other, "a", 1)
		gone, _ := listen(t, other, "m", imap.ListenerConfig{})
		c.Crash(other)
		other = c.Restart(other)
		c.AwaitSafe(2, time.Minute)
		fresh, _ := listen(t, other, "m", imap.ListenerConfig{})
		put(other, "b", 100)
		c.Await(10*time.Second, "101 events, and 100 for the new listener", func() bool {
			return r.count(imap.Added) == 101 && fresh.count(imap.Added) == 100
		})
		time.Sleep(5 * time.Second)
		if a, b, g := r.count(imap.Added), fresh.count(imap.Added), gone.count(imap.Added); a != 101 || b != 100 || g != 0 || r.count(imap.Lost) != 0 {
			t.Errorf("%d events, %d of the new listener, %d of the one that is gone, %d lost", a, b, g, r.count(imap.Lost))
		}
		for _, m := range c.Live() { // all of it ends, and starts again
			c.Crash(m)
		}
		time.Sleep(10 * time.Second)
		var again []*Member
		for _, host := range []string{"m1", "m2"} {
			again = append(again, c.begin(host))
		}
		c.AwaitSafe(2, time.Minute)
		r, _ = listen(t, again[0], "m", imap.ListenerConfig{})
		put(again[1], "c", 100)
		c.Await(10*time.Second, "100 events", func() bool { return r.count(imap.Added) == 100 })
	})
}

var errEnough = errors.New("enough")

// TestC194_ScansLeaveNothingBehind: neither those that are read to their end nor those that are broken off.
func TestC194_ScansLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		ctx := context.Background()
		const entries = 2000
		_, pairs := keyed("k%d", entries)
		noError(t, c.Live()[0].Map("m").SetAll(ctx, pairs))
		time.Sleep(time.Minute)
		before := runtime.NumGoroutine()
		for i := range 60 {
			m := c.Live()[i%3].Map("m")
			n := 0
			noError(t, m.Scan(ctx, func(imap.Entry) error { n++; return nil }))
			if n != entries {
				t.Fatalf("a scan saw %d of %d entries", n, entries)
			}
			n = 0
			err := m.Scan(ctx, func(imap.Entry) error {
				if n++; n == 10 {
					return errEnough
				}
				return nil
			})
			if !errors.Is(err, errEnough) || n != 10 {
				t.Fatalf("a scan that is broken off: %d entries, %v", n, err)
			}
			short, cancel := context.WithTimeout(ctx, time.Duration(i)*time.Microsecond)
			_ = m.Scan(short, func(imap.Entry) error { return nil }) // it may have time enough
			cancel()
		}
		time.Sleep(30 * time.Second)
		if after := runtime.NumGoroutine(); after > before+5 {
			t.Errorf("%d goroutines after 180 scans, %d before", after, before)
		}
	})
}
