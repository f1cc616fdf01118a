package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Service is the job engine of one member: it answers for clients, runs tasks, and coordinates all jobs while the member is master.
type Service struct {
	cfg    Config
	defs   *definitions
	worker *worker

	mu     sync.Mutex
	leader *coordinator // while Lead runs
	led    uint64       // the highest term that Lead was called with
}

// New returns a service. It does nothing until [Service.Run] is called.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Checkpoint.Storage != nil {
		cfg.Checkpoint.Storage = newPatient(cfg.Checkpoint.Storage)
	}
	s := &Service{cfg: cfg, defs: &definitions{store: cfg.Store, parse: cfg.Parse, known: map[string]*definition{}}}
	s.worker = &worker{
		cfg: cfg, defs: s.defs, tokens: make(tokens, cfg.TaskTokens), ask: s.ask,
		starts: make(chan *execution), execs: map[execKey]*execution{},
	}
	return s, nil
}

// Run runs this member's tasks until ctx ends, and returns when the last of them has stopped.
func (s *Service) Run(ctx context.Context) error {
	s.worker.run(ctx)
	return nil
}

// Lead coordinates the cluster's jobs as the master of a term until ctx ends. Terms rise from call to call, and calls do not overlap. Before
// it returns it commits the ends of jobs that it has observed, leader or not.
func (s *Service) Lead(ctx context.Context, term uint64) error {
	c := newCoordinator(s, term, ctx.Done())
	s.mu.Lock()
	if s.leader != nil || term <= s.led {
		defer s.mu.Unlock()
		return fmt.Errorf("engine: lead term %d after term %d", term, s.led)
	}
	s.leader, s.led = c, term
	s.mu.Unlock()
	s.cfg.Logger.Info("leading", "term", term)
	c.run(ctx)
	s.cfg.Logger.Info("no longer leading", "term", term, "cause", context.Cause(ctx))
	s.mu.Lock()
	s.leader = nil
	s.mu.Unlock()
	return nil
}

// leading returns the coordinator of this member, or an ErrRetryable if it is not master.
func (s *Service) leading() (*coordinator, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader == nil || s.leader.over() {
		return nil, fmt.Errorf("%w: member %s is not the master", ErrRetryable, s.cfg.Cluster.Self())
	}
	return s.leader, nil
}

// observing returns the coordinator that may still take reports: also one whose term is over, as long as it is closing. What a task's end is
// does not depend on who leads.
func (s *Service) observing() (*coordinator, error) {
	s.mu.Lock()
	c := s.leader
	s.mu.Unlock()
	if c == nil {
		return s.leading()
	}
	return c, nil
}

// Serve answers a request of another member's service. Errors travel in the answer, with their kind.
func (s *Service) Serve(ctx context.Context, from string, raw []byte) ([]byte, error) {
	var req request
	if err := decode(raw, &req); err != nil {
		return nil, err
	}
	ans, err := s.dispatch(ctx, req)
	if err != nil {
		s.cfg.Logger.Debug("request refused", "from", from, "op", req.Op, "error", err)
		return encode(errorResponse(err)), nil
	}
	return encode(response{Body: encode(ans)}), nil
}

func (s *Service) dispatch(ctx context.Context, req request) (any, error) {
	switch req.Op {
	case opOrder:
		return onWorker(ctx, req.Body, s.worker.order)
	case opCommit:
		return onWorker(ctx, req.Body, noAnswer(s.worker.commit))
	case opCleanup:
		return onWorker(ctx, req.Body, noAnswer(s.worker.cleanup))
	case opBarrier:
		return onWorker(ctx, req.Body, s.worker.barrier)
	case opReport:
		return onCoordinator(ctx, s, s.observing, req.Body, func(ctx context.Context, c *coordinator, r report) (struct{}, error) {
			return struct{}{}, c.report(ctx, r)
		})
	case opProgress:
		return onMaster(ctx, s, req.Body, func(_ context.Context, c *coordinator, p progressReport) (struct{}, error) {
			c.progress(p)
			return struct{}{}, nil
		})
	case opSubmit:
		return onMaster(ctx, s, req.Body, submitLocal)
	case opStop:
		return onMaster(ctx, s, req.Body, stopLocal)
	case opInfo:
		return onMaster(ctx, s, req.Body, infoLocal)
	case opRunning:
		return onMaster(ctx, s, req.Body, runningLocal)
	case opFinished:
		return onMaster(ctx, s, req.Body, finishedLocal)
	case opFinishedPage:
		return onMaster(ctx, s, req.Body, finishedPageLocal)
	case opJobs:
		return onMaster(ctx, s, req.Body, jobsLocal)
	case opOverview:
		return onMaster(ctx, s, req.Body, overviewLocal)
	case opCleanups:
		return onMaster(ctx, s, req.Body, cleanupsLocal)
	case opCheckpoints:
		return onMaster(ctx, s, req.Body, checkpointsLocal)
	case opSavepoints:
		return onMaster(ctx, s, req.Body, savepointsLocal)
	case opDropSavepoints:
		return onMaster(ctx, s, req.Body, dropSavepointsLocal)
	}
	return nil, fmt.Errorf("%w: this member does not know %q", ErrInvalid, req.Op)
}

