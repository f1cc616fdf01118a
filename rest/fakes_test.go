package rest

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"gridnode/engine"
	"gridnode/engine/plugin"
	"gridnode/grid"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	time.Local = time.UTC // golden files show local times
	goleak.VerifyTestMain(m)
}

// fakeJobs answers from its fields, and remembers what it was asked.
type fakeJobs struct {
	mu       sync.Mutex
	views    map[string]engine.JobView
	overview engine.Overview
	cleanups []engine.CleanupView
	ckpts    map[string]engine.JobCheckpoints
	saves    map[string]engine.JobSavepoints
	err      error            // of every call
	failOn   map[string]error // by job name of a submit, or job id of a stop
	submits  []engine.SubmitRequest
	stops    []engine.StopRequest
	panics   bool
}

var _ Jobs = (*fakeJobs)(nil)

func (f *fakeJobs) Submit(_ context.Context, req engine.SubmitRequest) (engine.SubmitResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.submits = append(f.submits, req)
	if err := cmp.Or(f.failOn[req.JobName], f.err); err != nil {
		return engine.SubmitResult{}, err
	}
	return engine.SubmitResult{
		JobID: cmp.Or(req.JobID, "4711"), JobName: cmp.Or(req.JobName, "default"), Status: engine.JobCreated,
		Warnings: map[bool][]string{true: {"env: option \"x\" has no effect yet"}}[req.JobName == "warned"],
	}, nil
}

func (f *fakeJobs) Stop(_ context.Context, req engine.StopRequest) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stops = append(f.stops, req)
	return cmp.Or(f.failOn[req.JobID], f.err)
}

// show replaces a job.
func (f *fakeJobs) show(v engine.JobView) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.views[v.JobID] = v
}

// fail makes every call fail, until it is told nil.
func (f *fakeJobs) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeJobs) Info(_ context.Context, id string) (engine.JobView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics {
		panic("a secret of the member")
	}
	if v, ok := f.views[id]; ok || f.err != nil {
		return v, f.err
	}
	return engine.JobView{}, engine.ErrNotFound
}

func (f *fakeJobs) Running(context.Context) ([]engine.JobView, error) {
	return f.list(func(s engine.JobStatus) bool { return !s.Final() }), f.err
}

func (f *fakeJobs) Finished(_ context.Context, status engine.JobStatus) ([]engine.JobView, error) {
	return f.list(func(s engine.JobStatus) bool { return s.Final() && (status == "" || s == status) }), f.err
}

func (f *fakeJobs) FinishedPage(ctx context.Context, status engine.JobStatus, from, rows int) (engine.JobsPage, error) {
	all, err := f.Finished(ctx, status)
	all = newestFirst(all)
	from = min(from, len(all))
	return engine.JobsPage{Jobs: all[from : from+min(rows, len(all)-from)], Total: len(all)}, err
}

func (f *fakeJobs) Jobs(_ context.Context, status engine.JobStatus, from, rows int) (engine.JobsPage, error) {
	live := newestFirst(f.list(func(s engine.JobStatus) bool { return !s.Final() }))
	all := append(live, newestFirst(f.list(engine.JobStatus.Final))...)
	p := engine.JobsPage{Counts: map[engine.JobStatus]int{}}
	for _, v := range all {
		p.Counts[v.Status]++
	}
	all = slices.DeleteFunc(all, func(v engine.JobView) bool { return status != "" && v.Status != status })
	from = min(from, len(all))
	p.Jobs, p.Total = all[from:from+min(rows, len(all)-from)], len(all)
	return p, f.err
}

func (f *fakeJobs) list(want func(engine.JobStatus) bool) (out []engine.JobView) {
	for _, id := range slices.Sorted(maps.Keys(f.views)) {
		if v := f.views[id]; want(v.Status) {
			out = append(out, v)
		}
	}
	return out
}

func (f *fakeJobs) Overview(context.Context) (engine.Overview, error) { return f.overview, f.err }

func (f *fakeJobs) Cleanups(context.Context) ([]engine.CleanupView, error) { return f.cleanups, f.err }

func (f *fakeJobs) Checkpoints(_ context.Context, id string) (engine.JobCheckpoints, error) {
	if v, ok := f.ckpts[id]; ok || f.err != nil {
		return v, f.err
	}
	return engine.JobCheckpoints{}, engine.ErrNotFound
}

func (f *fakeJobs) Savepoints(_ context.Context, id string) (engine.JobSavepoints, error) {
	if v, ok := f.saves[id]; ok || f.err != nil {
		return v, f.err
	}
	return engine.JobSavepoints{}, engine.ErrNotFound
}

