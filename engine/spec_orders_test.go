package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The events around the end of a job.
const (
	evObserve = 'O' // the observation that ends the job reaches the member
	evAnswer  = 'H' // the store answers the write of that end
	evRevoke  = 'R' // the leadership is revoked
	evSettle  = 'S' // the last call of the driver settles, and with it the term
	evClose   = 'X' // the member closes
	evGrant   = 'G' // the leadership is granted again, for the next term
)

// orders returns the permutations of events that can happen: what is observed is answered after it, a grant follows a revocation, and a term
// settles once something has begun to end it.
func orders(events string) []string {
	var out []string
	var grow func(done, left string)
	grow = func(done, left string) {
		if left == "" {
			if possible(done) {
				out = append(out, done)
			}
			return
		}
		for i := range left {
			grow(done+left[i:i+1], left[:i]+left[i+1:])
		}
	}
	grow("", events)
	return out
}

func possible(order string) bool {
	at := func(e rune) int {
		if i := slices.Index([]rune(order), e); i >= 0 {
			return i
		}
		return len(order)
	}
	return at(evObserve) < at(evAnswer) && min(at(evRevoke), at(evClose)) < at(evSettle) && (at(evGrant) == len(order) || at(evRevoke) < at(evGrant))
}

// T33 and 2.7, 2.10 of the life cycle: every order of observe, answer, revoke, settle, close and grant again, for each ending and each answer
// of the store. The result is never lost, never replaced, and never run again; both orders of FLINK-39704 (observed before the revocation, and
// during the close) are among them.
func TestSpecEveryOrderOfAnEnd(t *testing.T) {
	t.Parallel()
	for _, scenario := range []struct {
		events string
		orders int // as counted in the model of the rules
	}{{"OHSX", 6}, {"OHRSX", 40}, {"OHRSG", 20}, {"OHRSXG", 135}} {
		all := orders(scenario.events)
		if len(all) != scenario.orders {
			t.Errorf("%s has %d orders, want %d", scenario.events, len(all), scenario.orders)
		}
		for _, order := range all {
			for _, ends := range endings() {
				for _, way := range []gateWay{letThrough, turnAway, getLost, goSilent} {
					if testing.Short() && way != letThrough {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%d", order, ends, way), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { playOrder(t, ends, order, way) })
					})
				}
			}
		}
	}
}

// The orders that have names in the specification, under S5 and S7. In T2, T3, T4 the observation comes before the revocation and the answer of the store after
// it; in T6, T7, T9, T14 it comes while the term closes; in T5 the answer is good and the member closes meanwhile.
func TestSpecNamedOrders(t *testing.T) {
	for id, test := range map[string]struct {
		order string
		way   gateWay
	}{
		"T2": {"ORHSX", turnAway}, "T3": {"ORHSG", turnAway}, "T4": {"ORSGH", getLost}, "T5": {"OXHS", letThrough},
		"T6": {"ROSHX", letThrough}, "T7": {"ROSHG", letThrough}, "T9": {"XOSH", letThrough}, "T14": {"RGOSH", letThrough},
	} {
		for _, ends := range endings() {
			t.Run(id+"/"+string(ends), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { playOrder(t, ends, test.order, test.way) })
			})
		}
	}
}

// play is one order being played on a rig.
type play struct {
	*seat
	end      *gate
	way      gateWay
	settle   func()
	heard    <-chan error
	term     uint64
	leading  bool
	owed     bool // a grant waits for the end of the last term
	closed   bool
	observed bool
	tooLate  bool // the driver was gone when the observation came
	settled  bool // the end was stored before the last grant
}

func playOrder(t *testing.T, ends JobStatus, order string, way gateWay) {
	r := newRig(t, ends)
	p := &play{seat: r.seat("a"), way: way, term: 1, leading: true}
	p.grant(1)
	p.running()
	p.end = r.store.holdEnd()
	p.settle = p.occupy()
	for _, e := range order {
		p.event(e)
		p.chain()
	}
	p.finish()
	p.judge(order)
}

