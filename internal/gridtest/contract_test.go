package gridtest

import (
	"testing"

	"gridnode/engine"
	"gridnode/engine/enginetest"
)

// The engine's contract with its store holds on real grids as it does on the fake. These run in real time, outside of a bubble: the suite has
// subtests of its own.

func TestContract_OneMember(t *testing.T) {
	c := Start(t, 1)
	t.Cleanup(c.StopNow)
	enginetest.RunStore(t, func(*testing.T) engine.Store { return c.Live()[0].Node.JobStore() })
}

func TestContract_ThreeMembers(t *testing.T) {
	c := Start(t, 3)
	t.Cleanup(c.StopNow)
	next := 0
	enginetest.RunStore(t, func(*testing.T) engine.Store {
		next++
		return c.Live()[next%3].Node.JobStore()
	})
}
