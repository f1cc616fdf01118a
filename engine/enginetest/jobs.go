package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	OpenPause  Duration `json:"open_pause"`  // until a source is open, or its context has ended
	ClosePause Duration `json:"close_pause"` // until a sink is closed, whatever its context says

	FailAt       int    `json:"fail_at"`       // row at which a task fails; 0: none
	FailAttempts int    `json:"fail_attempts"` // attempts that fail so
	FailPipeline int    `json:"fail_pipeline"` // the only pipeline that fails; 0: all
	Permanent    bool   `json:"permanent"`
	Panic        bool   `json:"panic"`
	CheckError   string `json:"check_error"` // what Sink.Check says
	CommitErrors int    `json:"commit_errors"`
	Local        bool   `json:"local"` // prepared output is lost with its member
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
			RetryInterval: time.Duration(s.RetryAfter), RowsPerSecond: s.RowsPerSec, Env: map[string]string{"job.mode": string(s.Mode)},
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
			{ID: source, Kind: config.SourceVertex, Plugin: "Sequence", Name: fmt.Sprintf("Source[%d]-Sequence", id-1),
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
	r := &sequenceReader{spec: s.spec, subtask: tc.Subtask}
	if s.spec.FailAt > 0 && tc.Attempt <= s.spec.FailAttempts && (s.spec.FailPipeline == 0 || s.spec.FailPipeline == s.pipeline) {
		r.failAt = s.spec.FailAt
	}
	return r, nil
}

type sequenceReader struct {
	spec    Spec
	subtask int
	next    int
	failAt  int
}

func (r *sequenceReader) Read(ctx context.Context, limit int) ([]plugin.Row, error) {
	if r.next >= r.spec.Rows {
		return nil, io.EOF
	}
	if r.spec.Pause > 0 {
		limit = 1
		if err := sleepOrDone(ctx, time.Duration(r.spec.Pause)); err != nil {
			return nil, err
		}
	}
	var rows []plugin.Row
	for ; len(rows) < limit && r.next < r.spec.Rows; r.next++ {
		if r.failAt > 0 && r.next+1 >= r.failAt {
			return nil, r.failure()
		}
		rows = append(rows, plugin.Row{int64(r.subtask), int64(r.next)})
	}
	return rows, nil
}

func (r *sequenceReader) failure() error {
	switch {
	case r.spec.Panic:
		panic("row of bad data")
	case r.spec.Permanent:
		return plugin.Permanentf("row %d is bad", r.failAt)
	}
	return fmt.Errorf("row %d cannot be read", r.failAt)
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
	return &collectWriter{c: c, id: id}, nil
}

func (c *collect) Check(prepared [][]byte) error {
	if want := max(c.spec.Parallelism, 1); len(prepared) != want {
		return fmt.Errorf("checked %d outputs, want %d", len(prepared), want)
	}
	if c.spec.CheckError != "" {
		return errors.New(c.spec.CheckError)
	}
	return nil
}

func (c *collect) Commit(_ context.Context, prepared []byte) error {
	return c.out.commit(string(prepared), c.member, c.spec.CommitErrors)
}

func (c *collect) Cleanup(_ context.Context, jobID, incarnation string) error {
	return c.out.cleanup(jobID+"/"+incarnation+"/", c.member)
}

type collectWriter struct {
	c        *collect
	id       string
	rows     []plugin.Row
	prepared bool
}

func (w *collectWriter) Write(_ context.Context, rows []plugin.Row) error {
	w.rows = append(w.rows, rows...)
	return nil
}

func (w *collectWriter) Prepare(context.Context) ([]byte, error) {
	w.prepared = true
	w.c.out.prepare(w.id, w.c.member, w.c.spec.Local, w.rows)
	return []byte(w.id), nil
}

func (w *collectWriter) Close() error {
	time.Sleep(time.Duration(w.c.spec.ClosePause))
	w.c.out.close(w.id)
	return nil
}
