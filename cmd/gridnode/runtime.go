package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// addProcessor gives the Go scheduler one processor more than the machine has for this process, unless the user has said how many. Tasks and
// queries may keep the machine's processors busy; the one more, asleep most of the time, answers heartbeats at once.
func addProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// A small heap is collected often, and to begin and to end that all threads have to halt: on a machine with more to do than processors, with a
// heap of 10 MB, a member stood still for up to 0.1 s several times a second. So there may be gcFloor of garbage before a collection, but not
// more than gcMost percent of what is live, for a heap may grow fast.
const (
	gcFloor = 128 << 20
	gcMost  = 400
	gcLook  = time.Second
)

// paceGC keeps the collector's percentage where gcPercent wants it until ctx ends. A percentage that the user has set stays.
func paceGC(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := gcPercent(0)
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	tick := time.NewTicker(gcLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		metrics.Read(live)
		if want := gcPercent(live[0].Value.Uint64()); 4*max(want, percent) > 5*min(want, percent) { // setting it halts all threads too
			debug.SetGCPercent(want)
			percent = want
		}
	}
}

// gcPercent returns how much garbage there may be, in percent of what is live.
func gcPercent(live uint64) int {
	if live <= gcFloor*100/gcMost {
		return gcMost
	}
	return int(max(100, 100*gcFloor/live))
}
