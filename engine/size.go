package engine

import (
	"fmt"
	"slices"
	"time"

	"gridnode/engine/config"
)

// Bounds on what the state of a job may grow to: a state that its entry cannot hold could not be led to any end. The bytes of a task group and
// of a table's figures are what they take at most once they have ended; a test holds them against the encoded form.
const (
	maxState     = 4<<20 - 128<<10 // what is left beside causes and failures
	maxBareState = 3 << 20         // of it without prepared output: a job is accepted only if that is all it can come to
	taskBytes    = 192
	tallyBytes   = 96
	maxTableName = 1024       // bytes
	maxHistory   = 3584 << 10 // of what a job's history keeps of its config and its figures; the rest are failures and times
	figuresBytes = 400        // of one table, in the history
)

// stateBytes is what the state of a job can grow to without what its sinks prepare.
func stateBytes(plan *config.Job) int {
	if plan == nil {
		return 0
	}
	n := 0
	for _, p := range plan.Pipelines {
		g := flowOf(p)
		for _, v := range p.Vertices {
			if v.Kind != config.SourceVertex {
				continue
			}
			figures := 0
			for name := range g.tablesFrom(v) {
				figures += tallyBytes + len(name)
			}
			n += v.Parallelism * (taskBytes + 2*figures) // as they are told, and as they are visible
		}
	}
	return n
}

// flow is where the rows of a pipeline's vertices go.
type flow struct {
	vertices map[int]config.Vertex
	next     map[int][]int
}

func flowOf(p config.Pipeline) flow {
	f := flow{vertices: map[int]config.Vertex{}, next: map[int][]int{}}
	for _, v := range p.Vertices {
		f.vertices[v.ID] = v
	}
	for _, e := range p.Edges {
		f.next[e.From] = append(f.next[e.From], e.To)
	}
	return f
}

// tablesFrom returns the tables for which the rows of a source may be counted: see tableAt.
func (f flow) tablesFrom(source config.Vertex) map[string]bool {
	own := tableOf(source)
	tables := map[string]bool{own: true}
	seen := map[int]bool{source.ID: true}
	for queue := []int{source.ID}; len(queue) > 0; queue = queue[1:] {
		for _, to := range f.next[queue[0]] {
			v := f.vertices[to]
			if seen[to] {
				continue
			}
			seen[to] = true
			queue = append(queue, to)
			if len(v.Tables) == 0 || v.Kind == config.TransformVertex && !slices.Contains(v.Tables, own) {
				tables[tableOf(v)] = true
			}
		}
	}
	return tables
}

// checkSize refuses a job whose state or history could become too large to be kept. It is asked of new jobs only: those that were accepted before
// run as they are.
func checkSize(plan *config.Job) error {
	groups := 0
	for _, p := range plan.Pipelines {
		for _, v := range p.Vertices {
			groups += v.Parallelism
			for _, name := range v.Tables {
				if len(name) > maxTableName {
					return fmt.Errorf("%w: %s: option \"plugin_output\", or \"table\" of its schema, has %d bytes; at most %d are allowed", ErrInvalid, v.Name, len(name), maxTableName)
				}
			}
		}
	}
	if n := stateBytes(plan); n > maxBareState {
		return fmt.Errorf("%w: option \"parallelism\" makes %d task groups, whose state could have %d bytes with the names of their tables; at most %d are allowed",
			ErrInvalid, groups, n, maxBareState)
	}
	return checkHistory(plan)
}

func checkHistory(plan *config.Job) error {
	n := len(encode(view(&definition{plan: plan}, nil, nil, time.Time{})))
	tables := map[string]bool{}
	for _, p := range plan.Pipelines {
		for _, v := range p.Vertices {
			for _, name := range v.Tables {
				if !tables[name] {
					tables[name] = true
					n += figuresBytes + len(name)
				}
			}
		}
	}
	if n <= maxHistory {
		return nil
	}
	env, largest := 0, ""
	for name, value := range plan.Env {
		env += len(name) + len(value)
		if len(value) > len(plan.Env[largest]) {
			largest = name
		}
	}
	if 2*env > n {
		return fmt.Errorf("%w: env: option %q has %d bytes, and what is kept of the job would have %d; at most %d are allowed", ErrInvalid, largest, len(plan.Env[largest]), n, maxHistory)
	}
	return fmt.Errorf("%w: option \"plugin_output\": the job's graph, with the names of tables for each plugin that they reach, would have %d bytes; at most %d are allowed",
		ErrInvalid, n, maxHistory)
}
