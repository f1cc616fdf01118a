package localfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gridnode/engine/connector/internal/connectortest"
	"gridnode/engine/plugin"
)

// formats are files of every kind: how n rows from a number on look, and the options to read them with.
var formats = map[string]struct {
	options string
	file    func(first, n int) string
}{
	"text": {`"file_format_type":"text"`, func(first, n int) string {
		return rowsOf(first, n, "", "", func(i int) string { return fmt.Sprintf("%d\n", i) })
	}},
	"text with long delimiters": {`"file_format_type":"text","row_delimiter":"||","schema":{"fields":{"id":"bigint","s":"string"}},"field_delimiter":";"`,
		func(first, n int) string {
			return rowsOf(first, n, "", "", func(i int) string { return fmt.Sprintf("%d;ü|x||", i) })
		}},
	"csv with header and quoted lines": {`"file_format_type":"csv","csv_use_header_line":true,"schema":{"fields":{"id":"bigint","s":"string"}}`,
		func(first, n int) string {
			return rowsOf(first, n, "\xef\xbb\xbfs,id\r\n", "", func(i int) string { return fmt.Sprintf("\"a\n,\"\"b\",%d\r\n", i) })
		}},
	"csv with skipped rows": {`"file_format_type":"csv","skip_header_row_number":2,"schema":{"fields":{"id":"bigint"}}`, func(first, n int) string {
		return rowsOf(first, n, "x\ny\n", "", func(i int) string { return fmt.Sprintf("%d\n", i) })
	}},
	"json lines": {`"file_format_type":"json","schema":{"fields":{"id":"bigint"}}`, func(first, n int) string {
		return rowsOf(first, n, "\n", "", func(i int) string { return fmt.Sprintf("{\"id\":%d}\n\n", i) })
	}},
	"json list": {`"file_format_type":"json","schema":{"fields":{"id":"bigint"}}`, func(first, n int) string {
		return rowsOf(first, n, " [", "]", func(i int) string {
			if i == first {
				return fmt.Sprintf(`{"id":%d}`, i)
			}
			return fmt.Sprintf(`, {"id":%d}`, i)
		})
	}},
}

func rowsOf(first, n int, before, after string, row func(i int) string) string {
	var b strings.Builder
	b.WriteString(before)
	for i := first; i < first+n; i++ {
		b.WriteString(row(i))
	}
	return b.String() + after
}

// Wherever readers stop, and however many go on for them: each row comes once, whatever the format.
func TestRestore_EachRowOnce(t *testing.T) {
	for name, f := range formats {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				dir, err := os.MkdirTemp(t.TempDir(), "")
				if err != nil {
					rt.Fatal(err)
				}
				want := 0
				for i := range rapid.IntRange(1, 4).Draw(rt, "files") {
					n := rapid.IntRange(0, 9).Draw(rt, "rows")
					if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte(f.file(1+want, n)), 0o644); err != nil {
						rt.Fatal(err)
					}
					want += n
				}
				s, err := NewSource(connectortest.Options(t, `{"path":`+connectortest.Text(t, dir)+`,`+f.options+`}`))
				if err != nil {
					rt.Fatal(err)
				}
				got := connectortest.Resume(t, s.(plugin.Restorable), rapid.IntRange(1, 3).Draw(rt, "subtasks"),
					rapid.IntRange(1, 3).Draw(rt, "subtasks later"), rapid.IntRange(0, 6).Draw(rt, "batches"))
				slices.Sort(got)
				if n := len(slices.Compact(slices.Clone(got))); n != want || len(got) != want {
					rt.Fatalf("%d rows, %d different, want %d: %q", len(got), n, want, got)
				}
			})
		})
	}
}

// A file that is gone or has become shorter is named, and nothing is read from elsewhere.
func TestRestore_FilesThatChanged(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	source := func() *Source {
		s, err := NewSource(connectortest.Options(t, `{"path":`+connectortest.Text(t, dir)+`,"file_format_type":"text"}`))
		if err != nil {
			t.Fatal(err)
		}
		return s.(*Source)
	}
	position := [][]byte{[]byte(`[{"file":"./f","at":{"offset":6,"number":3}}]`)}
	_, err := source().Restore(t.Context(), connectortest.Context(0, 1), position)
	connectortest.WantPermanent(t, err, file, "gone")
	if err := os.WriteFile(file, []byte("1\n2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := source().Restore(t.Context(), connectortest.Context(0, 1), position)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Read(t.Context(), 10)
	connectortest.WantPermanent(t, err, file, "has 4 bytes", "6 of them")
}

// Parts appear one by one, each at its own commit, which may come twice; what was not cut goes with the writer, what was cut stays.
func TestCut_PartsAreCommittedOneByOne(t *testing.T) {
	p := newPlace(t)
	s := p.sink(t, ``)
	w, err := s.Open(t.Context(), connectortest.Context(0, 1), twoFields)
	if err != nil {
		t.Fatal(err)
	}
	cutter := w.(plugin.Cutter)
	var parts [][]byte
	for i := range 3 {
		if err := w.Write(t.Context(), []plugin.Row{{int64(i), "a"}}); err != nil {
			t.Fatal(err)
		}
		b, err := cutter.Cut(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, b)
	}
	if b, err := cutter.Cut(t.Context()); b != nil || err != nil {
		t.Errorf("a part without rows = %q, %v", b, err)
	}
	if err := w.Write(t.Context(), []plugin.Row{{int64(9), "lost"}}); err != nil {
		t.Fatal(err)
	}
	if got := p.all(t); got != "" {
		t.Errorf("visible before any commit: %q", got)
	}
	for i, want := range []string{"0,a\n", "0,a\n1,a\n"} {
		for range 2 {
			mustCommit(t, p.sink(t, ``), parts[i])
		}
		if got := p.all(t); got != want {
			t.Errorf("after commit %d: %q", i, got)
		}
		if err := cutter.Forget(parts[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := files(t, p.tmp); len(got) != 1 {
		t.Errorf("waiting: %v, want the third part and no mark", got)
	}
	mustCommit(t, p.sink(t, ``), parts[2])
	if got := p.all(t); got != "0,a\n1,a\n2,a\n" {
		t.Errorf("in the end: %q", got)
	}
	if err := s.Cleanup(t.Context(), "1", "inc-1"); err != nil {
		t.Fatal(err)
	}
	if got := files(t, p.tmp); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}
