package engine

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"gridnode/engine/config"
)

func sampleRecords() map[string]any {
	st := testState(2, 3)
	st.Cause, st.PendingFor, st.Cancel = "a cause", strings.Repeat("x", 300), true
	st.Pipelines[0].Tasks[0].Prepared = []preparedOutput{{Vertex: 3, Data: make([]byte, 70_000)}}
	st.Pipelines[1].Tasks[1].Visible = []tally{{Table: "t", SinkRows: 5}}
	st.Pipelines[1].Tasks[2].Tallies = []tally{{Table: "t", SourceRows: -1, SinkBytes: 1 << 40}}
	point := taskPoint{Source: 1, Subtask: 2, Position: make([]byte, 300), States: []vertexState{{Vertex: 3, Data: []byte("s")}},
		Tallies: []tally{{Table: "t", SinkRows: 7}}, Prepared: []preparedOutput{{Vertex: 3, Data: make([]byte, 300)}}, Worker: "m0"}
	st.Savepoint, st.Pipelines[0].Tasks[1].End = true, &point
	st.Pipelines[1].Ckpt = ckptState{Next: 1 << 63, Open: 3, Done: 2, Committed: true, Final: 9, Rescaled: true}
	figures := JobCheckpoints{JobID: "7", Incarnation: "i"}
	for i := range uint64(70) {
		a, b := pipelineState{ID: 1, Ckpt: ckptState{Open: i + 1}}, pipelineState{ID: 1, Ckpt: ckptState{Done: i + 1}}
		figures.note(&a, &b, RegularCheckpoint, 812, "late", time.UnixMilli(5))
	}
	times := newTimestamps(st, 5)
	return map[string]any{
		"info":     jobInfo{Incarnation: "i", Config: make([]byte, 300), CreatedMs: 1 << 40},
		"state":    *st,
		"times":    times,
		"record":   cleanupRecord{Incarnation: "i", Status: JobFailed, Attempts: 70_000, LastError: "e"},
		"history":  historyEntry{SubmitKey: "k", View: JobView{JobID: "7", CreateTime: time.UnixMilli(5), Metrics: Metrics{Tables: map[string]TableMetrics{"t": {SinkQPS: 1.5}}}}},
		"request":  request{Op: opOrder, Body: encode(orderRequest{Tasks: []taskRef{{1, 2, 3, 4}}})},
		"response": response{Code: codeOK, After: -time.Second, Body: encode(make([]JobView, 40))},
		"nothing":  struct{}{},
		"checkpoint": checkpointData{JobID: "7", Incarnation: "i", Pipeline: 1, ID: 1 << 63, Kind: SavepointKind,
			Vertices: []vertexSpec{{ID: 1, Kind: "source", Plugin: "FakeSource", Parallelism: 3}}, Tasks: []taskPoint{point, {Done: true}}},
		"index":   checkpointIndex{Incarnation: "i", Status: JobFailed, Pipelines: []keptPipeline{{ID: 1, Kept: []keptCheckpoint{{ID: 3, Settled: true}, {ID: 4, Broken: true}}}}},
		"figures": figures,
		"barrier": barrierRequest{JobID: "7", Incarnation: "i", Term: 3, ID: 4, Tasks: []taskRef{{1, 2, 3, 4}}},
		"answer":  barrierAnswer{Points: []*taskPoint{nil, &point}},
		"long":    strings.Repeat("y", 1<<17),
		"floats":  []any{float32(1), float64(2), int8(-100), int16(-300), int32(-70_000), int64(-1 << 40), uint8(200), uint16(60_000), uint32(1 << 31), uint64(1 << 63)},
	}
}

