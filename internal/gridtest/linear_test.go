package gridtest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/node"
)

var (
	linearRuns = flag.Int("linear.runs", 12, "histories of TestLinearizable")
	linearSeed = flag.Uint64("linear.seed", 1, "first seed of TestLinearizable")
)

// call is one operation on one key of a map: a get, a put that returns the old value, or a put-if-absent.
type call struct {
	kind  string
	value string
}

// outcome is what it returned. An unknown one may have happened or not, at any later time.
type outcome struct {
	old     string
	applied bool
	unknown bool
}

// register is the sequential specification of one key.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(string), input.(call), output.(outcome)
		switch in.kind {
		case "get":
			return out.unknown || out.old == s, s
		case "put":
			return out.unknown || out.old == s, in.value
		default:
			free := s == ""
			if free {
				s = in.value
			}
			return out.unknown || out.applied == free, s
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// history collects the operations on each key.
type history struct {
	mu   sync.Mutex
	ops  map[string][]porcupine.Operation
	open map[string][]porcupine.Operation // of unknown outcome
}

func (h *history) add(k string, op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if op.Output.(outcome).unknown {
		h.open[k] = append(h.open[k], op)
		return
	}
	h.ops[k] = append(h.ops[k], op)
}

// client does random operations until ctx ends. A call that provably did not run leaves no trace.
func (h *history) client(ctx context.Context, id int, rnd *rand.Rand, m *Member) {
	for n := 0; ctx.Err() == nil; n++ {
		k := fmt.Sprintf("r%d", rnd.IntN(3))
		in := call{[]string{"get", "get", "put", "if absent"}[rnd.IntN(4)], fmt.Sprintf("%d-%d", id, n)}
		start := time.Now()
		out, err := perform(m.Map("registers"), k, in)
		op := porcupine.Operation{ClientId: id, Input: in, Call: start.UnixNano(), Output: out, Return: time.Now().UnixNano()}
		switch {
		case err == nil:
			h.add(k, op)
		case grid.KindOf(err) == grid.Indeterminate && in.kind != "get":
			op.Output = outcome{unknown: true}
			h.add(k, op)
		}
		time.Sleep(time.Duration(rnd.IntN(4000)) * time.Microsecond)
	}
}

func perform(m *imap.Map, k string, in call) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callBudget)
	defer cancel()
	switch in.kind {
	case "get":
		e, err := m.Get(ctx, key(k))
		return outcome{old: present(e)}, err
	case "put":
		res, err := m.Put(ctx, key(k), imap.String(in.value), 0)
		return outcome{old: present(res.Old)}, err
	default:
		res, err := m.PutIfAbsent(ctx, key(k), imap.String(in.value), 0)
		return outcome{applied: res.Applied}, err
	}
}

func present(e imap.Entry) string {
	if !e.Found() {
		return ""
	}
	body, _, _ := e.Value.Text()
	return string(body)
}

func (h *history) check(t *testing.T) {
	t.Helper()
	total := 0
	for k, ops := range h.ops {
		end := time.Now().UnixNano()
		for _, op := range h.open[k] {
			op.Return = end
			ops = append(ops, op)
		}
		total += len(ops)
		switch res := porcupine.CheckOperationsTimeout(register, ops, 30*time.Second); res {
		case porcupine.Ok:
		case porcupine.Unknown:
			t.Logf("key %s: the check of %d operations took too long", k, len(ops))
		default:
			t.Errorf("key %s: %d operations are not linearizable", k, len(ops))
		}
	}
	t.Logf("%d operations", total)
}

// TestLinearizable runs clients against a cluster whose members are killed, cut off and replaced at random instants.
func TestLinearizable(t *testing.T) {
	for i := range *linearRuns {
		seed := *linearSeed + uint64(i)
		h := &history{ops: map[string][]porcupine.Operation{}, open: map[string][]porcupine.Operation{}}
		synctest.Test(t, func(t *testing.T) { disturbed(t, seed, h) })
		if h.check(t); t.Failed() {
			t.Fatalf("seed %d: run again with -linear.seed=%d -linear.runs=1", seed, seed)
		}
	}
}

// disturbed records one history. m1 lives throughout, and the clients of the others go with their member.
func disturbed(t *testing.T, seed uint64, h *history) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	c := Start(t, 3+int(seed%2), few, func(cfg *node.Config) { cfg.BackupCount = 1 + int(seed/2%2) })
	defer c.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i, m := range c.Live() {
		wg.Go(func() { h.client(ctx, i, rand.New(rand.NewPCG(seed, uint64(i))), m) })
	}
	for range 2 {
		time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
		n := len(c.Live())
		victim := c.Live()[1+rnd.IntN(n-1)]
		if rnd.IntN(2) == 0 {
			c.Crash(victim)
			c.AwaitSafe(n-1, time.Minute)
			c.Restart(victim)
		} else {
			c.Net.Isolate(victim.Host)
			time.Sleep(time.Duration(rnd.IntN(9000)) * time.Millisecond)
			c.Net.HealAll()
		}
		c.AwaitSafe(n, 2*time.Minute)
	}
	cancel()
	wg.Wait()
}
