package enginetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gridnode/engine/config"
	"gridnode/engine/plugin"
)

// Spec is a job config of the tests, as JSON: pipelines of a source that counts and a transactional sink.
type Spec struct {
	Name        string      `json:"name"`
	Mode        plugin.Mode `json:"mode"` // empty: BATCH
	Pipelines   int         `json:"pipelines"`
	Parallelism int         `json:"parallelism"`
	Rows        int         `json:"rows"`  // per subtask
	Pause       Duration    `json:"pause"` // before each row
	Retries     int         `json:"retries"`
	RetryAfter  Duration    `json:"retry_after"`
	RowsPerSec  int         `json:"rows_per_sec"`
	Interval    Duration    `json:"interval"` // between checkpoints
	Timeout     Duration    `json:"timeout"`  // of a checkpoint
	Retain      bool        `json:"retain"`   // checkpoints of a canceled job
	Kind        string      `json:"kind"`     // name of the source's plugin; empty: Sequence
	DeafAt      int         `json:"deaf_at"`  // row at which the first attempt of each task gets stuck; 0: none

	OpenPause  Duration `json:"open_pause"`  // until a source is open, or its context has ended
	ClosePause Duration `json:"close_pause"` // until a sink is closed, whatever its context says

	FailAt       int    `json:"fail_at"`       // row at which a task fails; 0: none
	FailAttempts int    `json:"fail_attempts"` // attempts that fail so
	FailPipeline int    `json:"fail_pipeline"` // the only pipeline that fails; 0: all
	Permanent    bool   `json:"permanent"`
	Panic        bool   `json:"panic"`
	FailBytes    int    `json:"fail_bytes"`  // more text in the errors of FailAt, FailAttempts
	CheckError   string `json:"check_error"` // what Sink.Check says
	CommitErrors int    `json:"commit_errors"`
	Local        bool   `json:"local"` // prepared output is lost with its member
	Scrap        bool   `json:"scrap"` // of committed rows only the number is kept; they must come in order, each once
}

// Duration is a time.Duration in JSON, as a text.
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// JSON returns the config.
func (s Spec) JSON() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

// Want returns how many rows the job puts out.
func (s Spec) Want() int { return max(s.Pipelines, 1) * max(s.Parallelism, 1) * s.Rows }

// Parser returns the parse function of one member: its plugins write to out, and prepared output stays with the member if the spec says so.
func Parser(out *Output, member string) func([]byte) (*config.Job, error) {
	return func(body []byte) (*config.Job, error) {
		s := Spec{}
		if err := json.Unmarshal(body, &s); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		if s.Rows < 0 {
			return nil, &plugin.OptionError{Where: "source[0] (Sequence)", Option: "rows", Reason: "must not be negative"}
		}
		if s.Mode == "" {
			s.Mode = plugin.Batch
		}
		job := &config.Job{
			Name: s.Name, Mode: s.Mode, Parallelism: max(s.Parallelism, 1), RetryTimes: s.Retries,
			RetryInterval: time.Duration(s.RetryAfter), RowsPerSecond: s.RowsPerSec,
			Checkpoint: config.Checkpoint{Interval: time.Duration(s.Interval), Timeout: time.Duration(s.Timeout), RetainCanceled: s.Retain},
			Env:        map[string]string{"job.mode": string(s.Mode)},
		}
		for i := range max(s.Pipelines, 1) {
			job.Pipelines = append(job.Pipelines, pipeline(s, i+1, out, member))
		}
		return job, nil
	}
}

