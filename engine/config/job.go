// Package config reads a job's JSON config and turns it into a validated plan of pipelines.
package config

import (
	"time"

	"gridnode/engine/plugin"
)

// Job is a validated job config. It is read only and may be shared.
type Job struct {
	Name          string
	Mode          plugin.Mode
	Parallelism   int               // env parallelism, the default of each source
	RetryTimes    int               // restarts of a pipeline's tasks before the job fails
	RetryInterval time.Duration     // wait before a restart
	RowsPerSecond int               // per source subtask; 0 is no limit
	BytesPerSec   int               // per source subtask; 0 is no limit
	Tags          map[string]string // tag_filter: what a worker must have to get tasks of the job; nil is no filter
	Checkpoint    Checkpoint
	Env           map[string]string
	Pipelines     []Pipeline
	// Warnings names options that are accepted and have no effect yet.
	Warnings []string
}

// Checkpoint says when a job takes checkpoints. What is 0 the engine decides; it lets a batch job without an interval take none.
type Checkpoint struct {
	Interval       time.Duration // from the beginning of one to that of the next
	Timeout        time.Duration // of one
	MinPause       time.Duration // between the end of one and the beginning of the next
	RetainCanceled bool          // a job that was canceled keeps them
}

// Pipeline is a connected part of the job's graph. Each subtask of each source in it is one task group, which also runs everything
// downstream of that source, fused; rows never move between task groups.
type Pipeline struct {
	ID       int      // 1, 2, ...
	Vertices []Vertex // in topological order, sources first
	Edges    []Edge
}

// Edge leads rows from one vertex to another of the same pipeline.
type Edge struct{ From, To int }

// VertexKind tells what a vertex is.
type VertexKind string

// The kinds of vertex, as REST shows them.
const (
	SourceVertex    VertexKind = "source"
	TransformVertex VertexKind = "transform"
	SinkVertex      VertexKind = "sink"
)

// Vertex is one plugin of the job. Exactly one of Source, Mapper, Sink is set.
type Vertex struct {
	ID          int // unique in the job: 1, 2, ...
	Kind        VertexKind
	Plugin      string // plugin_name
	Name        string // for example "pipeline-1 [Source[0]-FakeSource]"
	Parallelism int    // of a source: the number of its subtasks; 0 for the others
	Tables      []string
	Schema      plugin.Schema // of the rows that leave it; for a sink, of the rows that reach it

	Source plugin.Source
	Mapper plugin.Mapper
	Sink   plugin.Sink
}
