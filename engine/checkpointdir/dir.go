// Package checkpointdir keeps checkpoints in a directory that all members share, so that they survive the loss of all members.
package checkpointdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gridnode/engine"
)

const (
	dataSuffix    = ".ckpt"
	settledSuffix = ".settled"
	expiryFile    = "expires"
	partPrefix    = ".part-"
	probePrefix   = ".now-"
)

// abandoned is the age from which on nobody writes at a file any more: a member gives a checkpoint up long before. Should one be at work all the same, it
// finds its file gone and fails, which costs that checkpoint and nothing else.
const abandoned = time.Hour

// Dir is an [engine.CheckpointStorage]. Each checkpoint is a file of its own, <root>/<job>/<incarnation>/<pipeline>-<id>.ckpt, which appears at
// once and complete; beside it an empty file ends in .settled when all output of the checkpoint is visible. A file "expires" says when all of the incarnation may go.
type Dir struct{ root string }

var _ engine.CheckpointStorage = Dir{}

// New returns the storage in a directory, which need not exist yet. It must be the same directory for all members.
func New(root string) (Dir, error) {
	if !filepath.IsAbs(root) {
		return Dir{}, fmt.Errorf("%q is not an absolute path", root)
	}
	return Dir{root: filepath.Clean(root)}, nil
}

var (
	word     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	fileName = regexp.MustCompile(`^([0-9]{1,9})-([0-9]{1,19})\.ckpt$`)
	noteName = regexp.MustCompile(`^[0-9]{1,9}-[0-9]{1,19}\.settled$`)
)

// path returns where a checkpoint is. Names that would lead elsewhere are refused.
func (d Dir) path(r engine.CheckpointRef) (string, error) {
	if !word.MatchString(r.JobID) || !word.MatchString(r.Incarnation) || r.Pipeline < 0 {
		return "", fmt.Errorf("job %q, incarnation %q, pipeline %d: these are no ids", r.JobID, r.Incarnation, r.Pipeline)
	}
	return d.Where(r), nil
}

// Where implements [engine.CheckpointStorage].
func (d Dir) Where(r engine.CheckpointRef) string {
	return filepath.Join(d.root, r.JobID, r.Incarnation, fmt.Sprintf("%d-%d%s", r.Pipeline, r.ID, dataSuffix))
}

// Put implements [engine.CheckpointStorage].
func (d Dir) Put(ctx context.Context, r engine.CheckpointRef, data []byte) error {
	path, err := d.path(r)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := createPart(dir)
	if err != nil {
		return about(path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = context.Cause(ctx) // who gave the checkpoint up must not find it later
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return about(path, errors.Join(err, os.Remove(f.Name())))
	}
	for _, dir := range []string{dir, filepath.Dir(dir), d.root} {
		if err := syncDir(dir); err != nil {
			return about(path, err)
		}
	}
	return nil
}

// about names the checkpoint's own file in place of the passing one at which an error came: so that the same trouble has the same text each time.
func about(path string, err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", path, at.Err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// createPart creates the file in which a checkpoint is written, and its directory. A cleanup may remove an empty directory meanwhile; then it is created again.
func createPart(dir string) (f *os.File, err error) {
	for range 10 {
		if err = os.MkdirAll(dir, 0o755); err == nil {
			f, err = os.CreateTemp(dir, partPrefix+"*")
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, err
}

// Settle implements [engine.CheckpointStorage].
func (d Dir) Settle(_ context.Context, r engine.CheckpointRef) error {
	path, err := d.path(r)
	if err != nil {
		return err
	}
	return os.WriteFile(settled(path), nil, 0o644)
}

func settled(path string) string { return strings.TrimSuffix(path, dataSuffix) + settledSuffix }

// List implements [engine.CheckpointStorage].
func (d Dir) List(ctx context.Context, jobID string) ([]engine.CheckpointRef, error) {
	if !word.MatchString(jobID) {
		return nil, fmt.Errorf("job %q: this is no id", jobID)
	}
	incarnations, err := read(filepath.Join(d.root, jobID))
	if err != nil {
		return nil, err
	}
	var out []engine.CheckpointRef
	for _, inc := range incarnations {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !inc.IsDir() || !word.MatchString(inc.Name()) {
			continue
		}
		files, err := read(filepath.Join(d.root, jobID, inc.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			m := fileName.FindStringSubmatch(f.Name())
			if m == nil {
				continue
			}
			pipeline, err1 := strconv.Atoi(m[1])
			id, err2 := strconv.ParseUint(m[2], 10, 64)
			if err1 == nil && err2 == nil {
				out = append(out, engine.CheckpointRef{JobID: jobID, Incarnation: inc.Name(), Pipeline: pipeline, ID: id})
			}
		}
	}
	return out, nil
}

// read lists a directory; one that is not there is empty.
func read(dir string) ([]fs.DirEntry, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// Get implements [engine.CheckpointStorage].
func (d Dir) Get(_ context.Context, r engine.CheckpointRef) (data []byte, done bool, err error) {
	path, err := d.path(r)
	if err != nil {
		return nil, false, err
	}
	if data, err = os.ReadFile(path); err != nil {
		return nil, false, err
	}
	_, err = os.Stat(settled(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	return data, err == nil, nil
}

// Delete implements [engine.CheckpointStorage]. Directories that are empty then go too.
func (d Dir) Delete(_ context.Context, r engine.CheckpointRef) error {
	path, err := d.path(r)
	if err != nil {
		return err
	}
	for _, p := range []string{settled(path), path} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	d.prune(filepath.Dir(path))
	return nil
}

// prune removes directories that are empty.
func (d Dir) prune(dir string) {
	for ; dir != d.root; dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil { // not empty: others still need it
			return
		}
	}
}

// Clean implements [engine.CheckpointStorage].
func (d Dir) Clean(_ context.Context, jobID, incarnation string, keep []engine.CheckpointRef) error {
	if !word.MatchString(jobID) || !word.MatchString(incarnation) {
		return fmt.Errorf("job %q, incarnation %q: these are no ids", jobID, incarnation)
	}
	dir := filepath.Join(d.root, jobID, incarnation)
	files, err := read(dir)
	if err != nil {
		return err
	}
	stays := map[string]bool{expiryFile: len(keep) > 0}
	for _, r := range keep {
		path := d.Where(r)
		stays[filepath.Base(path)], stays[filepath.Base(settled(path))] = true, true
	}
	var errs []error
	for _, f := range files {
		if stays[f.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	d.prune(dir)
	return errors.Join(errs...)
}

// Expire implements [engine.CheckpointStorage]. An incarnation of which nothing is stored needs no end.
func (d Dir) Expire(_ context.Context, jobID, incarnation string, at time.Time) error {
	if !word.MatchString(jobID) || !word.MatchString(incarnation) {
		return fmt.Errorf("job %q, incarnation %q: these are no ids", jobID, incarnation)
	}
	err := os.WriteFile(filepath.Join(d.root, jobID, incarnation, expiryFile), []byte(at.UTC().Format(time.RFC3339)+"\n"), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncDir makes the names in a directory durable, where the file system can do that.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
