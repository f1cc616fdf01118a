package localfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"gridnode/engine/plugin"
)

// part is a file from a place on. What a reader still has to read is a list of them.
type part struct {
	File string `json:"file"` // in a position relative to the option path, if it is below that
	At   mark   `json:"at,omitzero"`
}

// mark is a place between two rows of a file. Lines have an offset, the values of a JSON list only a number.
type mark struct {
	Offset int64 `json:"offset"` // bytes before it
	Number int   `json:"number"` // lines or values before it
}

// Position implements [plugin.Positioner].
func (r *reader) Position() ([]byte, error) {
	left := make([]part, 0, 1+len(r.files))
	if r.file != nil {
		left = append(left, part{File: r.source.short(r.file.Name()), At: r.rows.at()})
	}
	for _, f := range r.files {
		left = append(left, part{File: r.source.short(f.File), At: f.At})
	}
	return json.Marshal(left)
}

// short leaves out what all files have in front of their names; long puts it back.
func (s *Source) short(file string) string {
	if rest, ok := strings.CutPrefix(file, s.path+string(os.PathSeparator)); ok {
		return "./" + rest
	}
	return file
}

func (s *Source) long(file string) string {
	if rest, ok := strings.CutPrefix(file, "./"); ok {
		return s.path + string(os.PathSeparator) + rest
	}
	return file
}

// Restore implements [plugin.Restorable]. It reads the files that the checkpoint names, and no others that have come since. With another
// parallelism they are dealt out anew, whole or from the place on at which they are.
func (s *Source) Restore(_ context.Context, tc plugin.TaskContext, positions [][]byte) (plugin.Reader, error) {
	r := &reader{source: s}
	dealt := 0
	for i, b := range positions {
		if b == nil {
			continue
		}
		var left []part
		if err := json.Unmarshal(b, &left); err != nil {
			return nil, plugin.Permanentf("position of subtask %d cannot be read: %w", i, err)
		}
		for _, f := range left {
			mine := i == tc.Subtask
			if len(positions) != tc.Parallelism {
				mine = dealt%tc.Parallelism == tc.Subtask
				dealt++
			}
			if f.File = s.long(f.File); mine {
				r.files = append(r.files, f)
			}
		}
	}
	return r, s.stillThere(r.files)
}

// stillThere returns a permanent error if a file is gone: it would be found missing only when its turn comes.
func (s *Source) stillThere(files []part) error {
	for _, f := range files {
		if _, err := os.Stat(f.File); errors.Is(err, fs.ErrNotExist) {
			return plugin.Permanentf("option \"path\": a file of the checkpoint is gone: %w", err)
		} else if err != nil {
			return fmt.Errorf("option \"path\": %w", err)
		}
	}
	return nil
}

// at is the place behind the last line.
func (l *lines) at() mark { return mark{Offset: l.offset, Number: l.number} }

// resume goes on at a place in the same file.
func (l *lines) resume(f io.ReadSeeker, m mark) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return l.readError(err)
	}
	if size < m.Offset {
		return plugin.Permanentf("file %s has %d bytes; %d of them had been read when the checkpoint was taken", l.path, size, m.Offset)
	}
	if _, err := f.Seek(m.Offset, io.SeekStart); err != nil {
		return l.readError(err)
	}
	l.in.Reset(f)
	l.offset, l.number = m.Offset, m.Number
	return nil
}

func (c *cellRows) at() mark                             { return c.lines.at() }
func (c *cellRows) resume(f io.ReadSeeker, m mark) error { return c.lines.resume(f, m) }

func (j *jsonLines) at() mark                             { return j.lines.at() }
func (j *jsonLines) resume(f io.ReadSeeker, m mark) error { return j.lines.resume(f, m) }

func (j *jsonList) at() mark { return mark{Number: j.count} }

// resume skips the values that were read before.
func (j *jsonList) resume(_ io.ReadSeeker, m mark) error {
	for j.count < m.Number {
		switch _, err := j.value(); {
		case errors.Is(err, io.EOF):
			return plugin.Permanentf("file %s has %d values; %d of them had been read when the checkpoint was taken", j.lines.path, j.count, m.Number)
		case err != nil:
			return err
		}
	}
	return nil
}
