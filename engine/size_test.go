package engine

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"gridnode/engine/catalog"
	"gridnode/engine/config"

	"github.com/google/go-cmp/cmp"
)

// wide is the config of a job with so many sources, each with so many subtasks, which all feed the same sinks; names of tables have length bytes.
func wide(sources, parallelism, sinks, length int) string {
	var in, names, out []string
	for i := range sources {
		name := fmt.Sprintf("%0*d", length, i)
		names = append(names, `"`+name+`"`)
		in = append(in, `{"plugin_name":"FakeSource","plugin_output":"`+name+`","schema":{"fields":{"id":"int"}}}`)
	}
	for range sinks {
		out = append(out, `{"plugin_name":"Console","plugin_input":[`+strings.Join(names, ",")+`]}`)
	}
	return fmt.Sprintf(`{"env":{"parallelism":%d},"source":[%s],"sink":[%s]}`, parallelism, strings.Join(in, ","), strings.Join(out, ","))
}

func planOf(t *testing.T, text string) *config.Job {
	t.Helper()
	plan, err := config.Parse([]byte(text), catalog.New())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// A job that is accepted has a state that its entry can hold, whatever becomes of its tasks: with all figures, with the output that it may
// prepare at most, and with all that is remembered of failures.
func TestState_FitsItsEntry(t *testing.T) {
	const entry = 4 << 20
	for _, tc := range []struct{ sources, parallelism, sinks, length int }{
		{1, 1, 1, 1}, {1, 1024, 1, 7}, {6, 1024, 1, 7}, {8, 1024, 3, 1}, {256, 16, 1, 3}, {20, 5, 9, 300}, {1, 1024, 1, maxTableName}, {30, 20, 2, maxTableName},
		{256, 1024, 1, 3}, {9, 1024, 1, 7}, {256, 4, 1, 1000},
	} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			plan := planOf(t, wide(tc.sources, tc.parallelism, tc.sinks, tc.length))
			if err := checkSize(plan); err != nil {
				if tc.sources*tc.parallelism*(200+2*(tc.length+100)) < maxBareState || !strings.Contains(err.Error(), `option "parallelism"`) {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if tc.sources*tc.parallelism > 20_000 {
				t.Error("accepted")
			}
			st := newState(jobInfo{Incarnation: strings.Repeat("i", 36)}, plan, math.MaxUint64)
			most := min(maxPrepared, maxState-stateBytes(plan))
			grow(st, plan, most)
			if n := len(encode(*st)); n > entry {
				t.Errorf("a state of %d bytes; of them %d prepared, and %d said to be the rest", n, most, stateBytes(plan))
			}
			if _, err := decodedState(encode(*st)); err != nil {
				t.Errorf("such a state cannot be read: %v", err)
			}
		})
	}
}

func decodedState(b []byte) (*jobState, error) {
	st := new(jobState)
	return st, decodeWithin(b, st, maxRecordValues)
}

// grow fills a state with all that it can come to hold.
func grow(st *jobState, plan *config.Job, prepared int) {
	d := &decider{st: st, hurt: map[int][]injury{}}
	for range 2 * (firstFailures + lastFailures) {
		d.injure(&st.Pipelines[0], injury{task: &st.Pipelines[0].Tasks[0], cause: strings.Repeat("x", 1<<20)})
	}
	d.failJob(strings.Repeat("x", 1<<20))
	tasks := 0
	for i := range st.Pipelines {
		tasks += len(st.Pipelines[i].Tasks)
	}
	for i := range st.Pipelines {
		p, vertices := &st.Pipelines[i], plan.Pipelines[i].Vertices
		sinks := 0
		figures := map[int][]tally{}
		for _, v := range vertices {
			if v.Kind == config.SourceVertex {
				for name := range flowOf(plan.Pipelines[i]).tablesFrom(v) {
					figures[v.ID] = append(figures[v.ID], tally{name, math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64})
				}
			}
			if v.Sink != nil {
				sinks++
			}
		}
		for j := range p.Tasks {
			task := &p.Tasks[j]
			figures := figures[task.Source]
			*task = taskState{Source: task.Source, Subtask: task.Subtask, Status: TaskFinished, Attempt: math.MaxInt32, Worker: strings.Repeat("w", 36),
				Parting: true, Moving: true, Committed: true, Tallies: figures, Visible: figures}
			for k := range sinks {
				task.Prepared = append(task.Prepared, preparedOutput{Vertex: k, Data: make([]byte, prepared/tasks/sinks)})
			}
		}
	}
}

