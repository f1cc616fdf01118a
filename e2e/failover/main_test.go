package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestProgram_TwoKills runs the program as a user does. Its last line is what others read.
func TestProgram_TwoKills(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out, complaints bytes.Buffer
	code := program(t.Context(), []string{"-kills", "2", "-load", "4", "-seed", "7", "-callers", "2", "-spinners", "1"}, &out, &complaints)
	t.Logf("\n%s%s", &out, &complaints)
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	result := regexp.MustCompile(`^kill-to-write p50=\d+\.\d+m?s worst=\d+\.\d+m?s lost=0 errors=\d+$`)
	if last := lines[len(lines)-1]; !result.MatchString(last) {
		t.Errorf("the last line is %q", last)
	}
	nothingLeft(t, os.TempDir())
}

// TestProgram_Interrupted: whoever presses Ctrl-C finds nothing left.
func TestProgram_Interrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	out := writerFunc(func(line string) {
		if strings.Contains(line, "are safe") {
			cancel()
		}
	})
	code := program(ctx, []string{"-kills", "1000"}, out, io.Discard)
	if ctx.Err() == nil || code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	nothingLeft(t, os.TempDir())
}

type writerFunc func(string)

func (f writerFunc) Write(b []byte) (int, error) { f(string(b)); return len(b), nil }

// nothingLeft looks for files in a directory and, where the system shows that, for processes that were started from there.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, f := range left {
		t.Errorf("%s is left", f.Name())
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range processes {
		if line, _ := os.ReadFile(file); bytes.HasPrefix(line, []byte(dir)) {
			t.Errorf("a process is left: %q", line)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, test := range []struct {
		args string
		mode string
		bad  string // what the complaint names
	}{
		{args: "", mode: modeKill},
		{args: "-kills 50", mode: modeKill},
		{args: "-stops 20", mode: modeStop},
		{args: "-mode rolling", mode: modeRolling},
		{args: "-mode resafe -entries 1000000", mode: modeResafe},
		{args: "-mode boil", bad: "boil"},
		{args: "-mode kill -stops 3", bad: "-stops"},
		{args: "-mode join -kills 3", bad: "-kills"},
		{args: "-kills 0", bad: "-kills: 0"},
		{args: "-members 2", bad: "-members: 2"},
		{args: "-entries 2000000", bad: "-entries: 2000000"},
		{args: "-pause 1ms", bad: "-pause: 1ms"},
		{args: "more", bad: "more"},
	} {
		o, err := parse(strings.Fields(test.args), io.Discard)
		switch {
		case test.bad == "" && (err != nil || o.mode != test.mode || o.limit < time.Minute):
			t.Errorf("%q: %+v, %v", test.args, o, err)
		case test.bad != "" && (err == nil || !strings.Contains(err.Error(), test.bad)):
			t.Errorf("%q: %v, want a complaint about %q", test.args, err, test.bad)
		}
	}
	if code := program(t.Context(), []string{"-kills", "x"}, io.Discard, io.Discard); code != 2 {
		t.Errorf("exit code %d for wrong flags", code)
	}
}
