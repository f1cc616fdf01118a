package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gridnode/engine"
)

// RunStore checks that a store keeps the contract of [engine.Store]. Every subtest gets a store of its own from open; it may be one that
// others use too, as long as nobody else touches the places that begin with "suite-".
func RunStore(t *testing.T, open func(t *testing.T) engine.Store) {
	for name, test := range map[string]func(*testing.T, engine.Store){
		"absent entry has version 0":            suiteAbsent,
		"txn puts, reads back and deletes":      suiteRoundTrip,
		"txn over several maps is all or none":  suiteAtomic,
		"versions are never used twice":         suiteVersions,
		"receiver owns what it reads":           suiteCopies,
		"entry with a TTL goes":                 suiteTTL,
		"write without a TTL lifts an old one":  suiteTTLLifted,
		"scan sees each entry once":             suiteScan,
		"scan stops at the error of its reader": suiteScanError,
		"value that is too large is refused":    suiteTooLarge,
		"one of many rivals wins each round":    suiteRivals,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func suiteKey(mapName, place string) engine.Key {
	return engine.Key{Map: "engine_suite_" + mapName, Place: "suite-" + place, Key: "suite-" + place}
}

func suiteContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// eventually repeats a call that the store may answer with "try again".
func eventually[T any](ctx context.Context, t *testing.T, f func() (T, error)) T {
	t.Helper()
	for {
		v, err := f()
		if err == nil {
			return v
		}
		if !errors.Is(err, engine.ErrRetryable) || ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func suiteGet(ctx context.Context, t *testing.T, s engine.Store, k engine.Key) engine.Entry {
	t.Helper()
	return eventually(ctx, t, func() (engine.Entry, error) { return s.Get(ctx, k) })
}

func suiteTxn(ctx context.Context, t *testing.T, s engine.Store, txn engine.Txn) engine.TxnResult {
	t.Helper()
	return eventually(ctx, t, func() (engine.TxnResult, error) { return s.Txn(ctx, txn) })
}

func suitePut(ctx context.Context, t *testing.T, s engine.Store, k engine.Key, value string, ttl time.Duration) uint64 {
	t.Helper()
	res := suiteTxn(ctx, t, s, engine.Txn{Put: []engine.Put{{Key: k, Value: []byte(value), TTL: ttl}}})
	if !res.Applied || len(res.Versions) != 1 || res.Versions[0] == 0 {
		t.Fatalf("unconditional put = %+v", res)
	}
	return res.Versions[0]
}

func suiteAbsent(t *testing.T, s engine.Store) {
	ctx := suiteContext(t)
	k := suiteKey("a", "absent")
	if e := suiteGet(ctx, t, s, k); e.Version != 0 || e.Value != nil || e.Key != k {
		t.Errorf("Get(absent) = %+v", e)
	}
	all := eventually(ctx, t, func() ([]engine.Entry, error) { return s.GetAll(ctx, []engine.Key{k, suiteKey("b", "absent")}) })
	if len(all) != 2 || all[0].Version != 0 || all[1].Version != 0 {
		t.Errorf("GetAll(absent) = %+v", all)
	}
}

func suiteRoundTrip(t *testing.T, s engine.Store) {
	ctx := suiteContext(t)
	k := suiteKey("a", "roundtrip")
	v := suitePut(ctx, t, s, k, "one", 0)
	if e := suiteGet(ctx, t, s, k); string(e.Value) != "one" || e.Version != v {
		t.Errorf("Get = %+v, want version %d", e, v)
	}
	if res := suiteTxn(ctx, t, s, engine.Txn{If: []engine.Cond{{Key: k, Version: v}}, Delete: []engine.Key{k}}); !res.Applied {
		t.Errorf("delete = %+v", res)
	}
	if e := suiteGet(ctx, t, s, k); e.Version != 0 {
		t.Errorf("Get after delete = %+v", e)
	}
}

func suiteAtomic(t *testing.T, s engine.Store) {
	ctx := suiteContext(t)
	a, b := suiteKey("a", "atomic"), suiteKey("b", "atomic")
	va := suitePut(ctx, t, s, a, "a", 0)
	both := engine.Txn{
		If:  []engine.Cond{{Key: a, Version: va}, {Key: b}},
		Put: []engine.Put{{Key: a, Value: []byte("a2")}, {Key: b, Value: []byte("b2")}},
	}
	res := suiteTxn(ctx, t, s, both)
	if !res.Applied || len(res.Versions) != 2 {
		t.Fatalf("first = %+v", res)
	}
	res = suiteTxn(ctx, t, s, both)
	if res.Applied || len(res.Current) != 2 || string(res.Current[0].Value) != "a2" || string(res.Current[1].Value) != "b2" {
		t.Errorf("repeated = %+v, want a conflict with the entries as they are", res)
	}
	half := engine.Txn{If: []engine.Cond{{Key: a, Version: res.Current[0].Version}, {Key: b}}, Delete: []engine.Key{a}}
	if res := suiteTxn(ctx, t, s, half); res.Applied {
		t.Error("applied although one of two conditions failed")
	}
	if e := suiteGet(ctx, t, s, a); string(e.Value) != "a2" {
		t.Errorf("a = %q after a conflict", e.Value)
	}
}

func suiteVersions(t *testing.T, s engine.Store) {
	ctx := suiteContext(t)
	k := suiteKey("a", "versions")
	seen := map[uint64]bool{}
	var last uint64
	for i := range 10 {
		v := suitePut(ctx, t, s, k, fmt.Sprint(i), 0)
		if seen[v] || v <= last {
			t.Fatalf("write %d got version %d after %d", i, v, last)
		}
		seen[v], last = true, v
		if i%3 == 0 {
			suiteTxn(ctx, t, s, engine.Txn{Delete: []engine.Key{k}})
		}
	}
}

func suiteCopies(t *testing.T, s engine.Store) {
	ctx := suiteContext(t)
	k := suiteKey("a", "copies")
	suitePut(ctx, t, s, k, "kept", 0)
	e := suiteGet(ctx, t, s, k)
	copy(e.Value, "XXXX")
	if again := suiteGet(ctx, t, s, k); string(again.Value) != "kept" {
		t.Errorf("value = %q after a reader changed its copy", again.Value)
	}
}

func suiteTTL(t *testing.T, s engine.Store) {
	ctx := suiteContext(t)
	k := suiteKey("a", "ttl")
	suitePut(ctx, t, s, k, "short", time.Second)
	for suiteGet(ctx, t, s, k).Version != 0 {
		if sleepOrDone(ctx, 50*time.Millisecond) != nil {
			t.Fatal("the entry never went")
		}
	}
}

func suiteTTLLifted(t *testing.T, s engine.Store) {
	ctx := suiteContext(t)
	k, short := suiteKey("a", "lifted"), suiteKey("b", "lifted")
	suitePut(ctx, t, s, k, "short", time.Second)
	suitePut(ctx, t, s, k, "long", 0)
	suitePut(ctx, t, s, short, "short", 2*time.Second)
	for suiteGet(ctx, t, s, short).Version != 0 {
		if sleepOrDone(ctx, 50*time.Millisecond) != nil {
			t.Fatal("the entry never went")
		}
	}
	if e := suiteGet(ctx, t, s, k); string(e.Value) != "long" {
		t.Errorf("entry without a TTL = %+v", e)
	}
}

func sleepOrDone(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func suiteScan(t *testing.T, s engine.Store) {
	ctx := suiteContext(t)
	var want []string
	for i := range 50 {
		k := suiteKey("scan", fmt.Sprintf("scan-%02d", i))
		suitePut(ctx, t, s, k, k.Key, 0)
		want = append(want, k.Key)
	}
	got := eventually(ctx, t, func() ([]string, error) {
		var keys []string
		err := s.Scan(ctx, "engine_suite_scan", func(e engine.Entry) error {
			if string(e.Value) != e.Key.Key || e.Version == 0 || e.Key.Map != "engine_suite_scan" || e.Key.Place != e.Key.Key {
				t.Errorf("scanned %+v", e)
			}
			keys = append(keys, e.Key.Key)
			return nil
		})
		return keys, err
	})
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("scanned %v, want %v", got, want)
	}
	if n := eventually(ctx, t, func() (int, error) { return s.Size(ctx, "engine_suite_scan") }); n != len(want) {
		t.Errorf("Size = %d, want %d", n, len(want))
	}
}

func suiteScanError(t *testing.T, s engine.Store) {
	ctx := suiteContext(t)
	suitePut(ctx, t, s, suiteKey("stop", "one"), "1", 0)
	suitePut(ctx, t, s, suiteKey("stop", "two"), "2", 0)
	enough := errors.New("enough")
	calls := 0
	err := s.Scan(ctx, "engine_suite_stop", func(engine.Entry) error { calls++; return enough })
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("Scan = %v after %d calls, want the reader's error after 1", err, calls)
	}
}

func suiteTooLarge(t *testing.T, s engine.Store) {
	ctx := suiteContext(t)
	k := suiteKey("a", "large")
	_, err := s.Txn(ctx, engine.Txn{Put: []engine.Put{{Key: k, Value: make([]byte, maxValue+1)}}})
	if err == nil || errors.Is(err, engine.ErrRetryable) || errors.Is(err, engine.ErrIndeterminate) {
		t.Errorf("Txn = %v, want a definite error", err)
	}
	if e := suiteGet(ctx, t, s, k); e.Version != 0 {
		t.Error("the value was stored")
	}
}

// suiteRivals lets rivals raise one counter; each success must have seen a version that nobody else replaced.
func suiteRivals(t *testing.T, s engine.Store) {
	ctx := suiteContext(t)
	k := suiteKey("a", "rivals")
	const rivals, rounds = 4, 25
	var wg sync.WaitGroup
	for range rivals {
		wg.Go(func() {
			for n := 0; n < rounds && ctx.Err() == nil; {
				e, err := s.Get(ctx, k)
				if err != nil {
					continue
				}
				txn := engine.Txn{If: []engine.Cond{{Key: k, Version: e.Version}}, Put: []engine.Put{{Key: k, Value: append(e.Value, 'x')}}}
				if res, err := s.Txn(ctx, txn); err == nil && res.Applied {
					n++
				}
			}
		})
	}
	wg.Wait()
	if e := suiteGet(ctx, t, s, k); len(e.Value) != rivals*rounds {
		t.Errorf("%d successes left %d marks", rivals*rounds, len(e.Value))
	}
}
