package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeJSON(t *testing.T) {
	for _, tc := range []struct{ name, in, out, err string }{
		{name: "order of members is kept", in: `{"b":1,"a":{"z":null,"y":[true,"x"]}}`, out: `{"b":1,"a":{"z":null,"y":[true,"x"]}}`},
		{name: "digits are kept", in: `[9007199254740993, 1.50]`, out: `[9007199254740993,1.50]`},
		{name: "byte order mark", in: "\xef\xbb\xbf{}", out: `{}`},
		{name: "twice", in: "{\"a\":1,\n\"a\":2}", err: `line 2, column 4: the key "a" appears twice`},
		{name: "empty key", in: `{"":1}`, err: `the key "" is empty`},
		{name: "trailing text", in: `{} x`, err: "text after the end"},
		{name: "trailing value", in: `{} {}`, err: "text after the end"},
		{name: "no JSON", in: "env {\n}", err: "line 1, column 1"},
		{name: "cut off", in: `{"a":[1,`, err: "ends too early"},
		{name: "empty", in: ``, err: "line 1, column 1: the JSON text ends too early"},
		{name: "not UTF-8", in: "{\"a\":\"\xff\"}", err: "line 1, column 7: the text is not UTF-8"},
		{name: "too deep", in: strings.Repeat("[", 1000), err: "more than 64 levels"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := DecodeJSON([]byte(tc.in))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.out, string(b)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRow_Size(t *testing.T) {
	r := Row{nil, true, int64(1), 2.5, "abc", []byte{1, 2}}
	if got, want := r.Size(), 1+8+8+3+2; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestSleep_EndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		start := time.Now()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, stop) {
			t.Errorf("got %v, want the context's cause", err)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("waited %v, want 1s", got)
		}
		if err := Sleep(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
	})
}

func TestSleep_UsesTheRunnersSleep(t *testing.T) {
	var got time.Duration
	ctx := WithSleep(t.Context(), func(_ context.Context, d time.Duration) error { got = d; return nil })
	if err := Sleep(ctx, time.Hour); err != nil || got != time.Hour {
		t.Errorf("got %v, %v", got, err)
	}
}
