package checkpointdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Sweep implements [engine.CheckpointStorage]. It removes incarnations whose end has come; an end that cannot be read is none. And it removes what members
// that died have left half done, and nobody can need: files that were not finished, notes about checkpoints that are not there, empty directories. These
// are told from what a member, perhaps of another cluster, is writing right now by their age alone, by the clock that dates the files. Whatever is
// not named as this package names it stays.
func (d Dir) Sweep(ctx context.Context, now time.Time) error {
	jobs, err := read(d.root)
	if err != nil || len(jobs) == 0 {
		return err
	}
	age, err := d.ages()
	errs := []error{err}
	for _, job := range jobs {
		incarnations, err := directories(filepath.Join(d.root, job.Name()), job)
		errs = append(errs, err)
		for _, dir := range incarnations {
			if ctx.Err() != nil {
				return errors.Join(append(errs, context.Cause(ctx))...)
			}
			if expired(dir, now) {
				errs = append(errs, os.RemoveAll(dir))
				_ = os.Remove(filepath.Dir(dir)) // unless another incarnation is there
			} else if age != nil {
				errs = append(errs, sweepIncarnation(dir, age))
			}
		}
		if age != nil && word.MatchString(job.Name()) && job.IsDir() {
			_ = removeOld(filepath.Join(d.root, job.Name()), age) // fails if something is there still
		}
		if strings.HasPrefix(job.Name(), probePrefix) && age != nil {
			errs = append(errs, removeOld(filepath.Join(d.root, job.Name()), age))
		}
	}
	return errors.Join(errs...)
}

// directories returns the incarnations of a job's directory; none, if that is not one.
func directories(dir string, job fs.DirEntry) (out []string, _ error) {
	if !job.IsDir() || !word.MatchString(job.Name()) {
		return nil, nil
	}
	entries, err := read(dir)
	for _, e := range entries {
		if e.IsDir() && word.MatchString(e.Name()) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, err
}

// ages returns a function that tells how old a file is. The clock is that of the file system, which need not be this machine's: a file that is made now
// shows what time it is there.
func (d Dir) ages() (func(fs.FileInfo) time.Duration, error) {
	probe, err := os.CreateTemp(d.root, probePrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("nothing half done is removed: %w", err)
	}
	info, err := probe.Stat()
	if err = errors.Join(err, probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, fmt.Errorf("nothing half done is removed: %w", err)
	}
	now := info.ModTime()
	return func(f fs.FileInfo) time.Duration { return now.Sub(f.ModTime()) }, nil
}

// sweepIncarnation removes what is half done and old from a directory, and then the directory, if that is empty and old.
func sweepIncarnation(dir string, age func(fs.FileInfo) time.Duration) error {
	files, err := read(dir)
	errs := []error{err}
	there := map[string]bool{}
	for _, f := range files {
		there[f.Name()] = true
	}
	for _, f := range files {
		name := f.Name()
		half := strings.HasPrefix(name, partPrefix)
		orphan := noteName.MatchString(name) && !there[strings.TrimSuffix(name, settledSuffix)+dataSuffix]
		if f.Type().IsRegular() && (half || orphan) {
			errs = append(errs, removeOld(filepath.Join(dir, name), age))
		}
	}
	_ = removeOld(dir, age) // fails if something is there still
	return errors.Join(errs...)
}

// removeOld removes a file, or a directory if it is empty, that has not been touched for long.
func removeOld(path string, age func(fs.FileInfo) time.Duration) error {
	info, err := os.Lstat(path)
	if err == nil && age(info) > abandoned {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// Supersede implements [engine.CheckpointStorage].
func (d Dir) Supersede(_ context.Context, jobID, incarnation string, since time.Time) error {
	if !word.MatchString(jobID) || !word.MatchString(incarnation) {
		return fmt.Errorf("job %q, incarnation %q: these are no ids", jobID, incarnation)
	}
	dir := filepath.Join(d.root, jobID, incarnation)
	files, err := read(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := f.Info()
		if err == nil && info.ModTime().After(since) || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, f := range files {
		if e := os.Remove(filepath.Join(dir, f.Name())); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	d.prune(dir)
	return err
}

func expired(dir string, now time.Time) bool {
	text, err := os.ReadFile(filepath.Join(dir, expiryFile))
	if err != nil {
		return false
	}
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
	return err == nil && !at.After(now)
}
