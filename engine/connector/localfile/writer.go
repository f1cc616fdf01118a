package localfile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gridnode/engine/plugin"
)

// checkEvery is how many rows are written between two looks at the context.
const checkEvery = 256

var errEnded = errors.New("the output was ended before")

// writer is the output of one task.
type writer struct {
	sink    *Sink
	tc      plugin.TaskContext
	out     prepared // the part that is being written
	part    int      // its number
	written bool     // an earlier part has files
	encoder *encoder
	file    *os.File // nil between two files
	buffer  *bufio.Writer
	line    []byte
	inFile  int64 // rows
	rows    int64 // in all
	ended   bool  // prepared, or closed
	failed  bool
}

// Write implements [plugin.Writer]. A row that the format cannot hold is a permanent error.
func (w *writer) Write(ctx context.Context, rows []plugin.Row) error {
	if w.ended {
		return errEnded
	}
	for i, row := range rows {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := w.writeRow(row); err != nil {
			w.failed = true
			return err
		}
	}
	if w.sink.transactional || w.file == nil {
		return nil
	}
	return w.flush()
}

func (w *writer) writeRow(row plugin.Row) error {
	if w.file == nil {
		if err := w.openFile(); err != nil {
			return err
		}
	}
	w.rows++
	line, err := w.encoder.row(w.line[:0], row)
	if err != nil {
		return plugin.Permanentf("row %d: %w", w.rows, err)
	}
	w.line = line
	if _, err := w.buffer.Write(line); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	w.inFile++
	if w.inFile < w.sink.batch {
		return nil
	}
	return w.closeFile()
}

// dir is where the files grow.
func (w *writer) dir() string {
	if w.sink.transactional {
		return filepath.Join(w.sink.tmp, w.out.dir())
	}
	return w.sink.path
}

// openFile starts the next file. It never opens one that is there.
func (w *writer) openFile() error {
	if err := makeDir(w.dir()); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(w.dir(), w.out.name(w.out.Files)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	w.out.Files++
	w.file, w.inFile = f, 0
	if w.buffer == nil {
		w.buffer = bufio.NewWriterSize(f, 64<<10)
	}
	w.buffer.Reset(f)
	if !w.sink.header {
		return nil
	}
	line, err := w.encoder.header(w.line[:0])
	if err != nil {
		return &plugin.PermanentError{Err: err}
	}
	if _, err := w.buffer.Write(line); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func (w *writer) flush() error {
	if err := w.buffer.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// closeFile ends the current file and makes it durable.
func (w *writer) closeFile() error {
	f := w.file
	w.file = nil
	return errors.Join(w.flush(), f.Sync(), f.Close())
}

// Cut implements [plugin.Cutter]. Without transactions it makes what is written durable, and there is nothing to commit.
func (w *writer) Cut(ctx context.Context) ([]byte, error) {
	switch {
	case w.ended || w.failed:
		return nil, errEnded
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case w.out.Files == 0:
		return nil, nil
	case !w.sink.transactional:
		return nil, w.sync()
	}
	next, err := w.sink.prepare(w.tc, w.part+1)
	if err == nil {
		err = w.finish()
	}
	if err != nil {
		w.failed = true
		return nil, err
	}
	b, err := json.Marshal(w.out)
	w.out, w.part, w.written = next, w.part+1, true
	return b, err
}

func (w *writer) sync() error {
	if w.file == nil {
		return nil
	}
	err := errors.Join(w.flush(), w.file.Sync())
	w.failed = err != nil
	return err
}

// State implements [plugin.Cutter]; there is none.
func (w *writer) State() ([]byte, error) { return nil, nil }

// Restore implements [plugin.Cutter].
func (w *writer) Restore([][]byte) error { return nil }

// Forget implements [plugin.Cutter]: the mark of the commit goes.
func (w *writer) Forget(data []byte) error {
	p, err := decodePrepared(data)
	if err != nil || p.Files == 0 {
		return err
	}
	return w.sink.removeTmp(p.dir())
}

// Prepare implements [plugin.Writer].
func (w *writer) Prepare(ctx context.Context) ([]byte, error) {
	if w.ended || w.failed {
		return nil, errEnded
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := w.finish(); err != nil {
		w.failed = true
		return nil, err
	}
	out := w.out
	if !w.sink.transactional {
		out.Files = 0
	}
	b, err := json.Marshal(out)
	w.ended = err == nil
	return b, err
}

// finish makes all files durable, and their names.
func (w *writer) finish() error {
	if w.out.Files == 0 && !w.written && w.sink.emptyFile {
		if err := w.openFile(); err != nil {
			return err
		}
	}
	if w.file != nil {
		if err := w.closeFile(); err != nil {
			return err
		}
	}
	switch {
	case w.out.Files == 0:
		return nil
	case !w.sink.transactional:
		return syncDir(w.sink.path)
	}
	for _, dir := range []string{w.out.dir(), w.out.incarnationDir(), filepath.Join(tmpName, w.out.JobID), tmpName, "."} {
		if err := syncDir(filepath.Join(w.sink.tmp, dir)); err != nil {
			return err
		}
	}
	return nil
}

// Close implements [plugin.Writer]. Output without transactions stays, however the task ended.
func (w *writer) Close() error {
	var errs []error
	if w.file != nil {
		if !w.sink.transactional && !w.failed {
			errs = append(errs, w.flush())
		}
		errs = append(errs, w.file.Close())
		w.file = nil
	}
	if !w.ended && w.sink.transactional && w.out.Files > 0 {
		errs = append(errs, w.sink.removeTmp(w.out.dir()))
	}
	w.ended = true
	return errors.Join(errs...)
}

// makeDir creates a directory and its parents. A cleanup may remove an empty parent meanwhile; then it is created again.
func makeDir(dir string) error {
	for range 10 {
		if err := os.MkdirAll(dir, 0o755); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.MkdirAll(dir, 0o755)
}
