package engine

import (
	"fmt"
	"testing"
	"time"

	"gridnode/engine/config"
)

// What is remembered of configs is bounded in number and in bytes, however many jobs there were and however large their configs.
func TestDefinitionsAreBounded(t *testing.T) {
	for _, test := range []struct{ jobs, size, most int }{{3 * maxDefinitions, 10, maxDefinitions}, {40, 4 << 20, maxDefinitionBytes / (4 << 20)}, {5, 2 * maxDefinitionBytes, 1}} {
		d := definitions{parse: func([]byte) (*config.Job, error) { return &config.Job{}, nil }, known: map[string]*definition{}}
		body := make([]byte, test.size)
		for i := range test.jobs {
			info := jobInfo{Incarnation: fmt.Sprint(i), Config: body}
			d.of("7", info)
			if again := d.read("7", info); again != d.cached(info.Incarnation) {
				t.Fatal("the newest one is not remembered")
			}
		}
		bytes := 0
		for _, def := range d.known {
			bytes += len(def.info.Config)
		}
		if len(d.known) > test.most || bytes != d.bytes || bytes > maxDefinitionBytes && len(d.known) > 1 {
			t.Errorf("%d jobs of %d bytes: %d are remembered, with %d bytes, counted %d", test.jobs, test.size, len(d.known), bytes, d.bytes)
		}
	}
}

// Nobody remembers the plan of a job that was cleaned up.
func TestDefinitionsOfEndedJobsAreForgotten(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig, a *seat) {
		<-a.observe()
		if a.svc.defs.cached(r.state().Incarnation) == nil {
			t.Error("the plan of a live job is not remembered")
		}
		time.Sleep(2 * DefaultConfig().StateCleanupDelay)
		a.leave()
		if n := len(a.svc.defs.known); n != 0 || a.svc.defs.bytes != 0 {
			t.Errorf("%d plans are remembered, with %d bytes", n, a.svc.defs.bytes)
		}
	})
}
