package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gridnode/node"
)

// started runs gridnode with args over a fake member that is ready at once, until ctx ends.
func started(ctx context.Context, m *fakeMember, args ...string) result {
	c := newCLI()
	c.app.newMember = func(cfg node.Config) (member, error) {
		m.cfg = cfg
		return m, cfg.Validate()
	}
	return c.run(ctx, args...)
}

func endedBy(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

func readyMember() *fakeMember {
	m := &fakeMember{ready: make(chan struct{})}
	close(m.ready)
	return m
}

func TestStart_PrintsWhereItIs_AndEndsWithTheSignal(t *testing.T) {
	for _, args := range [][]string{{}, {"start"}, {"start", "--http", "127.0.0.1:9090", "--cluster", "g1", "--name=n2"}} {
		m := readyMember()
		ctx, cancel := context.WithCancelCause(t.Context())
		c := newCLI()
		c.app.newMember = func(cfg node.Config) (member, error) { m.cfg = cfg; return m, nil }
		out := &watched{want: "next", found: func() { cancel(&signalError{syscall.SIGTERM}) }}
		c.app.stdout = out
		res := c.run(ctx, args...)
		if res.code != exitOK || res.stderr != "" {
			t.Errorf("%v: exit code %d, stderr %s", args, res.code, res.stderr)
		}
		for _, want := range []string{m.cfg.ClusterName, m.Info().Name, m.cfg.Bind, "http://" + m.cfg.HTTP, "gridnode map put"} {
			if !strings.Contains(out.text.String(), want) {
				t.Errorf("%v: no %q in\n%s", args, want, out.text.String())
			}
		}
		if got := strings.Contains(out.text.String(), "--http http://127.0.0.1:9090"); got != (len(args) > 2) {
			t.Errorf("%v: the next command is wrong:\n%s", args, out.text.String())
		}
	}
}

// watched tells when a text was written.
type watched struct {
	text  strings.Builder
	want  string
	found func()
}

func (w *watched) Write(p []byte) (int, error) {
	w.text.Write(p)
	if strings.Contains(w.text.String(), w.want) {
		w.found()
	}
	return len(p), nil
}

func TestStart_Flags(t *testing.T) {
	m := readyMember()
	res := started(endedBy(&signalError{syscall.SIGINT}), m, "start", "--insecure", "--bind", "0.0.0.0:6000", "--advertise", "box", "--join", "a,b:1",
		"--join=c", "--expect=3", "--backup-count", "2", "--partition-count", "31", "--leave-timeout", "1m", "--roles", "data", "--set",
		"engine.slot-service.slot-num=7", "--log-level", "error")
	if res.code != exitOK {
		t.Fatalf("%+v", res)
	}
	want := node.DefaultConfig()
	want.Insecure, want.Bind, want.GridPortAuto, want.Advertise = true, "0.0.0.0:6000", false, "box:5701"
	want.Join, want.Discover, want.Expect, want.BackupCount, want.Partitions = []string{"a:5701", "b:1", "c:5701"}, false, 3, 2, 31
	want.LeaveTimeout, want.Roles, want.Engine.SlotNum = 60e9, []string{"data"}, 7
	m.cfg.Logger = nil
	if diff := cmp.Diff(want, m.cfg); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUsageErrors_AreExitCode2(t *testing.T) {
	tests := []struct {
		args []string
		says string
	}{
		{[]string{"--nmae", "x"}, "--nmae"},
		{[]string{"start", "extra"}, "extra"},
		{[]string{"strat"}, "start"},
		{[]string{"job", "sumbit"}, "sumbit"},
		{[]string{"job", "info"}, "arg"},
		{[]string{"map", "get", "a"}, "arg"},
		{[]string{"map", "put", "m", "k", "v", "--ttl", "soon"}, "ttl"},
		{[]string{"map", "put", "m", "k", "v", "--if-absent", "--if-version=1"}, "if-absent"},
		{[]string{"members", "-o", "xml"}, "xml"},
		{[]string{"members", "--http", "ftp://x"}, "ftp://x"},
		{[]string{"job", "submit", "no-such-file.json"}, "no-such-file.json"},
		{[]string{"job", "wait", "1", "--timeout=-1s"}, "negative"},
		{[]string{"start", "--set", "backup-cuont=1"}, "backup-count"},
		{[]string{"start", "--backup-count", "9"}, "backup-count"},
		{[]string{"start", "--bind", "0.0.0.0"}, "authenticate"},
		{[]string{"start", "--insecure=maybe"}, "maybe"},
		{[]string{"start", "--config", "no-such-file.yaml"}, "no-such-file.yaml"},
	}
	for _, tt := range tests {
		res := started(t.Context(), &fakeMember{err: errors.New("it was started")}, tt.args...)
		if res.code != exitUsage || !strings.Contains(res.stderr, tt.says) || res.stdout != "" || !strings.HasPrefix(res.stderr, "gridnode: ") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", tt.args, res.code, res.stdout, res.stderr)
		}
	}
}

func TestStart_Failures(t *testing.T) {
	res := started(t.Context(), &fakeMember{err: errors.New("port 5701 is in use")}, "start")
	if res.code != exitFailed || res.stderr != "gridnode: port 5701 is in use\n" {
		t.Errorf("%+v", res)
	}
	res = started(endedBy(&signalError{syscall.SIGTERM}), &fakeMember{err: errors.New("could not hand over")}, "start")
	if res.code != exitFailed {
		t.Errorf("a failure while leaving: %+v", res)
	}
	c := newCLI()
	c.app.newMember = func(node.Config) (member, error) { return nil, errors.New("no memory") }
	if res := c.run(t.Context(), "start"); res.code != exitFailed {
		t.Errorf("%+v", res)
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if res := newCLI().run(t.Context(), args...); res.code != 0 || !strings.HasPrefix(res.stdout, "gridnode ") || strings.Count(res.stdout, "\n") != 1 {
			t.Errorf("%v: %+v", args, res)
		}
	}
	if res := newCLI().run(t.Context(), "version", "--json"); res.code != 0 || !strings.Contains(res.stdout, `"go":"go1.`) {
		t.Errorf("%+v", res)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"start", "-h"}, {"job"}, {"map", "--help"}} {
		if res := newCLI().run(t.Context(), args...); res.code != 0 || !strings.Contains(res.stdout, "Usage:") || res.stderr != "" {
			t.Errorf("%v: %+v", args, res)
		}
	}
	res := newCLI().run(t.Context(), "start", "--help")
	for _, s := range allSettings() {
		if !strings.Contains(res.stdout, s.key) {
			t.Errorf("the help of start does not name %s", s.key)
		}
	}
}

func TestSignals_FirstEndsTheContext_SecondExits(t *testing.T) {
	tests := []struct {
		second os.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}}
	for _, tt := range tests {
		signals, done, exited := make(chan os.Signal), make(chan struct{}), make(chan int, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		go handleSignals(signals, done, cancel, func(code int) { exited <- code })
		signals <- syscall.SIGTERM
		<-ctx.Done()
		if s, ok := errors.AsType[*signalError](context.Cause(ctx)); !ok || s.exitCode() != 143 {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		signals <- tt.second
		if got := <-exited; got != tt.code {
			t.Errorf("%v: exit code %d", tt.second, got)
		}
	}
}

func TestSignals_OfTheProcess(t *testing.T) {
	for _, first := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		ctx, stop := withSignals(t.Context(), func(code int) { t.Errorf("exit %d", code) })
		if err := syscall.Kill(os.Getpid(), first); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if s, ok := errors.AsType[*signalError](context.Cause(ctx)); !ok || s.signal != first {
			t.Errorf("%v: cause %v", first, context.Cause(ctx))
		}
		stop()
	}
}
