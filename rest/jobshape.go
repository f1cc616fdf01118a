package rest

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"gridnode/engine"
)

// The shapes in which SeaTunnel shows jobs: nearly every scalar is a string, ids above all.

type jobEdge struct {
	InputVertexID  string `json:"inputVertexId"`
	TargetVertexID string `json:"targetVertexId"`
}

type jobVertex struct {
	VertexID   int      `json:"vertexId"`
	Type       string   `json:"type"`
	VertexName string   `json:"vertexName"`
	TablePaths []string `json:"tablePaths"`
}

type jobDAG struct {
	JobID         string               `json:"jobId"`
	PipelineEdges map[string][]jobEdge `json:"pipelineEdges"`
	EnvOptions    map[string]string    `json:"envOptions"`
	VertexInfoMap []jobVertex          `json:"vertexInfoMap"`
}

type jobMetrics struct {
	SourceReceivedCount          string
	SourceReceivedQPS            string
	SourceReceivedBytes          string
	SourceReceivedBytesPerSecond string `json:"SourceReceivedBytesPerSeconds"`
	SinkWriteCount               string
	SinkWriteQPS                 string
	SinkWriteBytes               string
	SinkWriteBytesPerSecond      string `json:"SinkWriteBytesPerSeconds"`
	SinkCommittedCount           string
	SinkCommittedQPS             string
	SinkCommittedBytes           string
	SinkCommittedBytesPerSecond  string `json:"SinkCommittedBytesPerSeconds"`

	TableSourceReceivedCount          map[string]string
	TableSinkWriteCount               map[string]string
	TableSourceReceivedQPS            map[string]string
	TableSinkWriteQPS                 map[string]string
	TableSourceReceivedBytes          map[string]string
	TableSinkWriteBytes               map[string]string
	TableSourceReceivedBytesPerSecond map[string]string `json:"TableSourceReceivedBytesPerSeconds"`
	TableSinkWriteBytesPerSecond      map[string]string `json:"TableSinkWriteBytesPerSeconds"`
	TableSinkCommittedCount           map[string]string
	TableSinkCommittedQPS             map[string]string
	TableSinkCommittedBytes           map[string]string
	TableSinkCommittedBytesPerSecond  map[string]string `json:"TableSinkCommittedBytesPerSeconds"`
}

type jarURL struct {
	JarPath string `json:"jarPath"`
}

// liveJob is a job that has not ended.
type liveJob struct {
	JobID                string            `json:"jobId"`
	JobName              string            `json:"jobName"`
	JobStatus            engine.JobStatus  `json:"jobStatus"`
	EnvOptions           map[string]string `json:"envOptions"`
	CreateTime           *string           `json:"createTime"`
	StartTime            *string           `json:"startTime,omitempty"`
	JobDAG               jobDAG            `json:"jobDag"`
	PluginJarsURLs       []jarURL          `json:"pluginJarsUrls"`
	IsStartWithSavePoint bool              `json:"isStartWithSavePoint"`
	Metrics              jobMetrics        `json:"metrics"`

	// Ours.
	Restarts      string    `json:"restarts"`
	PendingReason string    `json:"pendingReason,omitempty"`
	Tasks         []jobTask `json:"tasks,omitempty"`
}

// endedJob is a job that has ended. SeaTunnel's code says finishTime, its documentation finishedTime: both are there.
type endedJob struct {
	JobID          string           `json:"jobId"`
	JobName        string           `json:"jobName"`
	JobStatus      engine.JobStatus `json:"jobStatus"`
	ErrorMsg       *string          `json:"errorMsg"`
	CreateTime     *string          `json:"createTime"`
	FinishTime     *string          `json:"finishTime"`
	FinishedTime   *string          `json:"finishedTime"`
	JobDAG         jobDAG           `json:"jobDag"`
	PluginJarsURLs []jarURL         `json:"pluginJarsUrls"`
	Metrics        jobMetrics       `json:"metrics"`
	Restarts       string           `json:"restarts"` // ours
}

// jobTask is one task group of a live job; our own shape, so numbers are numbers.
type jobTask struct {
	Pipeline int               `json:"pipeline"`
	Source   int               `json:"source"`
	Subtask  int               `json:"subtask"`
	Status   engine.TaskStatus `json:"status"`
	Attempt  int               `json:"attempt"`
	Member   string            `json:"member"`
}

func jobShape(v engine.JobView) any {
	if v.Status.Final() {
		return endedShape(v)
	}
	return liveShape(v)
}

func liveShape(v engine.JobView) liveJob {
	job := liveJob{
		JobID: v.JobID, JobName: v.JobName, JobStatus: v.Status, EnvOptions: notNil(v.Env),
		CreateTime: clockOrNil(v.CreateTime), StartTime: clockOrNil(v.StartTime),
		JobDAG: dagShape(v), PluginJarsURLs: []jarURL{}, IsStartWithSavePoint: v.Savepoint, Metrics: metricsShape(v.Metrics),
		Restarts: whole(v.Restarts), PendingReason: v.PendingFor,
	}
	for _, t := range v.Tasks {
		job.Tasks = append(job.Tasks, jobTask(t))
	}
	return job
}

