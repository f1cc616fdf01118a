package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var binary string // the program under test, built once

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gridnode-e2e-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "gridnode")
	if out, err := exec.Command("go", "build", "-o", binary, "gridnode/cmd/gridnode").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// client gives up before a test's patience ends; a member that was killed refuses at once.
var client = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// member is one process.
type member struct {
	t          *testing.T
	name       string
	grid, http string
	cmd        *exec.Cmd
	ended      chan struct{} // closed when the process has ended and been waited for
	killed     bool

	mu  sync.Mutex // guards out
	out bytes.Buffer
}

// cluster is a set of processes that know each other.
type cluster struct {
	t       *testing.T
	name    string
	args    []string
	members []*member
}

// startCluster starts n members and waits until they are one safe cluster.
func startCluster(t *testing.T, n int, args ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, name: fmt.Sprintf("t%d-%d", os.Getpid(), time.Now().UnixNano()%1e9), args: args}
	t.Cleanup(c.stop)
	for range n {
		c.add("127.0.0.1:0", "127.0.0.1:0")
	}
	c.awaitSafe(n)
	return c
}

// add starts one more member and waits until it says where it is.
func (c *cluster) add(gridAddr, httpAddr string) *member {
	c.t.Helper()
	m := &member{t: c.t, name: fmt.Sprintf("n%d", len(c.members)+1), ended: make(chan struct{})}
	args := []string{"start", "--name", m.name, "--cluster", c.name, "--bind", gridAddr, "--http", httpAddr}
	if live := c.live(); len(live) > 0 {
		args = append(args, "--join", live[0].grid)
	}
	m.cmd = exec.Command(binary, append(args, c.args...)...)
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	m.cmd.Stderr = m
	if err := m.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.members = append(c.members, m)
	ready := make(chan struct{})
	go m.read(stdout, ready)
	select {
	case <-ready:
	case <-m.ended:
		c.t.Fatalf("%s ended at once:\n%s", m.name, m.output())
	case <-time.After(30 * time.Second):
		c.t.Fatalf("%s is not ready after 30 s:\n%s", m.name, m.output())
	}
	return m
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
func (m *member) read(stdout io.Reader, ready chan struct{}) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		fmt.Fprintln(m, lines.Text())
		f := strings.Fields(lines.Text())
		if len(f) > 1 && f[0] == "members" {
			m.grid = f[1]
		}
		if len(f) > 1 && f[0] == "http" {
			m.http = f[1]
			close(ready)
		}
	}
	_ = m.cmd.Wait()
	close(m.ended)
}

// kill ends the process as a power failure would.
func (m *member) kill() {
	m.killed = true
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// term asks the process to leave, and returns its exit code.
func (m *member) term(limit time.Duration) int {
	m.t.Helper()
	m.killed = true
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.ended:
	case <-time.After(limit):
		m.t.Errorf("%s has not left after %v", m.name, limit)
		_ = m.cmd.Process.Kill()
		<-m.ended
	}
	return m.cmd.ProcessState.ExitCode()
}

func (c *cluster) live() []*member {
	var out []*member
	for _, m := range c.members {
		if !m.killed {
			out = append(out, m)
		}
	}
	return out
}

func (c *cluster) stop() {
	for _, m := range c.live() {
		m.kill()
	}
	if c.t.Failed() {
		for _, m := range c.members {
			c.t.Logf("---- %s\n%s", m.name, tail(m.output(), 6000))
		}
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// answer is what a member answered.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request; an error means that the member could not be asked.
func (m *member) call(method, path string, body []byte, header ...string) (answer, error) {
	req, err := http.NewRequest(method, m.http+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, b}, err
}

// get asks a living member until it answers something else than "try again".
func (m *member) get(path string) answer {
	m.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		a, err := m.call("GET", path, nil)
		if err == nil && a.status != http.StatusServiceUnavailable {
			return a
		}
		if time.Now().After(end) {
			m.t.Fatalf("%s GET %s: %d %s %v", m.name, path, a.status, a.body, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// read asks for JSON.
func read[T any](m *member, path string) T {
	m.t.Helper()
	var v T
	a := m.get(path)
	if a.status != http.StatusOK {
		m.t.Fatalf("%s GET %s: %d %s", m.name, path, a.status, a.body)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		m.t.Fatalf("%s GET %s: %v in %s", m.name, path, err, a.body)
	}
	return v
}

type clusterView struct {
	Name, Master, MasterName string
	Size, Partitions         int
	Term                     uint64
	Safe                     bool
}

// await polls until cond holds.
func (c *cluster) await(limit time.Duration, what string, cond func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	for !cond() {
		if time.Since(start) > limit {
			c.t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(start)
}

func (c *cluster) awaitSafe(n int) {
	c.t.Helper()
	c.await(30*time.Second, fmt.Sprintf("%d members and safe", n), func() bool {
		for _, m := range c.live() {
			if v := read[clusterView](m, "/api/v1/cluster"); v.Size != n || !v.Safe || v.Master == "" {
				return false
			}
		}
		return true
	})
}

// master returns the live member that all live members call master; nil as long as they do not agree on one.
func (c *cluster) master() *member {
	name := ""
	for _, m := range c.live() {
		a, err := m.call("GET", "/api/v1/cluster", nil)
		var v clusterView
		if err != nil || json.Unmarshal(a.body, &v) != nil || name != "" && v.MasterName != name {
			return nil
		}
		name = v.MasterName
	}
	for _, m := range c.live() {
		if m.name == name {
			return m
		}
	}
	return nil
}

// killMaster kills the master and waits for the next, which must be there within five seconds.
func (c *cluster) killMaster() *member {
	c.t.Helper()
	old := c.master()
	if old == nil {
		c.t.Fatal("there is no master to kill")
	}
	old.kill()
	took := c.await(5*time.Second, "a new master", func() bool { return c.master() != nil })
	c.t.Logf("killed master %s; %s is master after %v", old.name, c.master().name, took.Round(time.Millisecond))
	return old
}

// other returns a live member that is not the master.
func (c *cluster) other() *member {
	c.t.Helper()
	master := c.master()
	for _, m := range c.live() {
		if m != master {
			return m
		}
	}
	c.t.Fatal("only the master lives")
	return nil
}
