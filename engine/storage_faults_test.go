package engine_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/checkpointdir"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// sickStorage is a storage that fails or hangs when it is told to.
type sickStorage struct {
	engine.CheckpointStorage
	mu   sync.Mutex
	err  error         // of Put
	keep error         // of Clean
	hang chan struct{} // nil: it answers; closed to let those go that hang
}

func (s *sickStorage) fail(err error)         { s.mu.Lock(); s.err = err; s.mu.Unlock() }
func (s *sickStorage) failCleanups(err error) { s.mu.Lock(); s.keep = err; s.mu.Unlock() }

func (s *sickStorage) Clean(ctx context.Context, job, incarnation string, keep []engine.CheckpointRef) error {
	s.mu.Lock()
	err := s.keep
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.CheckpointStorage.Clean(ctx, job, incarnation, keep)
}

// stall makes every call hang until the returned function is called.
func (s *sickStorage) stall() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := make(chan struct{})
	s.hang = ch
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.hang = nil
		s.mu.Unlock()
		close(ch)
	})
}

func (s *sickStorage) wait() error {
	s.mu.Lock()
	hang, err := s.hang, s.err
	s.mu.Unlock()
	if hang != nil {
		<-hang // whatever the caller's context says
	}
	return err
}

func (s *sickStorage) Put(ctx context.Context, r engine.CheckpointRef, data []byte) error {
	if err := s.wait(); err != nil {
		return err
	}
	return s.CheckpointStorage.Put(ctx, r, data)
}

func (s *sickStorage) Settle(ctx context.Context, r engine.CheckpointRef) error {
	_ = s.wait()
	return s.CheckpointStorage.Settle(ctx, r)
}

func (s *sickStorage) Delete(ctx context.Context, r engine.CheckpointRef) error {
	_ = s.wait()
	return s.CheckpointStorage.Delete(ctx, r)
}

func onSick(t *testing.T, test func(ctx context.Context, c *cluster, s *sickStorage)) {
	t.Helper()
	files, err := checkpointdir.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sick := &sickStorage{CheckpointStorage: files}
	onGrid(t, enginetest.Options{Tune: func(c *engine.Config) { c.Checkpoint.Storage = sick }}, func(ctx context.Context, c *cluster) { test(ctx, c, sick) })
}

var errFull = errors.New("write /ckpt/41/x/.part-1: no space left on device")

// await waits until a job is as wanted.
func (c *cluster) await(ctx context.Context, id string, within time.Duration, what string, ok func(engine.JobView) bool) engine.JobView {
	c.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		v := c.info(ctx, id)
		if ok(v) {
			return v
		}
		if time.Since(began) > within {
			c.t.Fatalf("job %s is not %s after %v: %s %q %q", id, what, within, v.Status, v.PendingFor, v.ErrorMsg)
		}
	}
}

// A savepoint that the storage does not take: the job says so meanwhile, ends FAILED after checkpoint.timeout with that cause, and can be started from its
// last checkpoint. If the storage takes it in time, it is done.
func TestStorage_FullDuringASavepoint(t *testing.T) {
	for name, heals := range map[string]bool{"for good": false, "for a while": true} {
		t.Run(name, func(t *testing.T) {
			onSick(t, func(ctx context.Context, c *cluster, s *sickStorage) {
				spec := flow(plugin.Streaming)
				spec.Timeout = 5000 * ms
				c.submit(ctx, "41", spec)
				time.Sleep(100 * time.Millisecond)
				s.fail(errFull)
				asked := time.Now()
				c.savepoint(ctx, "41")
				c.await(ctx, "41", 2*time.Second, "telling", func(v engine.JobView) bool { return strings.Contains(v.PendingFor, "no space left") })
				if heals {
					s.fail(nil)
					v := c.waitFor(ctx, "41", engine.JobSavepointDone)
					if v.PendingFor != "" {
						t.Errorf("the ended job waits for %q", v.PendingFor)
					}
				} else {
					v := c.waitFor(ctx, "41", engine.JobFailed)
					if d := time.Since(asked); d > 8*time.Second || !strings.Contains(v.ErrorMsg, "checkpoint.timeout") || !strings.Contains(v.ErrorMsg, "no space left") {
						t.Errorf("FAILED after %v: %s", d, v.ErrorMsg)
					}
					s.fail(nil)
				}
				c.resume(ctx, "41", spec)
				c.awaitRows(ctx, "41", spec.Want())
				c.stop(ctx, "41")
				c.waitFor(ctx, "41", engine.JobCanceled)
				c.wantEmpty(ctx, 2*time.Minute)
			})
		})
	}
}

