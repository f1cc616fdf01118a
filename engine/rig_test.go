package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine/config"
	"gridnode/engine/plugin"
)

// A rig is one or two members that can be master, and a worker that does only what the test says. Every seam of a job's end is in the test's
// hands: the grant and the revocation of a term, the moment at which the end is observed, the moment at which the store answers the write of
// that end, and the moment at which the last call of a driver settles. Nothing in it depends on time.
type rig struct {
	t     *testing.T
	store *gateStore
	ends  JobStatus // how the job is to end

	impatient bool // calls end with their contexts

	mu     sync.Mutex
	orders []orderRequest     // that the worker was sent, stops left out
	stops  int                // orders to stop
	commit chan error         // what the worker answers to a commit; nil: it answers at once
	wait   chan struct{}      // closed and replaced when orders or stops change
	parse  func() *config.Job // nil: the rig's own job
	lonely bool               // the worker is no member any more

	cleaned []string // incarnations that the sink was asked to clean up after
}

// seat is one member that may be master.
type seat struct {
	*rig
	id  string
	svc *Service

	leads  chan error // one for each Lead that returned
	revoke context.CancelFunc
}

const (
	rigJob    = "7"
	rigWorker = "worker"
)

func newRig(t *testing.T, ends JobStatus) *rig {
	return &rig{t: t, ends: ends, store: newGateStore(), wait: make(chan struct{})}
}

// seat adds a member that may be master. Its service never runs tasks, so there is nothing to stop but its terms.
func (r *rig) seat(id string) *seat {
	s := &seat{rig: r, id: id, leads: make(chan error, 1000)}
	cfg := DefaultConfig()
	cfg.Store, cfg.Cluster, cfg.Parse = &seatStore{gateStore: r.store, seat: id}, s, r.job
	svc, err := New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	s.svc = svc
	return s
}

// job is one pipeline of one task.
func (r *rig) job([]byte) (*config.Job, error) {
	if r.parse != nil {
		if j := r.parse(); j != nil {
			return j, nil
		}
		return nil, errors.New("the config has an option from the future")
	}
	return r.plan(), nil
}

func (r *rig) plan() *config.Job {
	schema := plugin.Schema{Table: "t"}
	return &config.Job{Name: "rig", Mode: plugin.Batch, Pipelines: []config.Pipeline{{ID: 1, Vertices: []config.Vertex{
		{ID: 1, Kind: config.SourceVertex, Name: "source", Parallelism: 1, Schema: schema},
		{ID: 2, Kind: config.SinkVertex, Name: "sink", Schema: schema, Sink: idleSink{r}},
	}, Edges: []config.Edge{{From: 1, To: 2}}}}}
}

// idleSink judges every output good. The rig never opens it.
type idleSink struct{ r *rig }

func (idleSink) Bind(plugin.Schema) error { return nil }
func (idleSink) Open(context.Context, plugin.TaskContext, plugin.Schema) (plugin.Writer, error) {
	return nil, errors.New("the rig runs no tasks")
}
func (idleSink) Commit(context.Context, []byte) error { return nil }
func (idleSink) Check([][]byte) error                 { return nil }
func (s idleSink) Cleanup(_ context.Context, _, incarnation string) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.cleaned = append(s.r.cleaned, incarnation)
	return nil
}

// Self implements [Cluster].
func (s *seat) Self() string { return s.id }

// Members implements [Cluster].
func (s *seat) Members() ([]Member, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lonely {
		return []Member{{ID: "a", JoinSeq: 1}, {ID: "b", JoinSeq: 2}}, nil
	}
	return []Member{{ID: "a", JoinSeq: 1}, {ID: "b", JoinSeq: 2}, {ID: rigWorker, Worker: true, JoinSeq: 3}}, nil
}

// Master implements [Cluster]: nobody asks another member in a rig.
func (s *seat) Master() (string, uint64, bool) { return "", 0, false }

// Hopeless implements [Cluster].
func (s *seat) Hopeless() error { return nil }

// Alive implements [Cluster].
func (s *seat) Alive() context.Context { return context.Background() }

