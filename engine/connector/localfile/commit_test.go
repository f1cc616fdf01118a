package localfile

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gridnode/engine/connector/internal/connectortest"
	"gridnode/engine/plugin"

	"github.com/google/go-cmp/cmp"
)

// failLink stands for a target in another file system.
func failLink(_, _ string) error { return syscall.EXDEV }

func TestCommit_Crashes(t *testing.T) {
	rows := []plugin.Row{{int64(1), "a"}, {int64(2), "b"}, {int64(3), "c"}}
	for name, link := range map[string]func(string, string) error{"one file system": os.Link, "two file systems": failLink} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			build := func() *Sink {
				s := p.sink(t, `,"batch_size":1`)
				s.link = link
				return s
			}
			prepared := mustPrepare(t, build(), connectortest.Context(0, 1), twoFields, rows...)
			if got := files(t, p.path); len(got) > 0 {
				t.Fatalf("visible before the commit: %v", got)
			}
			for i := range rows { // a crash after each file
				s := build()
				published := 0
				ctx, cancel := context.WithCancel(t.Context())
				s.link = func(from, to string) error {
					if published++; published > i {
						cancel()
					}
					return link(from, to)
				}
				if err := s.Commit(ctx, prepared); err == nil && i < len(rows)-1 {
					t.Fatal("the commit was not cut off")
				}
				cancel()
			}
			for range 2 {
				mustCommit(t, build(), prepared)
				if d := cmp.Diff("1,a\n2,b\n3,c\n", p.all(t)); d != "" {
					t.Fatal(d)
				}
			}
			if err := build().Cleanup(t.Context(), "1", "inc-1"); err != nil {
				t.Fatal(err)
			}
			mustCommit(t, build(), prepared)
			if got := files(t, p.path); len(got) != 3 {
				t.Errorf("files: %v", got)
			}
			if got := files(t, p.tmp); len(got) > 0 {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

func TestCommit_OutputTakenAwayIsNotLost(t *testing.T) {
	p := newPlace(t)
	s := p.sink(t, ``)
	prepared := mustPrepare(t, s, connectortest.Context(0, 1), twoFields, plugin.Row{int64(1), "a"})
	mustCommit(t, s, prepared)
	if err := os.RemoveAll(p.path); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, p.sink(t, ``), prepared)
	if got := files(t, p.path); len(got) > 0 {
		t.Errorf("files: %v", got)
	}
}

func TestCommit_Lost(t *testing.T) {
	p := newPlace(t)
	s := p.sink(t, `,"batch_size":1`)
	prepared := mustPrepare(t, s, connectortest.Context(0, 1), twoFields, plugin.Row{int64(1), "a"}, plugin.Row{int64(2), "b"})
	if err := os.RemoveAll(p.tmp); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), prepared); !errors.Is(err, plugin.ErrPreparedLost) {
		t.Errorf("got %v, want ErrPreparedLost", err)
	}
	write(t, filepath.Join(p.path, "T_1_inc-1_2_0_1_0.csv"), "1,a\n")
	err := s.Commit(t.Context(), prepared)
	connectortest.WantPermanent(t, err, "1 of 2 files", "T_1_inc-1_2_0_1_1.csv is lost")
	if errors.Is(err, plugin.ErrPreparedLost) {
		t.Error("rows that are visible would be written again")
	}
}

func TestCommit_ForeignFileIsLeftAlone(t *testing.T) {
	p := newPlace(t)
	s := p.sink(t, ``)
	prepared := mustPrepare(t, s, connectortest.Context(0, 1), twoFields, plugin.Row{int64(1), "a"})
	foreign := write(t, filepath.Join(p.path, "T_1_inc-1_2_0_1_0.csv"), "foreign")
	connectortest.WantPermanent(t, s.Commit(t.Context(), prepared), foreign, "is another file")
	if got := files(t, p.path); got["T_1_inc-1_2_0_1_0.csv"] != "foreign" {
		t.Errorf("files: %v", got)
	}
}

