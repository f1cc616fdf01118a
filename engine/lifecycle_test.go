package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

const ms = enginetest.Duration(time.Millisecond)

func TestBatchJobFinishes(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		spec := enginetest.Spec{Name: "two", Pipelines: 2, Parallelism: 3, Rows: 20, Pause: 2 * ms}
		c.submit(ctx, "7", spec)
		v := c.waitFor(ctx, "7", engine.JobFinished)
		c.wantRows("7", spec.Want())
		if v.Metrics.SourceRows != 120 || v.Metrics.SinkRows != 120 || v.Metrics.Tables["t1"].SinkRows != 60 || v.Metrics.SinkQPS <= 0 {
			t.Errorf("metrics = %+v", v.Metrics)
		}
		if v.JobName != "two" || v.StartTime.Before(v.CreateTime) || v.FinishTime.Before(v.StartTime) || len(v.DAG.Vertices) != 6 {
			t.Errorf("view = %+v", v)
		}
		if got := c.running(ctx); len(got) != 0 {
			t.Errorf("running = %v after the end", got)
		}
		if n := c.Output.Attempts("7"); n != 6 {
			t.Errorf("%d attempts, want 6", n)
		}
		c.wantEmpty(ctx, 2*time.Minute)
		if got := c.info(ctx, "7"); got.Status != engine.JobFinished || got.Metrics.SinkRows != 120 {
			t.Errorf("history = %+v", got)
		}
	})
}

func TestStreamingJobRunsUntilItIsStopped(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "8", enginetest.Spec{Mode: plugin.Streaming, Parallelism: 2, Rows: 5})
		c.waitFor(ctx, "8", engine.JobRunning)
		time.Sleep(time.Minute)
		v := c.info(ctx, "8")
		if v.Status != engine.JobRunning || v.Metrics.SourceRows != 10 || v.Restarts != 0 {
			t.Errorf("after a minute: %s, metrics %+v, %d restarts", v.Status, v.Metrics, v.Restarts)
		}
		c.stop(ctx, "8")
		c.waitFor(ctx, "8", engine.JobCanceled)
		c.wantEmpty(ctx, 2*time.Minute)
	})
}

