package checkpointdir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// aged puts a file, or dates one that is there, into the past.
func aged(t *testing.T, path string, age time.Duration) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("da"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// tree lists all that is in a directory.
func tree(t *testing.T, root string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if path != root {
			out = append(out, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What members that died with their whole cluster have left half done goes when it is old: unfinished files, notes about checkpoints that are not there, empty
// directories. What a member of another cluster may be writing right now stays, and so does every complete checkpoint, however old, and all that is not
// named as the storage's files are.
func TestDir_SweepHalfDone(t *testing.T) {
	ctx, root := t.Context(), t.TempDir()
	d, err := checkpointdir.New(root)
	if err != nil {
		t.Fatal(err)
	}
	const old, young = 2 * time.Hour, 50 * time.Minute
	goes := []string{"7/dead/.part-1", "7/dead/1-4.settled", "8/empty/.part-9", ".now-3"}
	stays := []string{"7/dead/1-3.ckpt", "7/dead/1-3.settled", "7/dead/mine.settled", "7/dead/.parts", "7/.part-2", ".part-5", "no job/x/.part-6", "9/notes.txt", "notes.txt"}
	for _, name := range slices.Concat(goes, stays) {
		aged(t, filepath.Join(root, name), old)
	}
	for _, name := range []string{"7/live/.part-7", "7/live/1-8.settled", "10/new/.part-8"} {
		aged(t, filepath.Join(root, name), young)
		stays = append(stays, name)
	}
	if err := os.Mkdir(filepath.Join(root, "10", "begins"), 0o755); err != nil {
		t.Fatal(err)
	}
	stays = append(stays, "10/begins")
	if err := os.MkdirAll(filepath.Join(root, "11", "failed"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"11/failed", "11", "8/empty", "8"} { // made for a checkpoint of which nothing was written
		aged(t, filepath.Join(root, dir), old)
	}
	if err := d.Sweep(ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	left := tree(t, root)
	for _, name := range stays {
		if !slices.Contains(left, "/"+name) {
			t.Errorf("%s is gone", name)
		}
	}
	for _, name := range slices.Concat(goes, []string{"11/failed"}) {
		if slices.Contains(left, "/"+name) {
			t.Errorf("%s is there still", name)
		}
	}
	for _, dir := range []string{"8", "11"} { // what was emptied is young now
		for _, path := range []string{"8/empty", dir} {
			if slices.Contains(left, "/"+path) {
				aged(t, filepath.Join(root, path), old)
			}
		}
	}
	for range 2 {
		if err := d.Sweep(ctx, time.Now()); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"8"} {
			if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
				aged(t, filepath.Join(root, dir), old)
			}
		}
	}
	if left = tree(t, root); slices.ContainsFunc(left, func(s string) bool {
		return strings.HasPrefix(s, "/8") || strings.HasPrefix(s, "/11") || strings.Contains(s, ".now-")
	}) {
		t.Errorf("left: %v", left)
	}
}

// A member whose unfinished file was taken for abandoned fails, and nothing half done appears. Whoever gave a checkpoint up does not find it later.
func TestDir_PutThatIsTooLate(t *testing.T) {
	root := t.TempDir()
	d, err := checkpointdir.New(root)
	if err != nil {
		t.Fatal(err)
	}
	ref := engine.CheckpointRef{JobID: "7", Incarnation: "x", Pipeline: 1, ID: 1}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("given up"))
	if err := d.Put(ctx, ref, []byte("data")); err == nil || !strings.Contains(err.Error(), "given up") {
		t.Errorf("Put = %v", err)
	}
	if refs, err := d.List(t.Context(), "7"); len(refs) > 0 || err != nil {
		t.Errorf("stored all the same: %v, %v", refs, err)
	}
	if files, _ := filepath.Glob(filepath.Join(root, "7", "x", ".part-*")); len(files) > 0 {
		t.Errorf("left: %v", files)
	}
}

// A cleanup removes a job's directory, when that is empty, under a put that has just made it.
func TestDir_PutWhileDirectoriesGo(t *testing.T) {
	ctx := t.Context()
	d, err := checkpointdir.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var cleaner sync.WaitGroup
	cleaner.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = d.Clean(ctx, "7", "gone", nil)
			}
		}
	})
	for range 50 {
		ref := engine.CheckpointRef{JobID: "7", Incarnation: "x", Pipeline: 1, ID: 1}
		if err := errors.Join(d.Put(ctx, ref, []byte("data")), d.Delete(ctx, ref)); err != nil {
			t.Error(err)
		}
	}
	close(done)
	cleaner.Wait()
}
