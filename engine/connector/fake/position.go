package fake

import (
	"context"
	"encoding/json"

	"gridnode/engine/plugin"
)

// span is a run of rows of one subtask of the run that began: they keep their numbers, whichever subtask makes them later.
type span struct {
	Subtask int   `json:"subtask"`
	Of      int   `json:"of"`    // subtasks in that run
	Total   int64 `json:"total"` // rows of the subtask
	Next    int64 `json:"next"`
	End     int64 `json:"end"`
}

// Position implements [plugin.Positioner].
func (r *reader) Position() ([]byte, error) { return json.Marshal(r.spans) }

// Restore implements [plugin.Restorable]. With another parallelism what is left of each subtask is cut between its splits, into as many pieces
// as there are subtasks now, and the pieces are dealt out.
func (s *Source) Restore(_ context.Context, tc plugin.TaskContext, positions [][]byte) (plugin.Reader, error) {
	r := &reader{source: s}
	dealt := 0
	for i, p := range positions {
		if p == nil {
			continue
		}
		var spans []span
		if err := json.Unmarshal(p, &spans); err != nil {
			return nil, plugin.Permanentf("position of subtask %d cannot be read: %w", i, err)
		}
		for _, sp := range spans {
			if total := s.total(sp.Subtask, sp.Of); total != sp.Total {
				return nil, plugin.Permanentf("each subtask had %d rows when the checkpoint was taken, and has %d now; leave \"row.num\" and \"rows\" as they were", sp.Total, total)
			}
			if len(positions) == tc.Parallelism {
				if i == tc.Subtask {
					r.spans = append(r.spans, sp)
				}
				continue
			}
			for _, piece := range s.pieces(sp, tc.Parallelism) {
				if dealt%tc.Parallelism == tc.Subtask {
					r.spans = append(r.spans, piece)
				}
				dealt++
			}
		}
	}
	return r, nil
}

// pieces cuts a span between splits into at most n parts of about equally many splits.
func (s *Source) pieces(sp span, n int) []span {
	if sp.Next >= sp.End {
		return nil
	}
	first, last := s.splitOf(sp.Total, sp.Next), s.splitOf(sp.Total, sp.End-1)
	splits := last - first + 1
	parts := min(splits, int64(n))
	var out []span
	for k := range parts {
		piece := sp
		if k > 0 {
			piece.Next = out[len(out)-1].End
		}
		if k < parts-1 {
			piece.End = s.splitEnd(sp.Total, first+splits*(k+1)/parts-1)
		}
		out = append(out, piece)
	}
	return out
}

// total returns how many rows a subtask out of so many makes.
func (s *Source) total(subtask, of int) int64 {
	if s.listed == nil {
		return s.rows
	}
	if of < 1 || subtask >= len(s.listed) {
		return 0
	}
	return int64((len(s.listed)-1-subtask)/of + 1)
}

// rowsOf returns what makes the rows of a span. It is for one goroutine.
func (s *Source) rowsOf(sp span) func(i int64) plugin.Row {
	if s.listed != nil {
		return func(i int64) plugin.Row { return s.listed[sp.Subtask+int(i)*sp.Of] }
	}
	return s.rowMaker(sp.Subtask)
}