// The end of a batch job that the storage does not take: nothing is put out, the job says why, also to the next master, and goes on when it can, or can be
// canceled. Another pipeline of the job is not held up by it.
func TestStorage_FullAtTheEnd(t *testing.T) {
	for name, cancel := range map[string]bool{"heals": false, "canceled": true} {
		t.Run(name, func(t *testing.T) {
			onSick(t, func(ctx context.Context, c *cluster, s *sickStorage) {
				spec := flow(plugin.Batch)
				spec.Pipelines, spec.Interval = 2, 600_000*ms
				s.fail(errFull)
				c.submit(ctx, "41", spec)
				stuck := func(v engine.JobView) bool {
					return strings.Contains(v.PendingFor, "no space left") && v.Status == engine.JobRunning
				}
				c.await(ctx, "41", 5*time.Second, "telling", stuck)
				c.Depose()
				time.Sleep(10 * time.Second)
				c.await(ctx, "41", 5*time.Second, "telling its next master", stuck)
				for range 300 { // it says so all along, not now and then
					if v := c.info(ctx, "41"); !stuck(v) {
						t.Fatalf("meanwhile it is %s and waits for %q", v.Status, v.PendingFor)
					}
					time.Sleep(20 * time.Millisecond)
				}
				if n, _ := c.Output.Rows("41"); n > 0 {
					t.Errorf("%d rows are put out", n)
				}
				if cancel {
					c.stop(ctx, "41")
					c.waitFor(ctx, "41", engine.JobCanceled)
				} else {
					s.fail(nil)
					c.waitFor(ctx, "41", engine.JobFinished)
					c.wantRows("41", spec.Want())
				}
				c.wantEmpty(ctx, 2*time.Minute)
			})
		})
	}
}

// A start from a savepoint while the cleanup of the last run fails says why that takes so long, and so does the list of cleanups, with times that are some.
func TestStorage_CleanupFails(t *testing.T) {
	onSick(t, func(ctx context.Context, c *cluster, s *sickStorage) {
		spec := flow(plugin.Streaming)
		c.submit(ctx, "41", spec)
		time.Sleep(100 * time.Millisecond)
		c.savepoint(ctx, "41")
		s.failCleanups(errFull)
		c.waitFor(ctx, "41", engine.JobSavepointDone)
		time.Sleep(5 * time.Second)
		brief, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		var later *engine.RetryAfterError
		_, err := c.Any().Submit(brief, engine.SubmitRequest{JobID: "41", Config: spec.JSON(), StartWithSavepoint: true})
		if !errors.As(err, &later) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("Submit = %v", err)
		}
		views := try(ctx, c, func(s *engine.Service) ([]engine.CleanupView, error) { return s.Cleanups(ctx) })
		if len(views) != 1 || views[0].DueAt.Before(views[0].NextTry) || views[0].NextTry.Before(time.Now().Add(-time.Second)) {
			t.Errorf("cleanups: %+v", views)
		}
		s.failCleanups(nil)
		c.resume(ctx, "41", spec)
		c.awaitRows(ctx, "41", spec.Want())
		c.stop(ctx, "41")
		c.waitFor(ctx, "41", engine.JobCanceled)
		c.wantEmpty(ctx, 2*time.Minute)
	})
}

// A storage that hangs, in a way that no context ends, holds up neither the job's other work nor a cancel nor the end of a term; the figures say what is wrong.
func TestStorage_Hangs(t *testing.T) {
	onSick(t, func(ctx context.Context, c *cluster, s *sickStorage) {
		spec := flow(plugin.Streaming)
		c.submit(ctx, "41", spec)
		c.submit(ctx, "42", flow(plugin.Streaming))
		time.Sleep(50 * time.Millisecond)
		release := s.stall()
		defer release()
		time.Sleep(30 * time.Second)
		m := try(ctx, c, func(s *engine.Service) (engine.JobCheckpoints, error) { return s.Checkpoints(ctx, "41") })
		if p := m.Pipelines[0]; p.LatestFailed == nil || !strings.Contains(p.LatestFailed.Reason, "not answered within") {
			t.Errorf("figures: %+v", p)
		}
		began := time.Now()
		c.stop(ctx, "42")
		c.await(ctx, "42", 20*time.Second, "CANCELED", func(v engine.JobView) bool { return v.Status == engine.JobCanceled })
		t.Logf("canceled after %v", time.Since(began))
		began = time.Now()
		c.Depose() // it returns at once; the next master leads when the last one has closed its term
		c.await(ctx, "41", 20*time.Second, "RUNNING", func(v engine.JobView) bool { return v.Status == engine.JobRunning })
		t.Logf("the next master answers after %v", time.Since(began))
		time.Sleep(15 * time.Second)
		release()
		c.awaitRows(ctx, "41", spec.Want())
		c.stop(ctx, "41")
		c.waitFor(ctx, "41", engine.JobCanceled)
		c.wantEmpty(ctx, 5*time.Minute)
	})
}

// Two clusters share a directory, and a job of each has the same id. The end of one takes nothing from the other, that lives: it has stored something since the
// one began. What an earlier run has left goes with it.
func TestStorage_SharedByTwoClusters(t *testing.T) {
	for name, lives := range map[string]bool{"the other lives": true, "the other is over": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files, err := checkpointdir.New(dir)
			if err != nil {
				t.Fatal(err)
			}
			other := engine.CheckpointRef{JobID: "41", Incarnation: "of-another", Pipeline: 1, ID: 7}
			if err := files.Put(t.Context(), other, []byte("theirs")); err != nil {
				t.Fatal(err)
			}
			if !lives { // time stands at the year 2000 inside
				past := time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)
				if err := os.Chtimes(files.Where(other), past, past); err != nil {
					t.Fatal(err)
				}
			}
			onGrid(t, withDir(t, dir, nil), func(ctx context.Context, c *cluster) {
				spec := flow(plugin.Batch)
				c.submit(ctx, "41", spec)
				c.waitFor(ctx, "41", engine.JobFinished)
				c.wantEmpty(ctx, 2*time.Minute)
			})
			want := []string{files.Where(other)}
			if !lives {
				want = nil
			}
			if got := stored(t, dir); !slices.Equal(got, want) {
				t.Errorf("stored: %v, want %v", got, want)
			}
		})
	}
}
