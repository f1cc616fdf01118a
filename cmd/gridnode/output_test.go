package main

import (
	"strings"
	"testing"
)

// What others have named cannot move the cursor, change colours or break the lines of a table.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"同步-Ünï 😀":                  "同步-Ünï 😀",
		"a\tb\nc\rd":                "a b c d",
		"\x1b[31mred\x07\x00\u0085": `\x1b[31mred\a\x00\u0085`,
		"":                          "",
	} {
		if got := plain(text); got != want {
			t.Errorf("plain(%q) = %q, want %q", text, got, want)
		}
	}
	var out strings.Builder
	if err := table(&out, [][]string{{"NAME", "X"}, {"\x1b]0;title\x07", "y\nz"}}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\x07") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("table: %q", out.String())
	}
}
