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
