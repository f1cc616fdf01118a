// Package connectortest helps to test connectors: options as a config gives them, and all rows of a source.
package connectortest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"gridnode/engine/plugin"
)

// Options returns the options that a JSON object holds, for a batch job. Where is "plugin".
func Options(t testing.TB, text string) plugin.Options {
	t.Helper()
	v, err := plugin.DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o, ok := v.(plugin.Object)
	if !ok {
		t.Fatalf("%s is no object", text)
	}
	values := map[string]any{}
	for _, m := range o {
		values[m.Key] = m.Value
	}
	return plugin.Options{Where: "plugin", Mode: plugin.Batch, Values: values}
}

// Text returns v as a JSON text, to build options from paths.
func Text(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Context returns the context of a subtask of job 1.
func Context(subtask, parallelism int) plugin.TaskContext {
	return plugin.TaskContext{
		JobID: "1", JobName: "test", Incarnation: "inc-1", Pipeline: 1, Vertex: 2, Subtask: subtask, Parallelism: parallelism, Attempt: 1,
		Mode: plugin.Batch, Member: "m", Logger: slog.New(slog.DiscardHandler),
	}
}

// ReadAll returns all rows of one subtask, read a few at a time.
func ReadAll(t testing.TB, s plugin.Source, tc plugin.TaskContext) ([]plugin.Row, error) {
	t.Helper()
	r, err := s.Open(t.Context(), tc)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	var all []plugin.Row
	for {
		rows, err := r.Read(t.Context(), 7)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if len(rows) == 0 || len(rows) > 7 {
			t.Fatalf("Read returned %d rows", len(rows))
		}
		all = append(all, rows...)
	}
}

// MustReadAll is [ReadAll] for reads that must succeed.
func MustReadAll(t testing.TB, s plugin.Source, tc plugin.TaskContext) []plugin.Row {
	t.Helper()
	rows, err := ReadAll(t, s, tc)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// WantOptionError fails the test unless err is an option error with that text in it.
func WantOptionError(t testing.TB, err error, want string) {
	t.Helper()
	if _, ok := errors.AsType[*plugin.OptionError](err); !ok || !strings.Contains(err.Error(), want) {
		t.Fatalf("got error %v, want an option error with %q", err, want)
	}
}

// WantPermanent fails the test unless err is a permanent error with all these texts in it.
func WantPermanent(t testing.TB, err error, want ...string) {
	t.Helper()
	if _, ok := errors.AsType[*plugin.PermanentError](err); !ok {
		t.Fatalf("got error %v, want a permanent one", err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q does not have %q in it", err, w)
		}
	}
}

// Resume reads a source in old subtasks up to a number of batches each, then goes on from their positions in new subtasks, and returns all rows of
// both runs, each as text. A read that was interrupted is tried again.
func Resume(t testing.TB, s plugin.Restorable, old, now, batches int) []string {
	t.Helper()
	positions := make([][]byte, old)
	var all []string
	for i := range old {
		r, err := s.Open(t.Context(), Context(i, old))
		if err != nil {
			t.Fatal(err)
		}
		rows, end := readSome(t, r, batches+i)
		all = append(all, rows...)
		if !end {
			if positions[i], err = r.(plugin.Positioner).Position(); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range now {
		r, err := s.Restore(t.Context(), Context(i, now), positions)
		if err != nil {
			t.Fatal(err)
		}
		rows, end := readSome(t, r, 1<<30)
		if !end {
			t.Error("no end")
		}
		all = append(all, rows...)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// readSome reads up to n batches, with an interrupted call in front of each.
func readSome(t testing.TB, r plugin.Reader, n int) (out []string, end bool) {
	t.Helper()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range n {
		rows, err := r.Read(over, 3)
		if err != nil {
			rows, err = r.Read(t.Context(), 3)
		}
		if errors.Is(err, io.EOF) {
			return out, true
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			out = append(out, fmt.Sprint(row...))
		}
	}
	return out, false
}