func TestCommit_TargetThatCannotBeWritten(t *testing.T) {
	p := newPlace(t)
	s := p.sink(t, ``)
	prepared := mustPrepare(t, s, connectortest.Context(0, 1), twoFields, plugin.Row{int64(1), "a"})
	write(t, filepath.Dir(p.path), "in the way")
	if err := s.Commit(t.Context(), prepared); err == nil || !strings.Contains(err.Error(), filepath.Dir(p.path)) || errors.Is(err, plugin.ErrPreparedLost) {
		t.Errorf("got %v, want an error that names the path", err)
	}
	if err := os.Remove(filepath.Dir(p.path)); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, prepared)
	if got := p.all(t); got != "1,a\n" {
		t.Error(got)
	}
}

func TestCommit_Forged(t *testing.T) {
	p := newPlace(t)
	good := prepared{JobID: "1", Incarnation: "inc-1", Task: "2-0-1", Stem: "a", Files: 1}
	for _, change := range []func(*prepared){
		func(p *prepared) { p.JobID = ".." },
		func(p *prepared) { p.Incarnation = "../x" },
		func(p *prepared) { p.Task = "../../x" },
		func(p *prepared) { p.Stem = "../a" },
		func(p *prepared) { p.Stem = ".a" },
		func(p *prepared) { p.Extension = "/../a" },
		func(p *prepared) { p.Files = -1 },
	} {
		forged := good
		change(&forged)
		b, err := json.Marshal(forged)
		if err != nil {
			t.Fatal(err)
		}
		connectortest.WantPermanent(t, p.sink(t, ``).Commit(t.Context(), b))
	}
	connectortest.WantPermanent(t, p.sink(t, ``).Commit(t.Context(), []byte("x")))
}

func TestCleanup_RemovesOneIncarnationOnly(t *testing.T) {
	p := newPlace(t)
	s := p.sink(t, ``)
	mustPrepare(t, s, connectortest.Context(0, 1), twoFields, plugin.Row{int64(1), "a"})
	other := connectortest.Context(0, 1)
	other.Incarnation = "inc-2"
	prepared := mustPrepare(t, s, other, twoFields, plugin.Row{int64(2), "b"})
	part := write(t, filepath.Join(p.path, ".1_inc-1_part_77"), "half")
	keep := write(t, filepath.Join(p.path, ".1_inc-2_part_77"), "half")
	for range 2 {
		if err := p.sink(t, ``).Cleanup(t.Context(), "1", "inc-1"); err != nil {
			t.Fatal(err)
		}
	}
	if there, _ := exists(part); there {
		t.Error("the unfinished copy is still there")
	}
	if there, _ := exists(keep); !there {
		t.Error("the copy of another incarnation is gone")
	}
	if got := files(t, p.tmp); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
	mustCommit(t, s, prepared)
	if err := s.Cleanup(t.Context(), "1", "inc-2"); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(p.tmp); err != nil || len(entries) > 0 {
		t.Errorf("left below tmp_path: %v, %v", entries, err)
	}
}

func TestCleanup_NeverLeavesItsDirectory(t *testing.T) {
	p := newPlace(t)
	s := p.sink(t, ``)
	for _, ids := range [][2]string{{"..", "x"}, {"1", ".."}, {"1", "../../x"}, {"", "x"}, {"1", ""}, {"1/2", "x"}, {".", "."}} {
		if err := s.Cleanup(t.Context(), ids[0], ids[1]); err == nil {
			t.Errorf("%v is accepted", ids)
		}
	}
	outside := write(t, filepath.Join(t.TempDir(), "inc-1", "precious"), "x")
	if err := os.MkdirAll(filepath.Join(p.tmp, tmpName), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(filepath.Dir(outside)), filepath.Join(p.tmp, tmpName, "1")); err != nil {
		t.Fatal(err)
	}
	_ = s.Cleanup(t.Context(), "1", "inc-1") // whether it is an error does not matter
	if there, err := exists(outside); !there {
		t.Errorf("a file outside is gone: %v", err)
	}
}
