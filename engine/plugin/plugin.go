// Package plugin declares what a job is made of: rows, schemas, and the sources, transforms and sinks that connectors implement.
//
// A plugin value is built once per job from its options, holds no open resource and may be opened many times at once, on any member.
// What it opens (a [Reader], a [Writer]) belongs to one task and is used by one goroutine at a time.
package plugin

import (
	"context"
	"log/slog"
)

// Type is the type of a field. The Go type of its values in a [Row] stands beside each.
type Type string

// The types a field can have. A nil value is null, whatever the type.
const (
	Boolean   Type = "boolean"   // bool
	Int       Type = "int"       // int64; tinyint and smallint too, checked for range when parsed
	TinyInt   Type = "tinyint"   // int64
	SmallInt  Type = "smallint"  // int64
	BigInt    Type = "bigint"    // int64
	Float     Type = "float"     // float64
	Double    Type = "double"    // float64
	Decimal   Type = "decimal"   // string, the digits as read
	String    Type = "string"    // string
	Bytes     Type = "bytes"     // []byte
	Date      Type = "date"      // string, as read and checked against the format
	Time      Type = "time"      // string
	Timestamp Type = "timestamp" // string
)

// Field is one column of a [Schema].
type Field struct {
	Name string
	Type Type
	// Decl is the type as the config wrote it, for example "decimal(10,2)".
	Decl string
}

// Schema names the fields of the rows of one table, in the order in which a [Row] holds them.
type Schema struct {
	Table  string
	Fields []Field
}

// Index returns the position of the named field, or -1.
func (s Schema) Index(name string) int {
	for i, f := range s.Fields {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// Row holds one value per field of its schema. A row that was handed on is never changed again: a transform that alters one makes a copy.
type Row []any

// Mode tells whether a job ends by itself.
type Mode string

// The modes of a job.
const (
	Batch     Mode = "BATCH"
	Streaming Mode = "STREAMING"
)

// TaskContext says which task opens a plugin. (JobID, Incarnation, Vertex, Subtask, Attempt) is unique in a cluster for ever.
type TaskContext struct {
	JobID       string
	JobName     string
	Incarnation string // unique per accepted submit
	Pipeline    int
	Vertex      int // the plugin's vertex id in the job
	Subtask     int // 0 .. Parallelism-1
	Parallelism int
	Attempt     int // raised before each deploy of this task
	Mode        Mode
	Member      string // id of the member that runs the task
	Logger      *slog.Logger
}

// Source makes rows.
type Source interface {
	// Schema of the rows, known before any is read.
	Schema() Schema
	// Open starts reading the share of subtask tc.Subtask out of tc.Parallelism: the shares together are the whole input, and disjoint.
	Open(ctx context.Context, tc TaskContext) (Reader, error)
}

// Reader reads one subtask's share.
type Reader interface {
	// Read returns 1 to max rows, or io.EOF and no rows at the end. It returns early when ctx ends. The rows are the caller's.
	Read(ctx context.Context, max int) ([]Row, error)
	Close() error
}

// Transform turns rows into rows, without state.
type Transform interface {
	// Bind fixes the input and returns the output schema, or an error that names the option that does not fit.
	Bind(in Schema) (Schema, Mapper, error)
}

// Mapper applies a bound transform. It may be used by many tasks at once.
type Mapper interface {
	// Map returns the row to hand on; keep is false when the row is dropped.
	Map(in Row) (out Row, keep bool, err error)
}

// Sink takes rows.
type Sink interface {
	// Bind checks that rows of this schema can be written; it is called once per input, before Open.
	Bind(in Schema) error
	// Open starts one task's output. schema is the schema of the rows that this writer gets.
	Open(ctx context.Context, tc TaskContext, schema Schema) (Writer, error)
	// Commit makes what a writer prepared visible. It is repeated after failures, also on another member, and also when an earlier call
	// already did the work: then it returns nil. [ErrPreparedLost] says that the prepared output is gone and the task must run again.
	Commit(ctx context.Context, prepared []byte) error
	// Check judges the whole output of a pipeline from all that its writers prepared, before any is committed. An error fails the job
	// for good. Most sinks have nothing to check.
	Check(prepared [][]byte) error
	// Cleanup removes whatever an incarnation of a job left on this member and did not commit. Nothing left is no error.
	Cleanup(ctx context.Context, jobID, incarnation string) error
}

// Writer is one task's output. Nothing of it is visible before [Sink.Commit], if the sink is transactional.
type Writer interface {
	Write(ctx context.Context, rows []Row) error
	// Prepare ends the output and makes it durable, so that only Commit is left to do; it returns what Commit needs (at most 64 KiB).
	// No Write follows.
	Prepare(ctx context.Context) (prepared []byte, err error)
	// Close releases the writer; without a Prepare before it, it also discards the output.
	Close() error
}
