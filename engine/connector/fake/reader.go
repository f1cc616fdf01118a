package fake

import (
	"context"
	"io"
	"time"

	"gridnode/engine/plugin"
)

// maxBatchBytes ends a batch of large rows early.
const maxBatchBytes = 4 << 20

// reader hands out the rows of one subtask, split by split.
type reader struct {
	row           func(i int64) plugin.Row
	total, next   int64
	splits, split int64
	interval      time.Duration
}

// Read implements [plugin.Reader].
func (r *reader) Read(ctx context.Context, most int) ([]plugin.Row, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if r.next >= r.total {
		return nil, io.EOF
	}
	if r.next == r.end() {
		for r.next == r.end() { // a split may be empty
			r.split++
		}
		if err := plugin.Sleep(ctx, r.interval); err != nil {
			return nil, err
		}
	}
	n := min(r.end()-r.next, int64(max(most, 1)))
	rows := make([]plugin.Row, 0, n)
	for bytes := 0; int64(len(rows)) < n && bytes < maxBatchBytes; r.next++ {
		row := r.row(r.next)
		bytes += row.Size()
		rows = append(rows, row)
	}
	return rows, nil
}

// end returns the row behind the current split.
func (r *reader) end() int64 {
	whole, rest := r.total/r.splits, r.total%r.splits
	return whole*(r.split+1) + rest*(r.split+1)/r.splits
}

// Close implements [plugin.Reader].
func (r *reader) Close() error { return nil }
