package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/checkpointdir"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// withDir makes a grid store its checkpoints in a directory, too.
func withDir(t *testing.T, dir string, out *enginetest.Output) enginetest.Options {
	files, err := checkpointdir.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return enginetest.Options{Output: out, Tune: func(c *engine.Config) { c.Checkpoint.Storage = files }}
}

// stored returns the files of checkpoints, the oldest first.
func stored(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.ckpt"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b string) int { return len(a) - len(b) + strings.Compare(a, b) })
	return files
}

// C023, as far as it goes without persistence: all members are lost at once, in the middle of a job or after a savepoint. A new cluster goes on from the directory, and each row comes once.
// It is Z3 of zetaRows.
func TestStorage_AllMembersLost(t *testing.T) {
	for name, savepoint := range map[string]bool{"running": false, "savepoint": true} {
		t.Run(name, func(t *testing.T) {
			dir, out, spec := t.TempDir(), enginetest.NewOutput(), flow(plugin.Streaming)
			onGrid(t, withDir(t, dir, out), func(ctx context.Context, c *cluster) {
				c.submit(ctx, "41", spec)
				time.Sleep(100 * time.Millisecond)
				if savepoint {
					c.savepoint(ctx, "41")
					c.waitFor(ctx, "41", engine.JobSavepointDone)
					c.wantEmpty(ctx, 2*time.Minute)
					if got := stored(t, dir); len(got) != 1 {
						t.Errorf("stored after the savepoint: %v, want exactly that", got)
					}
				}
			})
			onGrid(t, withDir(t, dir, out), func(ctx context.Context, c *cluster) {
				c.resume(ctx, "41", spec)
				c.awaitRows(ctx, "41", spec.Want())
				c.stop(ctx, "41")
				c.waitFor(ctx, "41", engine.JobCanceled)
				c.wantEmpty(ctx, 2*time.Minute)
				if left, _ := os.ReadDir(dir); len(left) > 0 {
					t.Errorf("left in the directory of a canceled job: %v", left)
				}
			})
		})
	}
}

// C025: a corrupt file is named; an older one is used, and that is said; without one the job does not begin from zero.
func TestStorage_CorruptFiles(t *testing.T) {
	for name, corrupt := range map[string]int{"newest": 1, "all": 99} {
		t.Run(name, func(t *testing.T) {
			dir, out, spec := t.TempDir(), enginetest.NewOutput(), flow(plugin.Streaming)
			onGrid(t, withDir(t, dir, out), func(ctx context.Context, c *cluster) {
				c.submit(ctx, "41", spec)
				time.Sleep(150 * time.Millisecond)
			})
			files := stored(t, dir)
			if len(files) < 2 {
				t.Fatalf("stored: %v", files)
			}
			slices.Reverse(files)
			bad := files[:min(corrupt, len(files))]
			for _, f := range bad {
				if err := os.WriteFile(f, make([]byte, 10), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var log bytes.Buffer // read when the members are gone
			opts := withDir(t, dir, out)
			opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
			defer func() {
				if said := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), files[0]); said != (corrupt == 1) {
					t.Errorf("the log names the file that is passed over: %v", said)
				}
			}()
			onGrid(t, opts, func(ctx context.Context, c *cluster) {
				res, err := c.Any().Submit(ctx, engine.SubmitRequest{JobID: "41", Config: spec.JSON(), StartWithSavepoint: true})
				if corrupt > 1 {
					if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), files[0]) {
						t.Errorf("Submit = %v, want a refusal that names %s", err, files[0])
					}
					return
				}
				if err != nil || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], files[0]) {
					t.Fatalf("Submit = %+v, %v, want a warning that names %s", res, err, files[0])
				}
				c.waitFor(ctx, "41", engine.JobRunning)
			})
		})
	}
}

