package gridtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/imap/query"
	"gridnode/node"
)

// recorder keeps the events that a listener got.
type recorder struct {
	mu     sync.Mutex
	events []imap.Event
}

func (r *recorder) take(e imap.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) list() []imap.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *recorder) count(types imap.EventType) int {
	n := 0
	for _, e := range r.list() {
		if e.Type&types != 0 {
			n++
		}
	}
	return n
}

func listen(t testing.TB, m *Member, name string, cfg imap.ListenerConfig) (*recorder, *imap.Listener) {
	t.Helper()
	r := &recorder{}
	l, err := m.Map(name).Listen(context.Background(), cfg, r.take)
	if err != nil {
		t.Fatal(err)
	}
	return r, l
}

func eventText(e imap.Event) string {
	text := func(d imap.Data) string {
		if d == nil {
			return "-"
		}
		return d.Show()
	}
	return fmt.Sprintf("%v %s %s %s", e.Type, text(e.Key), text(e.Old), text(e.Value))
}

func TestListen_EveryKindOfChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3)
		defer c.Stop()
		ctx := context.Background()
		all, _ := listen(t, c.Live()[0], "m", imap.ListenerConfig{Value: true, Old: true})
		bare, _ := listen(t, c.Live()[2], "m", imap.ListenerConfig{Events: imap.Updated | imap.Expired})
		m := c.Live()[1].Map("m")
		k := key("k")
		must := func(_ imap.WriteResult, err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(m.Set(ctx, k, imap.String("1"), 0))
		must(m.Set(ctx, k, imap.String("2"), 0))
		must(m.Remove(ctx, k))
		must(m.Remove(ctx, k))                           // nothing there: no event
		must(m.PutIfAbsent(ctx, k, imap.String("3"), 0)) //
		must(m.PutIfAbsent(ctx, k, imap.String("4"), 0)) // refused: no event
		must(m.Set(ctx, k, imap.String("5"), time.Second))
		c.Await(time.Minute, "expiry", func() bool { return all.count(imap.Expired) == 1 })
		place := imap.String("k")
		_, err := c.Live()[0].Node.Maps().Txn(ctx, imap.Txn{
			Place: place,
			Put:   []imap.Put{{Ref: imap.Ref{Map: "m", Key: imap.String("k")}, Value: imap.String("6")}, {Ref: imap.Ref{Map: "other", Key: imap.String("k")}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Await(time.Minute, "the last event", func() bool { return len(all.list()) == 7 && len(bare.list()) == 3 })
		var got []string
		for _, e := range all.list() {
			got = append(got, eventText(e))
		}
		want := []string{"added k - 1", "updated k 1 2", "removed k 2 -", "added k - 3", "updated k 3 5", "expired k 5 -", "added k - 6"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		for i, e := range bare.list() {
			if want := []imap.EventType{imap.Updated, imap.Updated, imap.Expired}[i]; e.Type != want || e.Value != nil || e.Old != nil {
				t.Errorf("event %d: %s", i, eventText(e))
			}
		}
	})
}

// TestListen_OfKeys_GetTheirOwnOnly is case C145: listeners on A, B and C and one on all; B's is removed in between.
func TestListen_OfKeys_GetTheirOwnOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3)
		defer c.Stop()
		ctx := context.Background()
		first := c.Live()[0]
		var recorders []*recorder
		var listeners []*imap.Listener
		for _, name := range []string{"A", "B", "C", ""} {
			cfg := imap.ListenerConfig{}
			if name != "" {
				cfg.Key = imap.String(name)
			}
			r, l := listen(t, first, "m", cfg)
			recorders, listeners = append(recorders, r), append(listeners, l)
		}
		adult := query.GreaterEqual("age", query.IntOf(18))
		adults, _ := listen(t, c.Live()[1], "m", imap.ListenerConfig{Where: &adult, Old: true})
		set := func(k, v string) {
			t.Helper()
			if _, err := first.Map("m").Set(ctx, key(k), imap.JSON([]byte(v)), 0); err != nil {
				t.Fatal(err)
			}
		}
		set("B", `{"age":17}`)
		c.Await(time.Minute, "the first event", func() bool { return len(recorders[3].list()) == 1 && len(recorders[1].list()) == 1 })
		listeners[1].Close()
		set("B", `{"age":18}`)
		set("B", `{"age: 5}`)
		if _, err := first.Map("m").Remove(ctx, key("B")); err != nil {
			t.Fatal(err)
		}
		set("B", `{"age":30}`)
		if _, err := first.Map("m").Remove(ctx, key("B")); err != nil { // it held for what was removed
			t.Fatal(err)
		}
		c.Await(time.Minute, "all events", func() bool { return len(recorders[3].list()) == 6 && len(adults.list()) == 3 })
		for i, want := range []int{0, 1, 0, 6} {
			if got := len(recorders[i].list()); got != want {
				t.Errorf("listener %d got %d events, want %d", i, got, want)
			}
		}
		for _, l := range listeners {
			l.Close()
		}
		c.Await(time.Minute, "that nobody knows the closed listeners", func() bool {
			return !slices.ContainsFunc(c.Live(), func(m *Member) bool { return m.Node.Maps().Listeners() != 1 })
		})
	})
}

