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
	source *Source
	spans  []span // what is left, the one that is being read first
	row    func(i int64) plugin.Row
	split  int64     // the number of the split that is being read, in the first span
	pause  time.Time // no row before that; zero: none
}

// Read implements [plugin.Reader].
func (r *reader) Read(ctx context.Context, most int) ([]plugin.Row, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for len(r.spans) > 0 && r.spans[0].Next >= r.spans[0].End {
		r.spans, r.row = r.spans[1:], nil
	}
	if len(r.spans) == 0 {
		return nil, io.EOF
	}
	r.enterSplit()
	if err := r.rest(ctx); err != nil {
		return nil, err
	}
	s := &r.spans[0]
	n := min(s.End, r.source.splitEnd(s.Total, r.split)) - s.Next
	n = min(n, int64(max(most, 1)))
	rows := make([]plugin.Row, 0, n)
	for bytes := 0; int64(len(rows)) < n && bytes < maxBatchBytes; s.Next++ {
		row := r.row(s.Next)
		bytes += row.Size()
		rows = append(rows, row)
	}
	return rows, nil
}

// enterSplit finds the split of the next row, and notes the pause in front of it.
func (r *reader) enterSplit() {
	s := r.spans[0]
	if r.row == nil {
		r.row = r.source.rowsOf(s)
		r.split = r.source.splitOf(s.Total, s.Next)
		return
	}
	if s.Next < r.source.splitEnd(s.Total, r.split) {
		return
	}
	r.split = r.source.splitOf(s.Total, s.Next)
	r.pause = time.Now().Add(r.source.interval)
}

// rest waits for what is left of the pause between two splits, also when it was interrupted before.
func (r *reader) rest(ctx context.Context) error {
	if r.pause.IsZero() {
		return nil
	}
	if d := time.Until(r.pause); d > 0 {
		if err := plugin.Sleep(ctx, d); err != nil {
			return err
		}
	}
	r.pause = time.Time{}
	return nil
}

// splitEnd returns the row behind a split of a subtask that makes total rows.
func (s *Source) splitEnd(total, split int64) int64 {
	whole, rest := total/s.splits, total%s.splits
	return whole*(split+1) + rest*(split+1)/s.splits
}

// splitOf returns the number of the split that a row is in. Splits may be empty.
func (s *Source) splitOf(total, row int64) int64 {
	low, high := int64(0), s.splits-1
	for low < high {
		if mid := (low + high) / 2; s.splitEnd(total, mid) > row {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// Close implements [plugin.Reader].
func (r *reader) Close() error { return nil }
