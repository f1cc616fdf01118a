package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// binaryVariable tells the process that runs the tests where the program is.
const binaryVariable = "GRIDNODE_E2E_BINARY"

// testsAtOnce is how many tests run at once, unless -parallel says something else than what Go takes by itself.
const testsAtOnce = "4"

var binary string // the program under test, built once

// TestMain builds the program and runs the tests in a process of their own, so that nothing is left on the disk even if they panic.
func TestMain(m *testing.M) {
	if binary = os.Getenv(binaryVariable); binary != "" {
		flag.Parse()
		if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
			_ = f.Value.Set(testsAtOnce) // the tests wait for most of their time
		}
		os.Exit(m.Run())
	}
	code, err := buildAndRun()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func buildAndRun() (code int, err error) {
	dir, err := os.MkdirTemp("", "gridnode-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "gridnode")
	if out, err := exec.Command("go", "build", "-o", file, "gridnode/cmd/gridnode").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build: %w\n%s", err, out)
	}
	tests := exec.Command(os.Args[0], os.Args[1:]...)
	tests.Stdout, tests.Stderr, tests.SysProcAttr = os.Stdout, os.Stderr, childAttributes(false)
	tests.Env = append(os.Environ(), binaryVariable+"="+file, "TMPDIR="+dir)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if err := tests.Start(); err != nil {
		return 1, err
	}
	go func() { // as long as the process lives
		for s := range signals {
			_ = tests.Process.Signal(s)
		}
	}()
	if err := tests.Wait(); tests.ProcessState.ExitCode() < 0 {
		return 1, err
	}
	return tests.ProcessState.ExitCode(), nil
}
