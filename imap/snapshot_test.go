package imap

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// piecesOf encodes a whole snapshot at once.
func piecesOf(s *Store, size int, at time.Time) [][]byte {
	n, piece := s.Snapshot(size, at)
	out := make([][]byte, n)
	for i := range out {
		out[i] = piece(i, at)
	}
	return out
}

// TestSnapshot_StaysWhatItWas: what is applied after a snapshot was taken, and before its pieces are encoded, does not show in them.
func TestSnapshot_StaysWhatItWas(t *testing.T) {
	b := newBench(t)
	for i := range 300 {
		b.write(fmt.Sprint("k", i), write{Value: Bytes(make([]byte, i)), TTL: time.Duration(i%3) * time.Hour})
	}
	b.lock("held", client, time.Minute)
	want, taken := contentOf(b.s, b.now), b.now
	n, piece := b.s.Snapshot(2000, b.now)
	if n < 10 {
		t.Fatalf("only %d pieces", n)
	}
	next := newBench(t)
	next.now = taken
	for i := range n { // writes in between, also of what is still to be encoded
		if err := next.s.Restore(piece(i, b.now), taken); err != nil {
			t.Fatal(err)
		}
		for k := i; k < 300; k += n {
			switch k % 4 {
			case 0:
				b.write(fmt.Sprint("k", k), write{Value: String("new")})
			case 1:
				b.write(fmt.Sprint("k", k), write{Remove: true})
			case 2:
				b.write(fmt.Sprint("new", k), write{Value: String("new")})
			}
		}
	}
	if diff := cmp.Diff(want, contentOf(next.s, taken)); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, contentOf(b.s, b.now)); diff == "" {
		t.Error("nothing was changed meanwhile: the test shows nothing")
	}
	raw, _, err := next.try(op{Kind: opLock, Key: String("held"), Lock: &lockOp{Do: lockAsk}}, bob)
	if got, _ := decode[lockReply](raw); err != nil || got.Who != client {
		t.Errorf("the lock is %+v (%v)", got, err)
	}
}

// BenchmarkSnapshot is how long a partition waits when a copy of it begins, and for each piece of it.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{4_000, 100_000} {
		s := NewStore(func(v uint64) uint64 { return v })
		now := time.Now()
		for i := range n {
			s.put("m", fmt.Sprintf("key-%08d", i), &record{value: make([]byte, 100), version: 1, created: s.at(now)})
		}
		b.Run(fmt.Sprintf("begin/entries=%d", n), func(b *testing.B) {
			for b.Loop() {
				s.Snapshot(128<<10, now)
			}
		})
		_, piece := s.Snapshot(128<<10, now)
		b.Run(fmt.Sprintf("piece/entries=%d", n), func(b *testing.B) {
			for b.Loop() {
				piece(0, now)
			}
		})
		b.Run(fmt.Sprintf("all/entries=%d", n), func(b *testing.B) {
			for b.Loop() {
				piecesOf(s, 128<<10, now)
			}
		})
	}
}
