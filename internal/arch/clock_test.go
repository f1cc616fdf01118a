package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// monotonic are the packages that decide by time who may act, who is dead, and what is over. They compare readings of the monotonic clock only, so
// a jump of the system's clock, in either direction, changes none of it (C171): no lease ends, nobody is removed, no entry expires early or late.
var monotonic = []string{"grid", "grid/cluster", "grid/transport", "grid/wire", "partition", "imap"}

// wallClock are the files of them in which a time without the monotonic reading is allowed, and why.
var wallClock = map[string]string{
	"imap/bulk.go":               "it tells callers when an entry was made",
	"imap/mapops.go":             "it tells callers when an entry was made",
	"grid/transport/stream.go":   "a deadline that has passed, by any clock",
	"grid/cluster/gossip_net.go": "a deadline that has passed, by any clock",
}

// strippers are methods of a time that lose its monotonic reading or give a number of the system's clock, and functions that make a time without.
var strippers = []string{
	"Unix", "UnixNano", "UnixMicro", "UnixMilli", "UTC", "Local", "In", "AddDate", "Date", "Parse", "ParseInLocation", "YearDay", "Clock",
}

func TestC171_DecisionsIgnoreTheSystemsClock(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() || !slices.Contains(monotonic, path.Dir(s.path)) {
			continue
		}
		for _, fault := range clockFaults(s) {
			if used[s.path] = true; wallClock[s.path] == "" {
				t.Error(fault)
			}
		}
	}
	for file := range wallClock {
		if !used[file] {
			t.Errorf("%s needs no leave to use the system's clock any more", file)
		}
	}
}

func TestClockFaults_AreSeen(t *testing.T) {
	for text, want := range map[string]int{
		"time.Now().UnixMilli()":            1,
		"time.UnixMilli(5)":                 1,
		"time.Now().UTC()":                  1,
		"time.Now().Round(0)":               1,
		"time.Now().Add(time.Second)":       0,
		"time.Since(time.Now())":            0,
		"time.Duration(5).Round(time.Hour)": 0,
	} {
		s := parse(t, "grid/x.go", []byte("package x\nimport \"time\"\nvar x = "+text+"\n"))
		if got := clockFaults(s); len(got) != want {
			t.Errorf("%s: %q, want %d", text, got, want)
		}
	}
}

// clockFaults complains about calls after which a time is one of the system's clock.
func clockFaults(s *source) (complaints []string) {
	imported := importName(s.file, "time") != "" // else only what is certainly of a time
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		zero := false
		if len(call.Args) == 1 {
			lit, ok := call.Args[0].(*ast.BasicLit)
			zero = ok && lit.Value == "0"
		}
		known := imported && slices.Contains(strippers, sel.Sel.Name) || strings.HasPrefix(sel.Sel.Name, "Unix") || sel.Sel.Name == "UTC"
		if known || zero && (sel.Sel.Name == "Round" || sel.Sel.Name == "Truncate") {
			complaints = append(complaints, fmt.Sprintf("%s:%d: %s is of the system's clock, which jumps: compare readings of the monotonic one",
				s.path, s.line(n.Pos()), sel.Sel.Name))
		}
		return true
	})
	return complaints
}
