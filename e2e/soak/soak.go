package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

const (
	cleanupDelay = 2 * time.Second
	pollEvery    = 200 * time.Millisecond
	safeLimit    = time.Minute      // for the cluster to recover from one fault
	endLimit     = 3 * time.Minute  // for the last jobs, and for the last cleanups
	patience     = time.Minute      // for one request to be taken
	legLimit     = 2 * time.Minute  // for one leg of a job to come to where it is to be stopped, and to end then
	pointLimit   = 20 * time.Second // for a member to come to a point
	maxRetained  = 3                // checkpoint.max-retained
)

// config is what a run is told.
type config struct {
	jobs, faults, members int
	seed                  uint64
	span                  time.Duration
	keep                  string
	files                 bool // checkpoints are kept in files, too
	slots                 int  // of each member; 0: as many as are asked for
}

// waits lengthens a limit for jobs that have to wait for slots.
func (c config) waits(limit time.Duration) time.Duration {
	if c.slots > 0 {
		return 4 * limit
	}
	return limit
}

// run is one run of the program.
type run struct {
	cfg    config
	dir    string
	fleet  *fleet
	ledger *ledger
	start  time.Time
	out    *lineWriter
	done   map[faultKind]int // of the goroutine of faults
	missed int               // points that nobody came to; of the same
	baits  int               // jobs that were submitted for points; of the same
	jobs   sync.WaitGroup

	checkers sync.WaitGroup
	stop     context.CancelFunc // of the checkers
	checking context.Context
}

// lineWriter writes whole lines with the time since the start.
type lineWriter struct {
	mu    sync.Mutex
	w     io.Writer
	start time.Time
}

func (l *lineWriter) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%7.1fs  %s\n", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}

// soak runs a plan and returns how many violations there were. It leaves no process behind.
func soak(ctx context.Context, cfg config, w io.Writer) (bad int, err error) {
	dir := cfg.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "gridnode-soak-"); err != nil {
			return 0, err
		}
		defer func() {
			if bad == 0 && err == nil {
				err = os.RemoveAll(dir)
			}
		}()
	}
	r := &run{cfg: cfg, dir: dir, start: time.Now(), ledger: newLedger(committed), done: map[faultKind]int{}}
	r.out = &lineWriter{w: w, start: r.start}
	r.out.say("seed %d, %d jobs and %d faults in %v, logs in %s", cfg.seed, cfg.jobs, cfg.faults, cfg.span, dir)
	if err := r.begin(ctx); err != nil {
		return 0, err
	}
	defer r.end()
	err = r.play(ctx)
	r.finish(ctx)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	for i, v := range r.ledger.violations() {
		if i < 40 {
			r.out.say("VIOLATION %s: %s", v.class, v.text)
		}
	}
	text, bad := r.ledger.summary()
	_, _ = fmt.Fprintf(w, "soak seed=%d %s faults=%d kills=%d points=%d stops=%d rolling=%d seconds=%.0f\n", cfg.seed, text, r.total(),
		r.done[killMember]+r.done[killMaster]+2*r.done[killTwo]+r.done[killPoint], r.done[killPoint], r.done[stopMember]+r.done[stopMaster], r.done[rolling],
		time.Since(r.start).Seconds())
	return bad, err
}

func (r *run) total() int {
	n := 0
	for _, k := range r.done {
		n += k
	}
	return n
}

