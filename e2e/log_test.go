package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLog_NobodyReads: who reads a member's log and output ends, or stops reading. The member serves all the same, and leaves when it is told to.
func TestLog_NobodyReads(t *testing.T) {
	t.Parallel()
	for _, reader := range []string{"ends", "stops"} {
		at := freePorts(t, 2)
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = read.Close() }()
		if reader == "stops" {
			fill(t, write)
		}
		cmd := program("start", "--bind", at[0], "--http", at[1], "--join=", "--log-level", "debug")
		cmd.Stdout, cmd.Stderr = write, write
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = write.Close()
		if reader == "ends" {
			_ = read.Close()
		}
		m := &member{t: t, name: reader, http: "http://" + at[1], cmd: cmd, ended: make(chan struct{})}
		go func() {
			_ = cmd.Wait()
			close(m.ended)
		}()
		defer m.kill()
		m.servesFor(3 * time.Second)
		m.signal(syscall.SIGTERM)
		m.awaitExit(leaveLimit)
	}
}

// fill leaves no room in a pipe.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	if err := pipe.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 10, 1} {
		for {
			if _, err := pipe.Write([]byte(strings.Repeat("x", size))); err != nil {
				break
			}
		}
		_ = pipe.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	}
}

// servesFor waits until the member has taken a write, and then expects that it does so for some time.
func (m *member) servesFor(d time.Duration) {
	m.t.Helper()
	begun := time.Now()
	var first time.Time
	for first.IsZero() || time.Since(first) < d {
		a, err := m.call("PUT", entries+"k", []byte("v"), "Content-Type", "text/plain")
		if took := time.Since(begun); err != nil || a.status >= 300 {
			if !first.IsZero() || took > 20*time.Second {
				m.t.Fatalf("the reader of the log %s: after %v %d %s (%v)", m.name, took, a.status, a.body, err)
			}
		} else if first.IsZero() {
			first = time.Now()
		}
		time.Sleep(20 * time.Millisecond)
	}
}
