package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gridnode/engine/plugin"
)

// graph is the plugins of a job and who reads whom.
type graph struct {
	blocks []*block
	from   [][]int // by block: the blocks that it reads
	order  []int   // all blocks, each behind those that it reads, otherwise as in the config
	built  []Vertex
}

// wire finds out who reads whom.
func wire(blocks []*block) (*graph, error) {
	g := &graph{blocks: blocks, from: make([][]int, len(blocks))}
	outputs := map[string]int{}
	for i, b := range blocks {
		if b.output == "" {
			continue
		}
		if other, taken := outputs[b.output]; taken {
			return nil, b.errorf("plugin_output", "is %q, which is the output of %s already", b.output, blocks[other].where)
		}
		outputs[b.output] = i
	}
	read := make([]bool, len(blocks))
	for i, b := range blocks {
		in, err := g.inputs(i, outputs)
		if err != nil {
			return nil, err
		}
		g.from[i] = in
		for _, j := range in {
			if i == j {
				return nil, b.errorf("plugin_input", "names %q, its own output", b.output)
			}
			read[j] = true
		}
	}
	for i, b := range blocks {
		if b.kind != SinkVertex && !read[i] {
			return nil, g.unread(b)
		}
	}
	return g, g.sort()
}

func (b *block) errorf(option, format string, args ...any) error {
	return &plugin.OptionError{Where: b.where, Option: option, Reason: fmt.Sprintf(format, args...)}
}

// unread is the error for an output that no plugin reads.
func (g *graph) unread(b *block) error {
	hint := "name it in the \"plugin_input\" of a transform or sink"
	for _, other := range g.blocks {
		if other.kind != SourceVertex && other.inputs == nil {
			hint += fmt.Sprintf("; %s has none and reads the plugin before it", other.where)
			break
		}
	}
	if b.output == "" {
		return b.errorf("plugin_output", "is missing, and no other plugin reads these rows: give the output a name, and %s", hint)
	}
	return b.errorf("plugin_output", "is %q, which no other plugin reads: %s", b.output, hint)
}

// inputs returns the blocks that block i reads.
func (g *graph) inputs(i int, outputs map[string]int) ([]int, error) {
	b := g.blocks[i]
	if b.kind == SourceVertex {
		return nil, nil
	}
	if b.inputs == nil {
		return []int{g.previous(i)}, nil
	}
	var out []int
	for _, name := range b.inputs {
		j, found := outputs[name]
		if !found {
			hint := ""
			if strings.Contains(name, ",") {
				hint = "; several inputs are written as a list, [\"a\",\"b\"]"
			}
			return nil, b.errorf("plugin_input", "names the output %q, which does not exist%s; there are: %s", name, hint,
				strings.Join(slices.Sorted(maps.Keys(outputs)), ", "))
		}
		out = append(out, j)
	}
	return out, nil
}

// previous returns the block that one without plugin_input reads: the last one before it that has an output.
func (g *graph) previous(i int) int {
	for i--; g.blocks[i].kind == SinkVertex; i-- { // there is always a source
	}
	return i
}

// sort puts the blocks in an order in which rows pass them.
func (g *graph) sort() error {
	done := make([]bool, len(g.blocks))
	for len(g.order) < len(g.blocks) {
		next := -1
		for i := range g.blocks {
			if !done[i] && !slices.ContainsFunc(g.from[i], func(j int) bool { return !done[j] }) {
				next = i
				break
			}
		}
		if next < 0 {
			return g.cycle(done)
		}
		done[next] = true
		g.order = append(g.order, next)
	}
	return nil
}

// cycle is the error for blocks that wait for each other's output.
func (g *graph) cycle(done []bool) error {
	i := slices.Index(done, false)
	var path []int
	for !slices.Contains(path, i) {
		path = append(path, i)
		for _, j := range g.from[i] {
			if !done[j] {
				i = j
				break
			}
		}
	}
	path = path[slices.Index(path, i):]
	var names []string
	for _, j := range path {
		names = append(names, g.blocks[j].where)
	}
	return g.blocks[i].errorf("plugin_input", "makes a cycle: %s read each other's output", strings.Join(names, ", "))
}
