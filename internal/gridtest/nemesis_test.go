package gridtest

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/node"
)

var (
	nemesisRuns = flag.Int("nemesis.runs", 300, "histories of TestNemesis")
	nemesisSeed = flag.Uint64("nemesis.seed", 1, "first seed of TestNemesis: one seed, one schedule")
	nemesisOnly = flag.String("nemesis.only", "", "family of rounds that TestNemesis is to keep to, for example \"crash\"")
)

// workload is one kind of use of the maps. Its methods but step are called from one goroutine at a time.
type workload interface {
	name() string
	// prepare writes what has to be there, before any fault.
	prepare(ctx context.Context, f *findings, m *Member)
	// step makes about one call through the client's member.
	step(ctx context.Context, f *findings, cl *client)
	// final reads through one member, after all was mended. It is called for each.
	final(ctx context.Context, f *findings, cl *client)
	// check judges what was recorded. It runs outside of the bubble, in real time.
	check(f *findings)
}

// workloads are those of one history. A new one has its line here and nothing else.
func workloads(seed uint64) []workload {
	return []workload{
		newRegisters(seed%4 == 3),
		newCounters(),
		newClaims(),
		newTimed(),
		&constant{},
		newGuards(),
	}
}

// nemesis runs one history.
type nemesis struct {
	t     testing.TB
	plan  plan
	c     *Cluster
	f     *findings
	loads []workload
	rnd   *rand.Rand
	trace []string

	hotUntil atomic.Int64 // nanoseconds of the clock; clients hurry until then
	clients  sync.WaitGroup
	lastID   int
	stops    map[*Member]context.CancelFunc
	undo     []func()               // at the end of the round
	last     *Member                // whom the last step hit
	focus    atomic.Pointer[string] // key whose partition the round is about
}

// TestNemesis runs workloads through all members of clusters whose members crash, come back, stall, are cut off, join and leave, on schedules
// that follow from seeds, and checks every promise of the maps on what the callers saw.
func TestNemesis(t *testing.T) {
	total, start := newFindings(), time.Now()
	var stop atomic.Bool // after the first failure
	workers := min(runtime.GOMAXPROCS(0), *nemesisRuns)
	t.Run("histories", func(t *testing.T) {
		for w := range workers {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				for i := w; i < *nemesisRuns && !stop.Load(); i += workers {
					if runHistory(t, planOf(*nemesisSeed+uint64(i), *nemesisOnly), total); t.Failed() {
						stop.Store(true)
					}
				}
			})
		}
	})
	var faults []string
	for _, k := range slices.Sorted(maps.Keys(total.faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", k, total.faults[k]))
	}
	t.Logf("%d histories in %v: %d calls, %d of unknown outcome, %d refused, %d keys undecided; safe again after %v at most; faults: %s",
		*nemesisRuns, time.Since(start).Round(time.Second), total.calls, total.unknown, total.refused, total.undecided,
		total.safeAfter.Round(time.Millisecond), strings.Join(faults, ", "))
}

func runHistory(t *testing.T, p plan, total *findings) {
	t.Helper()
	n := &nemesis{
		plan: p, f: newFindings(), loads: workloads(p.seed), rnd: rand.New(rand.NewPCG(p.seed, 13)), stops: map[*Member]context.CancelFunc{},
	}
	defer func() { // also when the bubble ended with a fatal error
		total.add(n.f)
		for _, v := range n.f.violations {
			t.Errorf("violation: %s", v)
		}
		if t.Failed() {
			t.Errorf("run again with -nemesis.runs=1 -nemesis.seed=%d -nemesis.only=%q (and -test.count=20: the order of goroutines may differ)\n%s\n%s",
				p.seed, *nemesisOnly, p, strings.Join(n.trace, "\n"))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		n.t = t
		n.run()
	})
	for _, w := range n.loads {
		w.check(n.f)
	}
}

func (n *nemesis) note(format string, args ...any) {
	n.trace = append(n.trace, time.Now().UTC().Format("    05.000000 ")+fmt.Sprintf(format, args...))
}

