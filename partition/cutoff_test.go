package partition

import (
	"testing"
	"time"

	"gridnode/grid"
)

func TestCutOff(t *testing.T) {
	c := newCutOff()
	start := time.Now()
	at := func(after time.Duration, leased bool, want bool) {
		t.Helper()
		c.look(leased, start.Add(after))
		if got := closed(c.happened()); got != want {
			t.Errorf("%v after the start: cut off %t, want %t", after, got, want)
		}
	}
	at(0, false, false)
	at(cutOffAfter-time.Millisecond, false, false)
	at(cutOffAfter-time.Millisecond, true, false) // an election was won late
	at(cutOffAfter, false, false)
	waits := c.happened()
	at(2*cutOffAfter, false, true)
	if !closed(waits) {
		t.Error("who waited before is not told")
	}
	at(3*cutOffAfter, false, true)
	at(3*cutOffAfter+1, true, false)
	at(3*cutOffAfter+2, false, false)
	at(4*cutOffAfter+2, false, true)
	if grid.KindOf(errCutOff) != grid.Retryable {
		t.Errorf("%v is not retryable", errCutOff)
	}
}
