package main

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Each class of violation is found, and a run without one has none.
func TestLedgerFindsEachClass(t *testing.T) {
	job := planned{kind: batch, pipelines: 1, subtasks: 2, rows: 2, legs: []int{2, 3}}
	fine := map[string]int{"1": 1, "2": 1, "3": 1, "4": 1}
	done, saved := []view{{JobID: "7", JobStatus: "FINISHED"}}, []view{{JobID: "7", JobStatus: "SAVEPOINT_DONE"}}
	live := []view{{JobID: "7", JobStatus: "RUNNING"}}
	for name, test := range map[string]struct {
		kind kind
		do   func(l *ledger, at func() time.Time)
		want string // class of the only violation; empty: none
	}{
		"all is well": {batch, func(l *ledger, at func() time.Time) {
			l.running("n1", at(), live)
			l.shown("n1", at(), "7", live[0], true)
			l.ended("n1", at(), done)
			l.shown("n2", at(), "7", done[0], true)
			l.output("7", fine, nil)
		}, ""},
		"asked before the end was heard of": {batch, func(l *ledger, at func() time.Time) {
			early := at()
			l.ended("n1", at(), done)
			l.running("n2", early, live)
			l.ended("n2", early, nil)
			l.shown("n2", early, "7", live[0], true)
			l.output("7", fine, nil)
		}, ""},
		"listed after its end":  {batch, func(l *ledger, at func() time.Time) { l.ended("n1", at(), done); l.running("n2", at(), live) }, tombstone},
		"tombstone in the list": {batch, func(l *ledger, at func() time.Time) { l.running("n2", at(), done) }, tombstone},
		"shown after its end": {batch, func(l *ledger, at func() time.Time) {
			l.ended("n1", at(), done)
			l.shown("n2", at(), "7", live[0], true)
		}, ranAgain},
		"another end": {batch, func(l *ledger, at func() time.Time) {
			l.ended("n1", at(), done)
			l.shown("n2", at(), "7", view{JobID: "7", JobStatus: "FAILED"}, true)
		}, masked},
		"end forgotten":      {batch, func(l *ledger, at func() time.Time) { l.ended("n1", at(), done); l.ended("n2", at(), nil) }, masked},
		"live in the ended":  {batch, func(l *ledger, at func() time.Time) { l.ended("n1", at(), live) }, masked},
		"accepted and gone":  {batch, func(l *ledger, at func() time.Time) { l.shown("n1", at(), "7", view{}, false) }, lost},
		"one id twice":       {batch, func(l *ledger, at func() time.Time) { l.accepted("7", job, "") }, doubled},
		"listed twice":       {batch, func(l *ledger, at func() time.Time) { l.ended("n1", at(), slices.Concat(done, done)) }, doubled},
		"no end":             {batch, func(l *ledger, at func() time.Time) { l.output("7", fine, nil) }, wrongEnd},
		"end of another job": {failing, func(l *ledger, at func() time.Time) { l.ended("n1", at(), done) }, wrongEnd},
		"canceled by nobody": {canceled, func(l *ledger, at func() time.Time) { l.ended("n1", at(), []view{{JobID: "7", JobStatus: "CANCELED"}}) }, wrongEnd},
		"temporary files":    {batch, func(l *ledger, at func() time.Time) { l.ended("n1", at(), done); l.output("7", fine, []string{"x"}) }, orphan},
		"row missing": {batch, func(l *ledger, at func() time.Time) {
			l.ended("n1", at(), done)
			l.output("7", map[string]int{"1": 1, "2": 1, "4": 1}, nil)
		}, lost},
		"row twice": {batch, func(l *ledger, at func() time.Time) {
			l.ended("n1", at(), done)
			l.output("7", map[string]int{"1": 1, "2": 1, "3": 2, "4": 1}, nil)
		}, doubled},
		"row of nowhere": {batch, func(l *ledger, at func() time.Time) {
			l.ended("n1", at(), done)
			l.output("7", map[string]int{"1": 1, "2": 1, "3": 1, "4": 1, "5": 1}, nil)
		}, doubled},
		"rows of a failed job": {failing, func(l *ledger, at func() time.Time) {
			l.ended("n1", at(), []view{{JobID: "7", JobStatus: "FAILED"}})
			l.output("7", map[string]int{"1": 1}, nil)
		}, doubled},
		"rows of a checkpointed stream": {ckptStream, func(l *ledger, at func() time.Time) {
			l.stopped("7")
			l.ended("n1", at(), []view{{JobID: "7", JobStatus: "CANCELED"}})
			l.output("7", map[string]int{"1": 1, "3": 1, "4": 1}, nil) // of two subtasks, which have two rows each
		}, ""},
		"row missing before another": {ckptStream, func(l *ledger, at func() time.Time) {
			l.stopped("7")
			l.ended("n1", at(), []view{{JobID: "7", JobStatus: "CANCELED"}})
			l.output("7", map[string]int{"1": 1, "4": 1}, nil)
		}, lost},
		"row of a checkpoint twice": {ckptStream, func(l *ledger, at func() time.Time) {
			l.stopped("7")
			l.ended("n1", at(), []view{{JobID: "7", JobStatus: "CANCELED"}})
			l.output("7", map[string]int{"1": 2}, nil)
		}, doubled},
		"row that a stream does not have": {ckptStream, func(l *ledger, at func() time.Time) {
			l.stopped("7")
			l.ended("n1", at(), []view{{JobID: "7", JobStatus: "CANCELED"}})
			l.output("7", map[string]int{"1": 1, "5": 1}, nil)
		}, doubled},
		"row missing of a stream that had them all": {ckptStream, func(l *ledger, at func() time.Time) {
			l.filled("7")
			l.stopped("7")
			l.ended("n1", at(), []view{{JobID: "7", JobStatus: "CANCELED"}})
			l.output("7", map[string]int{"1": 1}, nil)
		}, lost},
		"started again": {savedStream, func(l *ledger, at func() time.Time) {
			early := at()
			l.stopped("7")
			l.ended("n1", at(), saved)
			l.again("7")
			l.running("n2", at(), live)
			l.ended("n1", at(), saved)
			l.resumed("7")
			l.ended("n1", early, saved)
			l.shown("n2", at(), "7", live[0], true)
			l.stopped("7")
			l.ended("n2", at(), saved)
			l.output("7", fine, nil)
		}, ""},
		"the end before shown after the start": {savedStream, func(l *ledger, at func() time.Time) {
			l.stopped("7")
			l.ended("n1", at(), saved)
			l.again("7")
			l.resumed("7")
			l.ended("n1", at(), saved)
			l.output("7", fine, nil)
		}, wrongEnd},
		"saved by nobody": {savedStream, func(l *ledger, at func() time.Time) { l.ended("n1", at(), saved) }, wrongEnd},
		"rows of a streaming job may be there twice": {streaming, func(l *ledger, at func() time.Time) {
			l.stopped("7")
			l.ended("n1", at(), []view{{JobID: "7", JobStatus: "CANCELED"}})
			l.output("7", map[string]int{"1": 3}, nil)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			clock := time.Now()
			l := newLedger(func(*entry) []string { return nil })
			job.kind = test.kind
			l.accepted("7", job, "")
			test.do(l, func() time.Time { // always after all that came before
				for !time.Now().After(clock) {
				}
				clock = time.Now()
				return clock
			})
			var got []string
			for _, v := range l.violations() {
				got = append(got, v.class)
			}
			if test.want == "" && len(got) > 0 || test.want != "" && !slices.Equal(got, []string{test.want}) {
				t.Errorf("found %v, want %q", l.violations(), test.want)
			}
			if _, bad := l.summary(); bad != len(got) {
				t.Errorf("the summary counts %d violations", bad)
			}
		})
	}
}

