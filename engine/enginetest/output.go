package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"gridnode/engine/plugin"
)

// Output is where the sinks of the tests write to. It notes what must never happen.
type Output struct {
	mu         sync.Mutex
	opened     map[string]int
	working    map[string]string // ids of open writers, and on which member
	lost       map[string]bool   // members
	prepared   map[string]preparedRows
	committed  map[string][]plugin.Row
	commits    map[string]int // calls, by id
	cleanups   map[string]int // calls, by job id
	violations []string
	failClean  int
	marks      map[string]bool     // committed parts that were not forgotten
	scrapped   map[string]scrapped // by task
}

// scrapped is what was committed of a task whose rows are not kept.
type scrapped struct {
	last string // id of the last part
	rows int
}

type preparedRows struct {
	member string
	local  bool
	rows   []plugin.Row
}

// NewOutput returns an empty output.
func NewOutput() *Output {
	return &Output{opened: map[string]int{}, working: map[string]string{}, lost: map[string]bool{}, prepared: map[string]preparedRows{}, committed: map[string][]plugin.Row{},
		commits: map[string]int{}, cleanups: map[string]int{}, marks: map[string]bool{}, scrapped: map[string]scrapped{}}
}

func (o *Output) open(id, member string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opened[id]++
	if o.opened[id] > 1 {
		o.violations = append(o.violations, "attempt started twice: "+id)
	}
	if o.lost[member] {
		return // what it still does reaches nobody
	}
	for other, at := range o.working {
		if taskOf(other) == taskOf(id) {
			o.violations = append(o.violations, fmt.Sprintf("two attempts of one task run at once: %s on %s and %s on %s", other, at, id, member))
		}
	}
	o.working[id] = member
}

func (o *Output) close(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.working, id)
}

// taskOf returns the part of an id that all attempts of one task have.
func taskOf(id string) string { return id[:strings.LastIndex(id, "/")] }

// Working returns how many task groups of a job are at work now, wherever, and whether or not anybody wants them to.
func (o *Output) Working(jobID string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.working {
		if strings.HasPrefix(id, jobID+"/") {
			n++
		}
	}
	return n
}

func (o *Output) prepare(id, member string, local bool, rows []plugin.Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prepared[id] = preparedRows{member: member, local: local, rows: rows}
}

func (o *Output) commit(id, member string, failures int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.commits[id]++
	if o.commits[id] <= failures {
		return errors.New("the disk is full")
	}
	if _, ok := o.committed[id]; ok {
		return nil
	}
	p, ok := o.prepared[id]
	if !ok || p.local && p.member != member {
		return plugin.ErrPreparedLost
	}
	for other := range o.committed {
		if strings.Contains(id+other, "#") {
			continue // parts of jobs with checkpoints may come from several attempts; their rows are judged
		}
		if taskOf(other) == taskOf(id) {
			o.violations = append(o.violations, fmt.Sprintf("two attempts of one task committed: %s and %s", other, id))
		}
	}
	o.committed[id] = p.rows
	o.marks[id] = true
	delete(o.prepared, id)
	return nil
}

// scrap commits a part and keeps the number of its rows only.
func (o *Output) scrap(id string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	task := taskOf(id)
	s := o.scrapped[task]
	p, ok := o.prepared[id]
	switch {
	case s.last == id:
		return nil
	case !ok:
		return plugin.ErrPreparedLost
	}
	for _, r := range p.rows {
		if r[1] != int64(s.rows) {
			o.violations = append(o.violations, fmt.Sprintf("%s has row %v after %d rows", id, r[1], s.rows))
		}
		s.rows++
	}
	s.last = id
	o.scrapped[task] = s
	delete(o.prepared, id)
	return nil
}

// Scrapped returns how many rows of a job were committed and not kept.
func (o *Output) Scrapped(jobID string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for task, s := range o.scrapped {
		if strings.HasPrefix(task, jobID+"/") {
			n += s.rows
		}
	}
	return n
}

func (o *Output) cleanup(prefix, member string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cleanups[prefix[:strings.Index(prefix, "/")]]++
	if o.failClean > 0 {
		o.failClean--
		return errors.New("the directory is busy")
	}
	for id, p := range o.prepared {
		if strings.HasPrefix(id, prefix) && (!p.local || p.member == member) {
			delete(o.prepared, id)
		}
	}
	return nil
}

// forget takes the mark off a part whose commit is not repeated any more.
func (o *Output) forget(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.marks[id] {
		o.violations = append(o.violations, "forgotten without a commit, or twice: "+id)
	}
	delete(o.marks, id)
}

// Marks returns how many commits of a job are still remembered.
func (o *Output) Marks(jobID string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for id := range o.marks {
		if strings.HasPrefix(id, jobID+"/") {
			n++
		}
	}
	return n
}

// FailCleanups makes the next n cleanups fail.
func (o *Output) FailCleanups(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failClean = n
}

// LoseMember loses the output that was prepared on a member and kept there. Nothing runs on it any more.
func (o *Output) LoseMember(member string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost[member] = true
	for id, at := range o.working {
		if at == member {
			delete(o.working, id)
		}
	}
	for id, p := range o.prepared {
		if p.local && p.member == member {
			delete(o.prepared, id)
		}
	}
}

// Rows returns how many rows of a job are visible, and whether any is there twice.
func (o *Output) Rows(jobID string) (n int, twice bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := map[string]bool{}
	for id, rows := range o.committed {
		parts := strings.Split(id, "/")
		if parts[0] != jobID {
			continue
		}
		for _, r := range rows {
			key := parts[2] + fmt.Sprint(r...)
			twice = twice || seen[key]
			seen[key] = true
			n++
		}
	}
	return n, twice
}

// Attempts returns how many attempts of a job were started.
func (o *Output) Attempts(jobID string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for id, times := range o.opened {
		if strings.HasPrefix(id, jobID+"/") {
			n += times
		}
	}
	return n
}

// Cleanups returns how often anything of a job was cleaned up.
func (o *Output) Cleanups(jobID string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cleanups[jobID]
}

// Leftovers returns how much prepared output of a job is neither committed nor removed.
func (o *Output) Leftovers(jobID string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for id := range o.prepared {
		if strings.HasPrefix(id, jobID+"/") {
			n++
		}
	}
	return n
}

// Violations returns what happened that must never happen.
func (o *Output) Violations() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.violations...)
}
