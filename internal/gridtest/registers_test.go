package gridtest

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"gridnode/imap"
)

// registers is the workload of single keys: read, write that returns the old value, remove, write if absent, compare and set. Every value is
// written once only. The history of each key has to be linearizable.
type registers struct {
	keys []string
	cas  bool // mostly compare-and-set

	mu      sync.Mutex
	ops     map[string][]porcupine.Operation
	open    map[string][]porcupine.Operation // of unknown outcome
	refused map[string]string                // value to what became of its write
	meant   map[string]map[uint64]string     // key to version to value
}

// call is one operation on one key.
type call struct {
	kind  string
	value string // to write
	old   string // to compare with
}

// outcome is what it returned. An unknown one may have happened or not, at any later time.
type outcome struct {
	old     string // the value before, or the one that is there
	applied bool
	unknown bool
}

// register is the sequential specification of one key; "" is absent.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(string), input.(call), output.(outcome)
		next, applied := in.apply(s)
		if out.unknown {
			return true, next
		}
		saw := out.old == s || in.kind != "get" && in.kind != "put" && in.kind != "remove" && out.applied
		return saw && out.applied == applied, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// apply is what the call does to a value.
func (c call) apply(s string) (next string, applied bool) {
	switch c.kind {
	case "put":
		return c.value, true
	case "remove":
		return "", s != ""
	case "if absent":
		if s == "" {
			return c.value, true
		}
	case "cas":
		if s != "" && s == c.old {
			return c.value, true
		}
	}
	return s, false
}

var registerKeys = []string{"r0", "r1", "r2", "r3", "r4"}

func newRegisters(cas bool) *registers {
	return &registers{
		keys: registerKeys, cas: cas, ops: map[string][]porcupine.Operation{}, open: map[string][]porcupine.Operation{},
		refused: map[string]string{}, meant: map[string]map[uint64]string{},
	}
}

func (w *registers) name() string                                { return "registers" }
func (w *registers) prepare(context.Context, *findings, *Member) {}

func (w *registers) step(ctx context.Context, f *findings, cl *client) {
	k := cl.choose(w.keys)
	kinds := []string{"get", "get", "get", "put", "put", "remove", "if absent", "cas"}
	switch {
	case cl.reads:
		kinds = []string{"get"}
	case w.cas:
		kinds = []string{"get", "get", "cas", "cas", "cas", "if absent"}
	}
	in := call{kind: kinds[cl.rnd.IntN(len(kinds))], value: cl.unique()}
	if in.kind == "cas" {
		if in.old = cl.seen[k]; in.old == "" {
			in.kind = "get"
		}
	}
	cl.seen[k] = w.do(ctx, f, cl, k, in)
}

// do performs and records a call, and returns the value that it leaves, as far as that is known.
func (w *registers) do(ctx context.Context, f *findings, cl *client, k string, in call) string {
	start := time.Now().UnixNano()
	e, out, err := perform(ctx, cl.m.Map("registers"), k, in)
	op := porcupine.Operation{ClientId: cl.id, Input: in, Call: start, Output: out, Return: time.Now().UnixNano()}
	ran, unknown := f.called(in.kind+" of a register through "+cl.m.Host, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case ran:
		w.ops[k] = append(w.ops[k], op)
		w.version(f, k, e, out)
		switch {
		case !out.applied:
			return out.old
		case in.kind != "remove":
			return in.value
		}
	case in.kind == "get":
	case unknown:
		op.Output = outcome{unknown: true}
		w.open[k] = append(w.open[k], op)
	default:
		w.refused[in.value] = fmt.Sprintf("%s through %s at %d, refused: %v", in.kind, cl.m.Host, start, err)
	}
	return ""
}