func (n *nemesis) run() {
	p := n.plan
	n.c = Start(n.t, p.members, func(cfg *node.Config) {
		cfg.Partitions, cfg.BackupCount, cfg.SessionTimeout, cfg.Lease = 7, p.backups, p.session, p.lease
	})
	defer n.c.Stop()
	n.refocus(registerKeys[0])
	ctx, cancel := context.WithCancel(context.Background())
	defer n.clients.Wait()
	defer cancel()
	for _, w := range n.loads {
		w.prepare(ctx, n.f, n.c.Live()[0])
	}
	for _, m := range n.c.Live() {
		n.employ(ctx, m)
	}
	for _, r := range p.rounds {
		n.round(ctx, r)
	}
	cancel()
	n.clients.Wait()
	for _, m := range n.c.Live() {
		for _, w := range n.loads {
			fctx, done := context.WithTimeout(context.Background(), 30*time.Second)
			w.final(fctx, n.f, n.client(m))
			done()
		}
	}
}

// round does the steps of a round, mends everything, and waits until the cluster is safe again.
func (n *nemesis) round(ctx context.Context, r round) {
	n.note("round: %s", r.family)
	n.refocus(pick(n.rnd, registerKeys...))
	n.hurry(20 * time.Millisecond)
	var ends []comingEnd
	for _, s := range r.steps {
		ends = n.sleep(s.after, ends)
		if end := n.do(ctx, s); end != nil && s.lasts > 0 {
			ends = append(ends, comingEnd{time.Now().Add(s.lasts), end})
		} else if end != nil {
			n.undo = append(n.undo, end)
		}
		n.hurry(15 * time.Millisecond)
	}
	for len(ends) > 0 {
		ends = n.sleep(time.Until(earliest(ends)), ends)
	}
	for _, f := range n.undo {
		f()
	}
	n.undo = nil
	n.c.Net.HealAll()
	n.hurry(25 * time.Millisecond)
	n.note("all is mended")
	n.awaitSafe()
}

// awaitSafe waits until the cluster is whole again. That it takes for ever is a violation, too.
func (n *nemesis) awaitSafe() {
	defer func(start time.Time) {
		took := time.Since(start)
		n.f.safeAfter = max(n.f.safeAfter, took)
		n.note("waited for %v", took)
		if !n.t.Failed() {
			return
		}
		n.f.violate("after all was mended the cluster is not safe again with all members")
		for _, m := range n.c.Live() {
			n.note("%s is %s and knows %s", m.Host, m.ID(), describe(m.Node.State()))
		}
	}(time.Now())
	n.c.AwaitSafe(len(n.c.Live()), time.Minute)
}

// describe describes a state in a few lines.
func describe(s *grid.State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "term %d, master %s, index %d", s.Term, s.Master, s.Index)
	for _, m := range s.Members {
		fmt.Fprintf(&b, "\n        member %s %s %s", m.Name, m.ID, m.State)
	}
	for i, p := range s.Partitions {
		fmt.Fprintf(&b, "\n        partition %d %+v", i, p)
	}
	return b.String()
}

// comingEnd is the end of a step that lasts.
type comingEnd struct {
	at time.Time
	do func()
}

func earliest(ends []comingEnd) time.Time {
	return slices.MinFunc(ends, func(a, b comingEnd) int { return a.at.Compare(b.at) }).at
}

// Clients hurry shortly before a step, and now and then.
const (
	hurryBefore = 30 * time.Millisecond
	pulseEvery  = 250 * time.Millisecond
	pulse       = 5 * time.Millisecond
)

// sleep lets d pass, ends what is due meanwhile, and returns what is not.
func (n *nemesis) sleep(d time.Duration, ends []comingEnd) []comingEnd {
	until := time.Now().Add(d)
	for len(ends) > 0 && !earliest(ends).After(until) {
		first := earliest(ends)
		n.rest(time.Until(first))
		var due []func()
		ends = slices.DeleteFunc(ends, func(e comingEnd) bool {
			if e.at.Equal(first) {
				due = append(due, e.do)
			}
			return e.at.Equal(first)
		})
		for _, f := range due {
			f()
		}
		n.hurry(10 * time.Millisecond)
	}
	n.rest(time.Until(until))
	return ends
}

// rest lets d pass.
func (n *nemesis) rest(d time.Duration) {
	for ; d > hurryBefore+pulseEvery; d -= pulseEvery {
		time.Sleep(pulseEvery)
		n.hurry(pulse)
	}
	if d > hurryBefore {
		time.Sleep(d - hurryBefore)
		d = hurryBefore
	}
	n.hurry(d)
	time.Sleep(d)
}
