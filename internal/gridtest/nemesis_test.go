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

	"gridnode/internal/memnet"
	"gridnode/node"
)

var (
	nemesisRuns = flag.Int("nemesis.runs", 320, "histories of TestNemesis")
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
		newRegisters(seed%4 == 3, "r0", "r1", "r2"),
		newCounters(),
		newClaims(),
		newTimed(),
		&constant{},
	}
}

// client is one caller, at home on one member.
type client struct {
	id   int
	m    *Member
	rnd  *rand.Rand
	n    int
	seen map[string]string // register to the value that it last saw there
}

// unique returns a value that nobody else ever writes.
func (c *client) unique() string {
	c.n++
	return fmt.Sprintf("%d-%d", c.id, c.n)
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
	undo     []func() // at the end of the round
	focus    string   // register whose partition the round is about
}

// TestNemesis runs workloads through all members of clusters whose members crash, come back, stall, are cut off, join and leave, on schedules
// that follow from seeds, and checks every promise of the maps on what the callers saw.
func TestNemesis(t *testing.T) {
	total, start := newFindings(), time.Now()
	workers := min(runtime.GOMAXPROCS(0), *nemesisRuns)
	t.Run("histories", func(t *testing.T) {
		for w := range workers {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				for i := w; i < *nemesisRuns && !t.Failed(); i += workers {
					runHistory(t, planOf(*nemesisSeed+uint64(i), *nemesisOnly), total)
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
	synctest.Test(t, func(t *testing.T) {
		n.t = t
		n.run()
	})
	if !t.Failed() {
		for _, w := range n.loads {
			w.check(n.f)
		}
	}
	total.add(n.f)
	for _, v := range n.f.violations {
		t.Errorf("violation: %s", v)
	}
	if t.Failed() {
		t.Errorf("run again with -nemesis.runs=1 -nemesis.seed=%d -nemesis.only=%q (and -test.count=20: the order of goroutines may differ)\n%s\n%s",
			p.seed, *nemesisOnly, p, strings.Join(n.trace, "\n"))
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

const clientsEach = 3

// employ starts the clients of a member.
func (n *nemesis) employ(ctx context.Context, m *Member) {
	ctx, n.stops[m] = context.WithCancel(ctx)
	for range clientsEach {
		cl := n.client(m)
		n.clients.Go(func() { n.work(ctx, cl) })
	}
}

func (n *nemesis) client(m *Member) *client {
	n.lastID++
	return &client{id: n.lastID, m: m, rnd: rand.New(rand.NewPCG(n.plan.seed, uint64(n.lastID))), seen: map[string]string{}}
}

// work makes calls until ctx ends. Some have little time, so that their outcome stays unknown.
func (n *nemesis) work(ctx context.Context, cl *client) {
	for ctx.Err() == nil {
		budget := pick(cl.rnd, 10*time.Second, 10*time.Second, 2*time.Second, 100*time.Millisecond)
		call, done := context.WithTimeout(context.WithoutCancel(ctx), budget)
		if maps := cl.m.Node.Maps(); maps != nil {
			n.loads[cl.rnd.IntN(len(n.loads))].step(call, n.f, cl)
		}
		done()
		if rest := n.hotUntil.Load() - time.Now().UnixNano(); rest > 0 {
			time.Sleep(time.Duration(cl.rnd.IntN(400)) * time.Microsecond)
		} else {
			time.Sleep(time.Duration(10+cl.rnd.IntN(60)) * time.Millisecond)
		}
	}
}

// hurry lets the clients make many calls for a while.
func (n *nemesis) hurry(d time.Duration) {
	n.hotUntil.Store(max(n.hotUntil.Load(), time.Now().Add(d).UnixNano()))
}

// round does the steps of a round, mends everything, and waits until the cluster is safe again.
func (n *nemesis) round(ctx context.Context, r round) {
	n.note("round: %s", r.family)
	n.focus = fmt.Sprintf("r%d", n.rnd.IntN(3))
	n.hurry(20 * time.Millisecond)
	var ends []comingEnd
	for _, s := range r.steps {
		ends = n.sleep(ctx, s.after, ends)
		if end := n.do(ctx, s); end != nil && s.lasts > 0 {
			ends = append(ends, comingEnd{time.Now().Add(s.lasts), end})
		} else if end != nil {
			n.undo = append(n.undo, end)
		}
		n.hurry(15 * time.Millisecond)
	}
	for len(ends) > 0 {
		ends = n.sleep(ctx, time.Until(earliest(ends)), ends)
	}
	for _, f := range n.undo {
		f()
	}
	n.undo = nil
	n.c.Net.HealAll()
	n.hurry(25 * time.Millisecond)
	n.note("all is mended")
	took := n.c.AwaitSafe(len(n.c.Live()), time.Minute)
	n.note("safe after %v", took)
	n.f.safeAfter = max(n.f.safeAfter, took)
}

// comingEnd is the end of a step that lasts.
type comingEnd struct {
	at time.Time
	do func()
}

func earliest(ends []comingEnd) time.Time {
	return slices.MinFunc(ends, func(a, b comingEnd) int { return a.at.Compare(b.at) }).at
}

// sleep lets d pass, ends what is due meanwhile, and returns what is not.
func (n *nemesis) sleep(_ context.Context, d time.Duration, ends []comingEnd) []comingEnd {
	until := time.Now().Add(d)
	for len(ends) > 0 && !earliest(ends).After(until) {
		first := earliest(ends)
		time.Sleep(time.Until(first))
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
	time.Sleep(time.Until(until))
	return ends
}

// do makes a step and returns what ends it.
func (n *nemesis) do(ctx context.Context, s step) (end func()) {
	net := n.c.Net
	if s.act == join {
		m := n.c.Add()
		n.note("%s joins", m.Host)
		n.f.fault("join")
		n.employ(ctx, m)
		return nil
	}
	m, backup := n.find(s.who)
	if m == nil {
		n.note("nobody to %s: no %s", s.act, s.who)
		return nil
	}
	n.f.fault(string(s.act))
	n.note("%s %s (%s; backup %s, master %s)", s.act, m.Host, s.who, hostOf(backup), hostOf(n.c.Master()))
	others := n.others(m)
	switch s.act {
	case crash:
		n.stops[m]()
		n.c.Crash(m)
		return func() {
			fresh := n.c.Restart(m)
			n.note("%s starts again", m.Host)
			n.employ(ctx, fresh)
		}
	case leave:
		if err := n.c.Leave(m); err != nil {
			n.f.violate("%s did not leave in good order: %v", m.Host, err)
		}
		n.stops[m]()
		n.note("%s has left", m.Host)
		return nil
	case pause:
		net.Pause(m.Host)
		return n.ended(m, func() { net.Resume(m.Host) })
	}
	n.disturb(s, m, backup, others)
	return n.ended(m, func() {
		for _, o := range others {
			net.Heal(m.Host, o)
		}
	})
}

func (n *nemesis) ended(m *Member, end func()) func() {
	return func() {
		n.note("%s is sound again", m.Host)
		end()
	}
}

// disturb makes links of a member faulty.
func (n *nemesis) disturb(s step, m, backup *Member, others []string) {
	net := n.c.Net
	switch s.act {
	case isolate:
		net.Isolate(m.Host)
	case deaf:
		for _, o := range others {
			net.CutOneWay(o, m.Host)
		}
	case mute:
		for _, o := range others {
			net.CutOneWay(m.Host, o)
		}
	case bridge:
		net.Split(append(slices.DeleteFunc(slices.Clone(others), func(o string) bool { return o == hostOf(backup) }), m.Host), others)
	case oneWay:
		net.CutOneWay(m.Host, hostOf(backup))
	case slowIn:
		if master := n.c.Master(); master != nil && master != m {
			net.SetFault(master.Host, m.Host, memnet.Fault{Delay: s.delay})
		}
	case slowPair:
		net.SetFault(m.Host, hostOf(backup), memnet.Fault{Delay: s.delay})
	case slowNew:
		next := fmt.Sprintf("m%d", len(n.c.members)+1)
		for _, o := range append(others, m.Host) {
			net.SetFault(o, next, memnet.Fault{Delay: s.delay})
		}
	case tableLag:
		for _, o := range others {
			net.SetFault(o, m.Host, memnet.Fault{Hold: true, Only: "GR1"})
		}
	default:
		panic("no such action: " + string(s.act))
	}
}

func hostOf(m *Member) string {
	if m == nil {
		return "nobody"
	}
	return m.Host
}

// others are the hosts of the live members but one.
func (n *nemesis) others(m *Member) (out []string) {
	for _, o := range n.c.Live() {
		if o != m {
			out = append(out, o.Host)
		}
	}
	return out
}

// find returns the member in a role, and the backup of the partition that it was found by.
func (n *nemesis) find(who role) (m, backup *Member) {
	primary, backup := n.replicasOf(n.focus)
	master := n.c.Master()
	switch who {
	case thePrimary:
		return primary, backup
	case theBackup:
		return backup, primary
	case theMaster:
		return master, backup
	case theOutsider:
		for i := range 64 {
			p, b := n.replicasOf(fmt.Sprintf("s%d", i))
			if p != nil && b != nil && p != master && b != master {
				return p, b
			}
		}
		return nil, nil
	}
	live := n.c.Live()
	return live[n.rnd.IntN(len(live))], backup
}

// replicasOf returns the live primary of a key and its first live backup, as the first live member that knows knows them.
func (n *nemesis) replicasOf(name string) (primary, backup *Member) {
	for _, m := range n.c.Live() {
		s := m.Node.State()
		p, ok := m.Node.Maps().Partition(key(name))
		if s == nil || !ok || len(s.Partitions) == 0 || len(s.Partitions[p].Replicas) == 0 {
			continue
		}
		for _, o := range n.c.Live() {
			switch {
			case o.ID() == s.Partitions[p].Replicas[0]:
				primary = o
			case s.Partitions[p].InSync(o.ID()) && backup == nil:
				backup = o
			}
		}
		if primary != nil {
			return primary, backup
		}
		backup = nil
	}
	return nil, nil
}
