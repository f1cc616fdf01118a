package engine_test

import (
	"context"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/enginetest"
	"gridnode/engine/plugin"
)

// The figures of a job are those of its tables, and after a change of masters they are there again before the next progress reports.
func TestFiguresAfterFailover(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		c.submit(ctx, "90", enginetest.Spec{Mode: plugin.Streaming, Pipelines: 2, Parallelism: 2, Rows: 50})
		c.waitFor(ctx, "90", engine.JobRunning)
		whole := func() bool {
			m := c.info(ctx, "90").Metrics
			one, two := m.Tables["t1"], m.Tables["t2"]
			return m.SourceRows == 200 && m.SinkRows == 200 && one.SourceRows == 100 && two.SinkRows == 100 &&
				one.SourceBytes == 1600 && two.SinkBytes == 1600 && m.SourceBytes == 3200 && len(m.Tables) == 2 && m.SinkQPS > 0 && m.SinkBPS > 0
		}
		c.until("all rows are counted", 5*time.Second, whole)
		for range 3 {
			time.Sleep(300 * time.Millisecond)
			c.Depose()
			c.until("the figures are back", 100*time.Millisecond, whole)
		}
		c.stop(ctx, "90")
		c.waitFor(ctx, "90", engine.JobCanceled)
		if !whole() {
			t.Errorf("after the end: %+v", c.info(ctx, "90").Metrics)
		}
	})
}

// What the figures call committed is what is visible: with each checkpoint, over a restart with another parallelism, and at every end of a job.
func TestFiguresOfWhatIsCommitted(t *testing.T) {
	onGrid(t, enginetest.Options{}, func(ctx context.Context, c *cluster) {
		same := func(id string) func() bool {
			return func() bool {
				n, _ := c.Output.Rows(id)
				m := c.info(ctx, id).Metrics
				again, _ := c.Output.Rows(id)
				if m.CommittedRows > m.SinkRows {
					t.Errorf("job %s: %d rows are committed, and %d written", id, m.CommittedRows, m.SinkRows)
				}
				if m.SinkRows > m.SourceRows || m.SinkBytes > m.SourceBytes {
					t.Errorf("job %s: %d rows are written, and %d read", id, m.SinkRows, m.SourceRows)
				}
				return n == again && n > 0 && m.CommittedRows == int64(n) && m.CommittedBytes == 16*m.CommittedRows
			}
		}
		spec := flow(plugin.Streaming)
		c.submit(ctx, "40", spec)
		c.waitFor(ctx, "40", engine.JobRunning)
		for range 3 {
			c.until("the figures are what is visible", 10*time.Second, same("40"))
			c.Depose()
		}
		c.savepoint(ctx, "40")
		c.waitFor(ctx, "40", engine.JobSavepointDone)
		if !same("40")() {
			t.Errorf("after the savepoint: %+v", c.info(ctx, "40").Metrics)
		}
		saved := c.info(ctx, "40").Metrics.CommittedRows
		spec.Parallelism = 5
		c.resume(ctx, "40", spec)
		if m := c.info(ctx, "40").Metrics; m.CommittedRows < saved {
			t.Errorf("%d rows are committed after the start from a savepoint with %d", m.CommittedRows, saved)
		}
		c.awaitRows(ctx, "40", 3*spec.Rows)
		c.stop(ctx, "40")
		c.waitFor(ctx, "40", engine.JobCanceled)
		if !same("40")() {
			t.Errorf("after the cancel: %+v", c.info(ctx, "40").Metrics)
		}

		batch := enginetest.Spec{Mode: plugin.Batch, Parallelism: 2, Rows: 20, Pause: 5 * ms}
		c.submit(ctx, "41", batch)
		c.waitFor(ctx, "41", engine.JobRunning)
		time.Sleep(50 * time.Millisecond)
		if m := c.info(ctx, "41").Metrics; m.CommittedRows != 0 {
			t.Errorf("%d rows are committed before the end", m.CommittedRows)
		}
		c.waitFor(ctx, "41", engine.JobFinished)
		if !same("41")() {
			t.Errorf("after the end: %+v", c.info(ctx, "41").Metrics)
		}
	})
}