// TestListen_Expiry_OneEventForEachKey is case C158.
func TestListen_Expiry_OneEventForEachKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, func(cfg *node.Config) { cfg.BackupCount = 2 })
		defer c.Stop()
		var recorders []*recorder
		for _, m := range c.Live() {
			r, _ := listen(t, m, "m", imap.ListenerConfig{})
			recorders = append(recorders, r)
		}
		for i := range 100 {
			if _, err := c.Live()[i%3].Map("m").Set(context.Background(), key(fmt.Sprint(i)), imap.String("v"), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range recorders {
			c.Await(time.Minute, "expiry", func() bool { return r.count(imap.Expired) >= 100 })
		}
		time.Sleep(5 * time.Second)
		for i, r := range recorders {
			keys := map[string]bool{}
			for _, e := range r.list() {
				if e.Type == imap.Expired {
					keys[e.Key.Show()] = true
				}
			}
			if len(r.list()) != 200 || r.count(imap.Expired) != 100 || len(keys) != 100 || r.count(imap.Removed|imap.Lost) != 0 {
				t.Errorf("listener %d: %d events, %d expired, of %d keys", i, len(r.list()), r.count(imap.Expired), len(keys))
			}
		}
	})
}

// TestListen_LocalOnly: listeners of that kind on all members get each event once, together.
func TestListen_LocalOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3)
		defer c.Stop()
		var recorders []*recorder
		for _, m := range c.Live() {
			r, _ := listen(t, m, "m", imap.ListenerConfig{LocalOnly: true})
			recorders = append(recorders, r)
		}
		for i := range 100 {
			if _, err := c.Live()[i%3].Map("m").Set(context.Background(), key(fmt.Sprint(i)), imap.String("v"), 0); err != nil {
				t.Fatal(err)
			}
		}
		total := func() (n int) {
			for _, r := range recorders {
				n += len(r.list())
			}
			return n
		}
		c.Await(time.Minute, "all events", func() bool { return total() == 100 })
		for i, r := range recorders {
			for _, e := range r.list() {
				if e.From != c.Live()[i].ID() {
					t.Errorf("an event from another member")
				}
			}
		}
		time.Sleep(5 * time.Second)
		if n := total(); n != 100 {
			t.Errorf("%d events of 100 changes", n)
		}
	})
}

// writes is a workload whose every acknowledged write is known by its version.
type writes struct {
	mu    sync.Mutex
	acked map[uint64]string // by partition and version: the key
}

func ackKey(g *imap.Grid, k string, version uint64) uint64 {
	p, _ := g.Partition(key(k))
	return uint64(p)<<56 ^ version
}

func (w *writes) run(ctx context.Context, members []*Member, workers int) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range workers {
		m := members[i%len(members)]
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				k := fmt.Sprintf("k%d-%d", i, rnd.IntN(40))
				call, cancel := context.WithTimeout(context.Background(), callBudget)
				res, err := m.Map("m").Set(call, key(k), imap.String(fmt.Sprint(n)), 0)
				cancel()
				if err == nil {
					w.mu.Lock()
					w.acked[ackKey(m.Node.Maps(), k, res.Version)] = k
					w.mu.Unlock()
				}
				time.Sleep(time.Duration(rnd.IntN(2000)) * time.Microsecond)
			}
		})
	}
	return &wg
}

