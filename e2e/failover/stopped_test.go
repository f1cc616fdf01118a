package main

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestStoppedIn(t *testing.T) {
	for line, want := range map[string]bool{
		"7 (gridnode) T 1 7": true, "7 (gridnode) S 1 7": false, "7 (a) T) R 1": false, "7 (a) R) T 1": true, "": false, "7 (gridnode) ": false,
	} {
		if got := stoppedIn([]byte(line)); got != want {
			t.Errorf("%q: %t, want %t", line, got, want)
		}
	}
}

func TestStandsStill(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system does not show threads below /proc")
	}
	if standsStill(os.Getpid()) {
		t.Error("this process stands still")
	}
	cmd := exec.Command("cat")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := poll(t.Context(), 10*time.Second, "it stands still", func() bool { return standsStill(cmd.Process.Pid) }); err != nil {
		t.Error(err)
	}
}
