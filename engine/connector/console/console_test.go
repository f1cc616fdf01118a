package console

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine/connector/internal/connectortest"
	"gridnode/engine/plugin"
)

var schema = plugin.Schema{Table: "t", Fields: []plugin.Field{{Name: "id", Type: plugin.Int}, {Name: "s", Type: plugin.String}}}

// write writes two rows and returns what was logged.
func write(ctx context.Context, t *testing.T, options string) (string, error) {
	t.Helper()
	s, err := New(connectortest.Options(t, options))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	tc := connectortest.Context(3, 4)
	tc.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	w, err := s.Open(ctx, tc, schema)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Write(ctx, []plugin.Row{{int64(1), nil}, {nil, "x"}})
	if _, perr := w.Prepare(ctx); perr != nil || w.Close() != nil || s.Commit(ctx, nil) != nil || s.Check(nil) != nil || s.Cleanup(ctx, "1", "i") != nil || s.Bind(schema) != nil {
		t.Error("a call that does nothing fails")
	}
	return log.String(), err
}

func TestConsole_LogsRows(t *testing.T) {
	log, err := write(t.Context(), t, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`msg=row table=t subtask=3 row=1 fields="{\"id\":1,\"s\":null}"`, `row=2 fields="{\"id\":null,\"s\":\"x\"}"`} {
		if !strings.Contains(log, want) {
			t.Errorf("%s\nis not in\n%s", want, log)
		}
	}
}

func TestConsole_PrintsNothingIfToldSo(t *testing.T) {
	if log, err := write(t.Context(), t, `{"log.print.data":"false"}`); err != nil || log != "" {
		t.Errorf("got %q, %v", log, err)
	}
}

func TestConsole_DelayEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { cancel(stop) })
		start := time.Now()
		if _, err := write(ctx, t, `{"log.print.delay.ms":1000}`); !errors.Is(err, stop) {
			t.Errorf("got %v, want the context's cause", err)
		}
		if got := time.Since(start); got != 1500*time.Millisecond {
			t.Errorf("took %v", got)
		}
		if _, err := write(ctx, t, `{}`); !errors.Is(err, stop) {
			t.Errorf("got %v, want the context's cause", err)
		}
	})
}

func TestNew_Errors(t *testing.T) {
	for options, want := range map[string]string{
		`{"log.print.delay.ms":-1}`: `option "log.print.delay.ms" is -1`,
		`{"log.print.data":"x"}`:    `option "log.print.data" must be true or false`,
		`{"log.print.dta":true}`:    `option "log.print.dta" is unknown; did you mean "log.print.data"?`,
	} {
		_, err := New(connectortest.Options(t, options))
		connectortest.WantOptionError(t, err, want)
	}
}