// Z21 of zetaRows: see there.
func TestFailures(t *testing.T) {
	base := enginetest.Spec{Parallelism: 2, Rows: 10, Pause: 5 * ms, RetryAfter: 500 * ms}
	for name, test := range map[string]struct {
		change   func(*enginetest.Spec)
		status   engine.JobStatus
		cause    string
		restarts int
	}{
		"is restarted":        {func(s *enginetest.Spec) { s.FailAt, s.FailAttempts, s.Retries = 5, 2, 3 }, engine.JobFinished, "", 2},
		"uses its retries up": {func(s *enginetest.Spec) { s.FailAt, s.FailAttempts, s.Retries = 5, 9, 2 }, engine.JobFailed, "row 5 cannot be read", 2},
		"no retries":          {func(s *enginetest.Spec) { s.FailAt, s.FailAttempts = 5, 9 }, engine.JobFailed, "row 5 cannot be read", 0},
		"permanent":           {func(s *enginetest.Spec) { s.FailAt, s.FailAttempts, s.Retries, s.Permanent = 5, 9, 3, true }, engine.JobFailed, "row 5 is bad", 0},
		"panic":               {func(s *enginetest.Spec) { s.FailAt, s.FailAttempts, s.Panic = 5, 9, true }, engine.JobFailed, "row of bad data", 0},
		"check fails":         {func(s *enginetest.Spec) { s.CheckError, s.Retries = "too few rows", 3 }, engine.JobFailed, "too few rows", 0},
		"uses its retries up, with much to say": {func(s *enginetest.Spec) { s.FailAt, s.FailAttempts, s.Retries, s.FailBytes = 5, 9, 2, 6<<20 },
			engine.JobFailed, "(all 2 restarts of job.retry.times are used up)", 2},
		"permanent, with much to say":   {func(s *enginetest.Spec) { s.FailAt, s.FailAttempts, s.Permanent, s.FailBytes = 5, 9, true, 6<<20 }, engine.JobFailed, "row 5 is bad", 0},
		"panic, with much to say":       {func(s *enginetest.Spec) { s.FailAt, s.FailAttempts, s.Panic, s.FailBytes = 5, 9, true, 6<<20 }, engine.JobFailed, "row of bad data", 0},
		"check fails, with much to say": {func(s *enginetest.Spec) { s.CheckError = "too few rows" + strings.Repeat("ä", 1<<20) }, engine.JobFailed, "too few rows", 0},
		"commit fails some times":       {func(s *enginetest.Spec) { s.CommitErrors = 3 }, engine.JobFinished, "", 0},
		"commit fails for good":         {func(s *enginetest.Spec) { s.CommitErrors = 1000 }, engine.JobFailed, "the disk is full", 0},
	} {
		t.Run(name, func(t *testing.T) {
			onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
				spec := base
				test.change(&spec)
				c.submit(ctx, "9", spec)
				v := c.waitFor(ctx, "9", test.status)
				if !strings.Contains(v.ErrorMsg, test.cause) || (v.ErrorMsg == "") != (test.cause == "") {
					t.Errorf("cause = %q, want %q in it", v.ErrorMsg, test.cause)
				}
				if len(v.ErrorMsg) > 16<<10 || !utf8.ValidString(v.ErrorMsg) {
					t.Errorf("the cause has %d bytes: every list shows it", len(v.ErrorMsg))
				}
				if v.Restarts != test.restarts {
					t.Errorf("restarts = %d, want %d", v.Restarts, test.restarts)
				}
				want := spec.Want()
				if test.status != engine.JobFinished {
					want = 0
				}
				c.wantRows("9", want)
				c.wantEmpty(ctx, 2*time.Minute)
				if n := c.Output.Leftovers("9"); n > 0 {
					t.Errorf("%d prepared outputs are left", n)
				}
			})
		})
	}
}

// D10, C018: a pipeline that fails for good takes its siblings with it.
func TestFailedPipelineCancelsSiblings(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "10", enginetest.Spec{Pipelines: 3, Parallelism: 2, Rows: 100, Pause: 100 * ms, FailAt: 3, FailAttempts: 9, FailPipeline: 2})
		v := c.waitFor(ctx, "10", engine.JobFailed)
		if !strings.Contains(v.ErrorMsg, "task 2/4/") {
			t.Errorf("cause = %q, want the task of pipeline 2", v.ErrorMsg)
		}
		if age := v.FinishTime.Sub(v.CreateTime); age > 5*time.Second {
			t.Errorf("the end took %v: the siblings were waited for", age)
		}
		c.wantRows("10", 0)
	})
}

// C036, C037, C047, D3, D4: any member answers; ids are used once; unknown and ended jobs cannot be stopped.
func TestRequests(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		spec := enginetest.Spec{Rows: 100, Pause: 20 * ms}
		c.submit(ctx, "7009", spec)
		c.waitFor(ctx, "7009", engine.JobRunning)
		for i, id := range append(c.Workers(), c.Master()) {
			res, err := c.Service(id).Submit(ctx, engine.SubmitRequest{JobID: "7009", Config: spec.JSON()})
			if err != nil || res.JobID != "7009" || res.Status != engine.JobRunning {
				t.Errorf("repeat %d on %s = %+v, %v", i, id, res, err)
			}
		}
		c.waitFor(ctx, "7009", engine.JobFinished)
		c.wantRows("7009", 100)
		svc := c.Any()
		var later *engine.RetryAfterError
		if _, err := svc.Submit(ctx, engine.SubmitRequest{JobID: "7009", Config: spec.JSON()}); !errors.As(err, &later) || later.After <= 0 {
			t.Errorf("submit inside the cleanup window = %v, want a RetryAfterError", err)
		}
		if res, err := svc.Submit(ctx, engine.SubmitRequest{JobID: "7009", Config: spec.JSON(), SubmitKey: "key-7009"}); err != nil || res.Status != engine.JobFinished {
			t.Errorf("the same submit again = %+v, %v", res, err)
		}
		if err := svc.Stop(ctx, engine.StopRequest{JobID: "7009"}); !errors.Is(err, engine.ErrConflict) || !strings.Contains(err.Error(), "already FINISHED") {
			t.Errorf("stop of an ended job = %v", err)
		}
		if err := svc.Stop(ctx, engine.StopRequest{JobID: "123456789"}); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("stop of an unknown job = %v", err)
		}
		if _, err := svc.Info(ctx, "123456789"); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("info of an unknown job = %v", err)
		}
		c.wantEmpty(ctx, 2*time.Minute)
		_, err := svc.Submit(ctx, engine.SubmitRequest{JobID: "7009", Config: spec.JSON()})
		if !errors.Is(err, engine.ErrConflict) || errors.As(err, &later) || !strings.Contains(err.Error(), "used before") {
			t.Errorf("submit of an ended job = %v", err)
		}
	})
}

