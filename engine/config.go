package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"gridnode/engine/config"
)

// ScheduleStrategy says what becomes of a job that needs more slots than are free.
type ScheduleStrategy string

// The strategies.
const (
	ScheduleWait   ScheduleStrategy = "WAIT"   // it stays PENDING until it fits
	ScheduleReject ScheduleStrategy = "REJECT" // it ends FAILED
)

// Config is what a [Service] needs. Start from [DefaultConfig].
type Config struct {
	Store   Store
	Cluster Cluster
	Parse   func(body []byte) (*config.Job, error) // its error is the user's fault
	Logger  *slog.Logger

	StateCleanupDelay time.Duration // how long an ended job's state stays as a tombstone; 0 is allowed
	HistoryTTL        time.Duration // how long the history of a job is kept
	HistoryMax        int           // how many ended jobs are kept at most

	Checkpoint CheckpointConfig

	DynamicSlot      bool // workers take any number of tasks
	SlotNum          int  // tasks per worker, when DynamicSlot is false; both hold for workers that do not say how many slots they have
	ScheduleStrategy ScheduleStrategy

	TaskTokens     int           // how many batches of rows are worked on at once on this member
	ForwardTimeout time.Duration // how long a request begins new tries to reach the master; each takes at most half as long
	CallTimeout    time.Duration // of one call to a member
	CommitTimeout  time.Duration // of one Sink.Commit, Sink.Check or Sink.Cleanup
	CloseTimeout   time.Duration // how long a master that was deposed tries to commit the results that it observed
}

// DefaultConfig returns the defaults; Store, Cluster and Parse are left to the caller.
//
// TaskTokens leave one of Go's processors to what is not a task: if all were busy with tasks, a heartbeat would wait for the scheduler to take
// one from its task, which it does every 10 ms, once for each goroutine on the heartbeat's way.
func DefaultConfig() Config {
	procs := max(1, runtime.GOMAXPROCS(0)-1)
	return Config{
		Logger:            slog.New(slog.DiscardHandler),
		StateCleanupDelay: time.Minute,
		HistoryTTL:        24 * time.Hour,
		HistoryMax:        10_000,
		Checkpoint:        CheckpointConfig{Interval: 5 * time.Minute, Timeout: 30 * time.Second, MaxRetained: 3},
		DynamicSlot:       true,
		SlotNum:           2 * procs,
		ScheduleStrategy:  ScheduleWait,
		TaskTokens:        procs,
		ForwardTimeout:    5 * time.Second,
		CallTimeout:       5 * time.Second,
		CommitTimeout:     30 * time.Second,
		CloseTimeout:      10 * time.Second,
	}
}

// Validate returns all that is wrong with the config.
func (c Config) Validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("engine config: "+format, args...))
		}
	}
	bad(c.Store == nil || c.Cluster == nil || c.Parse == nil || c.Logger == nil, "Store, Cluster, Parse and Logger are required")
	bad(c.StateCleanupDelay < 0, "StateCleanupDelay is %v, must not be negative", c.StateCleanupDelay)
	bad(c.HistoryTTL <= 0, "HistoryTTL is %v, must be above 0", c.HistoryTTL)
	bad(c.HistoryMax < 1, "HistoryMax is %d, must be at least 1", c.HistoryMax)
	bad(c.Checkpoint.Interval <= 0, "Checkpoint.Interval is %v, must be above 0", c.Checkpoint.Interval)
	bad(c.Checkpoint.Timeout <= 0, "Checkpoint.Timeout is %v, must be above 0", c.Checkpoint.Timeout)
	bad(c.Checkpoint.MaxRetained < 1, "Checkpoint.MaxRetained is %d, must be at least 1", c.Checkpoint.MaxRetained)
	bad(!c.DynamicSlot && c.SlotNum < 1, "SlotNum is %d, must be at least 1", c.SlotNum)
	bad(c.ScheduleStrategy != ScheduleWait && c.ScheduleStrategy != ScheduleReject,
		"ScheduleStrategy is %q, must be %s or %s", c.ScheduleStrategy, ScheduleWait, ScheduleReject)
	bad(c.TaskTokens < 1, "TaskTokens is %d, must be at least 1", c.TaskTokens)
	for name, d := range map[string]time.Duration{"ForwardTimeout": c.ForwardTimeout, "CallTimeout": c.CallTimeout,
		"CommitTimeout": c.CommitTimeout, "CloseTimeout": c.CloseTimeout} {
		bad(d <= 0, "%s is %v, must be above 0", name, d)
	}
	return errors.Join(errs...)
}
