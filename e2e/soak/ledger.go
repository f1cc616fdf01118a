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
	stopping bool // a stop was accepted
	end      string
	endedAt  time.Time // when the end was first heard of
	files    []string  // what the job had put out then
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
		if e != nil && e.end != "" && began.After(e.endedAt) {
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
		l.learn(member, v)
	}
	for id, e := range l.jobs {
		if e.end != "" && began.After(e.endedAt) && !seen[id] {
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
		l.learn(member, v)
	case e.end != "" && began.After(e.endedAt):
		l.note(ranAgain, "%s shows job %s as %s; it had ended %s", member, id, v.JobStatus, e.end)
	}
}

// learn notes an end, or compares it with the one that is known.
func (l *ledger) learn(member string, v view) {
	e := l.jobs[v.JobID]
	switch {
	case e == nil: // its submit has not been answered yet
	case e.end == "":
		e.end, e.endedAt, e.files = v.JobStatus, time.Now(), l.look(e)
		if !slices.Contains(e.plan.want(), e.end) {
			l.note(wrongEnd, "job %s (%s) ended %s: %s", v.JobID, e.plan.kind, e.end, v.cause())
		}
		if e.end == "CANCELED" && !e.stopping {
			l.note(wrongEnd, "job %s is CANCELED, and nobody asked for it", v.JobID)
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
	if !e.plan.transactional() {
		return
	}
	if now := l.look(e); !slices.Equal(now, e.files) {
		l.note(ranAgain, "the output of job %s (%s) changed after its end, from %v to %v", id, e.end, e.files, now)
	}
	if e.end != "FINISHED" {
		if len(lines) > 0 {
			l.note(doubled, "job %s ended %s and put out %d different rows", id, e.end, len(lines))
		}
		return
	}
	l.rows(id, e.plan.all(), lines)
}

func (l *ledger) rows(id string, want int, lines map[string]int) {
	missing, twice := 0, 0
	for i := 1; i <= want; i++ {
		switch n := lines[fmt.Sprint(i)]; {
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
	ends := map[string]int{}
	for _, e := range l.jobs {
		ends[e.end]++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "jobs=%d finished=%d failed=%d canceled=%d polls=%d", len(l.jobs), ends["FINISHED"], ends["FAILED"], ends["CANCELED"], l.polls)
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