func TestBadRequests(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		good := enginetest.Spec{Rows: 1}.JSON()
		for _, test := range []struct {
			req  engine.SubmitRequest
			want string
		}{
			{engine.SubmitRequest{JobID: "abc", Config: good}, `"abc"`},
			{engine.SubmitRequest{JobID: "9223372036854775808", Config: good}, `"9223372036854775808"`},
			{engine.SubmitRequest{JobID: "0", Config: good}, `"0"`},
			{engine.SubmitRequest{JobID: "-1", Config: good}, `"-1"`},
			{engine.SubmitRequest{Config: good, JobName: strings.Repeat("x", 1025)}, "jobName has 1025 bytes"},
			{engine.SubmitRequest{Config: good, JobName: "a\x1b[31mb"}, "control character at byte 1"},
			{engine.SubmitRequest{Config: good, JobName: "one\ntwo"}, "jobName"},
			{engine.SubmitRequest{Config: good, JobName: "a\xff"}, "UTF-8"},
			{engine.SubmitRequest{Config: good, JobName: " "}, "jobName is blank"},
			{engine.SubmitRequest{Config: enginetest.Spec{Rows: 1, Name: "null\x00"}.JSON()}, `"job.name"`},
			{engine.SubmitRequest{Config: []byte("{")}, "config"},
			{engine.SubmitRequest{Config: enginetest.Spec{Rows: -1}.JSON()}, `option "rows"`},
			{engine.SubmitRequest{Config: good, StartWithSavepoint: true}, "jobId"},
			{engine.SubmitRequest{JobID: "5", Config: good, StartWithSavepoint: true}, "savepoint of job 5"},
		} {
			if _, err := c.Any().Submit(ctx, test.req); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Submit(%q, savepoint %v) = %v, want ErrInvalid with %s", test.req.JobID, test.req.StartWithSavepoint, err, test.want)
			}
		}
		if err := c.Any().Stop(ctx, engine.StopRequest{JobID: "5", Savepoint: true}); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("Stop with savepoint = %v", err)
		}
		c.wantEmpty(ctx, time.Second)
	})
}

func TestChosenIDs(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		// So many choose in one millisecond, on all members, that some choose the same id.
		const jobs = 200
		var results [jobs]engine.SubmitResult
		var wg sync.WaitGroup
		for i := range jobs {
			wg.Go(func() {
				var err error
				svc := c.Service(c.Workers()[i%len(c.Workers())])
				results[i], err = svc.Submit(ctx, engine.SubmitRequest{Config: enginetest.Spec{Rows: 1}.JSON(), JobName: fmt.Sprint("named-", i)})
				if err != nil {
					t.Errorf("Submit: %v", err)
				}
			})
		}
		wg.Wait()
		seen := map[string]bool{}
		for i, res := range results {
			if seen[res.JobID] || len(res.JobID) > 16 || res.JobName != fmt.Sprint("named-", i) {
				t.Fatalf("job %d: %+v, which another job may have been before", i, res)
			}
			seen[res.JobID] = true
		}
		var first string
		for _, id := range append(c.Workers(), c.Master()) {
			res, err := c.Service(id).Submit(ctx, engine.SubmitRequest{Config: enginetest.Spec{Rows: 1}.JSON(), SubmitKey: "once"})
			if err != nil || first != "" && res.JobID != first {
				t.Errorf("repeat of a submit key on %s = %+v, %v, want job %s", id, res, err, first)
			}
			first = res.JobID
		}
	})
}