// begin builds the program and forms the cluster.
func (r *run) begin(ctx context.Context) error {
	binary := filepath.Join(r.dir, "gridnode")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "gridnode/cmd/gridnode").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	backups := 1
	if r.cfg.members >= 5 {
		backups = 2
	}
	r.fleet = &fleet{
		binary: binary, dir: r.dir, name: fmt.Sprint("soak-", os.Getpid()), size: r.cfg.members,
		args: []string{"--backup-count", fmt.Sprint(backups), "--set", fmt.Sprintf("engine.state-cleanup-delay-ms=%d", cleanupDelay.Milliseconds()),
			"--log-level", "debug"},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}},
		joined: r.check,
	}
	if r.cfg.slots > 0 {
		r.fleet.args = append(r.fleet.args, "--set", "engine.slot-service.dynamic-slot=false", "--set", fmt.Sprintf("engine.slot-service.slot-num=%d", r.cfg.slots),
			"--set", "engine.job-schedule-strategy=WAIT")
	}
	if r.cfg.files {
		r.fleet.args = append(r.fleet.args, "--set", "engine.checkpoint.storage.type=localfile", "--set", "engine.checkpoint.storage.namespace="+r.checkpoints())
	}
	r.checking, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	for range r.cfg.members {
		if _, err := r.fleet.add(ctx); err != nil {
			r.end()
			return err
		}
	}
	if err := r.fleet.awaitSafe(ctx, safeLimit); err != nil {
		r.end()
		return err
	}
	r.out.say("%d members, %d backups, safe", r.cfg.members, backups)
	return nil
}

func (r *run) end() {
	r.stop()
	r.checkers.Wait()
	r.fleet.end()
}

// play lets jobs and faults happen, and waits for both.
func (r *run) play(ctx context.Context) error {
	p := newPlan(r.cfg.seed, r.cfg.jobs, r.cfg.faults, r.cfg.span, r.cfg.members >= 5)
	began := time.Now()
	for i, j := range p.jobs {
		r.jobs.Go(func() { r.job(ctx, i, j, began) })
	}
	var err error
	for _, f := range p.faults {
		if pause(ctx, time.Until(began.Add(f.at))) != nil || time.Since(began) > 2*r.cfg.span {
			break
		}
		if err = r.strike(ctx, f); err != nil && !errors.Is(err, errNotThere) {
			r.ledger.violate(unanswered, "after %s: %v", f.kind, err)
			break
		}
		if err == nil {
			r.done[f.kind]++
		}
	}
	r.jobs.Wait()
	return ctx.Err()
}

// persist repeats a request, with one member after the other, until one has taken it.
func (r *run) persist(ctx context.Context, rng *rand.Rand, ask func(*member) bool, what string) {
	limit := r.cfg.waits(patience)
	for end := time.Now().Add(limit); ; {
		if all := r.fleet.awake(); len(all) > 0 && ask(all[rng.IntN(len(all))]) {
			return
		}
		if time.Now().After(end) {
			r.ledger.violate(unanswered, "nobody takes %s within %v", what, limit)
			return
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
}

// finish waits for all ends and all cleanups, and judges what is left and what was put out.
func (r *run) finish(ctx context.Context) {
	if err := r.fleet.awaitSafe(ctx, safeLimit); err != nil {
		r.ledger.violate(unanswered, "at the end: %v", err)
	}
	r.out.say("faults are over, %d jobs have not ended yet", len(r.ledger.open()))
	for end := time.Now().Add(endLimit); len(r.ledger.open()) > 0 && time.Now().Before(end); {
		if pause(ctx, pollEvery) != nil {
			return
		}
	}
	r.forget(ctx)
	left := errors.New("not asked yet")
	for end := time.Now().Add(endLimit); left != nil && time.Now().Before(end); {
		if left = r.leftovers(ctx); left != nil && pause(ctx, pollEvery) != nil {
			return
		}
	}
	if left != nil {
		r.ledger.violate(orphan, "after %v: %v", endLimit, left)
	}
	_ = pause(ctx, 2*pollEvery) // everybody is asked once more after the last cleanup
	for _, id := range r.ledger.ids() {
		dir := r.dirOf(id)
		r.ledger.output(id, lines(dir), tree(filepath.Join(dir, "tmp")))
	}
	r.counts(ctx)
}

// checkpoints is where checkpoints are kept in files.
func (r *run) checkpoints() string { return filepath.Join(r.dir, "checkpoints") }

func (r *run) dirOf(id string) string {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	return r.ledger.jobs[id].dir
}
