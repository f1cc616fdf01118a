package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// Limits of a config.
const (
	maxParallelism = 1024
	maxPlugins     = 256 // of one kind
)

// sections are the keys of a config in the order in which rows pass them.
var sections = []VertexKind{SourceVertex, TransformVertex, SinkVertex}

// Parse reads a job's JSON config and builds its plan with the plugins of cat. An error is the config's fault, and its text names the option;
// nothing is opened or started.
//
// A plugin reads the outputs that plugin_input names (a text or a list; old name: source_table_name); plugin_output (old name:
// result_table_name) gives an output its name. A plugin without plugin_input reads the one written before it: a transform the transform before
// it, the first transform the last source, and each sink the last transform or, if there is none, the last source. An output that nobody reads
// is an error, so a config without names in which this would leave a plugin out is refused.
//
// ${variables} are not replaced; they are text as any other.
func Parse(body []byte, cat plugin.Catalog) (*Job, error) {
	v, err := plugin.DecodeJSON(body)
	if err != nil {
		return nil, fmt.Errorf("job config: %w", err)
	}
	top, ok := v.(plugin.Object)
	if !ok {
		return nil, fmt.Errorf("job config: it must be a JSON object with \"env\", \"source\", \"transform\" and \"sink\"")
	}
	if err := checkKeys(top); err != nil {
		return nil, err
	}
	job, err := readEnv(top)
	if err != nil {
		return nil, err
	}
	blocks, err := readBlocks(top)
	if err != nil {
		return nil, err
	}
	g, err := wire(blocks)
	if err != nil {
		return nil, err
	}
	if err := g.build(job, cat); err != nil {
		return nil, err
	}
	job.Pipelines = g.pipelines()
	return job, nil
}

func checkKeys(top plugin.Object) error {
	known := []string{"env", "source", "transform", "sink"}
	for _, m := range top {
		if slices.Contains(known, m.Key) {
			continue
		}
		reason := "is unknown; a config has \"env\", \"source\", \"transform\" and \"sink\""
		if near := option.Nearest(m.Key, known); near != "" {
			reason = fmt.Sprintf("is unknown; did you mean %q?", near)
		}
		return topError(m.Key, "%s", reason)
	}
	return nil
}

func topError(key, format string, args ...any) error {
	return &plugin.OptionError{Where: "job config", Option: key, Reason: fmt.Sprintf(format, args...)}
}

// block is one plugin as the config wrote it.
type block struct {
	kind        VertexKind
	index       int // among those of its kind
	where       string
	name        string // plugin_name
	output      string // its name, or ""
	inputs      []string
	parallelism int // 0: not given
	options     map[string]any
}

// readBlocks reads the plugins of all sections, sources first.
func readBlocks(top plugin.Object) ([]*block, error) {
	var out []*block
	for _, kind := range sections {
		key := string(kind)
		v, found := top.Get(key)
		if !found || v == nil {
			if kind == TransformVertex {
				continue
			}
			return nil, topError(key, "is missing: a job needs at least one %s", kind)
		}
		list, ok := v.([]any)
		if !ok {
			return nil, topError(key, "must be a list of plugins, as in [{\"plugin_name\":...}]")
		}
		if len(list) == 0 && kind != TransformVertex {
			return nil, topError(key, "is an empty list: a job needs at least one %s", kind)
		}
		if len(list) > maxPlugins {
			return nil, topError(key, "has %d plugins; at most %d are allowed", len(list), maxPlugins)
		}
		for i, item := range list {
			b, err := readBlock(kind, i, item)
			if err != nil {
				return nil, err
			}
			out = append(out, b)
		}
	}
	return out, nil
}

// graphOptions are the options of a block that are not its plugin's.
var graphOptions = []string{"plugin_name", "plugin_input", "source_table_name", "plugin_output", "result_table_name", "parallelism"}

func readBlock(kind VertexKind, index int, item any) (*block, error) {
	b := &block{kind: kind, index: index, where: fmt.Sprintf("%s[%d]", kind, index), options: map[string]any{}}
	o, ok := item.(plugin.Object)
	if !ok {
		return nil, fmt.Errorf("%s: it must be an object with \"plugin_name\"", b.where)
	}
	graph := map[string]any{}
	for _, m := range o {
		if slices.Contains(graphOptions, m.Key) {
			graph[m.Key] = m.Value
		} else {
			b.options[m.Key] = m.Value
		}
	}
	name, err := readName(b, graph, o)
	if err != nil {
		return nil, err
	}
	b.name = name
	b.where = fmt.Sprintf("%s (%s)", b.where, name)
	r := option.New(plugin.Options{Where: b.where, Values: graph})
	r.Has("plugin_name")
	b.readWiring(r)
	return b, r.Done()
}

func readName(b *block, graph map[string]any, o plugin.Object) (string, error) {
	r := option.New(plugin.Options{Where: b.where, Values: map[string]any{"plugin_name": graph["plugin_name"]}})
	if !r.Has("plugin_name") {
		for _, m := range o {
			if _, isObject := m.Value.(plugin.Object); isObject {
				r.Fail("plugin_name", "is missing (found key %q: write {\"plugin_name\":%q,...})", m.Key, m.Key)
			}
		}
	}
	name := strings.TrimSpace(r.Required("plugin_name"))
	return name, r.Done()
}

// readWiring reads what a plugin reads, what it makes, and in how many subtasks.
func (b *block) readWiring(r *option.Reader) {
	r.Alias("plugin_input", "source_table_name")
	r.Alias("plugin_output", "result_table_name")
	b.inputs = r.Names("plugin_input")
	switch outputs := r.Names("plugin_output"); {
	case len(outputs) > 1:
		r.Fail("plugin_output", "has %d names; a plugin has one output", len(outputs))
	case len(outputs) == 1:
		b.output = outputs[0]
	}
	if b.kind == SourceVertex && b.inputs != nil {
		r.Fail("plugin_input", "is given, but a source has no input")
	}
	if b.kind == SinkVertex && b.output != "" {
		r.Fail("plugin_output", "is given, but a sink has no output")
	}
	for i, in := range b.inputs {
		if slices.Contains(b.inputs[:i], in) {
			r.Fail("plugin_input", "names %q twice", in)
		}
	}
	b.parallelism = int(r.Int("parallelism", 0, 1, maxParallelism))
}

// lookUp finds a plugin by its name, exactly or else in any case, and returns the name as the catalog has it.
func lookUp[F any](b *block, plugins map[string]F) (name string, build F, err error) {
	if f, ok := plugins[b.name]; ok {
		return b.name, f, nil
	}
	known := slices.Sorted(maps.Keys(plugins))
	for _, k := range known {
		if strings.EqualFold(k, b.name) {
			return k, plugins[k], nil
		}
	}
	return "", build, &plugin.OptionError{
		Where: fmt.Sprintf("%s[%d]", b.kind, b.index), Option: "plugin_name",
		Reason: fmt.Sprintf("is %q, and there is no such %s; known: %s", b.name, b.kind, strings.Join(known, ", ")),
	}
}
