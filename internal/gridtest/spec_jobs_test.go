package gridtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine"
)

// TestSpecJob_CutOffMaster is T23 and T24 with real members, for each ending: the master is cut off from all others around the end of a job, another
// takes over, and then the first one is back. The job comes to one end; no member ever shows another one, and nothing is left.
// It is ZE of the engine's zetaRows.
func TestSpecJob_CutOffMaster(t *testing.T) {
	endings := []engine.JobStatus{engine.JobFinished, engine.JobFailed, engine.JobCanceled}
	step := 60 * time.Millisecond
	if testing.Short() {
		step = 150 * time.Millisecond
	}
	for _, ends := range endings {
		for at := 280 * time.Millisecond; at < 600*time.Millisecond; at += step {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { cutOffMaster(t, dir, ends, at) })
			if t.Failed() {
				t.Fatalf("the end is %s, cut after %v", ends, at)
			}
		}
	}
}

func cutOffMaster(t *testing.T, dir string, ends engine.JobStatus, at time.Duration) {
	c := Start(t, 3, few, shortCleanup)
	defer c.Stop()
	master := c.Master()
	var client *Member
	for _, m := range c.Live() {
		if m != master {
			client = m
		}
	}
	config := string(sequenceJob(dir, 3, 40, 100))
	if ends == engine.JobFailed {
		config = strings.Replace(config, `"file_format_type":"text"}`, `"file_format_type":"text"},{"plugin_name":"Assert","rules":{"row_rules":[{"rule_type":"MAX_ROW","rule_value":10}]}}`, 1)
	}
	id := submit(t, client, []byte(config))
	if ends == engine.JobCanceled {
		time.AfterFunc(at-20*time.Millisecond, func() { stop(client, id) })
	}
	time.Sleep(at)
	c.Net.Isolate(master.Host)
	time.Sleep(4 * time.Second)
	c.Net.HealAll()
	got := c.awaitEnd(id, time.Minute)
	switch {
	case got == engine.JobFinished && ends != engine.JobFailed: // a cancel may come too late
		exact(t, dir, 120)
	case got != ends:
		v, _ := look(client, id)
		t.Errorf("the job ended %s: %s", got, v.ErrorMsg)
	default:
		if files, _ := filepath.Glob(filepath.Join(dir, "out", "*")); len(files) > 0 {
			t.Errorf("a job that ended %s left %v", got, files)
		}
	}
	c.engineMapsEmpty(2 * time.Minute)
	if again := c.awaitEnd(id, time.Minute); again != got {
		t.Errorf("after the cleanup the job is %s, was %s", again, got)
	}
}

// stop asks for a job to be stopped until the answer is definite.
func stop(m *Member, id string) {
	for range 1000 {
		err := m.Jobs().Stop(context.Background(), engine.StopRequest{JobID: id})
		if !errors.Is(err, engine.ErrRetryable) && !errors.Is(err, engine.ErrIndeterminate) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	panic(fmt.Sprint("nobody takes the stop of job ", id))
}
