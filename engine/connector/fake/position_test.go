package fake

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gridnode/engine/connector/internal/connectortest"
	"gridnode/engine/plugin"
)

// Wherever readers stop, and however many go on for them: each row comes once.
func TestRestore_EachRowOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.IntRange(0, 40).Draw(rt, "rows")
		splits := rapid.IntRange(1, 12).Draw(rt, "splits")
		old, now := rapid.IntRange(1, 4).Draw(rt, "subtasks"), rapid.IntRange(1, 4).Draw(rt, "subtasks later")
		batches := rapid.IntRange(0, 12).Draw(rt, "batches")
		options := fmt.Sprintf(`{"mode":"sequence","row.num":%d,"split.num":%d,"split.read-interval":0,"schema":{"fields":{"id":"bigint"}}}`, rows, splits)
		want := rows * old
		if rapid.Bool().Draw(rt, "listed") {
			list := ""
			for i := range rows {
				list += fmt.Sprintf(`,{"fields":[%d]}`, i+1)
			}
			options = fmt.Sprintf(`{"rows":[%s],"split.num":%d,"split.read-interval":0,"schema":{"fields":{"id":"bigint"}}}`, trimComma(list), splits)
			want = rows
		}
		s, err := New(connectortest.Options(t, options))
		if err != nil {
			rt.Skip(err)
		}
		got := connectortest.Resume(t, s.(plugin.Restorable), old, now, batches)
		slices.Sort(got)
		if n := len(slices.Compact(got)); n != want || len(got) != want {
			rt.Fatalf("%d rows, %d different, want %d", len(got), n, want)
		}
	})
}

func trimComma(s string) string {
	if s == "" {
		return s
	}
	return s[1:]
}

// With more splits than subtasks, what is left is shared out among all of them.
func TestRestore_SharesSplitsOut(t *testing.T) {
	s := mustSource(t, `{"row.num":90,"split.num":9,"split.read-interval":0,"schema":{"fields":{"id":"bigint"}}}`)
	position := []byte(`[{"subtask":0,"of":1,"total":90,"next":0,"end":90}]`)
	for i := range 3 {
		r, err := s.Restore(t.Context(), connectortest.Context(i, 3), [][]byte{position})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.(*reader).spans; len(got) != 1 || got[0].End-got[0].Next != 30 {
			t.Errorf("subtask %d: %+v", i, got)
		}
	}
	r, err := s.Restore(t.Context(), connectortest.Context(0, 1), [][]byte{[]byte(`[{"subtask":0,"of":1,"total":91,"next":0,"end":91}]`)})
	connectortest.WantPermanent(t, err, "91 rows", "90 now", "row.num")
	if r != nil {
		t.Error("a reader of other rows")
	}
}

func mustSource(t *testing.T, options string) *Source {
	t.Helper()
	s, err := New(connectortest.Options(t, options))
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Source)
}