// Call implements [Cluster]: it is the worker.
func (s *seat) Call(ctx context.Context, to string, raw []byte) ([]byte, error) {
	var req request
	if err := decode(raw, &req); err != nil || to != rigWorker {
		return nil, fmt.Errorf("%w: %s cannot be reached", ErrRetryable, to)
	}
	switch req.Op {
	case opOrder:
		var o orderRequest
		if err := decode(req.Body, &o); err != nil {
			return nil, err
		}
		return encode(response{Body: encode(s.ordered(o))}), nil
	case opCommit:
		if held := s.held(); held != nil {
			select {
			case err := <-held:
				if err != nil {
					return nil, err
				}
			case <-s.given(ctx):
				return nil, fmt.Errorf("%w: no answer of %s", ErrIndeterminate, to)
			}
		}
	}
	return encode(response{Body: encode(struct{}{})}), nil
}

// given returns when a caller gives up: never, unless the rig is impatient, so that an answer can come however late.
func (r *rig) given(ctx context.Context) <-chan struct{} {
	if r.impatient {
		return ctx.Done()
	}
	return nil
}

func (r *rig) ordered(o orderRequest) orderAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Stop {
		r.stops++
	} else {
		r.orders = append(r.orders, o)
	}
	close(r.wait)
	r.wait = make(chan struct{})
	return orderAnswer{Tasks: slices.Repeat([]taskAnswer{answerRunning}, len(o.Tasks))}
}

func (r *rig) held() chan error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commit
}

// sent returns the orders to start or confirm tasks so far.
func (r *rig) sent() []orderRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.orders)
}

// attempts returns the attempts that the worker was ever asked to start.
func (r *rig) attempts() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []int
	for _, o := range r.orders {
		for _, ref := range o.Tasks {
			if !slices.Contains(out, ref.Attempt) {
				out = append(out, ref.Attempt)
			}
		}
	}
	return out
}

// grant begins a term; the end of it comes out of leads.
func (s *seat) grant(term uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	s.revoke = cancel
	go func() { s.leads <- s.svc.Lead(ctx, term) }()
	synctest.Wait()
}

// over reports whether the last term has been given up altogether.
func (s *seat) over() bool {
	synctest.Wait()
	select {
	case err := <-s.leads:
		if err != nil {
			s.t.Error(err)
		}
		return true
	default:
		return false
	}
}

// driver returns the driver of the job in the present term, or nil.
func (s *seat) driver() *driver {
	s.svc.mu.Lock()
	c := s.svc.leader
	s.svc.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.driver(rigJob)
}

// running submits the job and brings it to where one observation is missing to its end.
func (s *seat) running() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := s.svc.Submit(ctx, SubmitRequest{JobID: rigJob, Config: []byte("{}")}); err != nil {
		s.t.Fatal(err)
	}
	s.await(func(st *jobState) bool { return st != nil && st.Status == JobRunning })
	switch s.ends {
	case JobFinished:
		s.mu.Lock()
		s.commit = make(chan error, 1)
		s.mu.Unlock()
		if err := s.report(TaskFinished, ""); err != nil {
			s.t.Fatal(err)
		}
		s.await(func(st *jobState) bool { return st.Pipelines[0].Committing })
	case JobCanceled:
		if err := s.svc.Stop(ctx, StopRequest{JobID: rigJob}); err != nil {
			s.t.Fatal(err)
		}
		s.await(func(st *jobState) bool { return st.Pipelines[0].Tasks[0].Status == TaskCanceling })
	}
	synctest.Wait()
}

