package gridtest

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"gridnode/imap"
)

// counters is the workload of increments: read, then write on the condition of the version, as a single write or as a transaction. No two
// acknowledged increments may lead to the same number, and the sum is exact but for those of unknown outcome.
type counters struct {
	mu    sync.Mutex
	tally map[string]*counted
}

type counted struct {
	acked   map[int]string // number reached to who was told so
	unknown int
}

var counterKeys = []string{"n0", "n1"}

func newCounters() *counters {
	w := &counters{tally: map[string]*counted{}}
	for _, k := range counterKeys {
		w.tally[k] = &counted{acked: map[int]string{}}
	}
	return w
}

func (w *counters) name() string                                { return "counters" }
func (w *counters) prepare(context.Context, *findings, *Member) {}

func (w *counters) step(ctx context.Context, f *findings, cl *client) {
	i := cl.rnd.IntN(len(counterKeys))
	k := counterKeys[i]
	e, err := cl.m.Map("counters").Get(ctx, key(k))
	if ran, _ := f.called("read of a counter through "+cl.m.Host, err); !ran {
		return
	}
	n, _ := strconv.Atoi(bodyOf(e))
	var applied bool
	if i == 0 {
		applied, err = w.replace(ctx, cl.m, k, e, n+1)
	} else {
		applied, err = w.txn(ctx, cl.m, k, e, n+1)
	}
	_, unknown := f.called("increment through "+cl.m.Host, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tally[k]
	if unknown {
		t.unknown++
	}
	if !applied || err != nil {
		return
	}
	if who, ok := t.acked[n+1]; ok {
		f.violate("counter %s: the increment to %d was acknowledged through %s and through %s", k, n+1, who, cl.m.Host)
	}
	t.acked[n+1] = cl.m.Host
}

func (w *counters) replace(ctx context.Context, m *Member, k string, e imap.Entry, n int) (bool, error) {
	next := imap.String(strconv.Itoa(n))
	if !e.Found() {
		res, err := m.Map("counters").PutIfAbsent(ctx, key(k), next, 0)
		return res.Applied, err
	}
	res, err := m.Map("counters").ReplaceVersion(ctx, key(k), e.Version, next, 0)
	return res.Applied, err
}

func (w *counters) txn(ctx context.Context, m *Member, k string, e imap.Entry, n int) (bool, error) {
	r := imap.Ref{Map: "counters", Key: imap.String(k)}
	res, err := m.Node.Maps().Txn(ctx, imap.Txn{
		Place: imap.String(k), If: []imap.Cond{{Ref: r, Version: e.Version}}, Put: []imap.Put{{Ref: r, Value: imap.String(strconv.Itoa(n))}},
	})
	return res.Applied, err
}

func (w *counters) final(ctx context.Context, f *findings, cl *client) {
	for _, k := range counterKeys {
		e, err := cl.m.Map("counters").Get(ctx, key(k))
		if err != nil {
			f.violate("counter %s cannot be read through %s after all was mended: %v", k, cl.m.Host, err)
			continue
		}
		n, _ := strconv.Atoi(bodyOf(e))
		if t := w.tally[k]; n < len(t.acked) || n > len(t.acked)+t.unknown {
			f.violate("counter %s is %d through %s, after %d acknowledged and %d unknown increments", k, n, cl.m.Host, len(t.acked), t.unknown)
		}
	}
}

func (w *counters) check(*findings) {}

// claims is the workload of names that are given away once: write if absent, never removed. Who was told that he has it has it for ever, and
// all who look see the same.
type claims struct {
	mu      sync.Mutex
	next    int
	won     map[string]string // claim to the value that was acknowledged
	seen    map[string]string // claim to the value that was read
	refused map[string]bool   // values that were never written
}

func newClaims() *claims {
	return &claims{won: map[string]string{}, seen: map[string]string{}, refused: map[string]bool{}}
}

func (w *claims) name() string                                { return "claims" }
func (w *claims) prepare(context.Context, *findings, *Member) {}

func (w *claims) step(ctx context.Context, f *findings, cl *client) {
	w.mu.Lock()
	if cl.rnd.IntN(3) == 0 {
		w.next++
	}
	k := fmt.Sprintf("x%d", max(w.next-cl.rnd.IntN(3), 0))
	w.mu.Unlock()
	v := cl.unique()
	res, err := cl.m.Map("claims").PutIfAbsent(ctx, key(k), imap.String(v), 0)
	ran, unknown := f.called("claim through "+cl.m.Host, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case ran && res.Applied:
		if other, ok := w.won[k]; ok {
			f.violate("claim %s was given to %s and, through %s, to %s", k, other, cl.m.Host, v)
		}
		w.won[k] = v
		w.look(f, cl.m, k, v)
	case ran:
		w.look(f, cl.m, k, present(res.Old))
	case !unknown:
		w.refused[v] = true
	}
}

// look takes note of what a claim was seen to be.
func (w *claims) look(f *findings, m *Member, k, v string) {
	if was, ok := w.seen[k]; ok && was != v {
		f.violate("claim %s belonged to %q, and through %s it belongs to %q", k, was, m.Host, v)
	}
	w.seen[k] = v
	if w.refused[v] {
		f.violate("claim %s belongs to %s, who was told that the call did not run", k, v)
	}
}

func (w *claims) final(ctx context.Context, f *findings, cl *client) {
	for k, v := range w.seen {
		e, err := cl.m.Map("claims").Get(ctx, key(k))
		if err != nil || present(e) != v {
			f.violate("claim %s belonged to %q; after all was mended it belongs to %q through %s, %v", k, v, present(e), cl.m.Host, err)
			return
		}
	}
}

func (w *claims) check(*findings) {}
