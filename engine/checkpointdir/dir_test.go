package checkpointdir_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gridnode/engine"
	"gridnode/engine/checkpointdir"
)

func TestDir_PutGetListDelete(t *testing.T) {
	ctx, root := t.Context(), filepath.Join(t.TempDir(), "a", "b")
	d, err := checkpointdir.New(root)
	if err != nil {
		t.Fatal(err)
	}
	if refs, err := d.List(ctx, "7"); len(refs) > 0 || err != nil {
		t.Errorf("List of nothing = %v, %v", refs, err)
	}
	one := engine.CheckpointRef{JobID: "7", Incarnation: "x-1", Pipeline: 1, ID: 9}
	two := engine.CheckpointRef{JobID: "7", Incarnation: "x-2", Pipeline: 2, ID: 10}
	for _, r := range []engine.CheckpointRef{one, two} {
		for range 2 {
			if err := d.Put(ctx, r, []byte(r.Incarnation)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := d.Settle(ctx, two); err != nil {
		t.Fatal(err)
	}
	if refs, err := d.List(ctx, "7"); err != nil || len(refs) != 2 || !slices.Contains(refs, one) || !slices.Contains(refs, two) {
		t.Errorf("List = %v, %v", refs, err)
	}
	for r, want := range map[engine.CheckpointRef]bool{one: false, two: true} {
		if data, settled, err := d.Get(ctx, r); string(data) != r.Incarnation || settled != want || err != nil {
			t.Errorf("Get(%v) = %q, %v, %v", r, data, settled, err)
		}
		for range 2 {
			if err := d.Delete(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := d.Get(ctx, r); err == nil {
			t.Error("there is still something")
		}
	}
	if left, err := os.ReadDir(root); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

// What is named leads nowhere else.
func TestDir_Names(t *testing.T) {
	d, err := checkpointdir.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []engine.CheckpointRef{{JobID: "..", Incarnation: "x"}, {JobID: "7", Incarnation: "../y"}, {JobID: "", Incarnation: "x"}} {
		if d.Put(t.Context(), r, nil) == nil || d.Delete(t.Context(), r) == nil || d.Settle(t.Context(), r) == nil {
			t.Errorf("%+v is taken for a name", r)
		}
	}
	if _, err := checkpointdir.New("here"); err == nil {
		t.Error("a relative path is taken")
	}
}

// What an ended incarnation has left goes, but for what is kept: also a file that a dying member did not finish, and a directory that has nothing else.
func TestDir_Clean(t *testing.T) {
	ctx, root := t.Context(), t.TempDir()
	d, err := checkpointdir.New(root)
	if err != nil {
		t.Fatal(err)
	}
	ref := func(inc string, id uint64) engine.CheckpointRef {
		return engine.CheckpointRef{JobID: "7", Incarnation: inc, Pipeline: 1, ID: id}
	}
	for _, r := range []engine.CheckpointRef{ref("x", 1), ref("x", 2), ref("x", 3), ref("y", 1)} {
		if err := errors.Join(d.Put(ctx, r, []byte("data")), d.Settle(ctx, r)); err != nil {
			t.Fatal(err)
		}
	}
	part := filepath.Join(root, "7", "x", ".part-12345")
	if err := errors.Join(os.WriteFile(part, []byte("da"), 0o600), d.Expire(ctx, "7", "x", time.Now())); err != nil {
		t.Fatal(err)
	}
	if err := d.Clean(ctx, "7", "x", []engine.CheckpointRef{ref("x", 2), ref("x", 3)}); err != nil {
		t.Fatal(err)
	}
	left := func() (names []string) {
		for _, pattern := range []string{"*", ".part-*"} {
			files, err := filepath.Glob(filepath.Join(root, "7", "*", pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				names = append(names, strings.TrimPrefix(f, filepath.Join(root, "7")))
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	if want := []string{"/x/1-2.ckpt", "/x/1-2.settled", "/x/1-3.ckpt", "/x/1-3.settled", "/x/expires", "/y/1-1.ckpt", "/y/1-1.settled"}; !slices.Equal(left(), want) {
		t.Errorf("left: %v, want %v", left(), want)
	}
	if err := os.WriteFile(part, []byte("da"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, inc := range []string{"x", "y", "y", "never"} {
		if err := d.Clean(ctx, "7", inc, nil); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(root); len(entries) > 0 || err != nil {
		t.Errorf("left: %v, %v", left(), err)
	}
	if d.Clean(ctx, "7", "../../etc", nil) == nil {
		t.Error("a name that leads elsewhere is taken")
	}
}

// What is to go goes when its time has come, and nothing else does: other incarnations, those without an end, and what is not the storage's.
func TestDir_Sweep(t *testing.T) {
	ctx, root := t.Context(), t.TempDir()
	d, err := checkpointdir.New(root)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ref := func(job, inc string) engine.CheckpointRef {
		return engine.CheckpointRef{JobID: job, Incarnation: inc, Pipeline: 1, ID: 1}
	}
	ends := map[engine.CheckpointRef]time.Time{ref("7", "old"): now.Add(time.Minute), ref("7", "new"): {}, ref("8", "x"): now.Add(time.Minute), ref("9", "y"): now.Add(time.Hour)}
	for r, at := range ends {
		if err := d.Put(ctx, r, []byte("data")); err != nil {
			t.Fatal(err)
		}
		if !at.IsZero() {
			if err := d.Expire(ctx, r.JobID, r.Incarnation, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := d.Expire(ctx, "7", "gone", now); err != nil {
		t.Errorf("the end of nothing: %v", err)
	}
	if d.Expire(ctx, "..", "x", now) == nil {
		t.Error("a name that leads elsewhere is taken")
	}
	for _, name := range []string{"notes.txt", "9/notes.txt"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "8", "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "8", "empty", "expires"), []byte("soon"), 0o600); err != nil {
		t.Fatal(err)
	}
	left := func() (n int) {
		for r := range ends {
			if _, _, err := d.Get(ctx, r); err == nil {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{50 * time.Second, 4}, {2 * time.Minute, 2}, {2 * time.Hour, 1}} {
		if err := d.Sweep(ctx, now.Add(step.after)); err != nil {
			t.Errorf("after %v: %v", step.after, err)
		}
		if n := left(); n != step.want {
			t.Errorf("after %v %d are left, want %d", step.after, n, step.want)
		}
	}
	if err := d.Clean(ctx, "7", "new", nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(root, "7")); err == nil {
		t.Error("the directory of a job of which nothing is left is there still")
	}
	for _, name := range []string{"notes.txt", "9/notes.txt", "8/empty/expires"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
}
