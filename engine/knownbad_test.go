package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A known-bad variant is this package with one thing done wrong, as it was done wrong elsewhere or as the model of the rules shows that it must
// not be done. The tests that it names have to fail on it: so each of them can fail, for the reason that it is there for.
//
// A variant is a file below testdata/knownbad:
//
//	says: what is wrong
//	test: the tests that catch it, as for go test -run
//	--- file.go
//	text of that file, which is in it exactly once
//	+++
//	text in its place
//
// The new text asks bad(), so that one binary holds all variants, and the environment chooses one.
type variant struct {
	name, says, test string
	edits            []edit
}

type edit struct{ file, old, new string }

// knownBadVariable names the variant that is on, in a binary that has them.
const knownBadVariable = "GRIDNODE_KNOWN_BAD"

// switches is the file that a binary with variants has besides.
const switches = `package engine

import "os"

var variantOn = os.Getenv("` + knownBadVariable + `")

func bad(name string) bool { return variantOn == name }
`

func readVariants(t *testing.T) []variant {
	t.Helper()
	files, err := filepath.Glob("testdata/knownbad/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no variants", err)
	}
	var out []variant
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		v := parseVariant(string(b))
		v.name = strings.TrimSuffix(filepath.Base(f), ".txt")
		if v.says == "" || v.test == "" || len(v.edits) == 0 {
			t.Errorf("%s: says, test or edits are missing", f)
		}
		for i, e := range v.edits {
			v.edits[i].new = strings.ReplaceAll(e.new, "bad()", fmt.Sprintf("bad(%q)", v.name))
		}
		out = append(out, v)
	}
	return out
}

func parseVariant(text string) (v variant) {
	var into *string
	for line := range strings.Lines(text) {
		file, isOld := strings.CutPrefix(line, "--- ")
		switch {
		case isOld:
			v.edits = append(v.edits, edit{file: strings.TrimSpace(file)})
			into = &v.edits[len(v.edits)-1].old
		case line == "+++\n":
			into = &v.edits[len(v.edits)-1].new
		case into != nil:
			*into += line
		case strings.HasPrefix(line, "says: "):
			v.says = strings.TrimSpace(line[len("says: "):])
		case strings.HasPrefix(line, "test: "):
			v.test = strings.TrimSpace(line[len("test: "):])
		}
	}
	return v
}

// mutate returns the files of the package with all variants in them, each off.
func mutate(t *testing.T, all []variant) map[string]string {
	t.Helper()
	files := map[string]string{"knownbad_switches.go": switches}
	for _, v := range all {
		for _, e := range v.edits {
			b, err := os.ReadFile(e.file)
			if err != nil {
				t.Fatal(err)
			}
			if files[e.file] == "" {
				files[e.file] = string(b)
			}
			if n := strings.Count(string(b), e.old); n != 1 || !strings.Contains(files[e.file], e.old) {
				t.Errorf("variant %s: its old text is %d times in %s, must be once and belong to no other variant; the code may have changed, and the variant has to follow",
					v.name, n, e.file)
				continue
			}
			files[e.file] = strings.Replace(files[e.file], e.old, e.new, 1)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return files
}

// buildVariants compiles the tests of this package over an overlay with all variants, and returns the binary.
func buildVariants(t *testing.T, all []variant) string {
	t.Helper()
	dir, here := t.TempDir(), mustDir(t)
	overlay := map[string]map[string]string{"Replace": {}}
	for name, text := range mutate(t, all) {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(here, name)] = file
	}
	list := filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(overlay)
	if err == nil {
		err = os.WriteFile(list, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "variants.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", list, "-o", binary, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the variants do not compile: %v\n%s", err, out)
	}
	return binary
}

func mustDir(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// runVariant runs the tests that are to catch a variant, with it on or with none.
func runVariant(t *testing.T, binary, on, tests string) (out string, passed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^("+tests+")$", "-test.v", "-test.short", "-test.failfast", "-test.timeout", "60s")
	cmd.Env = append(os.Environ(), knownBadVariable+"="+on)
	b, err := cmd.CombinedOutput()
	return string(b), err == nil
}

// Every variant is caught by each of the tests that it names, and none of these fails without it.
func TestKnownBadVariantsAreCaught(t *testing.T) {
	t.Parallel()
	if os.Getenv(knownBadVariable) != "" {
		t.Skip("this is a binary with variants")
	}
	if testing.Short() || underRace {
		t.Skip("it compiles the package again, without the race detector")
	}
	all := readVariants(t)
	binary := buildVariants(t, all)
	tests := map[string]bool{}
	for _, v := range all {
		for name := range strings.SplitSeq(v.test, "|") {
			tests[name] = true
		}
	}
	names := slices.Sorted(maps.Keys(tests))
	if out, ok := runVariant(t, binary, "none", strings.Join(names, "|")); !ok {
		t.Fatalf("without a variant the tests fail:\n%s", out)
	} else {
		for _, name := range names {
			if !strings.Contains(out, "--- PASS: "+name+" ") {
				t.Errorf("there is no test %s", name)
			}
		}
	}
	turns := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for _, v := range all {
		for name := range strings.SplitSeq(v.test, "|") {
			wg.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				start := time.Now()
				out, passed := runVariant(t, binary, v.name, name)
				if passed {
					t.Errorf("%s (%s) is not caught by %s", v.name, v.says, name)
				}
				if os.Getenv("KNOWN_BAD_LOG") != "" {
					t.Logf("%s, %s, %v\n%s", v.name, name, time.Since(start), out)
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d variants", len(all))
}