func TestCheckSize_WhatItNames(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{wide(1, 1, 1, maxTableName), ""},
		{wide(1, 1, 1, maxTableName+1), `pipeline-1 [Source[0]-FakeSource]: option "plugin_output", or "table" of its schema, has 1025 bytes; at most 1024 are allowed`},
		{`{"source":[{"plugin_name":"FakeSource","schema":{"table":"` + strings.Repeat("t", 2000) + `","fields":{"id":"int"}}}],"sink":[{"plugin_name":"Console"}]}`, "has 2000 bytes"},
		{wide(40, 1, 120, 800), `option "plugin_output": the job's graph, with the names of tables`},
		{strings.Replace(wide(1, 1, 1, 1), `{"parallelism":1}`, `{"jars":"x","custom_parameters":"`+strings.Repeat("x", maxHistory)+`"}`, 1), `env: option "custom_parameters" has 3670016 bytes`},
	} {
		err := checkSize(planOf(t, tc.text))
		if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
}

// The history of a job that is accepted can be stored: what is kept of an ended job could not be cleaned up otherwise.
func TestHistory_FitsItsEntry(t *testing.T) {
	big := func(n int) string {
		return strings.Replace(wide(2, 2, 2, 9), `"env":{`, `"env":{"custom_parameters":{"x":"`+strings.Repeat("\u2028", n/3)+`"},`, 1)
	}
	accepted := 0
	for _, text := range []string{wide(1, 1, 1, 1), wide(256, 1, 128, 3), wide(256, 1, 200, 9), wide(40, 4, 60, 900), big(1 << 10), big(1 << 20), big(1700 << 10), big(2 << 20), big(3 << 20)} {
		plan := planOf(t, text)
		if checkSize(plan) != nil {
			continue
		}
		accepted++
		st := newState(jobInfo{}, plan, math.MaxUint64)
		grow(st, plan, 1<<20)
		st.turn(JobFailed)
		now := time.Now()
		h := historyEntry{SubmitKey: strings.Repeat("k", 255), View: view(&definition{jobID: "9223372036854775807", plan: plan}, st, nil, now)}
		if n := len(encode(h)); n > 4<<20 {
			t.Errorf("a history of %d bytes", n)
		}
	}
	if accepted < 5 {
		t.Errorf("%d are accepted", accepted)
	}
}

// What is estimated of a source's tables is what its rows are counted for.
func TestTablesFrom_AreThoseThatAreCounted(t *testing.T) {
	const text = `{"source":[{"plugin_name":"FakeSource","plugin_output":"a","schema":{"fields":{"id":"int"}}},{"plugin_name":"FakeSource","plugin_output":"b","schema":{"fields":{"id":"int"}}}],
		"transform":[{"plugin_name":"Filter","include_fields":["id"],"plugin_input":["a","b"],"plugin_output":"c"},{"plugin_name":"Filter","include_fields":["id"],"plugin_input":["a"],"plugin_output":"d"}],
		"sink":[{"plugin_name":"Console","plugin_input":["a","c","d"],"log.print.data":false}]}`
	p := planOf(t, text).Pipelines[0]
	got := map[string]bool{}
	for _, v := range p.Vertices {
		if v.Kind == config.SourceVertex {
			for name := range flowOf(p).tablesFrom(v) {
				got[v.Tables[0]+">"+name] = true
			}
		}
	}
	want := map[string]bool{"a>a": true, "a>c": true, "a>d": true, "b>b": true, "b>c": true}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for name := range chainFigures(t, text) {
		if !got["a>"+name] && !got["b>"+name] {
			t.Errorf("rows are counted for %s", name)
		}
	}
}