// C051, C052: each accepted job is in exactly one count, on every member and after failovers.
func TestCountsAddUp(t *testing.T) {
	onGrid(t, enginetest.Options{Members: 4}, func(ctx context.Context, c *cluster) {
		for i := range 3 {
			c.submit(ctx, fmt.Sprint(100+i), enginetest.Spec{Rows: 5})
		}
		for i := range 2 {
			c.submit(ctx, fmt.Sprint(200+i), enginetest.Spec{Rows: 5, FailAt: 1, FailAttempts: 1})
		}
		for _, id := range []string{"300", "400"} {
			c.submit(ctx, id, enginetest.Spec{Mode: plugin.Streaming, Rows: 5, Retries: 9})
			c.waitFor(ctx, id, engine.JobRunning)
		}
		c.stop(ctx, "300")
		check := func(when string) {
			t.Helper()
			o := c.overview(ctx)
			if o.Finished != 3 || o.Failed != 2 || o.Canceled != 1 || o.Running != 1 || o.Pending != 0 {
				t.Errorf("%s: %+v", when, o)
			}
			if got := c.running(ctx); len(got) != 1 || got[0] != "400" {
				t.Errorf("%s: running = %v", when, got)
			}
			fin := try(ctx, c, func(s *engine.Service) ([]engine.JobView, error) { return s.Finished(ctx, "") })
			if len(fin) != 6 || fin[0].FinishTime.Before(fin[5].FinishTime) {
				t.Errorf("%s: %d finished", when, len(fin))
			}
			for _, part := range []struct{ from, rows, want int }{{0, 4, 4}, {4, 4, 2}, {6, 4, 0}, {99, 4, 0}, {-1, 0, 0}} {
				p := try(ctx, c, func(s *engine.Service) (engine.JobsPage, error) { return s.FinishedPage(ctx, "", part.from, part.rows) })
				if len(p.Jobs) != part.want || p.Total != 6 || part.want > 0 && p.Jobs[0].JobID != fin[part.from].JobID {
					t.Errorf("%s: %d jobs from %d on: %d of %d", when, part.rows, part.from, len(p.Jobs), p.Total)
				}
			}
			if p := try(ctx, c, func(s *engine.Service) (engine.JobsPage, error) { return s.FinishedPage(ctx, engine.JobFailed, 1, 5) }); p.Total != 2 || len(p.Jobs) != 1 {
				t.Errorf("%s: page of the failed ones: %+v", when, p)
			}
		}
		for _, id := range []string{"100", "101", "102"} {
			c.waitFor(ctx, id, engine.JobFinished)
		}
		c.waitFor(ctx, "201", engine.JobFailed)
		c.waitFor(ctx, "200", engine.JobFailed)
		c.waitFor(ctx, "300", engine.JobCanceled)
		check("at first")
		for range 2 {
			c.Kill(c.Master())
			time.Sleep(800 * time.Millisecond)
			c.waitFor(ctx, "400", engine.JobRunning)
			check("after a master's death")
		}
		for range 200 {
			time.Sleep(700 * time.Millisecond)
			check("during the cleanup")
		}
	})
}

func TestReadLimit(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "11", enginetest.Spec{Rows: 1000, RowsPerSec: 100})
		v := c.waitFor(ctx, "11", engine.JobFinished)
		if d := v.FinishTime.Sub(v.StartTime); d < 9*time.Second || d > 12*time.Second {
			t.Errorf("1000 rows at 100 per second took %v", d)
		}
	})
}
