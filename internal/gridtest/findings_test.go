package gridtest

import (
	"fmt"
	"sync"
	"time"

	"gridnode/grid"
)

// findings gathers what a history shows: violations, and figures for the summary. It may be used from many goroutines.
type findings struct {
	mu         sync.Mutex
	violations []string
	calls      int
	unknown    int // calls of unknown outcome
	refused    int // calls that provably did not run
	undecided  int // keys for which the check of linearizability took too long
	faults     map[string]int
	safeAfter  time.Duration // the longest time from the last mending to a safe cluster
}

func newFindings() *findings { return &findings{faults: map[string]int{}} }

// violate notes that a promise was broken.
func (f *findings) violate(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.violations) < 20 {
		f.violations = append(f.violations, fmt.Sprintf(format, args...))
	}
}

// called counts a call by what came of it. A definite error is a violation: no call of the workloads deserves one.
func (f *findings) called(what string, err error) (ran, unknown bool) {
	f.mu.Lock()
	f.calls++
	kind := grid.KindOf(err)
	switch {
	case err == nil:
		ran = true
	case kind == grid.Indeterminate:
		unknown = true
		f.unknown++
	case kind == grid.Retryable:
		f.refused++
	}
	f.mu.Unlock()
	if err != nil && kind == grid.Definite {
		f.violate("%s ended with a definite error: %v", what, err)
	}
	return ran, unknown
}

func (f *findings) fault(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[kind]++
}

// add adds the figures of another history.
func (f *findings) add(o *findings) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.unknown, f.refused, f.undecided = f.calls+o.calls, f.unknown+o.unknown, f.refused+o.refused, f.undecided+o.undecided
	f.safeAfter = max(f.safeAfter, o.safeAfter)
	for k, n := range o.faults {
		f.faults[k] += n
	}
}
