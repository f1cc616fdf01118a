package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// member is one process.
type member struct {
	name       string
	grid, http string // addresses; valid once ready is closed
	log        string // file
	cmd        *exec.Cmd
	ready      chan struct{} // closed when the process has said where it is
	ended      chan struct{} // closed when the process is gone
}

// fleet is all processes that were started. One goroutine uses it, which keeps its thread.
type fleet struct {
	dir      string // of the program and the logs; empty until there is one
	logs     string // directory
	binary   string
	logLevel string
	cluster  string
	started  int
	members  []*member // that live, as far as this program had its way
	spinners []*exec.Cmd
}

// prepare makes the directory and builds the program, if there is none.
func (f *fleet) prepare(ctx context.Context, o options) (err error) {
	if f.dir, err = os.MkdirTemp("", "gridnode-failover-"); err != nil {
		return err
	}
	f.cluster, f.logLevel = filepath.Base(f.dir), o.logLevel
	if f.logs = o.logs; f.logs == "" {
		f.logs = f.dir
	} else if err := os.MkdirAll(f.logs, 0o755); err != nil {
		return err
	}
	if f.binary = o.binary; f.binary == "" {
		f.binary = filepath.Join(f.dir, "gridnode")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", f.binary, "gridnode/cmd/gridnode").CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	for range o.spinners {
		cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = childAttributes()
		if err := cmd.Start(); err != nil {
			return err
		}
		f.spinners = append(f.spinners, cmd)
	}
	return nil
}

// start starts a member at the addresses and waits until it has said where it is. Settings in the environment do not reach it.
func (f *fleet) start(ctx context.Context, name, gridAddr, httpAddr string) (*member, error) {
	var seeds []string // none: it looks for nobody
	for _, m := range f.members {
		seeds = append(seeds, m.grid)
	}
	f.started++
	m := &member{name: name, ready: make(chan struct{}), ended: make(chan struct{}), log: filepath.Join(f.logs, fmt.Sprintf("%03d-%s.log", f.started, name))}
	log, err := os.Create(m.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	m.cmd = exec.Command(f.binary, "start", "--name", name, "--cluster", f.cluster, "--bind", gridAddr, "--http", httpAddr,
		"--join="+strings.Join(seeds, ","), "--log-level", f.logLevel)
	m.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GRIDNODE_") })
	m.cmd.Dir, m.cmd.Stderr, m.cmd.SysProcAttr = f.dir, log, childAttributes()
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	f.members = append(f.members, m)
	go m.read(stdout) // ends with the process, which fleet.end kills
	select {
	case <-m.ready:
		return m, nil
	case <-m.ended:
		return nil, fmt.Errorf("%w: %s ended before it was ready", errProduct, name)
	case <-time.After(30 * time.Second):
		return nil, fmt.Errorf("%w: %s was not ready after 30 s", errProduct, name)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// read takes the addresses from what a member prints when it is ready, and waits for the end of the process.
func (m *member) read(stdout io.Reader) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		switch words := strings.Fields(lines.Text()); {
		case len(words) > 1 && words[0] == "members":
			m.grid = words[1]
		case len(words) > 1 && words[0] == "http" && m.http == "":
			m.http = words[1]
			close(m.ready)
		}
	}
	_ = m.cmd.Wait() // that it was killed is no news
	close(m.ended)
}

// kill is kill -9; it returns when the process is gone.
func (m *member) kill() {
	_ = m.cmd.Process.Kill() // or it has ended already
	<-m.ended
}

// forget takes a member off the list of those that live.
func (f *fleet) forget(m *member) {
	f.members = slices.DeleteFunc(f.members, func(x *member) bool { return x == m })
}

// restart starts a member that was killed again, under its name and addresses.
func (f *fleet) restart(ctx context.Context, m *member) error {
	_, err := f.start(ctx, m.name, m.grid, strings.TrimPrefix(m.http, "http://"))
	return err
}

// term tells a member to leave and returns how long that took.
func (f *fleet) term(ctx context.Context, m *member, within time.Duration) (time.Duration, error) {
	start := time.Now()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	select {
	case <-m.ended:
	case <-time.After(within):
		return 0, fmt.Errorf("%w: %s has not left %v after SIGTERM", errProduct, m.name, within)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	f.forget(m)
	if code := m.cmd.ProcessState.ExitCode(); code != 0 {
		return 0, fmt.Errorf("%w: %s exits with %d after SIGTERM", errProduct, m.name, code)
	}
	return time.Since(start), nil
}

// alive returns an error if a member has ended by itself.
func (f *fleet) alive() error {
	for _, m := range f.members {
		select {
		case <-m.ended:
			return fmt.Errorf("%w: %s ended by itself: %v", errProduct, m.name, m.cmd.ProcessState)
		default:
		}
	}
	return nil
}

// others returns the members that live, without one.
func (f *fleet) others(than *member) []*member {
	return slices.DeleteFunc(slices.Clone(f.members), func(m *member) bool { return m == than })
}

// showLogs prints how the members' logs end.
func (f *fleet) showLogs(w io.Writer) {
	for _, m := range f.members {
		data, err := os.ReadFile(m.log)
		if err != nil {
			fmt.Fprintln(w, err)
			continue
		}
		lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
		for _, line := range lines[max(0, len(lines)-12):] {
			fmt.Fprintf(w, "%s: %s\n", m.name, line)
		}
	}
}

// end kills what still runs and removes what is there.
func (f *fleet) end() error {
	var errs []error
	for _, m := range f.members {
		m.kill()
	}
	for _, cmd := range f.spinners {
		errs = append(errs, cmd.Process.Kill())
		_ = cmd.Wait() // that it was killed is no news
	}
	if f.dir != "" {
		errs = append(errs, os.RemoveAll(f.dir))
	}
	return errors.Join(errs...)
}