// await lets the bubble run until the stored state is as wanted.
func (r *rig) await(want func(*jobState) bool) {
	r.t.Helper()
	for range 1000 {
		synctest.Wait()
		if want(r.state()) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.t.Fatalf("the job does not get there: %+v", r.state())
}

func (r *rig) state() *jobState { return r.stored().state }

// stored returns all entries of the job.
func (r *rig) stored() snapshot {
	snap, err := read(context.Background(), r.store, rigJob)
	if err != nil {
		r.t.Fatal(err)
	}
	return snap
}

// report sends the report of the task's first attempt to this member, once.
func (s *seat) report(status TaskStatus, cause string) error {
	return s.reportOf(1, status, cause)
}

func (s *seat) reportOf(attempt int, status TaskStatus, cause string) error {
	return s.send(report{JobID: rigJob, Incarnation: s.state().Incarnation, Ref: taskRef{Pipeline: 1, Source: 1, Attempt: attempt}, Status: status, Error: cause})
}

func (s *seat) send(rep report) error {
	raw, err := s.svc.Serve(context.Background(), rigWorker, encode(request{Op: opReport, Body: encode(rep)}))
	if err != nil {
		return err
	}
	var res response
	if err := decode(raw, &res); err != nil {
		return err
	}
	return res.err()
}

// observe brings the observation that ends the job. What the sender of a report hears comes out of the channel; an answer to a commit has
// no sender that waits.
func (s *seat) observe() <-chan error {
	heard := make(chan error, 1)
	switch s.ends {
	case JobFinished:
		s.held() <- nil
		heard <- nil
	case JobFailed:
		go func() { heard <- s.report(TaskFailed, "row 5 is bad") }()
	case JobCanceled:
		go func() { heard <- s.report(TaskCanceled, "") }()
	}
	synctest.Wait()
	return heard
}

// occupy gives the driver a call that does not settle before settle is called.
func (s *seat) occupy() (settle func()) {
	d, slow := s.driver(), make(chan struct{})
	d.begin(lineKey{kind: -1}, func(*line) ([]observation, bool) { <-slow; return nil, true })
	synctest.Wait()
	return sync.OnceFunc(func() { close(slow); synctest.Wait() })
}

// cutOff makes the store fail for one member until the function that it returns is called.
func (s *gateStore) cutOff(seat string, err error) (heal func()) {
	set := func(down func(string) error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.down = down
	}
	set(func(who string) error {
		if who == seat {
			return err
		}
		return nil
	})
	return func() { set(nil) }
}

// gateStore is a store whose transactions a test may hold.
type gateStore struct {
	mu      sync.Mutex
	version uint64
	entries map[Key]Entry
	gate    func(seat string, t Txn) *gate // nil: nothing is held
	down    func(seat string) error        // nil: it can be reached
	seen    []Txn                          // that were applied
}

// gate holds one transaction. The caller gives up when its context ends, and the transaction lands all the same when the gate opens.
type gate struct {
	reached chan struct{} // closed when the transaction is there
	open    chan gateWay
}

type gateWay int

const (
	letThrough gateWay = iota // it runs, and is answered if anybody waits still
	turnAway                  // it does not run, and the caller knows
	getLost                   // it does not run, and the caller cannot know
	goSilent                  // it runs, and the caller cannot know
)

func newGate() *gate { return &gate{reached: make(chan struct{}), open: make(chan gateWay, 1)} }

func newGateStore() *gateStore { return &gateStore{entries: map[Key]Entry{}} }

// holdEnd holds the first transaction that commits the job's end.
func (s *gateStore) holdEnd() *gate {
	g := newGate()
	first := true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = func(_ string, t Txn) *gate {
		if !first || !commitsEnd(t) {
			return nil
		}
		first = false
		return g
	}
	return g
}

// commitsEnd reports whether a transaction writes state and cleanup record together.
func commitsEnd(t Txn) bool { return puts(t, MapRunningJobState) && puts(t, MapPendingJobCleanup) }

func puts(t Txn, mapName string) bool {
	return slices.ContainsFunc(t.Put, func(p Put) bool { return p.Key.Map == mapName })
}

// ends counts the commits of an end that were applied.
func (s *gateStore) ends() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, t := range s.seen {
		if commitsEnd(t) {
			n++
		}
	}
	return n
}

func (s *gateStore) Get(_ context.Context, key Key) (Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(key), nil
}

func (s *gateStore) get(key Key) Entry {
	e := s.entries[key]
	e.Key, e.Value = key, bytes.Clone(e.Value)
	return e
}

func (s *gateStore) GetAll(_ context.Context, keys []Key) ([]Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Entry, len(keys))
	for i, k := range keys {
		out[i] = s.get(k)
	}
	return out, nil
}

