package localfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gridnode/engine/plugin"
)

// doneName is the mark that the files of a task were committed. It stays until the cleanup, so that a commit that comes again after somebody
// took the files away does not find its output lost.
const doneName = "committed"

// Commit implements [plugin.Sink].
func (s *Sink) Commit(ctx context.Context, data []byte) error {
	p, err := decodePrepared(data)
	if err != nil || p.Files == 0 {
		return err
	}
	if err := os.MkdirAll(s.path, 0o755); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	tmp := filepath.Join(s.tmp, p.dir())
	done := filepath.Join(tmp, doneName)
	if before, err := exists(done); err != nil {
		return fmt.Errorf("commit: %w", err)
	} else if before {
		return s.removeFiles(p)
	}
	if err := s.checkComplete(p); err != nil {
		return err
	}
	for i := range p.Files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.publish(ctx, p, i); err != nil {
			return fmt.Errorf("commit to %s: %w", s.path, err)
		}
	}
	if err := errors.Join(syncDir(s.path), syncDir(filepath.Dir(s.path))); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("commit: %w", err)
	}
	return s.removeFiles(p)
}

func decodePrepared(data []byte) (prepared, error) {
	var p prepared
	if len(data) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, plugin.Permanentf("commit: what was prepared cannot be read: %w", err)
	}
	return p, p.check()
}

// checkComplete returns an error unless each file is still to be committed or already is.
func (s *Sink) checkComplete(p prepared) error {
	committed, lost := 0, ""
	for i := range p.Files {
		name := p.name(i)
		there, err := exists(filepath.Join(s.path, name))
		if err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if there {
			committed++
			continue
		}
		waiting, err := exists(filepath.Join(s.tmp, p.dir(), name))
		if err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if !waiting {
			lost = name
		}
	}
	switch {
	case lost == "":
		return nil
	case committed == 0:
		return fmt.Errorf("commit: %s is neither in %s nor in %s: %w", lost, filepath.Join(s.tmp, p.dir()), s.path, plugin.ErrPreparedLost)
	}
	return plugin.Permanentf("commit: %d of %d files are in %s, and %s is lost; running the task again would double their rows", committed, p.Files, s.path, lost)
}

// publish makes the i-th file appear in the target, at once and complete. It may be there already.
func (s *Sink) publish(ctx context.Context, p prepared, i int) error {
	from, to := filepath.Join(s.tmp, p.dir(), p.name(i)), filepath.Join(s.path, p.name(i))
	if s.link(from, to) == nil {
		return nil
	}
	if there, err := exists(to); err != nil {
		return err
	} else if there {
		return sameOutput(from, to)
	}
	return s.publishCopy(ctx, p, i)
}

// sameOutput returns an error if a file of our name is not ours.
func sameOutput(from, to string) error {
	a, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := os.Stat(to)
	if err != nil {
		return err
	}
	if !os.SameFile(a, b) && a.Size() != b.Size() {
		return plugin.Permanentf("%s exists and is another file; it is left as it is", to)
	}
	return nil
}

// publishCopy is publish for a target that links do not reach, such as one in another file system.
func (s *Sink) publishCopy(ctx context.Context, p prepared, i int) (err error) {
	in, err := os.Open(filepath.Join(s.tmp, p.dir(), p.name(i)))
	if err != nil {
		return err
	}
	defer in.Close() // opened for reading: nothing can be lost
	out, err := os.CreateTemp(s.path, partPrefix(p.JobID, p.Incarnation)+"*")
	if err != nil {
		return err
	}
	defer func() {
		if rerr := os.Remove(out.Name()); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}()
	_, err = io.Copy(out, &contextReader{ctx, in})
	if err := errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return err
	}
	to := filepath.Join(s.path, p.name(i))
	if os.Link(out.Name(), to) == nil {
		return nil
	}
	if there, err := exists(to); err != nil {
		return err
	} else if there {
		return sameOutput(in.Name(), to)
	}
	return os.Rename(out.Name(), to) // a file system without links
}

// partPrefix begins the hidden names of files that are being copied to the target.
func partPrefix(jobID, incarnation string) string { return "." + jobID + "_" + incarnation + "_part_" }

type contextReader struct {
	ctx context.Context
	in  io.Reader
}

// Read implements [io.Reader].
func (r *contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.in.Read(p)
}

// removeFiles removes the files of a committed task and leaves the mark.
func (s *Sink) removeFiles(p prepared) error {
	var errs []error
	for i := range p.Files {
		if err := os.Remove(filepath.Join(s.tmp, p.dir(), p.name(i))); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Cleanup implements [plugin.Sink]. It removes what the incarnation has below tmp_path, and nothing outside, whatever links may be there.
func (s *Sink) Cleanup(_ context.Context, jobID, incarnation string) error {
	if err := checkIDs(jobID, incarnation); err != nil {
		return err
	}
	return errors.Join(s.removeParts(jobID, incarnation), s.removeTmp(incarnationDir(jobID, incarnation)))
}

// removeParts removes copies that a crash left in the target.
func (s *Sink) removeParts(jobID, incarnation string) error {
	entries, err := os.ReadDir(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), partPrefix(jobID, incarnation)) {
			if err := os.Remove(filepath.Join(s.path, e.Name())); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// removeTmp removes a directory below tmp_path, and those above it that are empty then.
func (s *Sink) removeTmp(dir string) error {
	root, err := os.OpenRoot(s.tmp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	err = root.RemoveAll(dir)
	for up := filepath.Dir(dir); err == nil && up != "."; up = filepath.Dir(up) {
		if root.Remove(up) != nil { // not empty: others still need it
			break
		}
	}
	if err := errors.Join(err, root.Close()); err != nil {
		return fmt.Errorf("clean up below %s: %w", s.tmp, err)
	}
	return nil
}

// exists says whether a file is there. What cannot be told is an error: to guess could lose output or double it.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// syncDir makes the names in a directory durable, where the file system can do that.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
