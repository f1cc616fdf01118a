package imap

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gridnode/grid"
)

// try runs an operation of an owner and returns what it waits for, or its error.
func (b *bench) try(o op, by who) (reply []byte, wait string, err error) {
	b.t.Helper()
	o.Map, o.Who = "m", by
	d := b.s.Execute(encode(o), b.version+1, b.now)
	if d.Err == nil && d.Effect != nil {
		b.version++
		woken, err := b.s.Apply(d.Effect, b.version, b.now)
		if err != nil {
			b.t.Fatal(err)
		}
		b.woken = append(b.woken, woken...)
	}
	return d.Reply, d.Wait, d.Err
}

// lock reports whether the owner got the lock, or has to wait.
func (b *bench) lock(key string, by who, lease time.Duration) (lockReply, bool) {
	b.t.Helper()
	raw, wait, err := b.try(op{Kind: opLock, Key: String(key), Lock: &lockOp{Do: lockTake, Lease: lease}}, by)
	if err != nil {
		b.t.Fatal(err)
	}
	if wait != "" {
		return lockReply{}, false
	}
	return as[lockReply](b.t, raw), true
}

func (b *bench) unlock(key string, by who) error {
	_, _, err := b.try(op{Kind: opLock, Key: String(key), Lock: &lockOp{Do: lockRelease}}, by)
	return err
}

// send is one sending of a numbered call on the key k.
func (b *bench) send(do lockDo, by who, ref int64, attempt uint64) (lockReply, error) {
	b.t.Helper()
	raw, _, err := b.try(op{Kind: opLock, Key: String("k"), Lock: &lockOp{Do: do, Call: call{Ref: ref, Attempt: attempt}}}, by)
	if err != nil || raw == nil {
		return lockReply{}, err
	}
	return as[lockReply](b.t, raw), nil
}

func (b *bench) isLocked(key string) bool { return b.s.locked("m", string(String(key)), b.s.at(b.now)) }

var (
	alice  = who{Session: "a", Via: "a"}
	bob    = who{Session: "b", Via: "b"}
	client = who{Session: "c", Via: "a"}

	anyOfAlice = who{Session: "a", Via: "a", Thread: AnyThread}
	anyOfBob   = who{Session: "b", Via: "b", Thread: AnyThread}
)

// C137: no lease means no end, a lease ends by itself, and a lock is re-entrant.
func TestC137_LeaseUnsetIsNotZero(t *testing.T) {
	b := newBench(t)
	got := func(key string, by who, lease time.Duration) bool { _, ok := b.lock(key, by, lease); return ok }
	if !got("k", alice, 0) {
		t.Fatal("a free lock was not had")
	}
	b.tick(3 * time.Second)
	if got("k", bob, 0) {
		t.Error("a lock without lease ended by itself")
	}
	if !got("k2", alice, time.Second) {
		t.Fatal("a free lock was not had")
	}
	b.tick(2 * time.Second)
	if !got("k2", bob, 0) {
		t.Error("a lock outlives its lease")
	}
	for range 2 {
		if !got("k3", alice, 0) {
			t.Error("the lock is not re-entrant")
		}
	}
	if b.unlock("k3", alice) != nil || got("k3", bob, 0) {
		t.Error("one unlock ended two locks")
	}
	if b.unlock("k3", alice) != nil || !got("k3", bob, 0) {
		t.Error("after the second unlock it is not free")
	}
	if other := (who{Session: "b", Via: "b", Thread: 1}); got("k3", other, 0) {
		t.Error("another thread of the owner has it, too")
	}
}