// check holds the events against the acknowledged writes: each once, in order for each key, and nothing lost.
func (w *writes) check(t testing.TB, c *Cluster, name string, r *recorder) {
	t.Helper()
	g := c.Live()[0].Node.Maps()
	missing := 0
	seen := map[uint64]int{}
	c.Await(time.Minute, name+": all events", func() bool {
		clear(seen)
		for _, e := range r.list() {
			if e.Type != imap.Lost {
				seen[ackKey(g, e.Key.Show(), e.Version)]++
			}
		}
		missing = 0
		for v := range w.acked {
			if seen[v] == 0 {
				missing++
			}
		}
		return missing == 0 || r.count(imap.Lost) > 0
	})
	time.Sleep(5 * time.Second) // time for what comes twice, or is given up on
	last := map[string]uint64{}
	for _, e := range r.list() {
		if e.Type == imap.Lost {
			t.Errorf("%s: %d events are said to be lost", name, e.Count)
			continue
		}
		k := e.Key.Show()
		if e.Version <= last[k] {
			t.Errorf("%s: of %s version %d comes after %d", name, k, e.Version, last[k])
		}
		last[k] = e.Version
	}
	if missing > 0 {
		t.Errorf("%s: %d of %d acknowledged writes gave no event", name, missing, len(w.acked))
	}
	for k, v := range last {
		e, err := c.Live()[0].Map("m").Get(context.Background(), key(k))
		if err != nil || e.Version != v {
			t.Errorf("%s: the last event of %s is of version %d, the entry of %d, %v", name, k, v, e.Version, err)
		}
	}
	t.Logf("%s: %d acknowledged writes, %d events", name, len(w.acked), len(r.list()))
}

// TestListen_CrashSweep kills a member at every step of a run of writes. Listeners on the others get each acknowledged write once.
func TestListen_CrashSweep(t *testing.T) {
	limit := 30 * time.Millisecond
	if testing.Short() {
		limit = 4 * time.Millisecond
	}
	for at := time.Duration(0); at < limit; at += 6 * *sweepStep {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3, few)
			defer c.Stop()
			victim := c.Live()[int(at/(6**sweepStep))%3]
			others := slices.DeleteFunc(c.Live(), func(m *Member) bool { return m == victim })
			r0, _ := listen(t, others[0], "m", imap.ListenerConfig{})
			r1, _ := listen(t, others[1], "m", imap.ListenerConfig{Value: true})
			w := &writes{acked: map[uint64]string{}}
			ctx, cancel := context.WithCancel(context.Background())
			wg := w.run(ctx, others, 6)
			time.Sleep(20*time.Millisecond + at)
			c.Crash(victim)
			time.Sleep(200 * time.Millisecond)
			c.AwaitSafe(2, 30*time.Second)
			cancel()
			wg.Wait()
			w.check(t, c, others[0].Host, r0)
			w.check(t, c, others[1].Host, r1)
		})
		if t.Failed() {
			t.Fatalf("crash at %v", at)
		}
	}
}

// TestListen_MembersComeAndGo moves partitions about under writes: joins, a leave, a crash and a restart.
func TestListen_MembersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		first := c.Live()[0]
		r, _ := listen(t, first, "m", imap.ListenerConfig{})
		w := &writes{acked: map[uint64]string{}}
		ctx, cancel := context.WithCancel(context.Background())
		wg := w.run(ctx, []*Member{first}, 2)
		c.Add()
		c.AwaitSafe(4, time.Minute)
		c.Add()
		c.AwaitSafe(5, time.Minute)
		time.Sleep(2 * time.Second) // balanced
		if err := c.Leave(c.Live()[1]); err != nil {
			t.Error(err)
		}
		c.AwaitSafe(4, time.Minute)
		late, _ := listen(t, c.Live()[3], "m", imap.ListenerConfig{})
		crashed := c.Live()[2]
		c.Crash(crashed)
		c.AwaitSafe(3, time.Minute)
		c.Restart(crashed)
		c.AwaitSafe(4, time.Minute)
		time.Sleep(2 * time.Second)
		cancel()
		wg.Wait()
		w.check(t, c, "first", r)
		if n := late.count(imap.Lost); n > 0 || late.count(imap.Updated) == 0 {
			t.Errorf("the late listener: %d updates, %d lost", late.count(imap.Updated), n)
		}
	})
}