// All that the package writes is within the bounds, and comes back as it was.
func TestRecordsAreWithinTheBounds(t *testing.T) {
	for name, v := range sampleRecords() {
		b := encode(v)
		if err := checkRecord(b, maxRecordValues); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for cut := range min(len(b), 2000) {
			if err := checkRecord(b[:cut], maxRecordValues); !errors.Is(err, errMalformed) {
				t.Errorf("%s, %d of %d bytes: %v", name, cut, len(b), err)
			}
		}
		if err := checkRecord(append(bytes.Clone(b), 0), maxRecordValues); !errors.Is(err, errMalformed) {
			t.Errorf("%s with a byte too many: %v", name, err)
		}
	}
}

// Bytes that claim more than they have, or more than anything of the engine has, are refused before anything is allocated for them.
func TestMalformedRecordsCostNothing(t *testing.T) {
	claim := func(b ...byte) []byte { return b }
	for name, b := range map[string][]byte{
		"empty":               {},
		"unused byte":         claim(0xc1),
		"text of 4 GiB":       claim(0xdb, 0xff, 0xff, 0xff, 0xff),
		"bytes of 4 GiB":      claim(0xc6, 0xff, 0xff, 0xff, 0xff, 1, 2, 3),
		"extension of 4 GiB":  claim(0xc9, 0xff, 0xff, 0xff, 0xff, 1),
		"array of 4 Gi":       claim(0xdd, 0xff, 0xff, 0xff, 0xff, 1, 1, 1),
		"map of 4 Gi":         claim(0xdf, 0xff, 0xff, 0xff, 0xff, 1, 1, 1),
		"array of 65535":      append(claim(0xdc, 0xff, 0xff), make([]byte, 1000)...),
		"deep":                append(bytes.Repeat(claim(0x91), 1<<20), 0xc0),
		"deep maps":           append(bytes.Repeat(claim(0x81, 0xc0), 1<<20), 0xc0),
		"wide nothing":        append(claim(0xdd, 0x00, 0x40, 0x00, 0x00), bytes.Repeat(claim(0xc0), 1<<22)...),
		"tasks of nothing":    manyTasks(1 << 21),
		"map in a map in map": claim(0x81, 0xa1, 'a', 0x81, 0xa1, 'b', 0xdf, 0x7f, 0xff, 0xff, 0xff),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var st *jobState
		err := load(Entry{Value: b, Version: 1}, &st)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%s: %d bytes were allocated for %d", name, got, len(b))
		}
	}
	for _, bad := range []taskState{{Subtask: -1}, {Attempt: -1}} {
		st := testState(1, 1)
		st.Pipelines[0].Tasks[0] = bad
		var got *jobState
		if err := load(Entry{Value: encode(st), Version: 1}, &got); !errors.Is(err, errMalformed) {
			t.Errorf("a state with %+v: %v", bad, err)
		}
	}
}

// manyTasks is a state with tasks that take one byte each.
func manyTasks(n int) []byte {
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	_ = errors.Join(enc.EncodeMapLen(1), enc.EncodeString("Pipelines"), enc.EncodeArrayLen(1), enc.EncodeMapLen(1), enc.EncodeString("Tasks"), enc.EncodeArrayLen(n))
	return append(b.Bytes(), bytes.Repeat([]byte{0xc0}, n)...)
}

// FuzzRecords decodes bytes as every record and message, and takes steps with what came out. Nothing may panic, and what is accepted is stored again as
// the same.
func FuzzRecords(f *testing.F) {
	for _, v := range sampleRecords() {
		f.Add(encode(v))
	}
	f.Add([]byte{0xc0})
	f.Fuzz(func(t *testing.T, b []byte) {
		e := Entry{Key: keyOf(MapRunningJobState, "7"), Value: b, Version: 1}
		get := func(Key) Entry { return e }
		if s, err := snapshotOf("7", get); err == nil && s.state != nil {
			s.versions = map[string]uint64{}
			stepAll(t, s)
		}
		var req request
		if decode(b, &req) == nil {
			for _, into := range []any{&orderRequest{}, &commitRequest{}, &cleanupRequest{}, &barrierRequest{}, &report{}, &progressReport{}, &SubmitRequest{}, &StopRequest{}} {
				_ = decode(req.Body, into)
			}
		}
		var res response
		if decode(b, &res) == nil {
			_ = fmt.Sprint(res.err())
			_ = decode(res.Body, &[]JobView{})
			_ = decode(res.Body, &barrierAnswer{})
		}
		readCheckpoints(t, e)
		var st *jobState
		if load(e, &st) == nil {
			again := encode(st)
			var st2 *jobState
			if err := load(Entry{Value: again, Version: 1}, &st2); err != nil || !bytes.Equal(encode(st2), again) {
				t.Errorf("a state that was read cannot be stored: %v", err)
			}
		}
	})
}