func pipeline(s Spec, id int, out *Output, member string) config.Pipeline {
	schema := plugin.Schema{Table: fmt.Sprintf("t%d", id), Fields: []plugin.Field{{Name: "subtask", Type: plugin.Int}, {Name: "n", Type: plugin.Int}}}
	source, even, sink := 3*id-2, 3*id-1, 3*id
	return config.Pipeline{
		ID: id,
		Vertices: []config.Vertex{
			{ID: source, Kind: config.SourceVertex, Plugin: cmp.Or(s.Kind, "Sequence"), Name: fmt.Sprintf("Source[%d]-Sequence", id-1),
				Parallelism: max(s.Parallelism, 1), Schema: schema, Source: sequence{spec: s, pipeline: id, schema: schema}},
			{ID: even, Kind: config.TransformVertex, Plugin: "Same", Name: "Transform-Same", Schema: schema, Mapper: same{}},
			{ID: sink, Kind: config.SinkVertex, Plugin: "Collect", Name: fmt.Sprintf("Sink[%d]-Collect", id-1), Schema: schema,
				Sink: &collect{spec: s, out: out, member: member}},
		},
		Edges: []config.Edge{{From: source, To: even}, {From: even, To: sink}},
	}
}

// same hands every row on.
type same struct{}

func (same) Map(in plugin.Row) (plugin.Row, bool, error) { return in, true, nil }

// sequence counts from 0 in each subtask.
type sequence struct {
	spec     Spec
	pipeline int
	schema   plugin.Schema
}

func (s sequence) Schema() plugin.Schema { return s.schema }

func (s sequence) Open(ctx context.Context, tc plugin.TaskContext) (plugin.Reader, error) {
	if err := sleepOrDone(ctx, time.Duration(s.spec.OpenPause)); err != nil {
		return nil, err
	}
	return s.reader(tc, []span{{tc.Subtask, 0}}), nil
}

// span is a subtask's share from a row on.
type span struct{ Subtask, Next int }

func (s sequence) reader(tc plugin.TaskContext, spans []span) *sequenceReader {
	r := &sequenceReader{spec: s.spec, spans: spans}
	if s.spec.FailAt > 0 && tc.Attempt <= s.spec.FailAttempts && (s.spec.FailPipeline == 0 || s.spec.FailPipeline == s.pipeline) {
		r.failAt = s.spec.FailAt
	}
	return r
}

// Restore implements [plugin.Restorable]; shares are dealt out whole.
func (s sequence) Restore(_ context.Context, tc plugin.TaskContext, positions [][]byte) (plugin.Reader, error) {
	var mine []span
	dealt := 0
	for i, p := range positions {
		var spans []span
		if p == nil {
			continue
		}
		if err := json.Unmarshal(p, &spans); err != nil {
			return nil, err
		}
		for _, sp := range spans {
			if len(positions) == tc.Parallelism && i == tc.Subtask || len(positions) != tc.Parallelism && dealt%tc.Parallelism == tc.Subtask {
				mine = append(mine, sp)
			}
			dealt++
		}
	}
	return s.reader(tc, mine), nil
}

type sequenceReader struct {
	spec   Spec
	spans  []span
	failAt int
}

// Position implements [plugin.Positioner].
func (r *sequenceReader) Position() ([]byte, error) { return json.Marshal(r.spans) }

func (r *sequenceReader) Read(ctx context.Context, limit int) ([]plugin.Row, error) {
	for len(r.spans) > 0 && r.spans[0].Next >= r.spec.Rows {
		r.spans = r.spans[1:]
	}
	if len(r.spans) == 0 {
		return nil, io.EOF
	}
	s := &r.spans[0]
	if r.spec.Pause > 0 {
		limit = 1
		if err := sleepOrDone(ctx, time.Duration(r.spec.Pause)); err != nil {
			return nil, err
		}
	}
	var rows []plugin.Row
	for ; len(rows) < limit && s.Next < r.spec.Rows; s.Next++ {
		if r.failAt > 0 && s.Next+1 >= r.failAt {
			return nil, r.failure()
		}
		rows = append(rows, plugin.Row{int64(s.Subtask), int64(s.Next)})
	}
	return rows, nil
}