func TestLock_TokensGrow_AndFencesHold(t *testing.T) {
	b := newBench(t)
	first, _ := b.lock("k", alice, time.Second)
	again, _ := b.lock("k", alice, time.Second)
	if again.Token != first.Token || again.Count != 2 {
		t.Errorf("re-entered: %+v, %+v", first, again)
	}
	put := op{Kind: opWrite, Key: String("k"), Write: &write{Value: String("v")}, Fence: first.Token}
	if _, _, err := b.try(put, alice); err != nil {
		t.Error(err)
	}
	b.tick(2 * time.Second)
	if _, _, err := b.try(put, alice); !errors.Is(err, grid.ErrNotOwner) {
		t.Errorf("a write under a lock that has ended: %v", err)
	}
	evict := op{Kind: opWrite, Key: String("k"), Write: &write{Remove: true, Evict: true}, Fence: first.Token}
	if _, _, err := b.try(evict, alice); !errors.Is(err, grid.ErrNotOwner) {
		t.Errorf("an eviction past its fence: %v", err)
	}
	if _, _, err := b.try(op{Kind: opClear, Sweep: sweepClear, Fence: first.Token}, alice); !errors.Is(err, grid.ErrBadRequest) {
		t.Errorf("a fence for a whole map: %v", err)
	}
	second, ok := b.lock("k", bob, 0)
	if !ok || second.Token <= first.Token {
		t.Errorf("tokens: %d, then %d", first.Token, second.Token)
	}
	if _, _, err := b.try(put, alice); !errors.Is(err, grid.ErrNotOwner) {
		t.Errorf("a write past its fence: %v", err)
	}
}

