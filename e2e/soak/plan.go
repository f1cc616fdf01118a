package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind says what becomes of a job.
type kind string

const (
	batch     kind = "batch"     // it finishes
	failing   kind = "failing"   // it fails when its output is judged
	canceled  kind = "canceled"  // it is stopped on its way, perhaps too late
	streaming kind = "streaming" // it runs until it is stopped, without transactions

	// These take checkpoints, and put their output out with them.
	ckptBatch   kind = "checkpointed-batch"     // it finishes
	ckptFailing kind = "checkpointed-failing"   // it fails when all its rows are read
	ckptStream  kind = "checkpointed-streaming" // it is canceled, on its way or when all its rows are out
	savedStream kind = "saved-streaming"        // it is stopped with a savepoint and goes on from that, once or more; at last all its rows are out
	savedBatch  kind = "saved-batch"            // the same, and it finishes in its last leg
)

// kinds says how many of 20 jobs are of each kind.
var kinds = []struct {
	kind   kind
	weight int
}{{batch, 4}, {failing, 2}, {canceled, 2}, {streaming, 1}, {ckptBatch, 3}, {ckptFailing, 1}, {ckptStream, 2}, {savedStream, 3}, {savedBatch, 2}}

// planned is one job of a run.
type planned struct {
	kind           kind
	at             time.Duration // from the start of the run
	pipelines      int           // each with a source and a directory of its own
	subtasks, rows int           // of each pipeline; rows of each subtask of the first leg
	rate           int           // rows a second of each subtask
	stopAfter      time.Duration // of those that are stopped: of each leg but the last
	whole          bool          // of a checkpointed stream: it is canceled only when all its rows are out
	interval       time.Duration // between checkpoints
	legs           []int         // of those that are started again: the parallelism of each leg
}

// faultKind says what happens to members.
type faultKind string

const (
	killMember faultKind = "kill"
	killMaster faultKind = "kill-master"
	killTwo    faultKind = "kill-two"   // the master and another one, at almost the same time
	killPoint  faultKind = "kill-point" // whoever comes to a named point first
	stopMember faultKind = "stop"       // SIGSTOP, and SIGCONT later
	stopMaster faultKind = "stop-master"
	rolling    faultKind = "rolling" // every member is told to leave, one after the other, and is replaced
)

// fault is one of them.
type fault struct {
	kind  faultKind
	at    time.Duration // not before, from the start of the run
	pause time.Duration // of a stop; of a kill, until the replacement starts
	gap   time.Duration // between two deaths
	point point         // of killPoint
}

// point is a moment in the life of a job: a member is there when it logs a line that has all of these texts. A job of that kind comes to it.
type point struct {
	texts []string
	kind  kind
}

// points are the moments at which members are killed. Those about states and decisions are logged just before they are written.
var points = []point{
	at(batch, `msg="job accepted"`),
	at(savedBatch, `msg="job accepted, to go on from a checkpoint"`),
	at(canceled, `msg="job is to be stopped"`, "savepoint=false"),
	at(savedStream, `msg="job is to be stopped"`, "savepoint=true"),
	at(batch, `msg="job state changes"`, "to=SCHEDULED"),
	at(streaming, `msg="job state changes"`, "to=RUNNING"),
	at(canceled, `msg="job state changes"`, "to=CANCELING"),
	at(savedBatch, `msg="job state changes"`, "to=DOING_SAVEPOINT"),
	at(ckptStream, `msg="checkpoint begins"`),
	at(ckptBatch, `msg="checkpoint complete"`),
	at(savedStream, `msg="checkpoint committed"`),
	at(savedStream, `msg="commit decided"`),
	at(ckptBatch, `msg="job ends"`, "status=FINISHED"),
	at(ckptFailing, `msg="job ends"`, "status=FAILED"),
	at(ckptStream, `msg="job ends"`, "status=CANCELED"),
	at(savedStream, `msg="job ends"`, "status=SAVEPOINT_DONE"),
	at(ckptBatch, `msg="task started"`),
	at(batch, `msg="task ended"`),
	at(savedBatch, `msg="cleanup: what the job left is removed"`),
	at(batch, `msg="cleanup: entry removed"`, "map=engine_stateTimestamps"),
	at(failing, `msg="cleanup: entry removed"`, "map=engine_runningJobState"),
	at(batch, `msg="cleanup: entry removed"`, "map=engine_runningJobInfo"),
}

func at(k kind, texts ...string) point { return point{texts, k} }

// bait is a job that soon comes to a point.
func bait(rng *rand.Rand, p point) planned {
	j := newJob(rng, p.kind, 0)
	j.rows = max(j.rate/2, 1)
	j.stopAfter = between(rng, 200*time.Millisecond, 600*time.Millisecond)
	j.interval = min(j.interval, 300*time.Millisecond)
	if p.kind == canceled {
		j.rows = 4 * j.rate // so that it is stopped on its way
	}
	return j
}

// plan is all that is going to happen; it follows from a seed.
type plan struct {
	jobs   []planned
	faults []fault
}

// newPlan spreads jobs and faults over a span. The first jobs are one of each kind.
func newPlan(seed uint64, jobs, faults int, span time.Duration, two bool) plan {
	rng := rand.New(rand.NewPCG(seed, 0x50a4))
	var p plan
	for i := range jobs {
		k := draw(rng)
		if i < len(kinds) {
			k = kinds[i].kind
		}
		p.jobs = append(p.jobs, newJob(rng, k, span))
	}
	slices.SortStableFunc(p.jobs, func(a, b planned) int { return cmp.Compare(a.at, b.at) })
	next := rng.IntN(len(points))
	for range faults {
		f := newFault(rng, span, two)
		if f.kind == killPoint {
			f.point = points[next%len(points)] // one after the other, so that all have their turn
			next++
		}
		p.faults = append(p.faults, f)
	}
	slices.SortStableFunc(p.faults, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return p
}

func draw(rng *rand.Rand) kind {
	n := rng.IntN(20)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			return k.kind
		}
	}
	return batch
}

