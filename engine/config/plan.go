package config

import (
	"fmt"
	"slices"
	"strings"

	"gridnode/engine/plugin"
)

// build makes the plugins and binds each to the rows that reach it.
func (g *graph) build(job *Job, cat plugin.Catalog) error {
	g.built = make([]Vertex, len(g.blocks))
	for _, i := range g.order {
		b, v := g.blocks[i], &g.built[i]
		v.Kind = b.kind
		in, err := g.inputSchema(i)
		if err != nil {
			return err
		}
		o := plugin.Options{Where: b.where, Mode: job.Mode, Values: b.options}
		switch b.kind {
		case SourceVertex:
			err = b.buildSource(v, o, cat, job.Parallelism)
		case TransformVertex:
			err = b.buildTransform(v, o, cat, in)
		default:
			err = b.buildSink(v, o, cat, in)
		}
		if err != nil {
			return err
		}
		if err := g.checkParallelism(i); err != nil {
			return err
		}
		g.setTables(i)
	}
	return nil
}

// inputSchema returns the schema of the rows that reach a block. All of its inputs must have the same fields.
func (g *graph) inputSchema(i int) (plugin.Schema, error) {
	var s plugin.Schema
	for n, j := range g.from[i] {
		in := g.built[j].Schema
		if n == 0 {
			s = in
			continue
		}
		if !slices.EqualFunc(s.Fields, in.Fields, func(a, b plugin.Field) bool { return a.Name == b.Name && a.Type == b.Type }) {
			return s, g.blocks[i].errorf("plugin_input", "brings rows with different fields: %s has %s; %s has %s",
				g.blocks[g.from[i][0]].where, fields(s), g.blocks[j].where, fields(in))
		}
	}
	return s, nil
}

func fields(s plugin.Schema) string {
	var out []string
	for _, f := range s.Fields {
		out = append(out, f.Name+" "+string(f.Type))
	}
	return strings.Join(out, ", ")
}

func (b *block) buildSource(v *Vertex, o plugin.Options, cat plugin.Catalog, parallelism int) error {
	name, build, err := lookUp(b, cat.Sources)
	if err != nil {
		return err
	}
	if v.Source, err = build(o); err != nil {
		return b.located(err)
	}
	v.Plugin, v.Schema, v.Parallelism = name, v.Source.Schema(), parallelism
	if b.parallelism > 0 {
		v.Parallelism = b.parallelism
	}
	return nil
}

func (b *block) buildTransform(v *Vertex, o plugin.Options, cat plugin.Catalog, in plugin.Schema) error {
	name, build, err := lookUp(b, cat.Transforms)
	if err != nil {
		return err
	}
	t, err := build(o)
	if err != nil {
		return b.located(err)
	}
	v.Plugin = name
	if v.Schema, v.Mapper, err = t.Bind(in); err != nil {
		return b.located(err)
	}
	return nil
}

func (b *block) buildSink(v *Vertex, o plugin.Options, cat plugin.Catalog, in plugin.Schema) error {
	name, build, err := lookUp(b, cat.Sinks)
	if err != nil {
		return err
	}
	if v.Sink, err = build(o); err != nil {
		return b.located(err)
	}
	v.Plugin, v.Schema = name, in
	return b.located(v.Sink.Bind(in))
}

// located puts in front of an error which plugin it is about, unless it says so itself.
func (b *block) located(err error) error {
	if err == nil || strings.Contains(err.Error(), b.where) {
		return err
	}
	return fmt.Errorf("%s: %w", b.where, err)
}

// checkParallelism refuses a transform or sink that wants another number of subtasks than the sources whose rows it gets.
func (g *graph) checkParallelism(i int) error {
	b := g.blocks[i]
	if b.parallelism == 0 || b.kind == SourceVertex {
		return nil
	}
	for _, j := range g.sourcesOf(i) {
		if n := g.built[j].Parallelism; n != b.parallelism {
			return b.errorf("parallelism", "is %d, but %s, whose rows it gets, has %d: rows do not move between task groups", b.parallelism, g.blocks[j].where, n)
		}
	}
	return nil
}

// sourcesOf returns the sources whose rows reach a block.
func (g *graph) sourcesOf(i int) []int {
	var out []int
	seen := make([]bool, len(g.blocks))
	for queue := []int{i}; len(queue) > 0; queue = queue[1:] {
		j := queue[0]
		if seen[j] {
			continue
		}
		seen[j] = true
		if g.blocks[j].kind == SourceVertex {
			out = append(out, j)
		}
		queue = append(queue, g.from[j]...)
	}
	return out
}

// setTables names the tables of a block: its output, or those of its inputs, or what the source's schema says.
func (g *graph) setTables(i int) {
	b, v := g.blocks[i], &g.built[i]
	switch {
	case b.output != "":
		v.Tables = []string{b.output}
	case b.kind != SourceVertex:
		for _, j := range g.from[i] {
			for _, t := range g.built[j].Tables {
				if !slices.Contains(v.Tables, t) {
					v.Tables = append(v.Tables, t)
				}
			}
		}
	case v.Schema.Table != "":
		v.Tables = []string{v.Schema.Table}
	default:
		v.Tables = []string{"default"}
	}
	v.Schema.Table = v.Tables[0]
}

// pipelines cuts the graph into its connected parts, in the order of their first sources, and numbers and names everything.
func (g *graph) pipelines() []Pipeline {
	var out []Pipeline
	part := g.parts()
	ids := make([]int, len(g.blocks))
	next := 1
	for root := range 1 + slices.Max(part) {
		p := Pipeline{ID: 1 + root}
		for _, kind := range sections {
			for _, i := range g.order {
				if part[i] == root && g.blocks[i].kind == kind {
					ids[i] = next
					next++
					p.Vertices = append(p.Vertices, g.vertex(i, ids[i], p.ID))
				}
			}
		}
		for _, i := range g.order {
			for _, j := range g.from[i] {
				if part[i] == root {
					p.Edges = append(p.Edges, Edge{From: ids[j], To: ids[i]})
				}
			}
		}
		out = append(out, p)
	}
	return out
}

// parts gives each block the number of its part: 0 for that of the first source, and so on.
func (g *graph) parts() []int {
	out := make([]int, len(g.blocks))
	for i := range out {
		out[i] = i
	}
	for _, i := range g.order {
		for _, j := range g.from[i] {
			a, b := min(out[i], out[j]), max(out[i], out[j])
			for k := range out {
				if a != b && out[k] == b {
					out[k] = a
				}
			}
		}
	}
	roots := slices.Compact(slices.Sorted(slices.Values(out)))
	for i := range out {
		out[i] = slices.Index(roots, out[i])
	}
	return out
}

// vertex completes a vertex with what only its place in the job decides.
func (g *graph) vertex(i, id, pipeline int) Vertex {
	b, v := g.blocks[i], g.built[i]
	v.ID = id
	format := map[VertexKind]string{
		SourceVertex: "pipeline-%d [Source[%d]-%s]", TransformVertex: "pipeline-%d [Transform[%d]-%s]", SinkVertex: "pipeline-%d [Sink[%d]-%s-MultiTableSink]",
	}[b.kind]
	v.Name = fmt.Sprintf(format, pipeline, b.index, v.Plugin)
	return v
}