// While the cluster lives the grid is the truth: a damaged file does no harm.
func TestStorage_CorruptFileOfALiveJob(t *testing.T) {
	dir, spec := t.TempDir(), flow(plugin.Streaming)
	onGrid(t, withDir(t, dir, nil), func(ctx context.Context, c *cluster) {
		c.submit(ctx, "41", spec)
		for len(stored(t, dir)) < 2 {
			time.Sleep(time.Millisecond)
		}
		for _, f := range stored(t, dir) {
			if err := os.WriteFile(f, make([]byte, 10), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c.Kill(c.Master())
		c.awaitRows(ctx, "41", spec.Want())
	})
}

// A checkpoint that cannot be stored is given up, and the figures say why. The job goes on, and puts out when it can be stored again.
func TestStorage_Fails(t *testing.T) {
	dir, spec := t.TempDir(), flow(plugin.Streaming)
	blocked := filepath.Join(dir, "41")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil { // no directory can be made there
		t.Fatal(err)
	}
	onGrid(t, withDir(t, dir, nil), func(ctx context.Context, c *cluster) {
		c.submit(ctx, "41", spec)
		figures := func() engine.PipelineCheckpoints {
			m := try(ctx, c, func(s *engine.Service) (engine.JobCheckpoints, error) { return s.Checkpoints(ctx, "41") })
			if len(m.Pipelines) == 0 {
				return engine.PipelineCheckpoints{}
			}
			return m.Pipelines[0]
		}
		for figures().Failed < 2 {
			time.Sleep(time.Millisecond)
		}
		if p := figures(); p.Completed > 0 || p.LatestFailed == nil || !strings.Contains(p.LatestFailed.Reason, blocked) {
			t.Errorf("figures = %+v", p)
		}
		if n, _ := c.Output.Rows("41"); n > 0 {
			t.Errorf("%d rows are visible before anything was stored", n)
		}
		if err := os.Remove(blocked); err != nil {
			t.Fatal(err)
		}
		c.awaitRows(ctx, "41", spec.Want())
		if p := figures(); p.Completed == 0 || len(p.History) > 32 || p.LatestCompleted == nil || p.LatestCompleted.Bytes == 0 {
			t.Errorf("figures = %+v", p)
		}
	})
}

// C188: what is in the directory after each end of a job: nothing, the savepoint, or at most max-retained. C187: what is kept of a job that failed goes with
// its history, also when nobody remembers the job any more.
func TestStorage_AfterEachEnd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		end         engine.JobStatus
		least, most int
	}{
		{engine.JobFinished, 0, 0}, {engine.JobCanceled, 0, 0}, {engine.JobSavepointDone, 1, 1}, {engine.JobFailed, 1, 2},
	} {
		t.Run(string(test.end), func(t *testing.T) {
			dir, out := t.TempDir(), enginetest.NewOutput()
			options := func() enginetest.Options {
				o := withDir(t, dir, out)
				tune := o.Tune
				o.Tune = func(c *engine.Config) { tune(c); c.HistoryTTL, c.Checkpoint.MaxRetained = 10*time.Minute, 2 }
				return o
			}
			count := func(when string, least, most int) {
				t.Helper()
				if n := len(stored(t, dir)); n < least || n > most {
					t.Errorf("%s there are %d files, want %d to %d", when, n, least, most)
				}
			}
			onGrid(t, options(), func(ctx context.Context, c *cluster) {
				spec := flow(plugin.Streaming)
				switch test.end {
				case engine.JobFinished:
					spec.Mode = plugin.Batch
				case engine.JobFailed:
					spec.FailAt, spec.FailAttempts, spec.Permanent = 25, 1, true
				}
				c.submit(ctx, "41", spec)
				for len(stored(t, dir)) == 0 {
					time.Sleep(time.Millisecond)
				}
				part := filepath.Join(filepath.Dir(stored(t, dir)[0]), ".part-1") // of a member that died while it wrote
				if err := os.WriteFile(part, []byte("half"), 0o600); err != nil {
					t.Fatal(err)
				}
				switch test.end {
				case engine.JobCanceled:
					time.Sleep(100 * time.Millisecond)
					c.stop(ctx, "41")
				case engine.JobSavepointDone:
					time.Sleep(100 * time.Millisecond)
					c.savepoint(ctx, "41")
				}
				c.waitFor(ctx, "41", test.end)
				time.Sleep(10 * time.Second)
				count("10 s after the end", test.least, test.most)
				if _, err := os.Stat(part); err == nil {
					t.Errorf("%s is there still", part)
				}
				time.Sleep(5 * time.Minute)
				count("within the time of the history", test.least, test.most)
			})
			onGrid(t, options(), func(ctx context.Context, c *cluster) { // all members were lost
				time.Sleep(20 * time.Minute)
				if test.end != engine.JobSavepointDone {
					test.least, test.most = 0, 0
				}
				count("when the history is over", test.least, test.most)
				if left, _ := os.ReadDir(dir); test.most == 0 && len(left) > 0 {
					t.Errorf("left in the directory: %v", left)
				}
			})
		})
	}
}

// C011: a job that has finished does not run again when all members are lost and new ones find its directory; nor can it be started from there.
func TestStorage_FinishedJobIsOver(t *testing.T) {
	dir, out, spec := t.TempDir(), enginetest.NewOutput(), flow(plugin.Batch)
	onGrid(t, withDir(t, dir, out), func(ctx context.Context, c *cluster) {
		c.submit(ctx, "41", spec)
		c.waitFor(ctx, "41", engine.JobFinished)
		c.wantEmpty(ctx, 2*time.Minute)
	})
	onGrid(t, withDir(t, dir, out), func(ctx context.Context, c *cluster) {
		time.Sleep(time.Minute)
		if ids := c.running(ctx); len(ids) > 0 {
			t.Errorf("jobs run: %v", ids)
		}
		if _, err := c.Any().Submit(ctx, engine.SubmitRequest{JobID: "41", Config: spec.JSON(), StartWithSavepoint: true}); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("a start from a savepoint of a finished job: %v", err)
		}
		c.wantRows("41", spec.Want())
	})
}
