package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// sweep runs a test once for each instant at which something is to happen.
func sweep(t *testing.T, step, until time.Duration, opts func() enginetest.Options, test func(ctx context.Context, c *cluster, at time.Duration)) {
	for at := time.Duration(0); at <= until; at += step {
		t.Run(at.String(), func(t *testing.T) {
			onGrid(t, opts(), func(ctx context.Context, c *cluster) { test(ctx, c, at) })
		})
	}
}

func plain() enginetest.Options { return enginetest.Options{} }

var sweepSpec = enginetest.Spec{Pipelines: 2, Parallelism: 2, Rows: 10, Pause: 6 * ms, Retries: 5, RetryAfter: 50 * ms}

// T13, K0 to K10: the master dies at any moment of a job. Tasks of the surviving workers go on and are not restarted.
// It is Z13 of zetaRows.
func TestMasterKilledAtEveryMoment(t *testing.T) {
	t.Parallel()
	sweep(t, 5*time.Millisecond, 140*time.Millisecond, plain, func(ctx context.Context, c *cluster, at time.Duration) {
		master := c.Master()
		time.AfterFunc(at, func() { c.Kill(master) })
		c.submit(ctx, "20", sweepSpec)
		v := c.waitFor(ctx, "20", engine.JobFinished)
		c.wantRows("20", sweepSpec.Want())
		if v.Restarts > 2 {
			t.Errorf("%d restarts, want at most one per pipeline", v.Restarts)
		}
		c.wantEmpty(ctx, 2*time.Minute)
	})
}

// I18: a master that lives on beside its successor changes nothing any more, and nothing runs twice.
func TestMasterDeposedAtEveryMoment(t *testing.T) {
	sweep(t, 5*time.Millisecond, 140*time.Millisecond, plain, func(ctx context.Context, c *cluster, at time.Duration) {
		time.AfterFunc(at, c.Depose)
		time.AfterFunc(at+7*time.Millisecond, c.Depose)
		c.submit(ctx, "21", sweepSpec)
		v := c.waitFor(ctx, "21", engine.JobFinished)
		c.wantRows("21", sweepSpec.Want())
		if n := c.Output.Attempts("21"); n != 4 || v.Restarts != 0 {
			t.Errorf("%d attempts and %d restarts, want 4 and 0: running tasks are taken over", n, v.Restarts)
		}
		c.wantEmpty(ctx, 2*time.Minute)
	})
}

func TestWorkerKilledAtEveryMoment(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{false, true} {
		sweep(t, 11*time.Millisecond, 143*time.Millisecond, plain, func(ctx context.Context, c *cluster, at time.Duration) {
			worker := c.Workers()[0]
			time.AfterFunc(at, func() { c.Kill(worker) })
			spec := sweepSpec
			spec.Local = local
			c.submit(ctx, "22", spec)
			v := c.waitFor(ctx, "22", engine.JobFinished)
			c.wantRows("22", spec.Want())
			if v.Restarts > 2 {
				t.Errorf("%d restarts, want at most one per pipeline", v.Restarts)
			}
			c.wantEmpty(ctx, 2*time.Minute)
			c.wantNoneOf(ctx, checkpointMaps)
		})
	}
}

// ZF of zetaRows: see there.
func TestMasterAndWorkerKilledAtEveryMoment(t *testing.T) {
	t.Parallel()
	four := func() enginetest.Options { return enginetest.Options{Members: 4} }
	sweep(t, 7*time.Millisecond, 140*time.Millisecond, four, func(ctx context.Context, c *cluster, at time.Duration) {
		master, worker := c.Master(), c.Workers()[0]
		time.AfterFunc(at, func() { c.Kill(master) })
		time.AfterFunc(at/2, func() { c.Kill(worker) })
		c.submit(ctx, "23", sweepSpec)
		c.waitFor(ctx, "23", engine.JobFinished)
		c.wantRows("23", sweepSpec.Want())
		c.wantEmpty(ctx, 2*time.Minute)
	})
}

// A worker dies under a job without retries: FAILED, with a cause that names the task and the member.
func TestWorkerLossWithoutRetries(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "24", enginetest.Spec{Parallelism: 3, Rows: 1000, Pause: 20 * ms})
		c.waitFor(ctx, "24", engine.JobRunning)
		lost := c.Workers()[0]
		c.Kill(lost)
		v := c.waitFor(ctx, "24", engine.JobFailed)
		for _, want := range []string{"task 1/1/", "member " + lost, "job.retry.times is 0"} {
			if !strings.Contains(v.ErrorMsg, want) {
				t.Errorf("cause = %q, want %q in it", v.ErrorMsg, want)
			}
		}
		c.wantRows("24", 0)
		c.wantEmpty(ctx, 2*time.Minute)
	})
}