func (p *play) event(e rune) {
	switch e {
	case evObserve:
		p.tooLate = p.driver() == nil
		p.heard, p.observed = p.observe(), true
	case evAnswer:
		p.end.pass(p.way)
	case evRevoke:
		p.revoke()
	case evSettle:
		p.settle()
	case evClose:
		p.closed = true
		p.revoke()
	case evGrant:
		p.owed = true
	}
	synctest.Wait()
}

// chain is what the cluster does: one leadership operation after the other, each when the one before has settled.
func (p *play) chain() {
	if p.leading && p.over() {
		p.leading = false
	}
	if p.owed && !p.leading && !p.closed {
		p.owed, p.leading, p.settled = false, true, p.store.ends() > 0
		p.term++
		p.grant(p.term)
	}
}

// finish gives everything the time that it needs, sends a report that was refused again, and ends the last term.
func (p *play) finish() {
	for range 5 {
		time.Sleep(time.Second)
		p.chain()
	}
	if err := <-p.heard; err != nil {
		if !errors.Is(err, ErrRetryable) && !errors.Is(err, ErrIndeterminate) {
			p.t.Errorf("the report was answered %v: its sender would drop it", err)
		}
		p.heard = nil
		if p.leading && p.driver() != nil {
			if err := <-p.observe(); err != nil {
				p.t.Errorf("the report that was sent again was answered %v", err)
			}
		}
	}
	p.revoke()
	for p.leading {
		time.Sleep(time.Second)
		p.leading = !p.over()
	}
}

func (p *play) judge(order string) {
	st := p.state()
	if p.tooLate && p.heard == nil && !st.Status.Final() {
		return // it came when nobody was there to take it, and its sender knows: the next master gets it
	}
	p.wantEnd()
	for _, o := range p.sent() {
		if p.settled && o.Term == p.term {
			p.t.Errorf("term %d gives orders for a job that had ended before: %+v", p.term, o)
		}
	}
	if p.t.Failed() {
		p.t.Logf("order %s: state %+v", order, st)
	}
}

// T34: the same with the goroutines let loose: leases come and go at random while the job ends.
func TestSpecRandomTerms(t *testing.T) {
	for seed := range uint64(20) {
		for _, ends := range endings() {
			t.Run(fmt.Sprint(seed, "/", ends), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { randomTerms(t, ends, rand.New(rand.NewPCG(seed, 34))) })
			})
		}
	}
}

func randomTerms(t *testing.T, ends JobStatus, rng *rand.Rand) {
	r := newRig(t, ends)
	r.impatient = true
	a := r.seat("a")
	a.grant(1)
	a.running()
	r.store.mu.Lock()
	mood := rand.New(rand.NewPCG(rng.Uint64(), 1)) // used under the store's mutex
	r.store.gate = func(string, Txn) *gate {
		if mood.IntN(4) > 0 {
			return nil
		}
		g := newGate()
		way := gateWay(mood.IntN(4))
		time.AfterFunc(time.Duration(mood.IntN(50))*time.Millisecond, func() { g.open <- way })
		return g
	}
	r.store.mu.Unlock()
	end := rng.IntN(40)
	for i, term := 0, uint64(2); i < 40; i++ {
		if i == end {
			a.reportUntilTaken()
		}
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
		a.revoke()
		if err := <-a.leads; err != nil {
			t.Fatal(err)
		}
		a.grant(term)
		term++
	}
	a.await(func(st *jobState) bool { return st == nil || st.Status.Final() })
	a.revoke()
	if err := <-a.leads; err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // the orphans land
	r.wantEnd()
}

// reportUntilTaken is a worker that keeps its report until somebody has taken it.
func (s *seat) reportUntilTaken() {
	if s.ends == JobFinished {
		s.held() <- nil
		close(s.held())
		return
	}
	status := TaskFailed
	if s.ends == JobCanceled {
		status = TaskCanceled
	}
	go func() {
		for range 10_000 {
			if s.report(status, "row 5 is bad") == nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		s.t.Error("nobody takes the report")
	}()
}