func (s *gateStore) Scan(_ context.Context, mapName string, fn func(Entry) error) error {
	s.mu.Lock()
	var all []Entry
	for k := range s.entries {
		if k.Map == mapName {
			all = append(all, s.get(k))
		}
	}
	s.mu.Unlock()
	for _, e := range all {
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *gateStore) Size(ctx context.Context, mapName string) (n int, err error) {
	err = s.Scan(ctx, mapName, func(Entry) error { n++; return nil })
	return n, err
}

func (s *gateStore) Txn(_ context.Context, t Txn) (TxnResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var current []Entry
	holds := true
	for _, c := range t.If {
		e := s.get(c.Key)
		current = append(current, e)
		holds = holds && e.Version == c.Version
	}
	if !holds {
		return TxnResult{Current: current}, nil
	}
	res := TxnResult{Applied: true}
	for _, p := range t.Put {
		s.version++
		s.entries[p.Key] = Entry{Value: bytes.Clone(p.Value), Version: s.version}
		res.Versions = append(res.Versions, s.version)
	}
	for _, k := range t.Delete {
		delete(s.entries, k)
	}
	s.seen = append(s.seen, t)
	return res, nil
}

// seatStore is the store as one member reaches it.
type seatStore struct {
	*gateStore
	seat string
}

func (s *seatStore) reach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == nil {
		return nil
	}
	return s.down(s.seat)
}

func (s *seatStore) GetAll(ctx context.Context, keys []Key) ([]Entry, error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	return s.gateStore.GetAll(ctx, keys)
}

func (s *seatStore) Scan(ctx context.Context, mapName string, fn func(Entry) error) error {
	if err := s.reach(); err != nil {
		return err
	}
	return s.gateStore.Scan(ctx, mapName, fn)
}

func (s *seatStore) Txn(ctx context.Context, t Txn) (TxnResult, error) {
	if err := s.reach(); err != nil {
		return TxnResult{}, err
	}
	s.mu.Lock()
	var g *gate
	if s.gate != nil {
		g = s.gate(s.seat, t)
	}
	s.mu.Unlock()
	if g == nil {
		return s.gateStore.Txn(ctx, t)
	}
	type answer struct {
		res TxnResult
		err error
	}
	unknown := fmt.Errorf("%w: no answer of the store", ErrIndeterminate)
	done := make(chan answer, 1)
	go func() {
		switch <-g.open {
		case turnAway:
			done <- answer{err: fmt.Errorf("%w: the store is busy", ErrRetryable)}
		case getLost:
			done <- answer{err: unknown}
		case goSilent:
			_, _ = s.gateStore.Txn(ctx, t)
			done <- answer{err: unknown}
		case letThrough:
			res, err := s.gateStore.Txn(ctx, t)
			done <- answer{res, err}
		}
	}()
	close(g.reached)
	select {
	case a := <-done:
		return a.res, a.err
	case <-ctx.Done():
		return TxnResult{}, unknown
	}
}

func (g *gate) holds() bool {
	synctest.Wait()
	select {
	case <-g.reached:
		return true
	default:
		return false
	}
}

// pass lets the transaction go its way; one that comes later goes that way at once.
func (g *gate) pass(way gateWay) {
	select {
	case g.open <- way:
	default:
	}
	synctest.Wait()
}

// leave ends the present term.
func (s *seat) leave() {
	s.t.Helper()
	s.revoke()
	if err := <-s.leads; err != nil {
		s.t.Error(err)
	}
}

// endings are the three ways in which a job ends for good.
func endings() []JobStatus { return []JobStatus{JobFinished, JobFailed, JobCanceled} }

// onRig runs a test for each ending in a bubble of its own. The test must let every term end.
func onRig(t *testing.T, test func(t *testing.T, r *rig, a *seat)) {
	t.Helper()
	for _, s := range endings() {
		t.Run(string(s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, s)
				a := r.seat("a")
				a.grant(1)
				a.running()
				test(t, r, a)
			})
		})
	}
}

// wantEnd checks that the stored result is the one of the job, committed once, and that nothing ran but the first attempt.
func (r *rig) wantEnd() {
	r.t.Helper()
	snap := r.stored()
	switch {
	case snap.state != nil && snap.state.Status != r.ends:
		r.t.Errorf("the stored status is %s, want %s", snap.state.Status, r.ends)
	case snap.record != nil && snap.record.Status != r.ends:
		r.t.Errorf("the record's status is %s, want %s", snap.record.Status, r.ends)
	case snap.state == nil && snap.record == nil && (snap.history == nil || snap.history.View.Status != r.ends):
		r.t.Errorf("the result is stored nowhere: %+v", snap.history)
	}
	if n := r.store.ends(); n != 1 {
		r.t.Errorf("the end was committed %d times", n)
	}
	if got := r.attempts(); !slices.Equal(got, []int{1}) {
		r.t.Errorf("attempts %v were ordered, want the first alone", got)
	}
}
