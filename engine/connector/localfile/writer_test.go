package localfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	"gridnode/engine/connector/internal/connectortest"
	"gridnode/engine/plugin"
)

func TestWriter_CloseDiscards(t *testing.T) {
	p := newPlace(t)
	s := p.sink(t, `,"batch_size":1`)
	w, err := s.Open(t.Context(), connectortest.Context(0, 1), twoFields)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), []plugin.Row{{int64(1), "a"}, {int64(2), "b"}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(p.tmp); err != nil || len(entries) > 0 {
		t.Errorf("left below tmp_path: %v, %v", entries, err)
	}
	if _, err := w.Prepare(t.Context()); err == nil {
		t.Error("a closed writer prepares")
	}
	if err := w.Write(t.Context(), []plugin.Row{{int64(1), "a"}}); err == nil {
		t.Error("a closed writer writes")
	}
}

func TestWriter_EndsWithContext(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	w, err := newPlace(t).sink(t, ``).Open(ctx, connectortest.Context(0, 1), twoFields)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(ctx, []plugin.Row{{int64(1), "a"}}); !errors.Is(err, stop) {
		t.Errorf("Write: got %v", err)
	}
	if _, err := w.Prepare(ctx); !errors.Is(err, stop) {
		t.Errorf("Prepare: got %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestWithoutTransaction_RowsAreVisibleAtOnceAndStay(t *testing.T) {
	p := newPlace(t)
	o := connectortest.Options(t, `{"path":`+connectortest.Text(t, p.path)+`,"is_enable_transaction":"false"}`)
	o.Mode = plugin.Streaming
	built, err := NewSink(o)
	if err != nil {
		t.Fatal(err)
	}
	s := built.(*Sink)
	w, err := s.Open(t.Context(), connectortest.Context(0, 1), twoFields)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), []plugin.Row{{int64(1), "a"}}); err != nil {
		t.Fatal(err)
	}
	if got := p.all(t); got != "1,a\n" {
		t.Errorf("visible: %q", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	again := connectortest.Context(0, 1)
	again.Attempt = 2
	mustCommit(t, s, mustPrepare(t, s, again, twoFields, plugin.Row{int64(1), "a"}))
	if got := p.all(t); got != "1,a\n1,a\n" {
		t.Errorf("visible: %q", got)
	}
	_, err = prepareRows(t, s, again, twoFields, plugin.Row{int64(1), "a"})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file was opened twice: %v", err)
	}
}
