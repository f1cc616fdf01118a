package localfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gridnode/engine/plugin"
)

// files returns the paths of all files of the source, sorted.
func (s *Source) files(ctx context.Context) ([]string, error) {
	roots, err := s.roots()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, root := range roots {
		found, err := s.below(ctx, root)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// roots returns the path itself if it exists, or what it finds as a glob pattern.
func (s *Source) roots() ([]string, error) {
	_, err := os.Stat(s.path)
	if err == nil {
		return []string{s.path}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("option \"path\": %w", err)
	}
	if !strings.ContainsAny(s.path, "*?[") {
		return nil, plugin.Permanentf("option \"path\": %w", err)
	}
	found, err := filepath.Glob(s.path)
	if err != nil {
		return nil, plugin.Permanentf("option \"path\" is %q: %w", s.path, err)
	}
	if !hidden(filepath.Base(s.path)) {
		found = slices.DeleteFunc(found, func(p string) bool { return hidden(filepath.Base(p)) })
	}
	if len(found) == 0 {
		return nil, plugin.Permanentf("option \"path\" is %q: no file has such a name", s.path)
	}
	return found, nil
}

// below returns the wanted files at or below a root.
func (s *Source) below(ctx context.Context, root string) ([]string, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("option \"path\": %w", err)
	}
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return nil, plugin.Permanentf("option \"path\": %s is neither a file nor a directory", root)
		}
		if !s.wanted(root, filepath.Base(root)) {
			return nil, nil
		}
		return []string{root}, nil
	}
	return s.walk(ctx, root)
}

// walk returns the wanted files of a directory and of those in it.
func (s *Source) walk(ctx context.Context, root string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case path != root && hidden(d.Name()):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if isFile(path, d) && s.wanted(path, rel) {
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("option \"path\": list the files below %s: %w", root, err)
	}
	return out, nil
}

// isFile says whether an entry of a directory is a regular file or a link to one.
func isFile(path string, d fs.DirEntry) bool {
	if d.Type()&fs.ModeSymlink == 0 {
		return d.Type().IsRegular()
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// hidden tells names that are nobody's data: files being written, marks of other programs.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") }

// wanted applies the filters to a file. The pattern must match its name, its path below the root (with a slash in front) or its whole path.
func (s *Source) wanted(path, rel string) bool {
	if s.extension != "" && !strings.HasSuffix(path, s.extension) {
		return false
	}
	if s.filter == nil {
		return true
	}
	return s.filter.MatchString(filepath.Base(path)) || s.filter.MatchString("/"+filepath.ToSlash(rel)) || s.filter.MatchString(path)
}