// readCheckpoints reads bytes as all that is stored about checkpoints, and goes on from what came out. What can be read is stored again as the same.
func readCheckpoints(t *testing.T, e Entry) {
	var index *checkpointIndex
	if load(e, &index) == nil {
		st := testState(2, 1)
		st.Status = JobFailed
		_ = index.missing("7", index.retained(st, true, 2))
	}
	var figures *JobCheckpoints
	if load(e, &figures) == nil {
		p := pipelineState{ID: 1, Ckpt: ckptState{Open: 1}}
		figures.note(&p, &pipelineState{ID: 1, Ckpt: ckptState{Done: 1}}, RegularCheckpoint, 1, "", time.UnixMilli(5))
	}
	var data *checkpointData
	if load(e, &data) != nil {
		return
	}
	again, err := unseal(sealed(data))
	if err != nil || !bytes.Equal(encode(again), encode(data)) {
		t.Fatalf("a checkpoint that was read cannot be stored: %v", err)
	}
	for now := 1; now < 4; now++ {
		p := config.Pipeline{ID: 1, Vertices: []config.Vertex{{ID: 1, Kind: config.SourceVertex, Plugin: "FakeSource", Parallelism: now}}}
		_, _ = restoreFrom(data, p, taskRef{Pipeline: 1, Source: 1})
		_, _ = fit(data, jobInfo{}, &config.Job{Pipelines: []config.Pipeline{p}}, false)
	}
}

// stepAll takes the steps that follow from a state that was read.
func stepAll(t *testing.T, s snapshot) {
	w := testWorld(2)
	next := decide(s.state, nil, w)
	_ = transitionTxn(s, next, 1)
	_ = dueCalls(next, true, func(taskRef) bool { return false })
	_ = view(&definition{jobID: "7"}, next, nil, time.Now())
	if _, err := takeOverTxn(s, 1<<40); err != nil {
		return
	}
	if s.state.Status.Final() {
		t.Error("a job that has ended is taken over")
	}
	d := &driver{c: &coordinator{s: &Service{cfg: Config{Cluster: &seat{rig: &rig{}}}}}}
	for i := range next.Pipelines {
		for _, task := range next.Pipelines[i].Tasks {
			_ = d.committer(task, 3)
		}
	}
}

// Timestamps that have no place for every state, as from another version, are made anew instead of being written past their end.
func TestTimestampsThatDoNotFit(t *testing.T) {
	st := testState(2, 1)
	for name, ts := range map[string]timestamps{
		"none":         {},
		"short":        {Job: make([]int64, 3), Pipelines: [][]int64{make([]int64, 10), make([]int64, 10)}},
		"one pipeline": {Job: make([]int64, len(jobStatuses())), Pipelines: [][]int64{make([]int64, 10)}},
		"short ones":   {Job: make([]int64, len(jobStatuses())), Pipelines: [][]int64{nil, nil}},
	} {
		ts.Incarnation = st.Incarnation
		s := snapshot{jobID: "7", state: st, times: &ts, versions: map[string]uint64{}}
		next := decide(st, nil, testWorld(1))
		if len(next.trail) == 0 {
			t.Fatal("nothing happens")
		}
		txn := transitionTxn(s, next, 9)
		var got *timestamps
		if err := load(Entry{Value: txn.Put[1].Value, Version: 1}, &got); err != nil || !got.fit(next) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
