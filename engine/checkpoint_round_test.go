package engine

import (
	"testing"
	"time"
)

// What rounds and the state make of each event, at each time.
func TestRounds(t *testing.T) {
	const ms = time.Millisecond
	running := func(open uint64) *pipelineState {
		return &pipelineState{ID: 1, Status: TaskRunning, Ckpt: ckptState{Open: open, Next: 9}, Tasks: []taskState{
			{Source: 1, Subtask: 0, Status: TaskRunning, Attempt: 2}, {Source: 1, Subtask: 1, Status: TaskRunning, Attempt: 1},
			{Source: 1, Subtask: 2, Status: TaskFinished, Attempt: 1}}}
	}
	a, b := taskRef{1, 1, 0, 2}, taskRef{1, 1, 1, 1}
	old := taskRef{1, 1, 0, 1}
	open := func() *rounds {
		r := &rounds{interval: 100 * ms, timeout: 50 * ms, minPause: 30 * ms}
		r.follow(100*ms, running(7), 7)
		return r
	}
	for name, test := range map[string]struct {
		do   func(r *rounds)
		at   time.Duration
		want obsKind // of the result; -1: none
	}{
		"nobody has answered":           {func(*rounds) {}, 149 * ms, -1},
		"one is missing":                {func(r *rounds) { r.answer(7, a, taskPoint{}) }, 149 * ms, -1},
		"all that run have answered":    {func(r *rounds) { r.answer(7, a, taskPoint{}); r.answer(7, b, taskPoint{}) }, 101 * ms, obsCkptDone},
		"all, but one for another":      {func(r *rounds) { r.answer(7, a, taskPoint{}); r.answer(6, b, taskPoint{}) }, 101 * ms, -1},
		"all, but one an attempt ago":   {func(r *rounds) { r.answer(7, old, taskPoint{}); r.answer(7, b, taskPoint{}) }, 101 * ms, -1},
		"late":                          {func(r *rounds) { r.answer(7, b, taskPoint{}) }, 150 * ms, obsCkptLate},
		"all, at the last moment":       {func(r *rounds) { r.answer(7, a, taskPoint{}); r.answer(7, b, taskPoint{}) }, 150 * ms, obsCkptDone},
		"given up by the state":         {func(r *rounds) { r.follow(110*ms, running(0), 7) }, 150 * ms, -1},
		"answer after it was given up":  {func(r *rounds) { r.follow(110*ms, running(0), 7); r.answer(7, a, taskPoint{}) }, 150 * ms, -1},
		"another one is open meanwhile": {func(r *rounds) { r.follow(110*ms, running(8), 7) }, 300 * ms, -1},
	} {
		t.Run(name, func(t *testing.T) {
			r := open()
			test.do(r)
			p := running(r.id)
			o := r.result(test.at, p)
			switch {
			case o == nil && test.want != -1, o != nil && o.kind != test.want:
				t.Errorf("result = %+v, want %v", o, test.want)
			case o != nil && o.kind == obsCkptLate && (len(o.late) != 1 || o.late[0] != a):
				t.Errorf("late is %v, want %v", o.late, a)
			}
		})
	}
	r := open()
	if orphan := (&rounds{}).follow(0, running(7), 0); orphan != 7 {
		t.Errorf("a new master takes checkpoint %d of the old one for its own", orphan)
	}
	for at, want := range map[time.Duration]bool{199 * ms: false, 200 * ms: false} { // one is in flight
		if r.ready(at) != want {
			t.Errorf("ready at %v: %v", at, !want)
		}
	}
	r.follow(190*ms, running(0), 7)
	for at, want := range map[time.Duration]bool{219 * ms: false, 220 * ms: true} { // the pause counts from the end
		if r.ready(at) != want {
			t.Errorf("ready at %v: %v", at, !want)
		}
	}
	r = open()
	r.follow(120*ms, running(0), 7)
	for at, want := range map[time.Duration]bool{199 * ms: false, 200 * ms: true} { // the interval from the beginning
		if r.ready(at) != want {
			t.Errorf("ready at %v: %v", at, !want)
		}
	}
	if (&rounds{}).ready(time.Hour) {
		t.Error("without an interval one is due")
	}
}

// The figures keep a bounded history, the newest first.
func TestCheckpointMonitorIsBounded(t *testing.T) {
	m := JobCheckpoints{}
	a := &pipelineState{ID: 1}
	for id := uint64(1); id <= 100; id++ {
		b, c := *a, *a
		b.Ckpt.Open = id
		c.Ckpt = ckptState{Done: id}
		m.note(a, &b, CompletedPoint, 0, "", time.Unix(int64(id), 0))
		m.note(&b, &c, CompletedPoint, 10, "", time.Unix(int64(id)+1, 0))
		a = &c
	}
	p := m.Pipelines[0]
	if len(p.History) != maxHistoryRing || p.History[0].ID != 100 || p.Completed != 100 || p.Triggered != 100 || p.Open != nil || p.LatestCompleted.ID != 100 {
		t.Errorf("figures = %+v", p)
	}
	if m.note(a, a, CompletedPoint, 0, "", time.Now()) {
		t.Error("a step that did nothing is noted")
	}
}

// What is kept of a job depends on its end.
func TestCheckpointIndexRetained(t *testing.T) {
	x := checkpointIndex{Incarnation: "a", Pipelines: []keptPipeline{{ID: 1, Kept: []keptCheckpoint{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4, Kind: SavepointKind}}}}}
	for name, test := range map[string]struct {
		end      JobStatus
		pipeline TaskStatus
		retain   bool
		want     []uint64
	}{
		"finished":                     {JobFinished, TaskFinished, true, nil},
		"canceled":                     {JobCanceled, TaskCanceled, false, nil},
		"canceled, and to be kept":     {JobCanceled, TaskCanceled, true, []uint64{2, 3}},
		"failed":                       {JobFailed, TaskFailed, false, []uint64{2, 3}},
		"failed, the pipeline did not": {JobFailed, TaskFinished, false, []uint64{3, 4}},
		"savepoint":                    {JobSavepointDone, TaskFinished, false, []uint64{4}},
	} {
		st := &jobState{Status: test.end, Pipelines: []pipelineState{{ID: 1, Status: test.pipeline, Ckpt: ckptState{Done: 3, Final: 4}}}}
		got := x.retained(st, test.retain, 2)
		var ids []uint64
		for _, p := range got.Pipelines {
			for _, k := range p.Kept {
				ids = append(ids, k.ID)
			}
		}
		if len(ids) != len(test.want) || len(ids) > 0 && (ids[0] != test.want[0] || ids[len(ids)-1] != test.want[len(ids)-1]) {
			t.Errorf("%s: kept %v, want %v", name, ids, test.want)
		}
		if drop := x.missing("1", got); len(drop) != 4-len(ids) {
			t.Errorf("%s: dropped %v", name, drop)
		}
	}
}
