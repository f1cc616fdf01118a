//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// demoProgram builds the program and returns its demo, as a process whose temporary files are in a directory of the test's.
func demoProgram(t *testing.T, args ...string) (cmd *exec.Cmd, temp string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes and takes seconds")
	}
	temp = t.TempDir()
	program := filepath.Join(t.TempDir(), "gridnode")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd = exec.Command(program, append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "GRIDNODE_NAME=not-for-members")
	return cmd, temp
}

// pidsOf returns the process ids that the demo has told.
func pidsOf(t *testing.T, output string) (pids []int) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^ +[0-9.]+s +n\d+ +pid (\d+)`).FindAllStringSubmatch(output, -1) {
		pid, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// awaitGone waits until the processes have ended; one that only its parent has not taken notice of has.
func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for _, pid := range pids {
		for !isGone(pid) {
			select {
			case <-again.C:
			case <-deadline:
				t.Fatalf("member with pid %d still runs", pid)
			}
		}
	}
}

func isGone(pid int) bool {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // where there is none, kill tells
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || bytes.Contains(stat, []byte(") Z "))
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestDemo_MasterIsKilled_NothingIsLost(t *testing.T) {
	cmd, temp := demoProgram(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	for _, want := range []string{"kill -9", "is the new master, term", "(attempt 2)", "job FINISHED", "3,376 rows in", "0 missing, 0 doubled, 0 foreign", "exactly once"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.ContainsAny(string(out), "\r\x1b") || stderr.Len() > 0 {
		t.Errorf("not plain: %q, stderr %q", out, stderr.String())
	}
	pids := pidsOf(t, string(out))
	if len(pids) != 3 {
		t.Errorf("members %v", pids)
	}
	awaitGone(t, pids)
	wantEmpty(t, temp)
}

// startedDemo starts the demo and returns what it says until the job runs.
func startedDemo(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // or it has ended
	var said strings.Builder
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "RUNNING") {
			return said.String()
		}
	}
	t.Fatalf("the job never ran:\n%s", said.String())
	return ""
}

func TestDemo_Interrupted_LeavesNothing(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd, temp := demoProgram(t)
			said := startedDemo(t, cmd)
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
			if !ok || exit.ExitCode() != code {
				t.Errorf("ended with %v, want exit code %d", exit, code)
			}
			awaitGone(t, pidsOf(t, said))
			wantEmpty(t, temp)
		})
	}
}

func TestDemo_Killed_TakesItsMembersAlong(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends children with their parent")
	}
	cmd, _ := demoProgram(t)
	said := startedDemo(t, cmd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	awaitGone(t, pidsOf(t, said))
}

func TestDemo_OutputGone_LeavesNothing(t *testing.T) {
	cmd, temp := demoProgram(t, "--kill", "none", "--members", "1")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = read.Close(), write.Close() // as "| head -1" does
	if cmd.Wait() == nil {
		t.Error("exit code 0")
	}
	wantEmpty(t, temp)
}
