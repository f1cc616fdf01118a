package clients

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/hzerrors"
)

var rounds = flag.Int("rounds", 3, "kills of a member under the Go client's load, each member in turn; with more than 3 the throughput has to be back within 3 s")

const (
	loaders     = 8
	loaderPause = 4 * time.Millisecond // after each operation, so that a small machine is not measured against itself
	opWithin    = 10 * time.Second
	unsentMost  = 2 // calls a kill that the client may have put by, see unsent
	bucket      = 100 * time.Millisecond
	enough      = 0.8 // of the throughput before the kill, over a second
	backWithin  = 3 * time.Second
	busyWithin  = 15 * time.Second // for few rounds, which run beside other tests
)

// ledger is what one loader knows of what it did. Only that loader uses it while it runs.
type ledger struct {
	last    int64            // acknowledged value of its register
	maybe   map[int64]bool   // values of its register that may have been set, or may be yet
	ids     map[string]int64 // acknowledged putIfAbsent
	maybeID map[string]int64
	counted [2]int64 // acknowledged increments of its own counter and of that of all
	unsure  [2]int64 // and those of unknown outcome
}

// load is a load on a client, and what came of it.
type load struct {
	registers, ids, counters *hazelcast.Map

	acks   [4096]atomic.Int64 // of each bucket since began
	began  time.Time
	mu     sync.Mutex
	errs   map[string]int // by kind
	wrong  []string
	ledger [loaders]ledger
}

// indeterminate are the errors that the client has for what may have happened.
var indeterminate = map[string]error{
	"target disconnected": hzerrors.ErrTargetDisconnected, "indeterminate operation state": hzerrors.ErrIndeterminateOperationState,
}

// noAnswer is the kind of calls that ended with their limit.
const noAnswer = "no answer"

