package imap

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gridnode/grid"
)

// marker puts what was given before everything that passes.
func marker(arg Data) (Interceptor, error) {
	prefix := string(arg.Payload())
	mark := func(how string) func(Data) (Data, error) {
		return func(v Data) (Data, error) { return String(fmt.Sprintf("%s%s(%s)", prefix, how, v.Payload())), nil }
	}
	return Interceptor{
		Get: mark("g"), Remove: mark("r"), Put: func(old, v Data) (Data, error) {
			return String(fmt.Sprintf("%sp(%d,%s)", prefix, len(old.Payload()), v.Payload()[4:])), nil
		},
	}, nil
}

func interceptBench(t *testing.T) *bench {
	b := newBench(t)
	b.s = NewHome(HomeConfig{Interceptors: map[string]NewInterceptor{
		"marks": marker,
		"none":  func(Data) (Interceptor, error) { return Interceptor{}, nil },
		"picky": func(Data) (Interceptor, error) { return Interceptor{}, errors.New("cannot read that") },
		"bad": func(Data) (Interceptor, error) {
			return Interceptor{Get: func(Data) (Data, error) { panic("oh") }}, nil
		},
	}}).NewStore(func(v uint64) uint64 { return v })
	return b
}

func (b *bench) intercept(id, name, arg string, remove bool) (int, error) {
	b.t.Helper()
	raw, _, err := b.try(op{Kind: opIntercept, Inter: &interceptOp{ID: id, Name: name, Arg: Raw([]byte(arg)), Remove: remove}}, alice)
	if err != nil {
		return 0, err
	}
	return as[int](b.t, raw), nil
}

func shown(b []byte) string {
	return strings.Map(func(r rune) rune { return max(r, ' ') }, string(Data(b).Payload()))
}

func TestIntercept_ValuesPassInOrder(t *testing.T) {
	b := interceptBench(t)
	b.write("k", write{Value: String("v")})
	for i, name := range []string{"marks", "none", "marks"} {
		if n, err := b.intercept(fmt.Sprint(i), name, fmt.Sprint(i), false); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n, err := b.intercept("0", "marks", "0", false); n != 0 || err != nil {
		t.Errorf("added twice: %d, %v", n, err)
	}
	if got := shown(b.get("k").Value); !strings.Contains(got, "2g(") || strings.Index(got, "2g(") > strings.Index(got, "0g(") {
		t.Errorf("read: %q", got)
	}
	if e := b.get("absent"); e.Version != 0 || !strings.Contains(shown(e.Value), "0g()") {
		t.Errorf("an absent entry: %+v", e)
	}
	old := b.write("k", write{Value: String("w"), WantOld: true}).Found[0]
	if shown(old.Value) != shown(String("v")) {
		t.Errorf("a put returned %q, not what was stored", shown(old.Value))
	}
	if got := shown(b.s.find("m", string(String("k"))).value); !strings.Contains(got, "2p(5,0p(5,w))") {
		t.Errorf("stored: %q", got)
	}
	b.do(op{Kind: opPutAll, Map: "m", Bulk: &bulk{Put: []pair{{Key: String("x"), Value: String("y")}}}})
	if got := shown(b.s.find("m", string(String("x"))).value); !strings.Contains(got, "2p(0,0p(0,y))") {
		t.Errorf("stored by a bulk operation: %q", got)
	}
	if rep := b.write("k", write{Remove: true, WantOld: true}); !rep.Applied || !strings.Contains(shown(rep.Found[0].Value), "2r(") {
		t.Errorf("removed: %+v", rep)
	}
	if n, err := b.intercept("0", "", "", true); n != 1 || err != nil {
		t.Errorf("removing: %d, %v", n, err)
	}
	if n, err := b.intercept("0", "", "", true); n != 0 || err != nil {
		t.Errorf("removing again: %d, %v", n, err)
	}
	b.do(op{Kind: opClear, Map: "m", Sweep: sweepDestroy})
	if b.get("absent").Value != nil {
		t.Error("interceptors outlive their map")
	}
}

func TestIntercept_Refusals(t *testing.T) {
	b := interceptBench(t)
	for _, name := range []string{"unknown", "picky"} {
		if _, err := b.intercept("1", name, "", false); !errors.Is(err, grid.ErrRefused) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range MaxInterceptors {
		if _, err := b.intercept(fmt.Sprint(i), "none", "", false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.intercept("one more", "none", "", false); !errors.Is(err, grid.ErrRefused) {
		t.Errorf("beyond the bound: %v", err)
	}
	b = interceptBench(t)
	if _, err := b.intercept("1", "bad", "", false); err != nil {
		t.Fatal(err)
	}
	if d := b.s.Execute(encode(op{Kind: opGet, Map: "m", Key: String("k")}), b.version+1, b.now); !errors.Is(d.Err, grid.ErrInternal) {
		t.Errorf("one that panics: %v", d.Err)
	}
}

// A store that takes over has the interceptors, in their order; one whose member does not know them says so.
func TestIntercept_Snapshot(t *testing.T) {
	b := interceptBench(t)
	for _, id := range []string{"b", "a", "c"} {
		if _, err := b.intercept(id, "marks", id, false); err != nil {
			t.Fatal(err)
		}
	}
	want := b.get("k").Value
	copied, strange := interceptBench(t), newBench(t)
	for _, p := range piecesOf(b.s, 1, b.now.Add(time.Second)) {
		for _, to := range []*bench{copied, strange} {
			if err := to.s.Restore(p, b.now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := copied.get("k").Value; string(got) != string(want) {
		t.Errorf("read %q, was %q", shown(got), shown(want))
	}
	if d := strange.s.Execute(encode(op{Kind: opGet, Map: "m", Key: String("k")}), 1, b.now); !errors.Is(d.Err, grid.ErrRefused) {
		t.Errorf("a member without it: %v", d.Err)
	}
}

// Nobody locks a guarded key or guards it again, and a guard waits for the locks of others.
func TestGuard(t *testing.T) {
	b := newBench(t)
	guard := func(by who, n int64) string {
		_, wait, err := b.try(op{Kind: opLock, Key: String("k"), Lock: &lockOp{Do: lockGuard, Guard: n, Lease: time.Minute}}, by)
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	end := func(by grid.MemberID, n int64) {
		o := op{Kind: opLock, Map: guardPrefix + "m", Key: String("k"), Lock: &lockOp{Do: lockRelease}, Who: who{Session: string(by), Via: by, Thread: n}}
		b.do(o)
	}
	if _, ok := b.lock("k", alice, 0); !ok {
		t.Fatal("no lock")
	}
	if guard(bob, 1) == "" {
		t.Error("guarded although another holds the lock")
	}
	if guard(alice, 2) != "" {
		t.Error("the owner's own write waits for its lock")
	}
	if guard(alice, 3) == "" {
		t.Error("guarded twice")
	}
	if err := b.unlock("k", alice); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.lock("k", bob, 0); ok {
		t.Error("locked while it is guarded")
	}
	end("a", 2)
	if _, ok := b.lock("k", bob, 0); !ok {
		t.Error("not to be locked after the guard's end")
	}
	for _, l := range b.s.home.Local(func(each func(bool, *Store)) { each(true, b.s) }) {
		if isGuard(l.Name) {
			t.Errorf("guards among the maps: %+v", l)
		}
	}
}
