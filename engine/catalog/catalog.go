// Package catalog lists the plugins that jobs can use.
package catalog

import (
	"gridnode/engine/connector/assertsink"
	"gridnode/engine/connector/console"
	"gridnode/engine/connector/fake"
	"gridnode/engine/connector/localfile"
	"gridnode/engine/plugin"
	"gridnode/engine/transform"
)

// New returns all plugins by the names that configs use. The caller may add its own before use.
func New() plugin.Catalog {
	return plugin.Catalog{
		Sources: map[string]func(plugin.Options) (plugin.Source, error){
			"FakeSource": fake.New,
			"LocalFile":  localfile.NewSource,
		},
		Transforms: map[string]func(plugin.Options) (plugin.Transform, error){
			"Copy":        transform.NewCopy,
			"FieldMapper": transform.NewFieldMapper,
			"Filter":      transform.NewFilter,
			"Replace":     transform.NewReplace,
		},
		Sinks: map[string]func(plugin.Options) (plugin.Sink, error){
			"Assert":    assertsink.New,
			"Console":   console.New,
			"LocalFile": localfile.NewSink,
		},
	}
}
