package checkpointdir_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

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