// version checks that a version always means the same value.
func (w *registers) version(f *findings, k string, e imap.Entry, out outcome) {
	if !e.Found() {
		return
	}
	if w.meant[k] == nil {
		w.meant[k] = map[uint64]string{}
	}
	if v, ok := w.meant[k][e.Version]; ok && v != out.old {
		f.violate("register %s: version %d is both %q and %q", k, e.Version, v, out.old)
	}
	w.meant[k][e.Version] = out.old
}

// perform makes the call and returns the entry that it saw.
func perform(ctx context.Context, m *imap.Map, k string, in call) (imap.Entry, outcome, error) {
	var res imap.WriteResult
	var err error
	switch in.kind {
	case "get":
		e, err := m.Get(ctx, key(k))
		return e, outcome{old: present(e)}, err
	case "put":
		res, err = m.Put(ctx, key(k), imap.String(in.value), 0)
	case "remove":
		res, err = m.Remove(ctx, key(k))
	case "if absent":
		res, err = m.PutIfAbsent(ctx, key(k), imap.String(in.value), 0)
	case "cas":
		res, err = m.ReplaceIfSame(ctx, key(k), imap.String(in.old), imap.String(in.value), 0)
	}
	return res.Old, outcome{old: present(res.Old), applied: res.Applied}, err
}

func present(e imap.Entry) string {
	if !e.Found() {
		return ""
	}
	body, _, _ := e.Value.Text()
	return string(body)
}

// final reads every key through the member; the reads are part of the history.
func (w *registers) final(ctx context.Context, f *findings, cl *client) {
	for _, k := range w.keys {
		before := len(w.ops[k])
		if w.do(ctx, f, cl, k, call{kind: "get"}); len(w.ops[k]) == before {
			f.violate("register %s cannot be read through %s after all was mended", k, cl.m.Host)
		}
	}
}

func (w *registers) check(f *findings) {
	for _, k := range w.keys {
		ops := w.history(f, k)
		switch porcupine.CheckOperationsTimeout(register, ops, 10*time.Second) {
		case porcupine.Ok:
		case porcupine.Unknown:
			f.undecided++
		default:
			f.violate("register %s: %d operations are not linearizable:\n%s", k, len(ops), show(ops))
		}
	}
}

// history is what there is to check: the known operations, and those unknown ones that anybody has seen an effect of. One that nobody has
// seen can stand at the end of any order, so it says nothing; one whose value was seen happened before the first who saw it returned.
func (w *registers) history(f *findings, k string) []porcupine.Operation {
	ops := append([]porcupine.Operation(nil), w.ops[k]...)
	seen := map[string]int64{} // value to the first return that shows it
	end := int64(0)
	for _, op := range ops {
		end = max(end, op.Return)
		v := op.Output.(outcome).old
		if at, ok := seen[v]; v != "" && (!ok || op.Return < at) {
			seen[v] = op.Return
		}
		if why, ok := w.refused[v]; ok {
			f.violate("register %s: %q was read, but its write was reported not to have happened (%s)", k, v, why)
		}
		if in := op.Input.(call); in.kind == "cas" && op.Output.(outcome).applied { // it saw what it compared with
			if at, ok := seen[in.old]; !ok || op.Return < at {
				seen[in.old] = op.Return
			}
		}
	}
	for _, op := range w.open[k] {
		in := op.Input.(call)
		at, ok := seen[in.value]
		switch {
		case in.kind == "remove":
			op.Return = max(end, op.Return) + 1
		case ok:
			op.Return = max(at, op.Call)
		default:
			continue
		}
		ops = append(ops, op)
	}
	return ops
}

// show lists operations for a person to read.
func show(ops []porcupine.Operation) string {
	sort.Slice(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
	var b strings.Builder
	for i, op := range ops {
		if i > 400 {
			b.WriteString("    ...\n")
			break
		}
		at := func(ns int64) string { return time.Unix(0, ns).UTC().Format("05.000000") }
		fmt.Fprintf(&b, "    client %2d  %s..%s  %+v -> %+v\n", op.ClientId, at(op.Call), at(op.Return), op.Input, op.Output)
	}
	return b.String()
}