// TestListen_CutConnections cuts connections of the listener's member again and again, for shorter and longer than it takes to be dropped as a
// backup. Messages and their answers are lost; events are not.
func TestListen_CutConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 4, few)
		defer c.Stop()
		live := c.Live()
		at := live[0]
		if at == c.Master() { // cut off from the master, it would be removed
			at = live[1]
		}
		r, _ := listen(t, at, "m", imap.ListenerConfig{})
		w := &writes{acked: map[uint64]string{}}
		ctx, cancel := context.WithCancel(context.Background())
		wg := w.run(ctx, live, 4)
		for i, m := range live {
			if m == at || m == c.Master() {
				continue
			}
			for _, d := range []time.Duration{3 * time.Millisecond, 300 * time.Millisecond, 4 * time.Second} {
				switch i % 3 {
				case 0:
					c.Net.Cut(at.Host, m.Host)
				case 1:
					c.Net.CutOneWay(at.Host, m.Host)
				default:
					c.Net.CutOneWay(m.Host, at.Host)
				}
				time.Sleep(d)
				c.Net.HealAll()
				time.Sleep(200 * time.Millisecond)
			}
		}
		cancel()
		wg.Wait()
		c.AwaitSafe(4, time.Minute)
		w.check(t, c, "cut", r)
	})
}

// TestListen_RegistrationEndsWithItsMember also shows that those of the others go on.
func TestListen_RegistrationEndsWithItsMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		victim := c.Live()[2]
		listen(t, victim, "m", imap.ListenerConfig{})
		r, _ := listen(t, c.Live()[0], "m", imap.ListenerConfig{})
		known := func(n int) bool {
			return !slices.ContainsFunc(c.Live(), func(m *Member) bool { return m.Node.Maps().Listeners() != n })
		}
		if !known(2) {
			t.Error("Listen returned before every member knew both")
		}
		c.Crash(victim)
		c.AwaitSafe(2, time.Minute)
		c.Await(time.Minute, "that the dead member's listener is forgotten", func() bool { return known(1) })
		c.Restart(victim)
		c.AwaitSafe(3, time.Minute)
		c.Await(time.Minute, "that the new member knows the listener", func() bool { return known(1) })
		if _, err := c.Live()[2].Map("m").Set(context.Background(), key("k"), imap.String("v"), 0); err != nil {
			t.Fatal(err)
		}
		c.Await(time.Minute, "the event", func() bool { return r.count(imap.Added) == 1 })
	})
}

// TestListen_SlowListener_IsToldWhatItLost blocks a listener. Writes go on; what does not fit is counted.
func TestListen_SlowListener_IsToldWhatItLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		r, release := &recorder{}, make(chan struct{})
		_, err := c.Live()[0].Map("m").Listen(context.Background(), imap.ListenerConfig{Queue: 10}, func(e imap.Event) {
			<-release
			r.take(e)
		})
		if err != nil {
			t.Fatal(err)
		}
		const n = 500
		start := time.Now()
		for i := range n {
			if _, err := c.Live()[i%3].Map("m").Set(context.Background(), key(fmt.Sprint(i)), imap.String("v"), 0); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the writes took %v", took)
		}
		time.Sleep(2 * time.Second) // all events are there, or dropped
		close(release)
		lost := 0
		c.Await(time.Minute, "every event, told or counted", func() bool {
			lost = 0
			for _, e := range r.list() {
				if e.Type == imap.Lost {
					lost += e.Count
				}
			}
			return r.count(imap.Added)+lost == n
		})
		if lost < n-20 {
			t.Errorf("%d events lost of %d, with a queue of 10", lost, n)
		}
	})
}