// The tasks of a member whose lease lapsed pause. If it is renewed they go on where they were; if the member is removed, others do its work.
func TestLapsedLease(t *testing.T) {
	for name, removed := range map[string]bool{"renewed": false, "removed": true} {
		t.Run(name, func(t *testing.T) {
			onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
				spec := enginetest.Spec{Parallelism: 3, Rows: 50, Pause: 20 * ms, Retries: 3}
				c.submit(ctx, "25", spec)
				c.waitFor(ctx, "25", engine.JobRunning)
				time.Sleep(100 * time.Millisecond)
				member := c.Workers()[0]
				c.Lapse(member, 3*time.Second)
				want := 0
				if removed {
					want = 1
					c.Kill(member)
				}
				v := c.waitFor(ctx, "25", engine.JobFinished)
				if d := v.FinishTime.Sub(v.StartTime); v.Restarts != want || !removed && d < 3*time.Second {
					t.Errorf("%d restarts in %v, want %d", v.Restarts, d, want)
				}
				c.wantRows("25", spec.Want())
			})
		})
	}
}

// I25: an acknowledged stop is kept, at whatever moment it comes and whoever dies.
func TestCancelAtEveryMoment(t *testing.T) {
	t.Parallel()
	for _, kill := range []bool{false, true} {
		sweep(t, 11*time.Millisecond, 143*time.Millisecond, plain, func(ctx context.Context, c *cluster, at time.Duration) {
			c.submit(ctx, "26", sweepSpec)
			time.Sleep(at)
			err := c.Any().Stop(ctx, engine.StopRequest{JobID: "26"})
			if err != nil && !errors.Is(err, engine.ErrConflict) {
				t.Fatal(err)
			}
			if kill {
				c.Kill(c.Master())
			}
			switch v := c.waitFor(ctx, "26", engine.JobCanceled, engine.JobFinished); {
			case err != nil && v.Status != engine.JobFinished:
				t.Errorf("the stop was refused (%v), and the job is %s", err, v.Status)
			case v.Status == engine.JobFinished:
				c.wantRows("26", sweepSpec.Want())
			}
			c.wantEmpty(ctx, 2*time.Minute)
			if n := c.Output.Leftovers("26"); n > 0 {
				t.Errorf("%d prepared outputs are left", n)
			}
		})
	}
}

// C005: a job that has ended, and two masters that die inside its cleanup delay.
// It is ZA of zetaRows.
func TestTombstoneSurvivesTwoMasters(t *testing.T) {
	for _, gap := range []time.Duration{0, 3 * time.Millisecond, 9 * time.Millisecond, time.Second, 20 * time.Second} {
		t.Run(gap.String(), func(t *testing.T) {
			onGrid(t, enginetest.Options{Members: 4}, func(ctx context.Context, c *cluster) {
				c.submit(ctx, "9005", enginetest.Spec{Rows: 10})
				c.submit(ctx, "9006", enginetest.Spec{Mode: plugin.Streaming, Rows: 10, Retries: 9})
				first := c.waitFor(ctx, "9005", engine.JobFinished)
				for range 2 {
					time.Sleep(gap)
					c.Kill(c.Master())
					for range 15 {
						if got := c.running(ctx); slices.Contains(got, "9005") {
							t.Fatalf("running = %v", got)
						}
						if v := c.info(ctx, "9005"); v.Status != engine.JobFinished || !v.FinishTime.Equal(first.FinishTime) {
							t.Fatalf("the ended job is %s, finished %v", v.Status, v.FinishTime)
						}
						if o := c.overview(ctx); o.Finished != 1 || o.Running+o.Pending != 1 {
							t.Fatalf("overview = %+v", o)
						}
						time.Sleep(100 * time.Millisecond)
					}
				}
				c.wantRows("9005", 10)
				if n := c.Output.Attempts("9005"); n != 1 {
					t.Errorf("%d attempts of the ended job", n)
				}
				c.waitFor(ctx, "9006", engine.JobRunning)
				c.stop(ctx, "9006")
				c.wantEmpty(ctx, 3*time.Minute)
			})
		})
	}
}

