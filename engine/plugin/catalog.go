package plugin

// Options are a plugin's own options as the job config gave them: the values that [DecodeJSON] makes. What belongs to the graph
// (plugin_name, plugin_input, plugin_output, parallelism) is not among them.
type Options struct {
	Where  string // how errors name the plugin, for example "sink[1] (LocalFile)"
	Mode   Mode
	Values map[string]any
}

// Catalog holds the constructors of all plugins by the name that configs use. It is filled once, before use, and read only after that.
// A constructor validates all its options, including that there are no unknown ones, and returns an [OptionError] that names the first bad
// one. It opens nothing.
type Catalog struct {
	Sources    map[string]func(Options) (Source, error)
	Transforms map[string]func(Options) (Transform, error)
	Sinks      map[string]func(Options) (Sink, error)
}
