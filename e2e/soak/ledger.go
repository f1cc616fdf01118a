package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// What must never happen, by class. Each class is one figure of the summary.
const (
	ranAgain   = "again"      // a job that had ended is shown as live, or its output changed after its end
	masked     = "masked"     // a result that was shown is shown differently, or not at all
	tombstone  = "tombstones" // a job that had ended is in a list of running ones
	orphan     = "orphans"    // an entry, a cleanup record or a file that is left when all is over
	lost       = "lost"       // rows that are missing, or a job that was accepted and is not known
	doubled    = "doubled"    // rows that are there twice, or without a reason
	wrongEnd   = "wrong"      // an end that the job must not come to, or none
	unanswered = "unanswered" // a cluster that does not recover, or a request that is never answered
)

func classes() []string {
	return []string{ranAgain, masked, tombstone, orphan, lost, doubled, wrongEnd, unanswered}
}

// violation is one thing that happened and must not.
type violation struct{ class, text string }

// view is a job as a member lists it.
type view struct {
	JobID, JobStatus string
	ErrorMsg         *string
}

func (v view) final() bool {
	return slices.Contains([]string{"FINISHED", "FAILED", "CANCELED", "SAVEPOINT_DONE"}, v.JobStatus)
}

// entry is what is known of one accepted job.
type entry struct {
	plan     planned
	dir      string
	leg      int       // how often it was started again
	from     time.Time // since when it is in this leg; what was asked before that tells nothing about it
	moving   bool      // it is being started again: it may be in either leg
	stopping bool      // a stop may have been accepted
	full     bool      // all its rows were seen
	end      string    // of this leg
	endedAt  time.Time // when the end was first heard of
	files    []string  // what the job had put out then
}

// judged reports whether an answer to what was asked then can be held against the job.
func (e *entry) judged(began time.Time) bool { return !e.moving && began.After(e.from) }

// over reports whether the job had ended when that was asked.
func (e *entry) over(began time.Time) bool {
	return e.judged(began) && e.end != "" && began.After(e.endedAt)
}

// ledger judges what members say. All methods may be called at once. began is when a question was sent: an answer says nothing about what was heard
// of after that.
type ledger struct {
	mu    sync.Mutex
	jobs  map[string]*entry
	found []violation
	polls int

	look func(*entry) []string // lists the files that a job has put out
}

func newLedger(look func(*entry) []string) *ledger {
	return &ledger{jobs: map[string]*entry{}, look: look}
}

func (l *ledger) violate(class, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(class, format, args...)
}

func (l *ledger) note(class, format string, args ...any) {
	l.found = append(l.found, violation{class, fmt.Sprintf(format, args...)})
}

// accepted notes a job that a member has taken.
func (l *ledger) accepted(id string, p planned, dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.jobs[id] != nil {
		l.note(doubled, "two submits got the job id %s", id)
	}
	l.jobs[id] = &entry{plan: p, dir: dir}
}

// running judges a list of running jobs.
func (l *ledger) running(member string, began time.Time, list []view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polls++
	for _, v := range list {
		e := l.jobs[v.JobID]
		if v.final() {
			l.note(tombstone, "%s lists job %s as running, and it is %s", member, v.JobID, v.JobStatus)
		}
		if e != nil && e.over(began) {
			l.note(tombstone, "%s lists job %s as %s; it had ended %s %v before", member, v.JobID, v.JobStatus, e.end, began.Sub(e.endedAt))
		}
	}
}

// ended judges a list of jobs that have ended.
func (l *ledger) ended(member string, began time.Time, list []view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polls++
	seen := map[string]bool{}
	for _, v := range list {
		if seen[v.JobID] {
			l.note(doubled, "%s lists the end of job %s twice", member, v.JobID)
		}
		seen[v.JobID] = true
		if !v.final() {
			l.note(masked, "%s lists job %s as ended, and it is %s", member, v.JobID, v.JobStatus)
			continue
		}
		l.learn(member, began, v)
	}
	for id, e := range l.jobs {
		if e.over(began) && !seen[id] {
			l.note(masked, "%s does not list job %s, which had ended %s", member, id, e.end)
		}
	}
}

// shown judges what a member shows of one job; known is false if it says that there is no such job.
func (l *ledger) shown(member string, began time.Time, id string, v view, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polls++
	e := l.jobs[id]
	switch {
	case e == nil:
	case !known:
		l.note(lost, "%s does not know job %s, which was accepted", member, id)
	case v.final():
		l.learn(member, began, v)
	case e.over(began):
		l.note(ranAgain, "%s shows job %s as %s; it had ended %s", member, id, v.JobStatus, e.end)
	}
}

// learn notes an end, or compares it with the one that is known.
func (l *ledger) learn(member string, began time.Time, v view) {
	e := l.jobs[v.JobID]
	switch {
	case e == nil: // its submit has not been answered yet
	case !e.judged(began):
	case e.end == "":
		e.end, e.endedAt, e.files = v.JobStatus, time.Now(), l.look(e)
		if !slices.Contains(e.plan.want(e.leg), e.end) {
			l.note(wrongEnd, "job %s (%s, leg %d) ended %s: %s", v.JobID, e.plan.kind, e.leg, e.end, v.cause())
		}
		if (e.end == "CANCELED" || e.end == "SAVEPOINT_DONE") && !e.stopping {
			l.note(wrongEnd, "job %s is %s in leg %d, and nobody asked for it", v.JobID, e.end, e.leg)
		}
	case e.end != v.JobStatus:
		l.note(masked, "%s shows job %s as %s; it had ended %s", member, v.JobID, v.JobStatus, e.end)
	}
}