func onWorker[Q, A any](ctx context.Context, body []byte, f func(context.Context, Q) (A, error)) (any, error) {
	var q Q
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	return f(ctx, q)
}

func noAnswer[Q any](f func(context.Context, Q) error) func(context.Context, Q) (struct{}, error) {
	return func(ctx context.Context, q Q) (struct{}, error) { return struct{}{}, f(ctx, q) }
}

func onMaster[Q, A any](ctx context.Context, s *Service, body []byte, f func(context.Context, *coordinator, Q) (A, error)) (any, error) {
	return onCoordinator(ctx, s, s.leading, body, f)
}

func onCoordinator[Q, A any](ctx context.Context, s *Service, who func() (*coordinator, error), body []byte,
	f func(context.Context, *coordinator, Q) (A, error)) (any, error) {
	c, err := who()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ForwardTimeout/3) // the asking member waits longer, so it hears how it went
	defer cancel()
	return onWorker(ctx, body, func(ctx context.Context, q Q) (A, error) {
		ans, err := f(ctx, c, q)
		return ans, asRetry(ctx, err)
	})
}

// repeat says what may be done with a request whose outcome is unknown.
type repeat int

const (
	once       repeat = iota // it is not sent again
	idempotent               // it is sent again, and may have run all the same
	reading                  // it is sent again; it changes nothing, so it counts as not done
)

// viaMaster answers a client: here if this member is master, else by one call to the master. For ForwardTimeout it begins new tries, each with a
// bound of its own, as long as the request did not run or may be repeated.
func viaMaster[Q, A any](ctx context.Context, s *Service, o op, q Q, r repeat, local func(context.Context, *coordinator, Q) (A, error)) (A, error) {
	var wait backoff
	unsure := false
	for end := time.Now().Add(s.cfg.ForwardTimeout); ; {
		ans, err := askMaster(ctx, s, o, q, local)
		if !again(err) {
			return ans, err
		}
		unsure = unsure || errors.Is(err, ErrIndeterminate) && r != reading
		pause := wait.next()
		last := unsure && r == once || s.cfg.Cluster.Hopeless() != nil || time.Now().Add(pause).After(end)
		if !last && sleep(ctx, pause) == nil {
			continue
		}
		switch {
		case unsure && !errors.Is(err, ErrIndeterminate):
			err = fmt.Errorf("%w: an earlier try may have run; then: %v", ErrIndeterminate, err)
		case !unsure && !errors.Is(err, ErrRetryable):
			err = fmt.Errorf("%w: %v", ErrRetryable, err)
		}
		return ans, err
	}
}

func askMaster[Q, A any](ctx context.Context, s *Service, o op, q Q, local func(context.Context, *coordinator, Q) (A, error)) (A, error) {
	var ans A
	if c, err := s.leading(); err == nil {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.ForwardTimeout/2)
		defer cancel()
		ans, err := local(ctx, c, q)
		return ans, asRetry(ctx, err)
	}
	if err := s.cfg.Cluster.Hopeless(); err != nil {
		return ans, fmt.Errorf("%w: %v", ErrRetryable, err)
	}
	master, _, ok := s.cfg.Cluster.Master()
	if !ok || master == s.cfg.Cluster.Self() {
		return ans, fmt.Errorf("%w: the cluster has no master at the moment", ErrRetryable)
	}
	err := s.ask(ctx, s.cfg.ForwardTimeout/2, master, o, q, &ans)
	return ans, err
}
