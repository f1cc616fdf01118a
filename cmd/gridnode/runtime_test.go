package main

import "testing"

func TestGCPercent(t *testing.T) {
	for _, x := range []struct {
		live uint64
		want int
	}{{0, 400}, {1 << 20, 400}, {32 << 20, 400}, {64 << 20, 200}, {128 << 20, 100}, {1 << 40, 100}, {1<<64 - 1, 100}} {
		if got := gcPercent(x.live); got != x.want {
			t.Errorf("%d bytes live: %d percent, not %d", x.live, got, x.want)
		}
	}
}