func (v view) cause() string {
	if v.ErrorMsg == nil {
		return "no cause is given"
	}
	return *v.ErrorMsg
}

// stopped notes that a stop of the job is being asked for, before it is.
func (l *ledger) stopped(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[id].stopping = true
}

// filled notes that all rows of the job are out, while it runs.
func (l *ledger) filled(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[id].full = true
}

// again notes that the job is about to be started again from where it ended. Its output must be what it was at the end.
func (l *ledger) again(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.jobs[id]
	l.unchanged(id, e)
	e.moving = true
}

// resumed notes that the job was accepted once more.
func (l *ledger) resumed(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.jobs[id]
	e.leg++
	e.moving, e.stopping, e.from, e.end, e.files = false, false, time.Now(), "", nil
}

// endOf returns the end of the leg in which the job is, or "".
func (l *ledger) endOf(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.jobs[id].end
}

// keeping counts the jobs that may keep checkpoints after their ends, and those that took any.
func (l *ledger) keeping() (failed, checkpointed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.jobs {
		if e.plan.checkpointed() {
			checkpointed++
		}
		if e.plan.checkpointed() && e.end == "FAILED" {
			failed++
		}
	}
	return failed, checkpointed
}

// mayKeep reports whether a job may have checkpoints left when its savepoints were removed.
func (l *ledger) mayKeep(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.jobs[id]
	return e != nil && e.plan.checkpointed() && e.end == "FAILED"
}

// saved lists the jobs that have ended with a savepoint.
func (l *ledger) saved() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for id, e := range l.jobs {
		if e.end == "SAVEPOINT_DONE" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// open lists the jobs of which no end is known.
func (l *ledger) open() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for id, e := range l.jobs {
		if e.end == "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (l *ledger) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for id := range l.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// output judges what a job has put out when all is over: how often each line is there, its files, and what is left in its temporary directory.
func (l *ledger) output(id string, lines map[string]int, left []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.jobs[id]
	if e.end == "" {
		l.note(wrongEnd, "job %s (%s) has come to no end", id, e.plan.kind)
		return
	}
	if len(left) > 0 {
		l.note(orphan, "job %s (%s, %s) left %d temporary files: %s", id, e.plan.kind, e.end, len(left), left[0])
	}
	what := e.plan.output(e.end, e.full)
	if what != anything {
		l.unchanged(id, e)
	}
	switch what {
	case nothing:
		if len(lines) > 0 {
			l.note(doubled, "job %s ended %s and put out %d different rows", id, e.end, len(lines))
		}
	case someRows:
		l.firstRows(id, e.plan, lines)
	case allRows:
		l.rows(id, e.plan, lines)
	}
}

func (l *ledger) unchanged(id string, e *entry) {
	if now := l.look(e); !slices.Equal(now, e.files) {
		l.note(ranAgain, "the output of job %s (%s) changed after its end, from %v to %v", id, e.end, e.files, now)
	}
}

// firstRows judges output that may end anywhere, but has no gaps: a subtask makes its rows in order.
func (l *ledger) firstRows(id string, j planned, lines map[string]int) {
	gaps, twice, known := 0, 0, 0
	for i := range j.pipelines * j.subtasks {
		missing := 0
		for n := i%j.subtasks*j.rows + 1; n <= (i%j.subtasks+1)*j.rows; n++ {
			switch k := lines[name(i/j.subtasks, n)]; {
			case k == 0:
				missing++
				continue
			case k > 1:
				twice++
			}
			known++
			gaps, missing = gaps+missing, 0
		}
	}
	if gaps > 0 {
		l.note(lost, "job %s: %d rows are missing before others that are there", id, gaps)
	}
	if twice > 0 || len(lines) > known {
		l.note(doubled, "job %s: %d rows are there more than once, and %d that it does not have", id, twice, len(lines)-known)
	}
}

func (l *ledger) rows(id string, j planned, lines map[string]int) {
	missing, twice, want := 0, 0, j.all()
	for i := range want {
		switch n := lines[name(i/(j.subtasks*j.rows), i%(j.subtasks*j.rows)+1)]; {
		case n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	if missing > 0 {
		l.note(lost, "job %s: %d of %d rows are missing", id, missing, want)
	}
	if twice > 0 || len(lines) > want-missing {
		l.note(doubled, "job %s: of %d rows %d are there more than once, and %d others", id, want, twice, len(lines)-(want-missing))
	}
}

// summary counts the jobs by their ends and the violations by their classes.
func (l *ledger) summary() (text string, bad int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends, resumed := map[string]int{}, 0
	for _, e := range l.jobs {
		ends[e.end]++
		resumed += e.leg
	}
	var b strings.Builder
	fmt.Fprintf(&b, "jobs=%d finished=%d failed=%d canceled=%d saved=%d resumed=%d polls=%d",
		len(l.jobs), ends["FINISHED"], ends["FAILED"], ends["CANCELED"], ends["SAVEPOINT_DONE"], resumed, l.polls)
	count := map[string]int{}
	for _, v := range l.found {
		count[v.class]++
	}
	for _, c := range classes() {
		fmt.Fprintf(&b, " %s=%d", c, count[c])
	}
	return b.String(), len(l.found)
}

// violations returns what was found so far.
func (l *ledger) violations() []violation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.found)
}