// FLINK-39704, orders A and B (T2, T3, T6, T7): the last report arrives around the moment at which the leadership is revoked, and no other
// master is there. A result that the old master has observed is committed by it all the same; one that it has not is delivered to the next.
func TestTerminalResultAroundRevocation(t *testing.T) {
	var afterwards int
	for shift := range 30 {
		var mu sync.Mutex
		var revoked, committed time.Time
		opts := enginetest.Options{OnTxn: func(_ string, txn engine.Txn, done bool) {
			mu.Lock()
			defer mu.Unlock()
			if done && commitsEnd(txn) {
				committed = time.Now()
			}
		}}
		onGrid(t, opts, func(ctx context.Context, c *cluster) {
			c.submit(ctx, "30", enginetest.Spec{Rows: 100, Pause: 2 * ms, FailAt: 50, FailAttempts: 1})
			time.Sleep(95*time.Millisecond + time.Duration(shift)*time.Millisecond/2)
			mu.Lock()
			revoked = time.Now()
			mu.Unlock()
			c.Revoke()
			time.Sleep(time.Second)
			mu.Lock()
			if !committed.IsZero() && committed.After(revoked) {
				afterwards++
			}
			mu.Unlock()
			c.Depose()
			v := c.waitFor(ctx, "30", engine.JobFailed)
			if !strings.Contains(v.ErrorMsg, "row 50") || c.Output.Attempts("30") != 1 {
				t.Errorf("shift %d: cause = %q after %d attempts", shift, v.ErrorMsg, c.Output.Attempts("30"))
			}
			c.wantEmpty(ctx, 2*time.Minute)
		})
	}
	if afterwards == 0 {
		t.Error("no result was committed after the revocation: the window was not hit")
	}
}

// I2, I12: whatever the order, a terminal state is written once and never left.
func TestTerminalStateIsWrittenOnce(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			ends := 0
			opts := enginetest.Options{
				Txn: func(string, engine.Txn) enginetest.Fault { return dice(rng, &mu, 6) },
				Call: func(string, string) enginetest.Fault {
					if f := dice(rng, &mu, 6); f != enginetest.LostLate {
						return f
					}
					return enginetest.NoFault
				},
				OnTxn: func(_ string, txn engine.Txn, done bool) {
					mu.Lock()
					defer mu.Unlock()
					if done && commitsEnd(txn) {
						ends++
					}
				},
			}
			onGrid(t, opts, func(ctx context.Context, c *cluster) {
				time.AfterFunc(30*time.Millisecond, c.Depose)
				time.AfterFunc(90*time.Millisecond, c.Depose)
				c.submit(ctx, "31", sweepSpec)
				c.waitFor(ctx, "31", engine.JobFinished)
				c.wantRows("31", sweepSpec.Want())
				c.wantEmpty(ctx, 5*time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if ends != 1 {
					t.Errorf("the end was committed %d times", ends)
				}
			})
		})
	}
}

// dice makes one in n faulty.
func dice(rng *rand.Rand, mu *sync.Mutex, n int) enginetest.Fault {
	mu.Lock()
	defer mu.Unlock()
	if rng.IntN(n) > 0 {
		return enginetest.NoFault
	}
	return enginetest.Fault(1 + rng.IntN(int(enginetest.Refused)))
}

// commitsEnd reports whether a transaction writes state and cleanup record together.
func commitsEnd(txn engine.Txn) bool {
	maps := map[string]bool{}
	for _, p := range txn.Put {
		maps[p.Key.Map] = true
	}
	return maps[engine.MapRunningJobState] && maps[engine.MapPendingJobCleanup]
}

// The store is away for longer than everything: nothing is concluded from that, and all goes on afterwards.
// That is C026, as far as it goes without persistence: what cannot be read yet is waited for.
func TestStoreOutage(t *testing.T) {
	var mu sync.Mutex
	down := false
	set := func(v bool) { mu.Lock(); down = v; mu.Unlock() }
	opts := enginetest.Options{Down: func(string) bool { mu.Lock(); defer mu.Unlock(); return down }}
	onGrid(t, opts, func(ctx context.Context, c *cluster) {
		spec := enginetest.Spec{Parallelism: 2, Rows: 40, Pause: 10 * ms}
		c.submit(ctx, "32", spec)
		c.waitFor(ctx, "32", engine.JobRunning)
		set(true)
		if _, err := c.Any().Running(ctx); !errors.Is(err, engine.ErrRetryable) {
			t.Errorf("Running without a store = %v", err)
		}
		if _, err := c.Any().Submit(ctx, engine.SubmitRequest{JobID: "33", Config: spec.JSON()}); !errors.Is(err, engine.ErrRetryable) {
			t.Errorf("Submit without a store = %v", err)
		}
		c.Depose()
		time.Sleep(time.Minute)
		set(false)
		if v := c.waitFor(ctx, "32", engine.JobFinished); v.Restarts != 0 {
			t.Errorf("%d restarts", v.Restarts)
		}
		c.wantRows("32", spec.Want())
	})
}

func TestCleanupIsRepeated(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.Output.FailCleanups(5)
		c.submit(ctx, "34", enginetest.Spec{Rows: 5})
		c.waitFor(ctx, "34", engine.JobFinished)
		time.Sleep(300 * time.Millisecond)
		views := try(ctx, c, func(s *engine.Service) ([]engine.CleanupView, error) { return s.Cleanups(ctx) })
		if len(views) != 1 || views[0].Attempts == 0 || !strings.Contains(views[0].LastError, "directory is busy") {
			t.Errorf("cleanups = %+v", views)
		}
		c.wantEmpty(ctx, 5*time.Minute)
	})
}
