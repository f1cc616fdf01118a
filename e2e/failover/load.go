package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	mapPath       = "/api/v1/maps/failover/entries/"
	keysOfWriter  = 64
	readsEach     = 4 // one read on so many writes
	maxFaultTexts = 20
	slowRequest   = time.Second // from there on a request is worth a line of its own
	maxSlow       = 10
)

// targets are the members that clients send requests to.
type targets struct {
	mu     sync.Mutex // guards what follows
	list   []*member
	flying map[*member]int // requests that are on their way
}

// take returns the i-th target, going round; done has to be called when the request has ended.
func (t *targets) take(i int) (m *member, done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m = t.list[i%len(t.list)]
	t.flying[m]++
	return m, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.flying[m]--; t.flying[m] == 0 {
			delete(t.flying, m)
		}
	}
}

// only sets the targets.
func (t *targets) only(list []*member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = slices.Clone(list)
}

// drained waits until no request is on its way to the member, which is no target any more.
func (t *targets) drained(ctx context.Context, m *member) error {
	return poll(ctx, 30*time.Second, "no request on its way to "+m.name, func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.flying[m] == 0
	})
}

// tally counts what became of requests to members that were to answer.
type tally struct {
	acknowledged, read           atomic.Int64
	refused, unknown, unanswered atomic.Int64 // 503, 504, no answer at all
	latency                      atomic.Pointer[histogram]

	mu     sync.Mutex // guards what follows
	faults int        // answers that must not be
	texts  []string   // the first faults

	slowest []slow // the slowest requests, in no order
}

func (t *tally) fault(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.faults++; len(t.texts) < maxFaultTexts {
		t.texts = append(t.texts, fmt.Sprintf(format, args...))
	}
}

// slow is a request that took long.
type slow struct {
	start               time.Time
	took                time.Duration
	method, key, member string
}

func (t *tally) noteSlow(s slow) {
	if s.took < slowRequest {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slowest = append(t.slowest, s); len(t.slowest) > maxSlow {
		slices.SortFunc(t.slowest, func(a, b slow) int { return cmp.Compare(b.took, a.took) })
		t.slowest = t.slowest[:maxSlow]
	}
}

// errors is everything but the right answer.
func (t *tally) errors() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused.Load() + t.unknown.Load() + t.unanswered.Load() + int64(t.faults)
}

// load is clients that write and read, and what they know.
type load struct {
	client  *client
	ledger  *ledger
	targets targets
	tally   tally
	stop    chan struct{} // closed to end the writers
	writers sync.WaitGroup
}

func newLoad(o options) *load {
	l := &load{client: newClient(o.load + 64), ledger: newLedger(), stop: make(chan struct{})}
	l.targets.flying = map[*member]int{}
	l.tally.latency.Store(&histogram{})
	return l
}

// slot is one key as its writer sees it.
type slot struct {
	key       string
	partition int
	etag      string // of the entry as the writer knows it; empty: absent
	unsure    bool   // the entry has to be read before it is written again
	open      bool   // a write of unknown outcome may still take place
}

// run starts the writers. They end when stop is closed.
func (l *load) run(ctx context.Context, writers int) {
	for w := range writers {
		slots := make([]slot, keysOfWriter)
		for i := range slots {
			slots[i].key = fmt.Sprintf("w%d-%d", w, i)
		}
		l.writers.Go(func() { l.writeAll(ctx, w, slots) })
	}
}

func (l *load) writeAll(ctx context.Context, w int, slots []slot) {
	for i := 0; ; i++ {
		select {
		case <-l.stop:
			return
		case <-ctx.Done():
			return
		default:
		}
		s := &slots[i%len(slots)]
		if !l.write(ctx, s, w) {
			pause(ctx, 5*time.Millisecond)
			continue
		}
		if i%readsEach == 0 {
			l.readThrough(ctx, s.key, w+1+i/readsEach)
		}
	}
}

// finish ends the writers and waits for them.
func (l *load) finish() {
	close(l.stop)
	l.writers.Wait()
}

