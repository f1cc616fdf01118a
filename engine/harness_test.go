package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gridnode/engine"
	"gridnode/engine/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// liveMaps must be empty once all jobs were cleaned up.
var liveMaps = []string{engine.MapRunningJobInfo, engine.MapRunningJobState, engine.MapStateTimestamps, engine.MapPendingJobCleanup}

// checkpointMaps have entries of jobs that took checkpoints, and of no others.
var checkpointMaps = []string{engine.MapCheckpointID, engine.MapCheckpointMonitor, engine.MapCheckpointData}

// cluster is a running grid with what tests ask of it.
type cluster struct {
	*enginetest.Grid
	t     *testing.T
	rules *engine.Rules // of what is stored; they hold for every test that does not switch them off
}

// onGrid runs a test on a grid of members in a bubble with a fake clock.
func onGrid(t *testing.T, opts enginetest.Options, test func(ctx context.Context, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))) // fake time begins before the epoch of job ids
		if opts.Members == 0 {
			opts.Members = 3
		}
		if opts.Latency == 0 {
			opts.Latency = time.Millisecond
		}
		if opts.Detect == 0 {
			opts.Detect = 700 * time.Millisecond
		}
		if os.Getenv("ENGINE_TEST_LOG") != "" {
			opts.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := &cluster{Grid: enginetest.NewGrid(opts), t: t, rules: engine.NewRules()}
		c.Store.Watch(c.rules.Applied)
		var wg sync.WaitGroup
		ready := make(chan struct{})
		wg.Go(func() { c.Run(ctx, ready) })
		<-ready
		defer func() {
			cancel()
			wg.Wait()
		}()
		test(ctx, c)
		for _, v := range append(c.Output.Violations(), c.rules.Broken()...) {
			t.Error(v)
		}
	})
}

// try repeats a request for as long as the engine says that it may be tried again.
func try[T any](ctx context.Context, c *cluster, f func(*engine.Service) (T, error)) T {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		v, err := f(c.Any())
		if err == nil {
			return v
		}
		if !errors.Is(err, engine.ErrRetryable) && !errors.Is(err, engine.ErrIndeterminate) || time.Now().After(deadline) {
			c.t.Fatal(err)
		}
		if ctx.Err() != nil {
			c.t.Fatal(ctx.Err())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *cluster) submit(ctx context.Context, id string, s enginetest.Spec) {
	c.t.Helper()
	res := try(ctx, c, func(svc *engine.Service) (engine.SubmitResult, error) {
		return svc.Submit(ctx, engine.SubmitRequest{JobID: id, Config: s.JSON(), SubmitKey: "key-" + id})
	})
	if res.JobID != id {
		c.t.Fatalf("Submit = %+v, want job %s", res, id)
	}
}

func (c *cluster) info(ctx context.Context, id string) engine.JobView {
	c.t.Helper()
	return try(ctx, c, func(svc *engine.Service) (engine.JobView, error) { return svc.Info(ctx, id) })
}

// waitFor polls a job until it has a status.
func (c *cluster) waitFor(ctx context.Context, id string, want ...engine.JobStatus) engine.JobView {
	c.t.Helper()
	var v engine.JobView
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		v = c.info(ctx, id)
		for _, s := range want {
			if v.Status == s {
				return v
			}
		}
		if v.Status.Final() {
			break
		}
	}
	c.t.Fatalf("job %s is %s (%s), want %v; tasks %+v", id, v.Status, v.ErrorMsg, want, v.Tasks)
	return v
}

// wantRows checks the visible output of a job, each row once.
func (c *cluster) wantRows(id string, want int) {
	c.t.Helper()
	if n, twice := c.Output.Rows(id); n != want || twice {
		c.t.Errorf("job %s put out %d rows (twice: %v), want %d", id, n, twice, want)
	}
}

// wantEmpty waits for the cleanup and checks that nothing of any job is left but history.
func (c *cluster) wantEmpty(ctx context.Context, within time.Duration) {
	c.t.Helper()
	left := ""
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		left = ""
		for _, m := range liveMaps {
			if n, _ := c.Store.Size(ctx, m); n > 0 {
				left += fmt.Sprintf(" %s: %d", m, n)
			}
		}
		if left == "" {
			return
		}
	}
	c.t.Errorf("left after the cleanup:%s", left)
}

// wantNoneOf checks that maps are empty.
func (c *cluster) wantNoneOf(ctx context.Context, maps []string) {
	c.t.Helper()
	for _, m := range maps {
		if n, _ := c.Store.Size(ctx, m); n > 0 {
			c.t.Errorf("%s has %d entries", m, n)
		}
	}
}

func (c *cluster) running(ctx context.Context) []string {
	c.t.Helper()
	views := try(ctx, c, func(svc *engine.Service) ([]engine.JobView, error) { return svc.Running(ctx) })
	ids := make([]string, len(views))
	for i, v := range views {
		ids[i] = v.JobID
	}
	return ids
}

func (c *cluster) overview(ctx context.Context) engine.Overview {
	c.t.Helper()
	return try(ctx, c, func(svc *engine.Service) (engine.Overview, error) { return svc.Overview(ctx) })
}

func (c *cluster) stop(ctx context.Context, id string) {
	c.t.Helper()
	try(ctx, c, func(svc *engine.Service) (struct{}, error) {
		return struct{}{}, svc.Stop(ctx, engine.StopRequest{JobID: id})
	})
}