func newJob(rng *rand.Rand, k kind, span time.Duration) planned {
	j := planned{kind: k, at: between(rng, 0, span), pipelines: 1, subtasks: 1 + rng.IntN(4), rate: 20 + rng.IntN(200)}
	if slices.Contains([]kind{batch, ckptBatch, ckptStream, savedStream, savedBatch}, k) && rng.IntN(3) == 0 {
		j.pipelines = 2 // a job that fails or is canceled may have one pipeline whose output is out, and one whose is not
	}
	j.rows = 1 + rng.IntN(4*j.rate)
	j.stopAfter = between(rng, 0, 5*time.Second)
	j.whole = rng.IntN(2) == 0
	j.interval = between(rng, 100*time.Millisecond, 2*time.Second).Round(time.Millisecond)
	j.legs = []int{j.subtasks}
	for range 1 + rng.IntN(3) {
		if !j.saved() {
			break
		}
		next := j.subtasks
		if rng.IntN(2) == 0 {
			next = 1 + rng.IntN(4)
		}
		j.legs = append(j.legs, next)
	}
	return j
}

func newFault(rng *rand.Rand, span time.Duration, two bool) fault {
	f := fault{at: between(rng, 0, span), gap: between(rng, 0, 300*time.Millisecond)}
	switch n := rng.IntN(25); {
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
	case n < 24:
		f.kind, f.pause = killPoint, between(rng, 0, time.Second)
	default:
		f.kind = rolling
	}
	return f
}

func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}

// saved reports whether the job is stopped with savepoints and goes on from them.
func (j planned) saved() bool { return j.kind == savedStream || j.kind == savedBatch }

// checkpointed reports whether the job takes checkpoints.
func (j planned) checkpointed() bool {
	return j.saved() || slices.Contains([]kind{ckptBatch, ckptFailing, ckptStream}, j.kind)
}

// stream reports whether the job runs until it is stopped.
func (j planned) stream() bool {
	return slices.Contains([]kind{streaming, ckptStream, savedStream}, j.kind)
}

// last reports whether a leg is the last one of the plan.
func (j planned) last(leg int) bool { return leg == len(j.legs)-1 }

// want are the ends to which a leg of a job may come.
func (j planned) want(leg int) []string {
	switch j.kind {
	case failing, ckptFailing:
		return []string{"FAILED"}
	case canceled:
		return []string{"CANCELED", "FINISHED"}
	case streaming, ckptStream:
		return []string{"CANCELED"}
	case savedStream:
		return []string{"SAVEPOINT_DONE"}
	case savedBatch:
		if !j.last(leg) {
			return []string{"SAVEPOINT_DONE", "FINISHED"}
		}
	}
	return []string{"FINISHED"}
}

// output says what of its rows a job puts out.
type output int

const (
	nothing  output = iota
	someRows        // of each subtask those up to some row, each once
	allRows         // each once
	anything        // rows may be there more than once
)

// output tells what has to be there after an end; full says that all rows were seen before.
func (j planned) output(end string, full bool) output {
	switch {
	case j.kind == streaming:
		return anything
	case end == "FINISHED", full, j.kind == savedStream:
		return allRows
	case j.checkpointed():
		return someRows
	}
	return nothing
}

// all is how many rows a job puts out that finishes.
func (j planned) all() int { return j.pipelines * j.subtasks * j.rows }

// output directories of the pipelines. Rows of the second one are told apart by a letter.
var outputs = []struct{ dir, letter string }{{"out", ""}, {"out2", "b"}}

// name is how a row is known: the n-th of a pipeline.
func name(pipeline, n int) string { return outputs[pipeline].letter + strconv.Itoa(n) }

// config is the job file of one leg. A task may be lost many times in a run like this, and that is not what a job is to fail of.
func (j planned) config(dir string, leg int) string {
	mode, env, more := "BATCH", "", ""
	if j.stream() {
		mode = "STREAMING"
	}
	if j.kind == failing || j.kind == ckptFailing {
		more = fmt.Sprintf(`,{"plugin_name":"Assert","plugin_input":"p0","rules":{"row_rules":[{"rule_type":"MIN_ROW","rule_value":%d}]}}`, j.all()+1)
	}
	if j.checkpointed() {
		env = fmt.Sprintf(`,"checkpoint.interval":%d,"checkpoint.timeout":120000`, j.interval.Milliseconds())
	}
	var sources, sinks []string
	for i := range j.pipelines {
		sources = append(sources, fmt.Sprintf(`{"plugin_name":"FakeSource","plugin_output":"p%d","mode":"sequence","row.num":%d,"split.num":%d,"schema":{"fields":{"id":"bigint"}}}`,
			i, j.rows, min(j.rows, 8)))
		sinks = append(sinks, fmt.Sprintf(`{"plugin_name":"LocalFile","plugin_input":"p%d","path":%q,"tmp_path":%q,"file_format_type":"text","is_enable_transaction":%t}`,
			i, filepath.Join(dir, outputs[i].dir), filepath.Join(dir, "tmp"), j.kind != streaming))
	}
	return fmt.Sprintf(`{"env":{"job.name":%q,"job.mode":%q,"parallelism":%d,"job.retry.times":100000,"job.retry.interval.seconds":0,"read_limit.rows_per_second":%d%s},
"source":[%s],"sink":[%s%s]}`,
		"soak-"+string(j.kind), mode, j.legs[leg], j.rate, env, strings.Join(sources, ","), strings.Join(sinks, ","), more)
}
