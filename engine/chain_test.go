package engine

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"gridnode/engine/catalog"
	"gridnode/engine/config"
	"gridnode/engine/plugin"

	"github.com/google/go-cmp/cmp"
)

// chainFigures runs all sources of a config, one subtask each, and returns how many rows of each table were read and written.
func chainFigures(t *testing.T, text string) map[string]string {
	t.Helper()
	job, err := config.Parse([]byte(text), catalog.New())
	if err != nil {
		t.Fatal(err)
	}
	sum := newMeter()
	for _, p := range job.Pipelines {
		for _, v := range p.Vertices {
			if v.Kind != config.SourceVertex {
				continue
			}
			c, err := openChain(t.Context(), p, v.ID, plugin.TaskContext{Parallelism: 1, Logger: slog.New(slog.DiscardHandler)}, restorePoint{})
			if err != nil {
				t.Fatal(err)
			}
			runChain(t, c)
			sum.restore([][]tally{c.meter.tallies()})
		}
	}
	out := map[string]string{}
	for _, f := range sum.tallies() {
		out[f.Table] = fmt.Sprintf("read %d written %d", f.SourceRows, f.SinkRows)
	}
	return out
}

func runChain(t *testing.T, c *chain) {
	t.Helper()
	table := tableOf(c.head.vertex)
	for {
		rows, err := c.reader.Read(t.Context(), 100)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		c.meter.read(table, int64(len(rows)), sizeOfRows(rows))
		if err := c.push(t.Context(), c.head, table, rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

// Rows count for their own table, however many tables come together in one sink or in one transform.
func TestChain_TablesAreCountedApart(t *testing.T) {
	fake := func(n int, output string) string {
		return fmt.Sprintf(`{"plugin_name":"FakeSource","plugin_output":%q,"row.num":%d,"schema":{"fields":{"id":"int","s":"string"}}}`, output, n)
	}
	same := func(wiring string) string {
		return `{"plugin_name":"Replace","replace_field":"s","pattern":"?","replacement":"!"` + wiring + `}`
	}
	sink := func(wiring string) string { return `{"plugin_name":"Console","log.print.data":false` + wiring + `}` }
	for _, tc := range []struct {
		name, sources, transforms, sinks string
		want                             map[string]string
	}{
		{"two sources in one sink", fake(3, "a") + "," + fake(4, "b"), "", sink(`,"plugin_input":["a","b"]`),
			map[string]string{"a": "read 3 written 3", "b": "read 4 written 4"}},
		{"two sources in a transform without a name", fake(3, "a") + "," + fake(4, "b"), same(`,"plugin_input":["a","b"]`), sink(""),
			map[string]string{"a": "read 3 written 3", "b": "read 4 written 4"}},
		{"two sources in a transform with a name", fake(3, "a") + "," + fake(4, "b"), same(`,"plugin_input":["a","b"],"plugin_output":"c"`), sink(""),
			map[string]string{"a": "read 3 written 0", "b": "read 4 written 0", "c": "read 0 written 7"}},
		{"a source by two ways in one sink", fake(3, "a"), same(`,"plugin_input":"a","plugin_output":"x"`) + "," + same(`,"plugin_input":"a","plugin_output":"y"`),
			sink(`,"plugin_input":["y","x","a"]`), map[string]string{"a": "read 3 written 3", "x": "read 0 written 3", "y": "read 0 written 3"}},
		{"one table in two sinks", fake(3, "a"), "", sink("") + "," + sink(""), map[string]string{"a": "read 3 written 6"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := chainFigures(t, `{"source":[`+tc.sources+`],"transform":[`+tc.transforms+`],"sink":[`+tc.sinks+`]}`)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
