package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"
)

// kind says what becomes of a job.
type kind string

const (
	batch     kind = "batch"     // it finishes
	failing   kind = "failing"   // it fails when its output is judged
	canceled  kind = "canceled"  // it is stopped on its way, perhaps too late
	streaming kind = "streaming" // it runs until it is stopped
)

// planned is one job of a run.
type planned struct {
	kind           kind
	at             time.Duration // from the start of the run
	subtasks, rows int           // rows of each subtask
	rate           int           // rows a second of each subtask
	stopAfter      time.Duration // of those that are stopped
}

// faultKind says what happens to members.
type faultKind string

const (
	killMember faultKind = "kill"
	killMaster faultKind = "kill-master"
	killTwo    faultKind = "kill-two" // the master and another one, at almost the same time
	stopMember faultKind = "stop"     // SIGSTOP, and SIGCONT later
	stopMaster faultKind = "stop-master"
	rolling    faultKind = "rolling" // every member is told to leave, one after the other, and is replaced
)

// fault is one of them.
type fault struct {
	kind  faultKind
	at    time.Duration // not before, from the start of the run
	pause time.Duration // of a stop; of a kill, until the replacement starts
	gap   time.Duration // between two deaths
}

// plan is all that is going to happen; it follows from a seed.
type plan struct {
	jobs   []planned
	faults []fault
}

// newPlan spreads jobs and faults over a span.
func newPlan(seed uint64, jobs, faults int, span time.Duration, two bool) plan {
	rng := rand.New(rand.NewPCG(seed, 0x50a4))
	var p plan
	for range jobs {
		p.jobs = append(p.jobs, newJob(rng, span))
	}
	slices.SortStableFunc(p.jobs, func(a, b planned) int { return int(a.at - b.at) })
	for range faults {
		p.faults = append(p.faults, newFault(rng, span, two))
	}
	slices.SortStableFunc(p.faults, func(a, b fault) int { return int(a.at - b.at) })
	return p
}

func newJob(rng *rand.Rand, span time.Duration) planned {
	j := planned{at: between(rng, 0, span), subtasks: 1 + rng.IntN(4), rate: 20 + rng.IntN(200)}
	j.rows = 1 + rng.IntN(4*j.rate)
	switch n := rng.IntN(10); {
	case n < 5:
		j.kind = batch
	case n < 7:
		j.kind = failing
	case n < 9:
		j.kind = canceled
	default:
		j.kind = streaming
	}
	j.stopAfter = between(rng, 0, 5*time.Second)
	return j
}

func newFault(rng *rand.Rand, span time.Duration, two bool) fault {
	f := fault{at: between(rng, 0, span), gap: between(rng, 0, 300*time.Millisecond)}
	switch n := rng.IntN(20); {
	case n < 6:
		f.kind, f.pause = killMember, between(rng, 0, time.Second)
	case n < 11:
		f.kind, f.pause = killMaster, between(rng, 0, time.Second)
	case n < 13 && two:
		f.kind, f.pause = killTwo, between(rng, 0, time.Second)
	case n < 16:
		f.kind, f.pause = stopMember, between(rng, 50*time.Millisecond, 8*time.Second)
	case n < 19:
		f.kind, f.pause = stopMaster, between(rng, 50*time.Millisecond, 8*time.Second)
	default:
		f.kind = rolling
	}
	return f
}

func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}

// want are the ends to which a job may come.
func (j planned) want() []string {
	switch j.kind {
	case failing:
		return []string{"FAILED"}
	case canceled:
		return []string{"CANCELED", "FINISHED"}
	case streaming:
		return []string{"CANCELED"}
	}
	return []string{"FINISHED"}
}

// transactional reports whether the output of the job is there exactly once or not at all.
func (j planned) transactional() bool { return j.kind != streaming }

// all is how many rows a job puts out that finishes.
func (j planned) all() int { return j.subtasks * j.rows }

// config is the job file. A task may be lost many times in a run like this, and that is not what a job is to fail of.
func (j planned) config(dir string) string {
	mode, transaction, more := "BATCH", true, ""
	switch j.kind {
	case streaming:
		mode, transaction = "STREAMING", false
	case failing:
		more = fmt.Sprintf(`,{"plugin_name":"Assert","rules":{"row_rules":[{"rule_type":"MIN_ROW","rule_value":%d}]}}`, j.all()+1)
	}
	return fmt.Sprintf(`{"env":{"job.name":%q,"job.mode":%q,"parallelism":%d,"job.retry.times":100000,"job.retry.interval.seconds":0,"read_limit.rows_per_second":%d},
"source":[{"plugin_name":"FakeSource","mode":"sequence","row.num":%d,"schema":{"fields":{"id":"bigint"}}}],
"sink":[{"plugin_name":"LocalFile","path":%q,"tmp_path":%q,"file_format_type":"text","is_enable_transaction":%t}%s]}`,
		"soak-"+string(j.kind), mode, j.subtasks, j.rate, j.rows, filepath.Join(dir, "out"), filepath.Join(dir, "tmp"), transaction, more)
}