// write writes the next number to the key, through the i-th target, and reports whether that was acknowledged.
func (l *load) write(ctx context.Context, s *slot, i int) bool {
	m, done := l.targets.take(i)
	defer done()
	if s.unsure && !l.learn(ctx, m, s) {
		return false
	}
	n := l.ledger.begin(s.key)
	condition := []string{"If-None-Match", "*"}
	if s.etag != "" {
		condition = []string{"If-Match", s.etag}
	}
	a, err := l.timed(ctx, http.MethodPut, m, s.key, valueOf(s.key, n), condition...)
	s.unsure = true
	switch {
	case err != nil:
		s.open = true
		l.unanswered(ctx, m, s.key, err)
	case a.status == http.StatusOK || a.status == http.StatusCreated:
		l.acknowledged(s, n, a)
		return true
	case a.status == http.StatusServiceUnavailable:
		l.ledger.refuse(s.key, n)
		s.unsure = false
		l.tally.refused.Add(1)
	case a.status == http.StatusGatewayTimeout:
		s.open = true
		l.tally.unknown.Add(1)
	case a.status == http.StatusPreconditionFailed:
		l.ledger.refuse(s.key, n)
		if !s.open { // nobody else writes this key
			l.tally.fault("%s PUT %s = %d on %v: the condition fails: %s", m.name, s.key, n, condition, a.body)
		}
	default:
		s.open = true
		l.tally.fault("%s PUT %s: %d %s", m.name, s.key, a.status, a.body)
	}
	return false
}

func (l *load) acknowledged(s *slot, n int, a answer) {
	l.ledger.acknowledged(s.key, n)
	l.tally.acknowledged.Add(1)
	s.etag, s.unsure, s.open = a.etag, false, false
	var put struct{ Partition int }
	if err := json.Unmarshal([]byte(a.body), &put); err != nil || a.etag == "" {
		l.tally.fault("the answer to a put of %s has no etag or partition: %s", s.key, a.body)
	}
	s.partition = put.Partition
}

// learn reads the key after a write of unknown outcome, so that the next write has a condition.
func (l *load) learn(ctx context.Context, m *member, s *slot) bool {
	a, ok := l.read(ctx, m, s.key)
	if ok {
		s.etag, s.unsure = a.etag, false
	}
	return ok
}

// readThrough reads a key through the i-th target.
func (l *load) readThrough(ctx context.Context, key string, i int) {
	m, done := l.targets.take(i)
	defer done()
	l.read(ctx, m, key)
}

// read reads a key through a member that is to answer, and judges the answer.
func (l *load) read(ctx context.Context, m *member, key string) (answer, bool) {
	floor := l.ledger.floor(key)
	a, err := l.timed(ctx, http.MethodGet, m, key, "")
	switch {
	case err != nil:
		l.unanswered(ctx, m, key, err)
		return a, false
	case a.status == http.StatusServiceUnavailable:
		l.tally.refused.Add(1)
		return a, false
	case a.status == http.StatusGatewayTimeout:
		l.tally.unknown.Add(1)
		return a, false
	}
	if err := l.judge(key, floor, a); err != nil {
		l.tally.fault("%s: %v", m.name, err)
		return a, false
	}
	l.tally.read.Add(1)
	return a, true
}

// judge returns what is wrong with a status 200 or 404; other statuses are wrong.
func (l *load) judge(key string, floor int, a answer) error {
	n := 0
	switch a.status {
	case http.StatusNotFound:
	case http.StatusOK:
		var err error
		if n, err = numberIn(key, a.body); err != nil {
			return err
		}
	default:
		return fmt.Errorf("GET %s: %d %s", key, a.status, a.body)
	}
	return l.ledger.check(key, floor, n)
}

func (l *load) timed(ctx context.Context, method string, m *member, key, body string, headers ...string) (answer, error) {
	start := time.Now()
	a, err := l.client.do(ctx, method, m.http+mapPath+key, body, headers...)
	if took := time.Since(start); ctx.Err() == nil {
		l.tally.latency.Load().add(took)
		l.tally.noteSlow(slow{start, took, method, key, m.name})
	}
	return a, err
}

func (l *load) unanswered(ctx context.Context, m *member, key string, err error) {
	if ctx.Err() != nil {
		return // it is this program that has given up
	}
	if l.tally.unanswered.Add(1) == 1 {
		l.tally.mu.Lock()
		defer l.tally.mu.Unlock()
		l.tally.texts = append(l.tally.texts, fmt.Sprintf("no answer from %s about %s: %v", m.name, key, err))
	}
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// poll asks until it is so. Its error says that it was not so within the limit.
func poll(ctx context.Context, limit time.Duration, what string, so func() bool) error {
	for end := time.Now().Add(limit); !so(); pause(ctx, 5*time.Millisecond) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: not within %v: %s", errProduct, limit, what)
		}
	}
	return nil
}
