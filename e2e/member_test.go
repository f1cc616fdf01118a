package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// member is one process.
type member struct {
	t          *testing.T
	c          *cluster
	name       string
	grid, http string // set when ready is closed
	cmd        *exec.Cmd
	ready      chan struct{} // closed when the process has said where it is
	ended      chan struct{} // closed when the process has ended and been waited for
	gone       bool          // the test has ended it
	paused     bool

	mu  sync.Mutex // guards out
	out bytes.Buffer
}

// spawn starts a process and does not wait for anything.
func (c *cluster) spawn(args ...string) *member {
	c.t.Helper()
	m := &member{t: c.t, c: c, name: fmt.Sprintf("n%d", len(c.members)+1), ready: make(chan struct{}), ended: make(chan struct{})}
	args = append([]string{"start", "--name", m.name, "--cluster", c.name}, args...)
	m.cmd = program(append(args, c.args...)...)
	if c.place != nil {
		c.place(m.cmd)
	}
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	m.cmd.Stderr = m
	if err := m.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.members = append(c.members, m)
	go m.read(stdout)
	return m
}

// program is the program under test with arguments. Settings in the environment do not reach it.
func program(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GRIDNODE_") })
	cmd.SysProcAttr = childAttributes(true)
	return cmd
}

// add starts one more member and waits until it says where it is.
func (c *cluster) add(gridAddr, httpAddr string, args ...string) *member {
	c.t.Helper()
	seed := "" // it looks for nobody
	if live := c.live(); len(live) > 0 {
		seed = live[0].grid
	}
	args = append([]string{"--bind", gridAddr, "--http", httpAddr, "--join=" + seed}, args...)
	m := c.spawn(args...)
	for end := time.Now().Add(portFree); m.findsPortTaken() && time.Now().Before(end); m = c.spawn(args...) {
		c.members = slices.DeleteFunc(c.members, func(x *member) bool { return x == m })
		time.Sleep(100 * time.Millisecond)
	}
	m.awaitReady()
	return m
}

// portFree is how long a port that a test knows may be taken: connections of other tests come from any that is free for a moment.
const portFree = 10 * time.Second

// findsPortTaken waits until the member is ready or has ended, and reports whether somebody else has one of its ports.
func (m *member) findsPortTaken() bool {
	select {
	case <-m.ready:
	case <-m.ended:
		return strings.Contains(m.output(), "address already in use")
	case <-time.After(30 * time.Second):
	}
	return false
}

func (m *member) awaitReady() {
	m.t.Helper()
	select {
	case <-m.ready:
	case <-m.ended:
		m.t.Fatalf("%s ended at once:\n%s", m.name, m.output())
	case <-time.After(30 * time.Second):
		m.t.Fatalf("%s is not ready after 30 s:\n%s", m.name, m.output())
	}
}

// Write keeps what the process writes to stderr, for a test that fails.
func (m *member) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.Write(b)
}

func (m *member) output() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.String()
}

// read takes the addresses from the block that a member prints when it is ready, and waits for the process's end.
func (m *member) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		fmt.Fprintln(m, lines.Text())
		f := strings.Fields(lines.Text())
		if len(f) > 1 && f[0] == "members" {
			m.grid = f[1]
		}
		if len(f) > 1 && f[0] == "http" && m.http == "" {
			m.http = f[1]
			close(m.ready)
		}
	}
	_ = m.cmd.Wait()
	close(m.ended)
}

// kill ends the process as a power failure would.
func (m *member) kill() {
	m.gone = true
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// term asks the process to leave, which it must do with exit code 0 and within the limit.
func (m *member) term(limit time.Duration) {
	m.t.Helper()
	m.gone = true
	m.signal(syscall.SIGTERM)
	m.awaitExit(limit)
}

func (m *member) awaitExit(limit time.Duration) {
	m.t.Helper()
	select {
	case <-m.ended:
	case <-time.After(limit):
		m.t.Errorf("%s has not left %v after SIGTERM", m.name, limit)
		m.kill()
		return
	}
	if code := m.cmd.ProcessState.ExitCode(); code != 0 {
		m.t.Errorf("%s exits with %d after SIGTERM", m.name, code)
	}
}

// pause stops the process without its noticing, until resume.
func (m *member) pause() {
	m.t.Helper()
	m.paused = true
	m.signal(syscall.SIGSTOP)
}

func (m *member) resume() {
	m.t.Helper()
	m.signal(syscall.SIGCONT)
	m.paused = false
}

func (m *member) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil {
		m.t.Fatalf("%v to %s: %v", s, m.name, err)
	}
}

// restart kills the member if it lives, and starts a new one under its ports.
func (m *member) restart() *member {
	m.t.Helper()
	m.kill()
	return m.c.add(m.grid, strings.TrimPrefix(m.http, "http://"))
}