func endedShape(v engine.JobView) endedJob {
	job := endedJob{
		JobID: v.JobID, JobName: v.JobName, JobStatus: v.Status,
		CreateTime: clockOrNil(v.CreateTime), FinishTime: clockOrNil(v.FinishTime), FinishedTime: clockOrNil(v.FinishTime),
		JobDAG: dagShape(v), PluginJarsURLs: []jarURL{}, Metrics: metricsShape(v.Metrics), Restarts: whole(v.Restarts),
	}
	if v.ErrorMsg != "" {
		job.ErrorMsg = &v.ErrorMsg
	}
	return job
}

func dagShape(v engine.JobView) jobDAG {
	dag := jobDAG{
		JobID: v.JobID, EnvOptions: notNil(v.Env),
		PipelineEdges: make(map[string][]jobEdge, len(v.DAG.Edges)),
		VertexInfoMap: make([]jobVertex, 0, len(v.DAG.Vertices)),
	}
	for pipeline, edges := range v.DAG.Edges {
		shapes := make([]jobEdge, 0, len(edges))
		for _, e := range edges {
			shapes = append(shapes, jobEdge{InputVertexID: strconv.Itoa(e.From), TargetVertexID: strconv.Itoa(e.To)})
		}
		dag.PipelineEdges[strconv.Itoa(pipeline)] = shapes
	}
	for _, vertex := range v.DAG.Vertices {
		tables := slices.Clone(vertex.Tables)
		if tables == nil {
			tables = []string{}
		}
		dag.VertexInfoMap = append(dag.VertexInfoMap, jobVertex{VertexID: vertex.ID, Type: vertex.Type, VertexName: vertex.Name, TablePaths: tables})
	}
	return dag
}

func metricsShape(m engine.Metrics) jobMetrics {
	return jobMetrics{
		SourceReceivedCount: whole(m.SourceRows), SourceReceivedQPS: rate(m.SourceQPS),
		SourceReceivedBytes: whole(m.SourceBytes), SourceReceivedBytesPerSecond: rate(m.SourceBPS),
		SinkWriteCount: whole(m.SinkRows), SinkWriteQPS: rate(m.SinkQPS),
		SinkWriteBytes: whole(m.SinkBytes), SinkWriteBytesPerSecond: rate(m.SinkBPS),
		SinkCommittedCount: whole(m.CommittedRows), SinkCommittedQPS: rate(m.CommittedQPS),
		SinkCommittedBytes: whole(m.CommittedBytes), SinkCommittedBytesPerSecond: rate(m.CommittedBPS),

		TableSourceReceivedCount:          perTable(m, func(t engine.TableMetrics) string { return whole(t.SourceRows) }),
		TableSinkWriteCount:               perTable(m, func(t engine.TableMetrics) string { return whole(t.SinkRows) }),
		TableSourceReceivedQPS:            perTable(m, func(t engine.TableMetrics) string { return rate(t.SourceQPS) }),
		TableSinkWriteQPS:                 perTable(m, func(t engine.TableMetrics) string { return rate(t.SinkQPS) }),
		TableSourceReceivedBytes:          perTable(m, func(t engine.TableMetrics) string { return whole(t.SourceBytes) }),
		TableSinkWriteBytes:               perTable(m, func(t engine.TableMetrics) string { return whole(t.SinkBytes) }),
		TableSourceReceivedBytesPerSecond: perTable(m, func(t engine.TableMetrics) string { return rate(t.SourceBPS) }),
		TableSinkWriteBytesPerSecond:      perTable(m, func(t engine.TableMetrics) string { return rate(t.SinkBPS) }),
		TableSinkCommittedCount:           perTable(m, func(t engine.TableMetrics) string { return whole(t.CommittedRows) }),
		TableSinkCommittedQPS:             perTable(m, func(t engine.TableMetrics) string { return rate(t.CommittedQPS) }),
		TableSinkCommittedBytes:           perTable(m, func(t engine.TableMetrics) string { return whole(t.CommittedBytes) }),
		TableSinkCommittedBytesPerSecond:  perTable(m, func(t engine.TableMetrics) string { return rate(t.CommittedBPS) }),
	}
}

func perTable(m engine.Metrics, figure func(engine.TableMetrics) string) map[string]string {
	out := make(map[string]string, len(m.Tables))
	for name, t := range m.Tables {
		out[name] = figure(t)
	}
	return out
}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

// newestFirst orders live jobs by the time of their submit, ended ones by their end.
func newestFirst(jobs []engine.JobView) []engine.JobView {
	jobs = slices.Clone(jobs)
	slices.SortFunc(jobs, func(a, b engine.JobView) int {
		return cmp.Or(b.FinishTime.Compare(a.FinishTime), b.CreateTime.Compare(a.CreateTime), cmp.Compare(a.JobID, b.JobID))
	})
	return jobs
}
