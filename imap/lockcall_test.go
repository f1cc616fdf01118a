package imap

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"gridnode/grid"
)

func TestLock_SentAgainCountsOnce(t *testing.T) {
	b := newBench(t)
	for i, c := range []struct {
		do    lockDo
		ref   int64
		count int
	}{
		{lockTake, 1, 1}, {lockTake, 1, 1}, {lockTake, 2, 2}, {lockTake, 2, 2}, {lockTake, 0, 3}, {lockTake, 0, 4}, // without a number each counts
		{lockRelease, 0, 3}, {lockRelease, 3, 2}, {lockRelease, 3, 2}, {lockRelease, 4, 1}, {lockRelease, 5, 0}, {lockRelease, 5, 0},
	} {
		if r, err := b.send(c.do, client, c.ref, uint64(i)); err != nil || r.Count != c.count {
			t.Fatalf("call %d: count %d, %v; want %d", i, r.Count, err, c.count)
		}
	}
	if b.isLocked("k") {
		t.Error("it is locked after as many unlocks as locks")
	}
	if _, err := b.send(lockRelease, client, 6, 0); !errors.Is(err, grid.ErrNotOwner) {
		t.Errorf("an unlock too many: %v", err)
	}
	other := client
	other.Thread++
	for _, by := range []who{bob, other} {
		if _, err := b.send(lockRelease, by, 5, 0); !errors.Is(err, grid.ErrNotOwner) {
			t.Errorf("an unlock with a number of somebody else: %v", err)
		}
	}
}

// What is known of calls moves with the partition, also where the lock is free by now and taken by another.
func TestLock_SentAgain_ToACopy(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		do  lockDo
		by  who
		ref int64
	}{{lockTake, client, 1}, {lockRelease, client, 2}, {lockTake, bob, 7}} {
		if _, err := b.send(c.do, c.by, c.ref, 1); err != nil {
			t.Fatal(err)
		}
	}
	c := newBench(t)
	n, piece := b.s.Snapshot(1, b.now)
	for i := range n {
		if err := c.s.Restore(piece(i, b.now), b.now); err != nil {
			t.Fatal(err)
		}
	}
	c.version = b.version
	if _, err := c.send(lockRelease, client, 2, 0); err != nil {
		t.Errorf("an unlock that is sent again: %v", err)
	}
	if r, err := c.send(lockTake, bob, 7, 2); err != nil || r.Count != 1 {
		t.Errorf("a lock that is sent again: %+v, %v", r, err)
	}
	if r, err := c.send(lockRelease, bob, 8, 0); err != nil || r.Count != 0 {
		t.Errorf("its unlock: %+v, %v", r, err)
	}
}

// Releases are remembered in bounded number: the oldest are forgotten.
func TestLock_RememberedReleasesHaveALimit(t *testing.T) {
	b := newBench(t)
	for ref := int64(1); ref <= 2*maxFreed+2; ref += 2 {
		_, err := b.send(lockTake, client, ref, 1)
		if _, err2 := b.send(lockRelease, client, ref+1, 1); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
	}
	if len(b.s.freed) != maxFreed {
		t.Errorf("%d releases are remembered, the limit is %d", len(b.s.freed), maxFreed)
	}
	if _, err := b.send(lockRelease, client, 2, 0); !errors.Is(err, grid.ErrNotOwner) {
		t.Errorf("the oldest: %v", err)
	}
	if _, err := b.send(lockRelease, client, 4, 0); err != nil {
		t.Errorf("the next: %v", err)
	}
}

// A thread makes one call after the other; each is sent once or more, by senders of which some give up and undo what theirs did. As long as one
// does not give up, the call counts once.
func TestProperty_LockCallsCountOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(nil)
		b.t = &testing.T{}
		held, attempt := 0, uint64(0)
		for ref := int64(1); ref <= 12; ref++ {
			do := lockTake
			if held > 0 && rapid.Bool().Draw(t, "release") {
				do = lockRelease
			}
			var left []uint64 // attempts that have given up and not yet undone
			undo := func() {
				for _, a := range left {
					if _, err := b.send(lockUndo, client, ref, a); err != nil {
						t.Fatal(err)
					}
				}
				left = nil
			}
			for range rapid.IntRange(0, 3).Draw(t, "sendings that give up") {
				attempt++
				if _, err := b.send(do, client, ref, attempt); err != nil {
					t.Fatal(err)
				}
				if do == lockTake {
					left = append(left, attempt)
				}
				if rapid.Bool().Draw(t, "undo at once") {
					undo()
				}
			}
			attempt++
			r, err := b.send(do, client, ref, attempt)
			if err != nil {
				t.Fatal(err)
			}
			undo() // late
			held += map[lockDo]int{lockTake: 1, lockRelease: -1}[do]
			if late := rapid.Int64Range(0, ref-1).Draw(t, "late duplicate"); late > 0 && held != 0 {
				for _, do := range []lockDo{lockTake, lockRelease} {
					if _, err := b.send(do, client, late, 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			if l := b.s.locks["m"][string(String("k"))]; r.Count != held || (l != nil) != (held > 0) || l != nil && l.count != held {
				t.Fatalf("call %d: the answer is %d, the lock %s; held %d times", ref, r.Count, fmt.Sprintf("%+v", l), held)
			}
		}
	})
}
