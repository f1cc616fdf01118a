package localfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"gridnode/engine/plugin"
)

// maxBatchBytes ends a batch of large rows early.
const maxBatchBytes = 4 << 20

// reader reads the files of one subtask, one after the other.
type reader struct {
	source *Source
	files  []part   // still to be opened
	file   *os.File // nil between two files
	rows   rowReader
}

// Read implements [plugin.Reader]. What is wrong with the data of a file is a permanent error.
func (r *reader) Read(ctx context.Context, most int) ([]plugin.Row, error) {
	var rows []plugin.Row
	for bytes := 0; len(rows) < max(most, 1) && bytes < maxBatchBytes; {
		if ctx.Err() != nil && len(rows) > 0 {
			break // they were taken from the file already
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if r.file == nil {
			if len(r.files) == 0 {
				break
			}
			if err := r.openNext(); err != nil {
				return nil, err
			}
		}
		row, err := r.rows.next()
		if errors.Is(err, io.EOF) {
			if err := r.Close(); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		bytes += row.Size()
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, io.EOF
	}
	return rows, nil
}

func (r *reader) openNext() error {
	next := r.files[0]
	f, err := os.Open(next.File)
	if errors.Is(err, fs.ErrNotExist) {
		return &plugin.PermanentError{Err: err}
	}
	if err != nil {
		return err
	}
	rows, err := r.source.open(next.File, f)
	if err == nil && next.At != (mark{}) {
		err = rows.resume(f, next.At)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.files, r.file, r.rows = r.files[1:], f, rows
	return nil
}

// Close implements [plugin.Reader].
func (r *reader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file, r.rows = nil, nil
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}