func (f *fakeJobs) DropSavepoints(_ context.Context, id string) (int, error) {
	if v, ok := f.views[id]; ok && !v.Status.Final() {
		return 0, fmt.Errorf("%w: job %s has not ended: it needs its checkpoints itself", engine.ErrConflict, id)
	} else if !ok {
		return 0, engine.ErrNotFound
	}
	return 1, nil
}

// fakeMaps keeps entries in memory.
type fakeMaps struct {
	mu      sync.Mutex
	entries map[[2]string]Value
	version uint64
	err     error // of every call
}

var _ Maps = (*fakeMaps)(nil)

func (f *fakeMaps) Get(_ context.Context, mapName, key string) (Value, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.entries[[2]string{mapName, key}]
	if !ok && f.err == nil {
		return v, ErrAbsent
	}
	return v, f.err
}

func (f *fakeMaps) Put(_ context.Context, mapName, key string, v Value, o PutOptions) (PutResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return PutResult{}, f.err
	}
	old, ok := f.entries[[2]string{mapName, key}]
	if o.IfAbsent && ok || o.IfPresent && !ok || o.IfVersion != 0 && o.IfVersion != old.Version {
		return PutResult{Version: old.Version}, nil
	}
	f.version++
	v.Version = f.version
	f.entries[[2]string{mapName, key}] = v
	return PutResult{Applied: true, Created: !ok, Version: v.Version, Partition: 1}, nil
}

func (f *fakeMaps) Delete(_ context.Context, mapName, key string, ifVersion uint64) (DeleteResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return DeleteResult{}, f.err
	}
	old, ok := f.entries[[2]string{mapName, key}]
	if !ok || ifVersion != 0 && ifVersion != old.Version {
		return DeleteResult{Version: old.Version}, nil
	}
	delete(f.entries, [2]string{mapName, key})
	return DeleteResult{Deleted: true}, nil
}

func (f *fakeMaps) Size(_ context.Context, mapName string) (n int, err error) {
	for k := range f.entries {
		if k[0] == mapName {
			n++
		}
	}
	return n, f.err
}

