// Package arch holds the rules of the source tree as tests: who may import whom, and how large things may grow.
package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module = "gridnode"
	root   = "../.."
)

// pkg is what go list says about a package.
type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func TestImports(t *testing.T) {
	for _, complaint := range importFaults(list(t)) {
		t.Error(complaint)
	}
}

// A rule that cannot fail is none: each kind of fault is seen.
func TestImports_FaultsAreSeen(t *testing.T) {
	for _, test := range []struct {
		name string
		pkg  pkg
		want string // part of the only complaint; "" for none
	}{
		{"allowed", pkg{ImportPath: "gridnode/imap", Imports: []string{"gridnode/grid", "fmt", "net/http"}}, ""},
		{"by tree", pkg{ImportPath: "gridnode/engine/connector/fake", Imports: []string{"gridnode/engine/plugin"}}, ""},
		{"everything", pkg{ImportPath: "gridnode/node", Imports: []string{"gridnode/grid/cluster"}}, ""},
		{"upwards", pkg{ImportPath: "gridnode/grid", Imports: []string{"gridnode/imap"}}, "grid must not import imap"},
		{"sideways", pkg{ImportPath: "gridnode/rest", Imports: []string{"gridnode/clientproto"}}, "rest must not import clientproto"},
		{"out of a tree", pkg{ImportPath: "gridnode/engine/transform", Imports: []string{"gridnode/grid"}}, "must not import grid"},
		{"unknown", pkg{ImportPath: "gridnode/util"}, "add it to graph"},
		{"test helper in product", pkg{ImportPath: "gridnode/node", Imports: []string{"gridnode/internal/memnet"}}, "for tests only"},
		{"test helper in test", pkg{ImportPath: "gridnode/node", TestImports: []string{"gridnode/internal/memnet"}}, ""},
		{"test from outside", pkg{ImportPath: "gridnode/e2e", XTestImports: []string{"gridnode/grid"}}, "e2e must not import grid"},
		{"module", pkg{ImportPath: "gridnode/cmd/gridnode", Imports: []string{"github.com/goccy/go-yaml/ast"}}, ""},
		{"misplaced module", pkg{ImportPath: "gridnode/node", Imports: []string{"github.com/hashicorp/raft"}}, "must not import github.com/hashicorp/raft"},
		{"similar module", pkg{ImportPath: "gridnode/grid/cluster", Imports: []string{"github.com/hashicorp/raft-boltdb"}}, "add it to placements"},
		{"module in test", pkg{ImportPath: "gridnode/node", TestImports: []string{"go.uber.org/goleak"}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := importFaults([]pkg{test.pkg})
			if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
				t.Errorf("complaints %q, want %q", got, test.want)
			}
		})
	}
}

// list returns all packages of the module.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Logf("%s", exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

func importFaults(pkgs []pkg) (complaints []string) {
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		r, ok := ruleOf(name)
		if !ok {
			complaints = append(complaints, fmt.Sprintf("%s is in no rule: add it to graph, with what it may import and why", name))
			continue
		}
		imports := p.Imports
		if slices.Contains(outside, name) {
			imports = slices.Concat(imports, p.TestImports, p.XTestImports)
		}
		for _, path := range imports {
			if c := importFault(name, path, r); c != "" {
				complaints = append(complaints, c)
			}
		}
	}
	return complaints
}

// importFault says what is wrong with one import, or nothing.
func importFault(name, path string, r rule) string {
	if ours, ok := strings.CutPrefix(path, module+"/"); ok {
		switch {
		case slices.Contains(testOnly, ours) && !slices.Contains(testOnly, name):
			return fmt.Sprintf("%s must not import %s: that is for tests only", name, ours)
		case !matches(r.may, ours):
			return fmt.Sprintf("%s must not import %s: %s", name, ours, r.why)
		}
		return ""
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	for _, m := range placements {
		if path == m.module || strings.HasPrefix(path, m.module+"/") {
			if matches(m.in, name) {
				return ""
			}
			return fmt.Sprintf("%s must not import %s: %s", name, path, m.why)
		}
	}
	return fmt.Sprintf("%s imports %s, which has no place: add it to placements, with where it belongs and why", name, path)
}

// ruleOf returns the rule for the package itself, or for the innermost tree that it is in.
func ruleOf(name string) (r rule, ok bool) {
	for _, candidate := range graph {
		if candidate.pkg == name {
			return candidate, true
		}
		if matches([]string{candidate.pkg}, name) && len(candidate.pkg) > len(r.pkg) {
			r, ok = candidate, true
		}
	}
	return r, ok
}

// matches reports whether one of the patterns is the name, or a tree that the name is in.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		tree, ok := strings.CutSuffix(pattern, "...")
		return pattern == name || ok && strings.HasPrefix(name, tree)
	})
}