func (r *sequenceReader) failure() error {
	switch {
	case r.spec.Panic:
		panic("row of bad data" + strings.Repeat("ä", r.spec.FailBytes/2))
	case r.spec.Permanent:
		return plugin.Permanentf("row %d is bad%s", r.failAt, strings.Repeat("ä", r.spec.FailBytes/2))
	}
	return fmt.Errorf("row %d cannot be read%s", r.failAt, strings.Repeat("ä", r.spec.FailBytes/2))
}

func (r *sequenceReader) Close() error { return nil }

// collect is the sink. What it wrote is visible in the [Output] once it is committed.
type collect struct {
	spec   Spec
	out    *Output
	member string
}

func (c *collect) Bind(plugin.Schema) error { return nil }

func (c *collect) Open(_ context.Context, tc plugin.TaskContext, _ plugin.Schema) (plugin.Writer, error) {
	id := fmt.Sprintf("%s/%s/%d/%d/%d", tc.JobID, tc.Incarnation, tc.Vertex, tc.Subtask, tc.Attempt)
	c.out.open(id, c.member)
	w := &collectWriter{c: c, id: id}
	if tc.Attempt == 1 {
		w.deafAt = c.spec.DeafAt
	}
	return w, nil
}

func (c *collect) Check(prepared [][]byte) error {
	tasks := map[string]bool{}
	for _, p := range prepared {
		task, _, _ := strings.Cut(string(p), "#")
		tasks[task] = true
	}
	if want := max(c.spec.Parallelism, 1); len(tasks) != want {
		return fmt.Errorf("checked the outputs of %d tasks, want %d", len(tasks), want)
	}
	if c.spec.CheckError != "" {
		return errors.New(c.spec.CheckError)
	}
	return nil
}

func (c *collect) Commit(_ context.Context, prepared []byte) error {
	if c.spec.Scrap {
		return c.out.scrap(string(prepared))
	}
	return c.out.commit(string(prepared), c.member, c.spec.CommitErrors)
}

func (c *collect) Cleanup(_ context.Context, jobID, incarnation string) error {
	return c.out.cleanup(jobID+"/"+incarnation+"/", c.member)
}

type collectWriter struct {
	c     *collect
	id    string
	rows  []plugin.Row
	parts int // that were cut
	total int // rows, those of earlier attempts included

	deafAt int // row at which a write does not return before its context ends; 0: none
}

// part names what is written now.
func (w *collectWriter) part() string {
	if w.parts == 0 {
		return w.id
	}
	return fmt.Sprintf("%s#%d", w.id, w.parts)
}

func (w *collectWriter) Write(ctx context.Context, rows []plugin.Row) error {
	if w.deafAt > 0 && w.total+len(rows) >= w.deafAt {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	w.rows = append(w.rows, rows...)
	w.total += len(rows)
	return nil
}

func (w *collectWriter) Prepare(context.Context) ([]byte, error) {
	w.c.out.prepare(w.part(), w.c.member, w.c.spec.Local, w.rows)
	return []byte(w.part()), nil
}

// Cut implements [plugin.Cutter].
func (w *collectWriter) Cut(context.Context) ([]byte, error) {
	id := w.part() + "#cut"
	if len(w.rows) == 0 {
		return nil, nil
	}
	w.c.out.prepare(id, w.c.member, w.c.spec.Local, w.rows)
	w.parts, w.rows = w.parts+1, nil
	return []byte(id), nil
}

// State implements [plugin.Cutter].
func (w *collectWriter) State() ([]byte, error) { return json.Marshal(w.total) }

// Restore implements [plugin.Cutter].
func (w *collectWriter) Restore(states [][]byte) error {
	for _, s := range states {
		n := 0
		if err := json.Unmarshal(s, &n); err != nil {
			return err
		}
		w.total += n
	}
	return nil
}

// Forget implements [plugin.Cutter].
func (w *collectWriter) Forget(prepared []byte) error {
	if w.c.spec.Scrap {
		return nil
	}
	w.c.out.forget(string(prepared))
	return nil
}

func (w *collectWriter) Close() error {
	time.Sleep(time.Duration(w.c.spec.ClosePause))
	w.c.out.close(w.id)
	return nil
}