// failed notes an error. All but those that say that the outcome is unknown are faults.
func (l *load) failed(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind, is := range indeterminate {
		if errors.Is(err, is) {
			l.errs[kind]++
			return
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		l.errs[noAnswer]++
		return
	}
	l.errs["other"]++
	l.wrong = append(l.wrong, fmt.Sprintf("%s: %v", what, err))
}

func (l *load) wrongf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

func (l *load) acked() {
	if i := int(time.Since(l.began) / bucket); i < len(l.acks) {
		l.acks[i].Add(1)
	}
}

// rate is the number of acknowledged operations in the second that began with a bucket.
func (l *load) rate(from int) (n int64) {
	for i := from; i < from+int(time.Second/bucket) && i < len(l.acks); i++ {
		n += l.acks[i].Load()
	}
	return n
}

// work makes operations until ctx ends; none is cut short.
func (l *load) work(ctx context.Context, worker int) {
	g := &l.ledger[worker]
	*g = ledger{maybe: map[int64]bool{}, ids: map[string]int64{}, maybeID: map[string]int64{}}
	for n := int64(1); ctx.Err() == nil; n++ {
		call, done := context.WithTimeout(context.WithoutCancel(ctx), opWithin)
		switch n % 4 {
		case 0:
			l.set(call, g, worker, n)
		case 1:
			l.putOnce(call, g, fmt.Sprintf("%d-%d", worker, n), n)
		case 2:
			l.increment(call, g, 0, fmt.Sprint("own-", worker))
		case 3:
			l.increment(call, g, 1, "all")
			l.look(call, g, worker)
		}
		done()
		time.Sleep(loaderPause)
	}
}

func (l *load) set(ctx context.Context, g *ledger, worker int, n int64) {
	if err := l.registers.Set(ctx, fmt.Sprint(worker), n); err != nil {
		g.maybe[n] = true
		l.failed("set", err)
		return
	}
	g.last = n
	l.acked()
}

// look reads the register, which nobody else writes.
func (l *load) look(ctx context.Context, g *ledger, worker int) {
	v, err := l.registers.Get(ctx, fmt.Sprint(worker))
	if err != nil {
		l.failed("get", err)
		return
	}
	l.acked()
	if got, _ := v.(int64); got != g.last && !g.maybe[got] {
		l.wrongf("register %d is %v, acknowledged was %d", worker, v, g.last)
	}
}

// putOnce puts an id that nobody has put before, so it must not be there.
func (l *load) putOnce(ctx context.Context, g *ledger, id string, n int64) {
	old, err := l.ids.PutIfAbsent(ctx, id, n)
	switch {
	case err != nil:
		g.maybeID[id] = n
		l.failed("putIfAbsent", err)
	case old != nil:
		l.wrongf("putIfAbsent of the new id %s found %v: it ran twice", id, old)
	default:
		g.ids[id] = n
		l.acked()
	}
}

// increment adds one to a counter, which it reads first. If others do the same it may take several tries.
func (l *load) increment(ctx context.Context, g *ledger, which int, key string) {
	for ctx.Err() == nil {
		v, err := l.counters.Get(ctx, key)
		if err != nil {
			l.failed("get of a counter", err)
			return
		}
		now, _ := v.(int64)
		same, err := l.counters.ReplaceIfSame(ctx, key, now, now+1)
		switch {
		case err != nil:
			g.unsure[which]++
			l.failed("replaceIfSame", err)
			return
		case same:
			g.counted[which]++
			l.acked()
			return
		case which == 0:
			// the increment before, whose outcome was unknown, came to be in between; or this one ran twice, which the count will show
		}
	}
}

// round is what one kill came to.
type round struct {
	member       int
	before       int64 // operations a second
	silent, back time.Duration
}

// measure watches the load after a kill, until it is what it was.
func (l *load) measure(before int64, limit time.Duration) (silent, back time.Duration) {
	from := int(time.Since(l.began) / bucket)
	for i := from; ; i++ {
		if wait := time.Duration(i+int(time.Second/bucket))*bucket - time.Since(l.began); wait > 0 {
			time.Sleep(wait)
		}
		back = time.Duration(i-from) * bucket
		if float64(l.rate(i)) >= enough*float64(before) || back > limit {
			break
		}
	}
	gap := time.Duration(0)
	for i := from; i <= from+int(back/bucket); i++ {
		if gap += bucket; l.acks[i].Load() > 0 {
			gap = 0
		}
		silent = max(silent, gap)
	}
	return silent, back
}

// Through the death of each member in turn, a Go client loses no write that it was told of, does none twice, gets no errors but those that say
// that the outcome is unknown, and is soon as fast as before. A few calls may have no answer, as the client may not have sent them.
func TestGoClient_EachMemberKilledUnderLoad(t *testing.T) {
	limit := time.Duration(*rounds)*30*time.Second + time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	members := startMembers(t, 3)
	client := connect(t, ctx, members)
	l := &load{errs: map[string]int{}}
	for name, m := range map[string]**hazelcast.Map{"registers": &l.registers, "ids": &l.ids, "counters": &l.counters} {
		var err error
		if *m, err = client.GetMap(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	for i := range loaders {
		setCounter(t, ctx, l.counters, fmt.Sprint("own-", i))
	}
	setCounter(t, ctx, l.counters, "all")
	await(t, "a backup of everything", func() bool { return members[0].Safe(3) })
	working, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	l.began = time.Now()
	for i := range loaders {
		wg.Go(func() { l.work(working, i) })
	}
	var done []round
	for i := range *rounds {
		done = append(done, l.kill(t, members, i%3))
	}
	stop()
	wg.Wait()
	l.report(t, done)
	l.verify(t, ctx)
}

func setCounter(t *testing.T, ctx context.Context, m *hazelcast.Map, key string) {
	t.Helper()
	if err := m.Set(ctx, key, int64(0)); err != nil {
		t.Fatal(err)
	}
}

// kill kills a member, watches, and starts another in its place.
func (l *load) kill(t *testing.T, members []*Process, victim int) round {
	t.Helper()
	other := members[(victim+1)%3]
	await(t, "a backup of everything", func() bool { return other.Safe(3) })
	time.Sleep(1500 * time.Millisecond) // what is measured before
	before := l.rate(int(time.Since(l.began)/bucket) - int(time.Second/bucket))
	members[victim].Kill()
	r := round{member: victim, before: before}
	r.silent, r.back = l.measure(before, busyWithin)
	members[victim] = startAt(t, "clients", members[victim].Port, []string{other.Address()}, nil)
	return r
}

func (l *load) report(t *testing.T, done []round) {
	t.Helper()
	bound := busyWithin
	if *rounds > 3 {
		bound = backWithin
	}
	for i, r := range done {
		t.Logf("kill %d, member %d: %d operations/s before, silent for %v, back at %d %% after %v", i+1, r.member+1, r.before, r.silent, int(100*enough), r.back)
		if r.back > bound {
			t.Errorf("kill %d: the throughput is not back within %v", i+1, bound)
		}
	}
	slices.SortFunc(done, func(a, b round) int { return cmp.Compare(a.back, b.back) })
	var acked int64
	for i := range l.acks {
		acked += l.acks[i].Load()
	}
	var errs []string
	for _, kind := range slices.Sorted(maps.Keys(l.errs)) {
		errs = append(errs, fmt.Sprintf("%s %d", kind, l.errs[kind]))
	}
	t.Logf("%d kills, %d operations acknowledged, back after %v (median), %v (worst); errors: %s", len(done), acked, done[len(done)/2].back,
		done[len(done)-1].back, cmp.Or(strings.Join(errs, ", "), "none"))
}

// verify compares what the client was told with what is there.
func (l *load) verify(t *testing.T, ctx context.Context) {
	t.Helper()
	for _, w := range l.wrong[:min(len(l.wrong), 20)] {
		t.Error(w)
	}
	if n := l.errs[noAnswer]; n > unsentMost**rounds {
		t.Errorf("%d calls had no answer within %v; the client may have put by %d a kill", n, opWithin, unsentMost)
	}
	lost, late, ids := 0, 0, 0
	var all, unsure int64
	for i := range l.ledger {
		g := &l.ledger[i]
		switch v := number(t, ctx, l.registers, fmt.Sprint(i)); {
		case v != g.last && !g.maybe[v]:
			lost++
			t.Errorf("register %d is %d, acknowledged was %d", i, v, g.last)
		case v < g.last:
			late++
		}
		for id, n := range g.ids {
			if ids++; number(t, ctx, l.ids, id) != n {
				lost++
				t.Errorf("id %s is lost", id)
			}
		}
		for id, n := range g.maybeID {
			if v := number(t, ctx, l.ids, id); v != 0 && v != n {
				t.Errorf("id %s is %d, and nobody put that", id, v)
			}
		}
		if v := number(t, ctx, l.counters, fmt.Sprint("own-", i)); v < g.counted[0] || v > g.counted[0]+g.unsure[0] {
			lost++
			t.Errorf("counter %d is %d after %d acknowledged increments and %d of unknown outcome", i, v, g.counted[0], g.unsure[0])
		}
		all, unsure = all+g.counted[1], unsure+g.unsure[1]
	}
	v := number(t, ctx, l.counters, "all")
	if v < all || v > all+unsure {
		t.Errorf("the counter of all is %d after %d acknowledged increments and %d of unknown outcome", v, all, unsure)
	}
	t.Logf("%d ids, %d increments of one counter (%d of unknown outcome, %d of them happened): %d acknowledged writes lost; %d registers show a late write of unknown outcome",
		ids, all, unsure, v-all, lost, late)
}

// number reads a value; absent is 0.
func number(t *testing.T, ctx context.Context, m *hazelcast.Map, key string) int64 {
	t.Helper()
	v, err := m.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := v.(int64)
	return n
}