func (f *fakeMaps) List(ctx context.Context) (infos []MapInfo, err error) {
	names := map[string]bool{}
	for k := range f.entries {
		names[k[0]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		n, _ := f.Size(ctx, name)
		infos = append(infos, MapInfo{Name: name, Size: n, Bytes: 1, Locks: 2, MapCounts: MapCounts{
			Gets: 3, Hits: 4, Misses: 5, Puts: 6, Removes: 7, Evictions: 8, Expirations: 9,
		}})
	}
	return infos, f.err
}

func (f *fakeMaps) Entries(_ context.Context, mapName string, limit int) (out []Entry, err error) {
	for k, v := range f.entries {
		if k[0] == mapName {
			out = append(out, Entry{Key: k[1], Value: v})
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return out[:min(limit, len(out))], f.err
}

// Find finds the entries whose body is the where text, or refuses one that begins with an exclamation mark.
func (f *fakeMaps) Find(ctx context.Context, mapName string, q Find) (out []Entry, next string, err error) {
	if strings.HasPrefix(q.Where, "!") {
		return nil, "", fmt.Errorf("%w: where, position 1", grid.ErrBadRequest)
	}
	all, err := f.Entries(ctx, mapName, MaxEntries)
	for _, e := range all {
		switch {
		case e.Key <= q.After || q.Where != "" && string(e.Value.Body) != q.Where:
		case len(out) == q.Limit:
			return out, out[len(out)-1].Key, err
		default:
			out = append(out, e)
		}
	}
	return out, "", err
}

// fakeGrid is a cluster of three, of which m3 never answers.
type fakeGrid struct {
	state    *grid.State
	checks   []Check
	noQuorum error
	report   grid.Recovery
	refuses  error
	forced   []bool            // recoveries asked for
	tags     map[string]string // as they were set last
}

var _ Grid = (*fakeGrid)(nil)

func (f *fakeGrid) State() *grid.State  { return f.state }
func (f *fakeGrid) Self() grid.MemberID { return "id-1" }
func (f *fakeGrid) Checks() []Check     { return f.checks }
func (f *fakeGrid) Quorum() error       { return f.noQuorum }

func (f *fakeGrid) Moves(*grid.State) grid.Moves {
	return grid.Moves{Running: 1, Waiting: 2, HandOvers: 3, Drops: 4}
}

func (f *fakeGrid) Safe(s *grid.State) bool { return s.Complete() && f.Moves(s).Done() }

func (f *fakeGrid) Sending() grid.Sending { return grid.Sending{Copies: 1, Sent: 5000, Left: 131072} }

func (f *fakeGrid) Recover(_ context.Context, force bool) (grid.Recovery, error) {
	f.forced = append(f.forced, force)
	return f.report, f.refuses
}

func (f *fakeGrid) SetTags(_ context.Context, tags map[string]string) error {
	f.tags = tags
	return nil
}

func (f *fakeGrid) SystemInfo(_ context.Context, m grid.MemberID) (SystemInfo, error) {
	switch m {
	case "id-1":
		return SystemInfo{
			Processors: 4, PhysicalTotal: 8 << 30, PhysicalFree: 3 << 30, HeapUsed: 142_000_000, HeapTotal: 200_000_000, HeapMax: 8 << 30,
			GCCount: 12, GCPause: 110 * time.Millisecond, LoadAverage: 0.5, Goroutines: 63,
		}, nil
	case "id-2":
		return SystemInfo{}, grid.ErrUnreachable
	}
	return SystemInfo{}, context.DeadlineExceeded
}

func testState() *grid.State {
	return &grid.State{
		ClusterID: "c-1", ClusterName: "dev", Backups: 1, Index: 42, Master: "id-1", Term: 7,
		Members: []grid.Member{
			{ID: "id-1", Name: "n1", Address: "127.0.0.1:5701", HTTP: "http://127.0.0.1:8080", Roles: []string{"data", "worker"}, Attributes: map[string]string{"zone": "a"}, JoinSeq: 1, State: grid.Active},
			{ID: "id-2", Name: "n2", Address: "[::1]:5702", HTTP: "http://[::1]:8081", Roles: []string{"data", "worker"}, JoinSeq: 2, State: grid.Active},
			{ID: "id-3", Name: "n3", Address: "127.0.0.1:5703", HTTP: "http://127.0.0.1:8082", Roles: []string{"data"}, JoinSeq: 3, State: grid.Active},
		},
		Partitions: []grid.Partition{
			{Epoch: 3, Replicas: []grid.MemberID{"id-1", "id-2"}},
			{Epoch: 5, Replicas: []grid.MemberID{"id-2"}, Joining: []grid.MemberID{"id-3"}},
			{Epoch: 9, Lost: true},
		},
	}
}

func testJobs() *fakeJobs {
	at := func(minute, second int) time.Time { return time.Date(2026, 11, 30, 10, minute, second, 0, time.Local) }
	live := engine.JobView{
		JobID: "733584788375666689", JobName: "fake_to_console", Status: engine.JobRunning, Mode: plugin.Streaming,
		Env: map[string]string{"job.mode": "STREAMING", "parallelism": "2"}, CreateTime: at(15, 2), StartTime: at(15, 3), Restarts: 1,
		DAG: engine.DAG{
			Edges: map[int][]engine.Edge{1: {{From: 1, To: 2}}},
			Vertices: []engine.VertexView{
				{ID: 1, Pipeline: 1, Type: "source", Name: "pipeline-1 [Source[0]-FakeSource]", Tables: []string{"fake"}},
				{ID: 2, Pipeline: 1, Type: "sink", Name: "pipeline-1 [Sink[0]-Console]"},
			},
		},
		Metrics: engine.Metrics{
			Figures: engine.Figures{SourceRows: 100, SourceBytes: 3200, SinkRows: 99, SinkBytes: 3168, SourceQPS: 49.8, SinkQPS: 50, SourceBPS: 1593.604,
				CommittedRows: 60, CommittedBytes: 1920, CommittedQPS: 30},
			Tables: map[string]engine.TableMetrics{"fake": {SourceRows: 100, SinkRows: 99, SourceQPS: 49.8, CommittedRows: 60}},
		},
		Tasks: []engine.TaskView{{Pipeline: 1, Source: 1, Subtask: 0, Status: engine.TaskRunning, Attempt: 2, Member: "id-2"}},
	}
	pending := engine.JobView{JobID: "8", JobName: "同步-Ünï 😀", Status: engine.JobPending, CreateTime: at(20, 0), PendingFor: "2 slots are wanted, 0 are free", Savepoint: true,
		TagFilter: map[string]string{"zone": "a"}, Overtaken: 3, Tasks: []engine.TaskView{
			{Pipeline: 1, Source: 1, Subtask: 0, Status: engine.TaskCreated}, {Pipeline: 1, Source: 1, Subtask: 1, Status: engine.TaskCreated},
			{Pipeline: 2, Source: 3, Subtask: 0, Status: engine.TaskCreated},
		}}
	ended := func(id string, s engine.JobStatus, minute int, msg string) engine.JobView {
		return engine.JobView{JobID: id, JobName: "job-" + id, Status: s, CreateTime: at(1, 0), FinishTime: at(minute, 0), ErrorMsg: msg}
	}
	failed := ended("22", engine.JobFailed, 32, "sink[0] (Assert): row <1> & more")
	failed.Incarnation, failed.Mode, failed.Restarts, failed.FailureSum = "i-22", plugin.Batch, 1, 2
	utc := func(second int) time.Time { return time.Date(2026, 11, 30, 10, 31, second, 0, time.UTC) }
	for i := range 2 {
		failed.Failures = append(failed.Failures, engine.FailureView{
			Time: utc(i), Pipeline: 1, Source: 1, Attempt: i + 1, Member: "id-2", Error: "row <1> & more",
		})
	}
	failed.Times = engine.Times{
		Job:       map[engine.JobStatus]time.Time{engine.JobCreated: utc(0), engine.JobFailed: utc(9)},
		Pipelines: map[int]map[engine.TaskStatus]time.Time{1: {engine.TaskFailed: utc(9)}},
		Tasks: []engine.TaskTimes{{Pipeline: 1, Source: 1, Attempt: 2, Member: "id-2",
			States: map[engine.TaskStatus]time.Time{engine.TaskRunning: utc(3), engine.TaskFailed: utc(9)}}},
	}
	done := engine.CheckpointView{ID: 4, Kind: engine.RegularCheckpoint, Status: engine.CheckpointCompleted, BeganAt: at(1, 1), EndedAt: at(1, 2), Bytes: 812}
	late := engine.CheckpointView{ID: 3, Kind: engine.RegularCheckpoint, Status: engine.CheckpointFailed, BeganAt: at(1, 0), EndedAt: at(1, 1),
		Reason: "not complete within checkpoint.timeout"}
	return &fakeJobs{
		ckpts: map[string]engine.JobCheckpoints{live.JobID: {JobID: live.JobID, Incarnation: "i-1", UpdatedAt: at(1, 3), Pipelines: []engine.PipelineCheckpoints{{
			Pipeline: 1, Triggered: 3, Completed: 1, Failed: 1, Restored: 1, LatestCompleted: &done, LatestFailed: &late,
			Open:    &engine.OpenCheckpoint{ID: 5, Kind: engine.RegularCheckpoint, BeganAt: at(1, 3), Acknowledged: 1, Total: 2},
			History: []engine.CheckpointView{done, late},
		}}}},
		saves: map[string]engine.JobSavepoints{live.JobID: {JobID: live.JobID, Incarnation: "i-1", Savepoints: []engine.SavepointView{
			{Pipeline: 1, ID: 4, Kind: engine.RegularCheckpoint, TakenAt: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC), Bytes: 812, Usable: true}}}},
		views: map[string]engine.JobView{
			live.JobID: live, pending.JobID: pending,
			"21": ended("21", engine.JobFinished, 30, ""),
			"22": failed,
			"23": ended("23", engine.JobCanceled, 31, ""),
		},
		overview: engine.Overview{
			Workers: 2, TotalSlots: 40, FreeSlots: 36, Running: 1, Pending: 1, Finished: 1, Failed: 1, Canceled: 1, MasterID: "id-1", Term: 7,
			Strategy: engine.ScheduleWait,
			Slots: []engine.WorkerSlots{
				{MemberID: "id-1", Tags: map[string]string{"zone": "a"}, Total: 10, Used: 4, Jobs: []string{"733584788375666689"}},
				{MemberID: "id-2", Total: 30},
			},
		},
		cleanups: []engine.CleanupView{{
			JobID: "913457286014730241", Incarnation: "i-1", Status: engine.JobFailed, DueAt: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC),
			Stage: engine.CleanupArtefacts, NextTry: time.Date(2026, 11, 30, 9, 59, 40, 0, time.UTC),
			Attempts: 2, LastError: "not possible now, try again",
		}},
	}
}

// fixture is a server over fakes.
type fixture struct {
	*Server
	jobs *fakeJobs
	maps *fakeMaps
	grid *fakeGrid
	logs strings.Builder
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		jobs: testJobs(), maps: &fakeMaps{entries: map[[2]string]Value{}},
		grid: &fakeGrid{state: testState(), checks: []Check{{Name: "joined", OK: true}, {Name: "partitions", OK: true}}},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.Server, err = New(Config{
		Listener: listener, Jobs: f.jobs, Maps: f.maps, Grid: f.grid, Version: "0.1.0", Revision: "deadd0d",
		Logger: slog.New(slog.NewTextHandler(&f.logs, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// do answers one request. Headers stand as "Name: value".
func (f *fixture) do(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	rec := httptest.NewRecorder()
	f.http.Handler.ServeHTTP(rec, req)
	return rec
}

// golden compares an answer with a file: the status and type in the first line, then the body as it is.
func golden(t *testing.T, name string, rec *httptest.ResponseRecorder) {
	t.Helper()
	got := http.StatusText(rec.Code) + " " + rec.Header().Get("Content-Type") + "\n" + rec.Body.String()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