func TestLock_WhatWaitsForIt(t *testing.T) {
	key, value := String("k"), String("v")
	for name, c := range map[string]struct {
		o     op
		waits bool
	}{
		"get":         {op{Kind: opGet, Key: key}, false},
		"size":        {op{Kind: opSize}, false},
		"put":         {op{Kind: opWrite, Key: key, Write: &write{Value: value}}, true},
		"absent":      {op{Kind: opWrite, Key: key, Write: &write{Value: value, Cond: condAbsent}}, true},
		"remove":      {op{Kind: opWrite, Key: key, Write: &write{Remove: true}}, true},
		"ttl":         {op{Kind: opWrite, Key: key, Write: &write{Keep: true, TTL: 1}}, true},
		"other key":   {op{Kind: opWrite, Key: String("x"), Write: &write{Value: value}}, false},
		"put all":     {op{Kind: opPutAll, Bulk: &bulk{Put: []pair{{Key: String("x")}, {Key: key}}}}, true},
		"remove all":  {op{Kind: opRemoveAll, Bulk: &bulk{Keys: [][]byte{key}}}, true},
		"transaction": {op{Kind: opTxn, Txn: &txn{Put: []change{{Map: "m", Key: key, Value: value}}}}, true},
		"txn delete":  {op{Kind: opTxn, Txn: &txn{Delete: []ref{{"m", key}}}}, true},
		"lock":        {op{Kind: opLock, Key: key, Lock: &lockOp{Do: lockTake}}, true},
		"evict":       {op{Kind: opWrite, Key: key, Write: &write{Remove: true, Evict: true}}, false},
		"clear":       {op{Kind: opClear, Sweep: sweepClear}, false},
	} {
		b := newBench(t)
		b.write("k", write{Value: value})
		b.lock("k", alice, 0)
		_, wait, err := b.try(c.o, bob)
		if err != nil || wait != "" != c.waits {
			t.Errorf("%s: waits for %q, %v", name, wait, err)
		}
		if _, wait, _ := b.try(c.o, anyOfBob); wait != "" != c.waits {
			t.Errorf("%s, of any thread of another session: waits for %q", name, wait)
		}
		if b.find("k") == nil || b.get("k").Version != 1 {
			t.Errorf("%s: the locked entry has changed", name)
		}
		if _, wait, err := b.try(c.o, anyOfAlice); wait != "" && name != "lock" || err != nil {
			t.Errorf("%s by the owner's session: %q, %v", name, wait, err)
		}
		if _, wait, err := b.try(c.o, alice); wait != "" || err != nil {
			t.Errorf("%s by the owner: %q, %v", name, wait, err)
		}
		b.woken = nil
		for b.isLocked("k") {
			if err := b.unlock("k", alice); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Contains(b.woken, lockName("m", string(key))) {
			t.Errorf("%s: the release woke %q", name, b.woken)
		}
	}
}

func TestLock_OfAnother_IsNotGivenBack(t *testing.T) {
	b := newBench(t)
	if err := b.unlock("k", alice); !errors.Is(err, grid.ErrNotOwner) || grid.KindOf(err) != grid.Definite {
		t.Errorf("a free lock: %v", err)
	}
	b.lock("k", alice, 0)
	b.lock("k", alice, 0)
	if err := b.unlock("k", bob); !errors.Is(err, grid.ErrNotOwner) || !b.isLocked("k") {
		t.Errorf("another's lock: %v", err)
	}
	if _, _, err := b.try(op{Kind: opLock, Key: String("k"), Lock: &lockOp{Do: lockForce}}, bob); err != nil || b.isLocked("k") {
		t.Errorf("by force: %v", err)
	}
	if d := b.s.Execute(encode(op{Kind: opLock, Map: "engine_x", Key: String("k"), Who: alice, Lock: &lockOp{Do: lockTake}}), 9, b.now); !errors.Is(d.Err, grid.ErrRefused) {
		t.Errorf("a lock on the engine's state: %v", d.Err)
	}
}

// C141, hz#4432: locks on keys without entries leave nothing behind.
func TestC141_LocksLeaveNothing(t *testing.T) {
	b := newBench(t)
	for i := range 10_000 {
		key := fmt.Sprint(i)
		b.lock(key, alice, time.Duration(i%2)*time.Second)
		if i%3 > 0 {
			if err := b.unlock(key, alice); err != nil {
				t.Fatal(err)
			}
		} else if i%2 == 0 {
			b.try(op{Kind: opLock, Key: String(key), Lock: &lockOp{Do: lockForce}}, bob)
		}
	}
	b.tick(2 * time.Second)
	if b.s.locks != nil || b.s.held != 0 || len(b.s.maps) != 0 || b.size() != 0 {
		t.Errorf("%d locks are left in %d maps, %d maps of entries", b.s.held, len(b.s.locks), len(b.s.maps))
	}
}

// D9: a locked entry does not expire; it does within a second after it was unlocked.
func TestD9_LockedEntriesDoNotExpire(t *testing.T) {
	b := newBench(t)
	b.write("ttl", write{Value: String("v"), TTL: time.Second})
	b.write("idle", write{Value: String("v"), Idle: time.Second})
	b.write("free", write{Value: String("v"), TTL: time.Second})
	b.lock("ttl", alice, 0)
	b.lock("idle", alice, 0)
	b.tick(5 * time.Second)
	if b.get("ttl").Version == 0 || b.size() != 2 {
		t.Fatalf("%d entries", b.size())
	}
	if b.unlock("ttl", alice) != nil || b.unlock("idle", alice) != nil {
		t.Fatal("unlock")
	}
	b.tick(time.Second)
	if n := len(b.s.maps); n != 0 {
		t.Errorf("a second after the unlock there are %d maps", n)
	}
}

func TestLock_EndsWithItsSession(t *testing.T) {
	b := newBench(t)
	b.lock("a", alice, 0)
	b.lock("a", alice, 0)
	b.lock("b", bob, 0)
	b.lock("c", client, 0)
	gone := map[grid.MemberID]bool{}
	pass := func(d time.Duration) { b.pass(d, func(m grid.MemberID) bool { return !gone[m] }) }
	pass(time.Second)
	gone["a"] = true
	pass(200 * time.Millisecond)
	if b.isLocked("a") || !b.isLocked("b") || !b.isLocked("c") {
		t.Error("the member's locks end with it, and no others")
	}
	pass(SessionGrace / 2)
	moved := client
	moved.Via = "b"
	raw, _, err := b.try(op{Kind: opLock, Lock: &lockOp{Do: lockMove, Of: []string{moved.Session}}}, moved)
	if err != nil || as[sessionReply](t, raw).Changed != 1 {
		t.Fatalf("move: %v", err)
	}
	pass(2 * SessionGrace)
	if !b.isLocked("c") {
		t.Error("the client's lock ended although it speaks through another member")
	}
	if b.unlock("c", moved) != nil {
		t.Error("it cannot be given back")
	}
	b.lock("c", client, 0)
	pass(SessionGrace - 200*time.Millisecond)
	if !b.isLocked("c") {
		t.Error("the lock ended before the client could come back")
	}
	pass(400 * time.Millisecond)
	if b.isLocked("c") {
		t.Error("the lock outlives a client that never came back")
	}
	b.lock("x", moved, 0)
	if _, _, err := b.try(op{Kind: opLock, Lock: &lockOp{Do: lockEndAll, Of: []string{moved.Session}}}, moved); err != nil || b.isLocked("x") || !b.isLocked("b") {
		t.Errorf("after the session's end: %v", err)
	}
}

// A lock whose client is connected to another member is never freed, however long nobody says so, and ends at last with the client.
func TestLock_IsKeptWhileItsClientMayLive(t *testing.T) {
	type answer struct {
		via   grid.MemberID
		known bool
	}
	var now answer
	var asked time.Time
	b := newBench(t)
	b.s = NewHome(HomeConfig{Where: func(session string, after time.Time) (grid.MemberID, bool) {
		if session != client.Session {
			t.Errorf("asked for %q", session)
		}
		asked = after
		return now.via, now.known
	}}).NewStore(func(v uint64) uint64 { return v })
	gone := map[grid.MemberID]bool{client.Via: true}
	start := b.now
	b.lock("k", client, 0)
	for _, step := range []struct {
		answer
		locked bool
		lost   grid.MemberID
	}{
		{locked: true},                 // one does not answer
		{answer{"", true}, false, ""},  // all say that they do not have it
		{answer{"z", true}, true, "z"}, // a member has it that is none any more
		{answer{"b", true}, true, ""},  // b has it
		{answer{"", true}, true, ""},   // b is a member still: nobody is asked
		{answer{"", false}, true, "b"}, // b is gone
		{answer{"", true}, false, ""},
	} {
		if !b.isLocked("k") {
			b.lock("k", client, 0)
		}
		now = step.answer
		if step.lost != "" {
			gone[step.lost] = true
		}
		b.pass(SessionGrace+time.Second, func(m grid.MemberID) bool { return !gone[m] })
		if b.isLocked("k") != step.locked {
			t.Errorf("%+v: locked %v", step, !step.locked)
		}
	}
	if at := asked.Sub(start); at < SessionGrace {
		t.Errorf("asked %v after the member was gone", at)
	}
}

// Who comes back while it is being taken for gone keeps what it has locked since.
func TestLock_EndOfASession_LeavesWhatIsNew(t *testing.T) {
	b := newBench(t)
	b.lock("old", client, 0)
	b.pass(3*time.Second, nil)
	b.lock("new", client, 0)
	end := func(quiet time.Duration) sessionReply {
		raw, _, err := b.try(op{Kind: opLock, Lock: &lockOp{Do: lockEndAll, Quiet: quiet, Of: []string{"nobody", client.Session}}}, client)
		if err != nil {
			t.Fatal(err)
		}
		return as[sessionReply](t, raw)
	}
	if r := end(2 * time.Second); r.Changed != 1 || !slices.Equal(r.Left, []string{client.Session}) || b.isLocked("old") || !b.isLocked("new") {
		t.Errorf("%+v", r)
	}
	if r := end(0); r.Changed != 1 || len(r.Left) != 0 || b.isLocked("new") {
		t.Errorf("%+v", r)
	}
}

// pass lets time go by at the primary.
func (b *bench) pass(d time.Duration, isMember func(grid.MemberID) bool) {
	b.t.Helper()
	for end := b.now.Add(d); b.now.Before(end); b.now = b.now.Add(25 * time.Millisecond) {
		e := b.s.Over(b.now, isMember)
		if e == nil {
			continue
		}
		b.version++
		if _, err := b.s.Apply(e, b.version, b.now); err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestLock_TravelsInSnapshots(t *testing.T) {
	b, c := newBench(t), newBench(t)
	first, _ := b.lock("k", client, time.Minute)
	b.lock("k", client, time.Minute)
	b.lock("l", bob, 0)
	b.now = b.now.Add(time.Second)
	for _, p := range piecesOf(b.s, 1, b.now) {
		if err := c.s.Restore(p, b.now); err != nil {
			t.Fatal(err)
		}
	}
	c.now, c.version = b.now, b.version
	raw, _, err := c.try(op{Kind: opLock, Key: String("k"), Lock: &lockOp{Do: lockAsk}}, bob)
	want := lockReply{Who: client, Count: 2, Token: first.Token, Left: 59 * time.Second}
	if got := as[lockReply](t, raw); err != nil || got != want || c.s.held != 2 {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, locked := range []bool{true, false} {
		if c.unlock("k", client) != nil || c.isLocked("k") != locked {
			t.Error("the owner cannot give it back")
		}
	}
	if c.unlock("l", bob) != nil {
		t.Error("the owner cannot give it back")
	}
}

func TestLock_DestroyEndsLocks(t *testing.T) {
	b := newBench(t)
	b.lock("k", alice, 0)
	b.woken = nil
	if _, _, err := b.try(op{Kind: opClear, Sweep: sweepDestroy}, bob); err != nil || b.isLocked("k") || len(b.woken) != 1 {
		t.Errorf("%v, woken %q", err, b.woken)
	}
}

// Whatever owners do with a key's lock, one at most has it, the one that the plain model says, also on a copy.
func TestLock_AsTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		owners := []who{alice, bob, client, {Session: "c", Via: "b", Thread: 1}}
		owner, count, newest := -1, 0, uint64(0)
		var until time.Time
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(owners)-1).Draw(rt, "owner")
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0, 1:
				lease := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(rt, "lease")
				r, got := b.lock("k", owners[i], lease)
				if got != (owner < 0 || owner == i) {
					rt.Fatalf("%d got it: %v; %d has it", i, got, owner)
				}
				if !got {
					break
				}
				if owner < 0 && r.Token <= newest {
					rt.Fatalf("token %d after %d", r.Token, newest)
				}
				owner, count, newest, until = i, count+1, r.Token, time.Time{}
				if lease > 0 {
					until = b.now.Add(lease)
				}
				if r.Count != count {
					rt.Fatalf("count %d, want %d", r.Count, count)
				}
			case 2, 3:
				if err := b.unlock("k", owners[i]); (err == nil) != (owner == i) {
					rt.Fatalf("unlock by %d: %v; %d has it", i, err, owner)
				}
				if owner == i {
					if count--; count == 0 {
						owner = -1
					}
				}
			case 4:
				b.now = b.now.Add(600 * time.Millisecond)
				if owner >= 0 && !until.IsZero() && !b.now.Before(until) {
					owner, count = -1, 0
				}
			default:
				next := NewStore(func(v uint64) uint64 { return v })
				for _, p := range piecesOf(b.s, 10, b.now) {
					if err := next.Restore(p, b.now); err != nil {
						rt.Fatal(err)
					}
				}
				b.s = next
			}
			if b.isLocked("k") != (owner >= 0) {
				rt.Fatalf("locked: %v; %d has it", b.isLocked("k"), owner)
			}
		}
	})
}
