package gridtest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

// tally is what a workload was told, to be held against what the maps hold in the end.
type tally struct {
	mu      sync.Mutex
	acked   map[string]string // key to value of sets
	added   int               // increments acknowledged
	unknown int               // increments of unknown outcome
	refused int               // calls that provably did not run
}

const callBudget = 20 * time.Second

func key(s string) imap.Key { return imap.Key{Data: imap.String(s)} }

func textOf(t testing.TB, e imap.Entry) string {
	t.Helper()
	body, _, err := e.Value.Text()
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (w *tally) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// increment raises a counter by one, once: it is repeated only if it provably did not happen.
func (w *tally) increment(ctx context.Context, m *imap.Map, name string) {
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callBudget)
		e, err := m.Get(call, key(name))
		if err != nil {
			cancel()
			w.note(func() { w.refused++ })
			return
		}
		n, _ := strconv.Atoi(bodyOf(e))
		next := imap.String(strconv.Itoa(n + 1))
		var res imap.WriteResult
		if e.Found() {
			res, err = m.ReplaceVersion(call, key(name), e.Version, next, 0)
		} else {
			res, err = m.PutIfAbsent(call, key(name), next, 0)
		}
		cancel()
		switch {
		case err == nil && res.Applied:
			w.note(func() { w.added++ })
			return
		case err == nil:
			continue // somebody else was faster
		case grid.KindOf(err) == grid.Indeterminate:
			w.note(func() { w.unknown++ })
			return
		default:
			w.note(func() { w.refused++ })
			return
		}
	}
}

func bodyOf(e imap.Entry) string {
	if !e.Found() {
		return "0"
	}
	body, _, _ := e.Value.Text()
	return string(body)
}

// set writes one value under a key of its own.
func (w *tally) set(ctx context.Context, m *imap.Map, name, value string) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callBudget)
	defer cancel()
	if _, err := m.Set(call, key(name), imap.String(value), 0); err == nil {
		w.note(func() { w.acked[name] = value })
	}
}

// run lets each worker do its operations through a member, until ctx ends or all are done.
func (w *tally) run(ctx context.Context, members []*Member, workers, each int) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range workers {
		m := members[i%len(members)]
		wg.Go(func() {
			for n := range each {
				if ctx.Err() != nil {
					return
				}
				w.increment(ctx, m.Map("counters"), fmt.Sprintf("c%d", n%3))
				w.set(ctx, m.Map("sets"), fmt.Sprintf("k%d-%d", i, n), fmt.Sprintf("v%d-%d", i, n))
			}
		})
	}
	return &wg
}

// check holds what was acknowledged against what is there.
func (w *tally) check(t testing.TB, m *Member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for k, v := range w.acked {
		e, err := m.Map("sets").Get(ctx, key(k))
		if err != nil {
			t.Fatalf("read %s: %v", k, err)
		}
		if got := bodyOf(e); got != v {
			t.Errorf("acknowledged set of %s to %s is lost: %q", k, v, got)
		}
	}
	total := 0
	for i := range 3 {
		e, err := m.Map("counters").Get(ctx, key(fmt.Sprintf("c%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(bodyOf(e))
		total += n
	}
	if total < w.added || total > w.added+w.unknown {
		t.Errorf("the counters hold %d after %d acknowledged and %d unknown increments", total, w.added, w.unknown)
	}
}