// Rows of two pipelines are told apart, whatever is to be there of them.
func TestLedgerTellsPipelinesApart(t *testing.T) {
	for name, test := range map[string]struct {
		kind  kind
		lines map[string]int
		bad   int
	}{
		"all rows":                     {ckptBatch, map[string]int{"1": 1, "2": 1, "b1": 1, "b2": 1}, 0},
		"one of the second missing":    {ckptBatch, map[string]int{"1": 1, "2": 1, "b1": 1}, 1},
		"one of the first twice":       {ckptBatch, map[string]int{"1": 2, "2": 1, "b1": 1, "b2": 1}, 1},
		"some rows":                    {ckptStream, map[string]int{"1": 1, "b1": 1, "b2": 1}, 0},
		"a gap in the second":          {ckptStream, map[string]int{"1": 1, "2": 1, "b2": 1}, 1},
		"a row that neither of it has": {ckptStream, map[string]int{"1": 1, "b3": 1}, 1},
	} {
		l := newLedger(func(*entry) []string { return nil })
		l.accepted("7", planned{kind: test.kind, pipelines: 2, subtasks: 1, rows: 2, legs: []int{1}}, "")
		end := "FINISHED"
		if test.kind == ckptStream {
			l.stopped("7")
			end = "CANCELED"
		}
		l.ended("n1", time.Now(), []view{{JobID: "7", JobStatus: end}})
		l.output("7", test.lines, nil)
		if got := l.violations(); len(got) != test.bad {
			t.Errorf("%s: found %v", name, got)
		}
	}
}

// Output that changes after the job's end means that something of it ran again.
func TestLedgerSeesChangedOutput(t *testing.T) {
	n := 0
	l := newLedger(func(*entry) []string { n++; return []string{fmt.Sprint("file ", n)} })
	l.accepted("7", planned{kind: batch, pipelines: 1, subtasks: 1, rows: 1, legs: []int{1}}, "")
	l.ended("n1", time.Now(), []view{{JobID: "7", JobStatus: "FINISHED"}})
	l.output("7", map[string]int{"1": 1}, nil)
	if got := l.violations(); len(got) != 1 || got[0].class != ranAgain {
		t.Errorf("found %v", got)
	}
}

// One seed makes one plan, whose jobs and faults are of all kinds and in the order of time.
func TestPlanFollowsFromItsSeed(t *testing.T) {
	a, b, c := newPlan(3, 200, 200, time.Minute, true), newPlan(3, 200, 200, time.Minute, true), newPlan(4, 200, 200, time.Minute, true)
	if fmt.Sprint(a) != fmt.Sprint(b) || fmt.Sprint(a) == fmt.Sprint(c) {
		t.Error("the plan does not follow from the seed")
	}
	seen := map[string]int{}
	for i, j := range a.jobs {
		seen[string(j.kind)]++
		if i > 0 && j.at < a.jobs[i-1].at {
			t.Error("jobs are out of order")
		}
	}
	for i, f := range a.faults {
		seen[string(f.kind)]++
		if i > 0 && f.at < a.faults[i-1].at {
			t.Error("faults are out of order")
		}
	}
	if len(seen) != len(kinds)+7 {
		t.Errorf("kinds: %v", seen)
	}
	for _, f := range newPlan(3, 0, 500, time.Minute, false).faults {
		if f.kind == killTwo {
			t.Error("two members of a small cluster die at once")
		}
	}
}
