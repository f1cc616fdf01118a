package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// command starts the program as a client that knows all live members.
func (c *cluster) command(args ...string) *exec.Cmd {
	var endpoints []string
	for _, m := range c.live() {
		endpoints = append(endpoints, m.http)
	}
	return program(append(args, "--http", strings.Join(endpoints, ","))...)
}

// TestC017_WaitForTheEnd: job submit --wait, right after the submit, returns when the job has ended and not before, with the exit code of the
// end; the death of the master in between does not matter.
func TestC017_WaitForTheEnd(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	run := func(s spec) (job, *exec.Cmd) {
		t.Helper()
		j := job{dir: t.TempDir(), rows: s.rows, id: fmt.Sprint(7000 + len(c.jobs))}
		file := filepath.Join(j.dir, "job.json")
		if err := os.WriteFile(file, []byte(s.config(j.dir)), 0o600); err != nil {
			t.Fatal(err)
		}
		c.jobs[j.id] = true
		return j, c.command("job", "submit", file, "--wait", "--id", j.id)
	}
	for i := range 6 {
		j, cmd := run(spec{rows: 10 * (i % 2), rate: 20 * (i % 2)})
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "FINISHED") {
			t.Errorf("job submit --wait: %v\n%s", err, out)
		}
		if took := time.Since(start); i%2 == 1 && took < 300*time.Millisecond {
			t.Errorf("10 rows at 20 a second took %v", took)
		}
		if v := info(c.members[i%3], j.id); v.JobStatus != "FINISHED" {
			t.Errorf("the command returned while the job was %s", v.JobStatus)
		}
		j.exact(t)
	}
	j, cmd := run(spec{rows: 200, rate: 50})
	canceled, wait := run(spec{rows: 20000, rate: 50})
	for _, x := range []*exec.Cmd{cmd, wait} {
		if err := x.Start(); err != nil {
			t.Fatal(err)
		}
	}
	c.await(20*time.Second, "both submitted", func() bool {
		return len(list(c.members[0], "/running-jobs")) == 2
	})
	c.awaitRunning(j, canceled)
	c.killMaster()
	c.live()[0].stopJob(canceled.id)
	if err := cmd.Wait(); err != nil {
		t.Errorf("job submit --wait over the master's death: %v", err)
	}
	if _ = wait.Wait(); wait.ProcessState.ExitCode() != 3 {
		t.Errorf("job submit --wait of a job that is canceled exits with %d", wait.ProcessState.ExitCode())
	}
	j.exact(t)
	c.watch([]job{canceled}, "CANCELED", 20*time.Second)
}
