package imap

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gridnode/grid"
)

// What travels with every call comes back as it was.
func TestWire(t *testing.T) {
	key, value := []byte(String("k")), []byte(String("v"))
	ops := map[string]op{
		"get":  {Kind: opGet, Map: "m", Key: key},
		"scan": {Kind: opScan, Map: "m", Limit: 1 << 20, Bare: true},
		"many": {Kind: opGetMany, Keys: []ref{{"m", key}, {"n", value}}},
		"write": {Kind: opWrite, Map: "m", Key: key, Who: who{Session: "s", Via: "a", Thread: -7}, Fence: 9, Write: &write{
			Cond: condValue, Version: 1 << 60, Old: value, Remove: true, Value: key, TTL: Forever, WantOld: true, Idle: time.Second, Whole: true,
			Keep: true, Evict: true,
		}},
		"txn": {Kind: opTxn, Txn: &txn{
			If: []cond{{ref{"m", key}, 3}}, Delete: []ref{{"m", value}},
			Put: []change{{Map: "m", Key: key, Value: value, TTL: time.Minute}, {Map: "m", Key: value, Kind: changeTTL, Idle: time.Hour, Keep: [][]byte{key}}},
		}},
	}
	for name, want := range ops {
		got, err := decode[op](encode(want))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(op{}, txn{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got, err := decode[op](encode(op{Kind: opWrite, Write: &write{}, Who: who{Via: "a"}})); err != nil || got.Who != (who{Session: "a", Via: grid.MemberID("a")}) {
		t.Errorf("without a session: %v, %v", got.Who, err)
	}
	wantEffect := effect{Changes: []change{
		{Map: "m", Key: key, Remove: true, Cause: causeEvicted},
		{Map: "m", Key: key, Value: value, TTL: time.Second, Idle: time.Minute, Whole: true, Age: 3, Keep: [][]byte{{}, key}, Lock: &lockState{Key: key}},
	}}
	gotEffect, err := decode[effect](encode(wantEffect))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantEffect, gotEffect, cmp.AllowUnexported(lockState{})); diff != "" {
		t.Error(diff)
	}
	wantReply := writeReply{Applied: true, Version: 5, Found: []entryReply{{Map: "m", Key: key, Value: value, Version: 4, TTL: time.Second}, {}}}
	gotReply, err := decode[writeReply](encode(wantReply))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantReply, gotReply); diff != "" {
		t.Error(diff)
	}
}

// What a member keeps of an operation is not the caller's, and stays as it was, however often it is executed.
func TestOwn(t *testing.T) {
	b := interceptBench(t)
	if _, err := b.intercept("0", "marks", "0", false); err != nil {
		t.Fatal(err)
	}
	key, old, value := []byte(String("k")), []byte(String("old")), []byte(String("v"))
	o := op{Kind: opWrite, Map: "m", Key: key, Who: who{Via: "a"}, Write: &write{Old: old, Value: value}}
	want := encode(o)
	kept := o.own()
	for _, callers := range [][]byte{key, old, value} {
		clear(callers)
	}
	first := b.s.Do(kept, 7, b.now)
	second := b.s.Do(kept, 7, b.now)
	asSent := b.s.Execute(want, 7, b.now)
	if first.Err != nil || !bytes.Equal(first.Effect, second.Effect) || !bytes.Equal(first.Effect, asSent.Effect) {
		t.Errorf("executed here, again, and as it travels:\n%q, %v\n%q\n%q", first.Effect, first.Err, second.Effect, asSent.Effect)
	}
	if got, err := decode[op](kept.Encoded()); err != nil || got.Who.Session != "a" || string(got.Write.Value) != string(String("v")) {
		t.Errorf("encoded: %+v, %v", got, err)
	}
}
