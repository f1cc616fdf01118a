package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fleet is the processes of one cluster.
type fleet struct {
	binary, dir, name string
	args              []string
	size              int // how many members there are to be
	client            *http.Client

	mu      sync.Mutex
	members []*member // that live
	started int
	wg      sync.WaitGroup // of what reads the processes' output
	joined  func(*member)  // called for each member that has started
	trap    *trap          // of the point at which a member is to be killed; nil: none
}

// member is one process.
type member struct {
	name, grid, http string
	cmd              *exec.Cmd
	ended            chan struct{} // closed when the process is gone
	log              *os.File
	stopped          bool // by SIGSTOP; guarded by fleet.mu
}

var errNoAnswer = errors.New("no answer in time")

// add starts a member that joins those that live, and waits until it says where it is.
func (f *fleet) add(ctx context.Context) (*member, error) {
	f.mu.Lock()
	f.started++
	m := &member{name: fmt.Sprintf("n%d", f.started), ended: make(chan struct{})}
	seed := ""
	for _, x := range f.members {
		if !x.stopped {
			seed = x.grid
		}
	}
	f.mu.Unlock()
	args := append([]string{"start", "--name", m.name, "--cluster", f.name, "--bind", "127.0.0.1:0", "--http", "127.0.0.1:0", "--join=" + seed}, f.args...)
	m.cmd = exec.Command(f.binary, args...)
	m.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GRIDNODE_") })
	m.cmd.SysProcAttr = childAttributes()
	var err error
	if m.log, err = os.Create(filepath.Join(f.dir, m.name+".log")); err != nil {
		return nil, err
	}
	m.cmd.Stderr = &watcher{to: m.log, at: f.passed, m: m}
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	f.wg.Go(func() { m.read(stdout, ready) })
	select {
	case <-ready:
	case <-m.ended:
		return nil, fmt.Errorf("%s ended at once, see %s", m.name, m.log.Name())
	case <-time.After(30 * time.Second):
		m.kill()
		return nil, fmt.Errorf("%s: %w, see %s", m.name, errNoAnswer, m.log.Name())
	case <-ctx.Done():
		m.kill()
		return nil, context.Cause(ctx)
	}
	f.mu.Lock()
	f.members = append(f.members, m)
	f.mu.Unlock()
	f.joined(m)
	return m, nil
}

// read takes the addresses out of what the process says first, and waits for its end.
func (m *member) read(stdout io.Reader, ready chan<- struct{}) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		_, _ = fmt.Fprintln(m.log, lines.Text())
		f := strings.Fields(lines.Text())
		if len(f) > 1 && f[0] == "members" {
			m.grid = f[1]
		}
		if len(f) > 1 && f[0] == "http" && m.http == "" {
			m.http = f[1]
			close(ready)
		}
	}
	_ = m.cmd.Wait()
	_ = m.log.Close()
	close(m.ended)
}

func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// remove takes a member off the list; it is not asked any more.
func (f *fleet) remove(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = slices.DeleteFunc(f.members, func(x *member) bool { return x == m })
}

func (f *fleet) kill(m *member) {
	f.remove(m)
	m.kill()
}

// term tells a member to leave, which it has to do well.
func (f *fleet) term(m *member, limit time.Duration) error {
	f.remove(m)
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.ended:
	case <-time.After(limit):
		m.kill()
		return fmt.Errorf("%s has not left within %v", m.name, limit)
	}
	if code := m.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s left with exit code %d", m.name, code)
	}
	return nil
}

// freeze stops a member from doing anything, and thaw lets it go on.
func (f *fleet) freeze(m *member) { f.signal(m, syscall.SIGSTOP, true) }
func (f *fleet) thaw(m *member)   { f.signal(m, syscall.SIGCONT, false) }

func (f *fleet) signal(m *member, s syscall.Signal, stopped bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.stopped = stopped
	_ = m.cmd.Process.Signal(s)
}

// awake returns the members that live and are not stopped.
func (f *fleet) awake() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.members), func(m *member) bool { return m.stopped })
}

// end kills all that is left.
func (f *fleet) end() {
	f.mu.Lock()
	all := f.members
	f.members = nil
	f.mu.Unlock()
	for _, m := range all {
		m.kill()
	}
	f.wg.Wait()
	f.client.CloseIdleConnections()
}

// call sends a request and returns the status and the body of the answer.
func (f *fleet) call(ctx context.Context, m *member, method, path, body string, header ...string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 12*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, m.http+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// read asks a member for JSON; ok is false if it cannot answer now. Any other answer is an error.
func read[T any](ctx context.Context, f *fleet, m *member, path string) (v T, ok bool, err error) {
	status, body, err := f.call(ctx, m, http.MethodGet, path, "")
	switch {
	case err != nil, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return v, false, nil
	case status != http.StatusOK:
		return v, false, fmt.Errorf("%s answers GET %s with %d %s", m.name, path, status, body)
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, false, fmt.Errorf("%s answers GET %s with %s: %w", m.name, path, body, err)
	}
	return v, true, nil
}

// health is a cluster as one member sees it.
type health struct {
	Master, MasterName, Self string
	Size, LostPartitions     int
	Safe                     bool
}

// safe reports whether all members that are awake see all of them, one master, and all partitions with all their replicas.
func (f *fleet) safe(ctx context.Context) bool {
	all := f.awake()
	if len(all) != f.size {
		return false
	}
	master := ""
	for _, m := range all {
		h, ok, err := read[health](ctx, f, m, "/api/v1/cluster")
		if err != nil || !ok || !h.Safe || h.Size != f.size || h.Master == "" || master != "" && h.Master != master {
			return false
		}
		master = h.Master
	}
	return true
}

// awaitSafe waits for that.
func (f *fleet) awaitSafe(ctx context.Context, limit time.Duration) error {
	for end := time.Now().Add(limit); !f.safe(ctx); {
		if time.Now().After(end) {
			return fmt.Errorf("the cluster is not safe again after %v", limit)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// master returns the member that the others call master, or nil.
func (f *fleet) master(ctx context.Context) *member {
	all := f.awake()
	for _, m := range all {
		h, ok, _ := read[health](ctx, f, m, "/api/v1/cluster")
		for _, x := range all {
			if ok && x.name == h.MasterName {
				return x
			}
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
