package gridtest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine"
)

// TestJob_RollingReplacement replaces every member in turn, the master included, under a job that must not be restarted: each leaver has its tasks
// moved before it goes, and the job ends with each row once.
func TestJob_RollingReplacement(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, shortCleanup)
		defer c.Stop()
		config := strings.Replace(string(sequenceJob(dir, 3, 1200, 100)), `"env":{`, `"env":{"job.retry.times":0,`, 1)
		id := submit(t, c.Live()[0], []byte(config))
		c.awaitStatus(id, engine.JobRunning, 10*time.Second)
		for _, m := range c.Live() {
			c.Add()
			c.AwaitSafe(4, time.Minute)
			gone, start := m.ID(), time.Now()
			if err := c.Leave(m); err != nil {
				t.Errorf("%s: %v", m.Host, err)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%s left after %v", m.Host, took)
			}
			v, ok := look(c.Live()[0], id)
			for _, task := range v.Tasks {
				if task.Member == string(gone) && task.Status != engine.TaskFinished {
					t.Errorf("%s is gone, and has still %+v", m.Host, task)
				}
			}
			if !ok || v.Restarts != 0 || v.FailureSum != 0 {
				t.Errorf("after %s left: %d restarts, failures %+v", m.Host, v.Restarts, v.Failures)
			}
			c.AwaitSafe(3, time.Minute)
		}
		if end := c.awaitEnd(id, time.Minute); end != engine.JobFinished {
			v, _ := look(c.Live()[0], id)
			t.Errorf("the job ended %s: %s", end, v.ErrorMsg)
		}
		exact(t, dir, 3600)
		c.engineMapsEmpty(time.Minute)
	})
}