// TestListen_WriteThatIsUndone_GivesNoEvent cuts a primary off with a write that no backup got. Others take over without it.
func TestListen_WriteThatIsUndone_GivesNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		k := key("k")
		primary := c.PrimaryOf(k)
		other := c.Live()[0]
		if other == primary {
			other = c.Live()[1]
		}
		r, l := listen(t, primary, "m", imap.ListenerConfig{Value: true})
		far, _ := listen(t, other, "m", imap.ListenerConfig{Value: true})
		id := primary.ID()
		c.Net.Isolate(primary.Host)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if _, err := primary.Map("m").Set(ctx, k, imap.String("undone"), 0); grid.KindOf(err) != grid.Indeterminate {
			t.Errorf("a write that no backup gets: %v", err)
		}
		if _, err := other.Map("m").Set(context.Background(), k, imap.String("done"), 0); err != nil {
			t.Fatal(err)
		}
		c.Net.HealAll()
		c.Await(time.Minute, "that the primary comes back as another member", func() bool { return primary.ID() != id })
		<-l.Done()
		c.AwaitSafe(3, time.Minute)
		if got := r.list(); len(got) != 0 {
			t.Errorf("the listener at the old primary got %s", eventText(got[0]))
		}
		c.Await(time.Minute, "the other's event", func() bool { return far.count(imap.Added) == 1 })
		if got := far.list(); len(got) != 1 || eventText(got[0]) != "added k - done" {
			t.Errorf("%d events, the first %s", len(got), eventText(got[0]))
		}
	})
}

// TestListen_Refusals names what is wrong, and leaves nothing behind.
func TestListen_Refusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		m := c.Live()[0]
		bad := query.Predicate{Op: 99, Attribute: "a"}
		for name, cfg := range map[string]imap.ListenerConfig{"queue": {Queue: -1}, "where": {Where: &bad}, "key": {Key: imap.Data{1}}, "events": {Events: 1 << 12}} {
			if _, err := m.Map("m").Listen(context.Background(), cfg, func(imap.Event) {}); !errors.Is(err, grid.ErrBadRequest) {
				t.Errorf("%s: %v", name, err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Net.Isolate(m.Host)
		if _, err := m.Map("m").Listen(ctx, imap.ListenerConfig{}, func(imap.Event) {}); grid.KindOf(err) != grid.Retryable {
			t.Errorf("cut off from all: %v", err)
		}
		if n := m.Node.Maps().Listeners(); n != 0 {
			t.Errorf("%d listeners are left", n)
		}
	})
}

// TestListen_LocalOnly_AMemberDies: when a primary dies, the next one does not tell again what the dead one's listeners had been told: clients, which
// listen at every member, got up to 1,024 old changes of each of its partitions a second time.
func TestListen_LocalOnly_AMemberDies(t *testing.T) {
	for _, leave := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 3)
			defer c.Stop()
			var recorders []*recorder
			for _, m := range c.Live() {
				r, _ := listen(t, m, "m", imap.ListenerConfig{LocalOnly: true})
				recorders = append(recorders, r)
			}
			again, _ := listen(t, c.Live()[0], "m", imap.ListenerConfig{LocalOnly: true, Again: true})
			put := func(from, to int) {
				for i := from; i < to; i++ {
					if _, err := c.Live()[i%2].Map("m").Set(context.Background(), key(fmt.Sprint(i)), imap.String("v"), 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			check := func(want int) {
				t.Helper()
				seen := map[string]int{}
				for _, r := range recorders {
					for _, e := range r.list() {
						seen[eventText(e)]++
					}
				}
				for e, n := range seen {
					if n != 1 {
						t.Errorf("%s: %d times", e, n)
					}
				}
				if len(seen) != want {
					t.Errorf("events of %d changes of %d", len(seen), want)
				}
			}
			put(0, 200)
			time.Sleep(2 * time.Second)
			check(200)
			before := len(again.list())
			if leave {
				if err := c.Leave(c.Live()[2]); err != nil {
					t.Fatal(err)
				}
			} else {
				c.Crash(c.Live()[2])
			}
			time.Sleep(20 * time.Second)
			check(200)
			if !leave && len(again.list()) == before { // after a planned hand-over there may be none
				t.Error("a listener that wants old events again got none")
			}
			put(200, 300)
			time.Sleep(2 * time.Second)
			check(300)
		})
	}
}
