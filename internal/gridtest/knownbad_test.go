package gridtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// knownBad is production code made wrong on purpose, in one way. The suite has to notice.
//
// One overlay for the compiler has all variants, each off: the new text of an edit asks bad(), and the environment says which variant is on.
type knownBad struct {
	name    string
	why     string   // what is wrong with it
	notices string   // which workload, or which check, is to see it
	pkg     string   // the package whose tests are run
	run     []string // their arguments
	edits   []edit
}

// edit replaces a text that stands exactly once in a file.
type edit struct{ file, old, new string }

const (
	// knownBadLimit bounds the run of one variant, which takes seconds when the machine is quiet; buildLimit that of the compiler.
	knownBadLimit = 8 * time.Minute
	buildLimit    = 6 * time.Minute

	// knownBadVariable names the variant that is on, in a binary that has them.
	knownBadVariable = "GRIDTEST_KNOWN_BAD"
)

// switches is a file that each package with variants has besides.
const switches = `package %s

import "os"

var variantOn = os.Getenv("` + knownBadVariable + `")

func bad(name string) bool { return variantOn == name }
`

// seen are the words of a test that saw a promise broken.
var seen = regexp.MustCompile(`(?m)violation: .*|seed \d+: .* (read|acknowledged|shows|shown|twice).*|has a lease, and .*|is removed at \d+, its lease runs to .*`)

// controls are runs of the packages' tests with all variants off. They must pass: so it is the variant that makes the others fail.
var controls = map[string][]string{
	"./internal/gridtest": {"-test.run=TestNemesis$|TestProbe_ExpiredRead$|TestProbe_LateGrant$|TestSilentMembers_KeepWhatOnlyTheyHave", "-nemesis.runs=8"},
	"./partition":         {"-test.run=TestSimulation$", "-sim.runs=2000"},
	"./grid/cluster":      {"-test.run=TestLedger|Lease|Depos|Confirm"},
}

// TestKnownBad tests the tests: each of the broken variants in testdata/knownbad must make them fail, by naming what is violated.
func TestKnownBad(t *testing.T) {
	if testing.Short() {
		t.Skip("the broken variants are compiled and run: a minute; left out with -short")
	}
	if os.Getenv(knownBadVariable) != "" {
		t.Skip("this is a binary with variants")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/knownbad/*.txt")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d variants, %v", len(files), err)
	}
	var all []knownBad
	for _, file := range files {
		v, err := readKnownBad(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if controls[v.pkg] == nil {
			t.Errorf("%s: %s has no control", file, v.pkg)
		}
		all = append(all, v)
	}
	bins := buildKnownBad(t, root, all)
	for pkg, args := range controls {
		t.Run("none in "+filepath.Base(pkg), func(t *testing.T) {
			t.Parallel()
			v := knownBad{name: "none", pkg: pkg, run: args}
			if out, err := v.exec(t, root, bins[pkg]); err != nil {
				t.Errorf("without a variant: %v\n%s", err, tail(out, 3000))
			}
		})
	}
	for _, v := range all {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v.test(t, root, bins[v.pkg])
		})
	}
}

// readKnownBad reads a variant: lines "key: value", then for each edit "=== file", "--- old" and its lines, "--- new" and its lines, which
// ask bad() whether the variant is on.
func readKnownBad(file string) (v knownBad, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return v, err
	}
	v.name = strings.TrimSuffix(filepath.Base(file), ".txt")
	head, rest, _ := strings.Cut(string(b), "\n=== ")
	for line := range strings.Lines(head) {
		k, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch k {
		case "why":
			v.why = text
		case "notices":
			v.notices = text
		case "package":
			v.pkg = text
		case "run":
			for _, f := range strings.Fields(text) {
				if strings.HasPrefix(f, "-nemesis.only=") {
					f = strings.ReplaceAll(f, "_", " ")
				}
				v.run = append(v.run, f)
			}
		default:
			return v, fmt.Errorf("%s: no such key: %q", file, k)
		}
	}
	for _, part := range strings.Split(rest, "\n=== ") {
		name, body, ok1 := strings.Cut(part, "\n--- old\n")
		old, new, ok2 := strings.Cut(body, "\n--- new\n")
		if !ok1 || !ok2 || old == "" {
			return v, fmt.Errorf("%s: an edit without its parts", file)
		}
		if !strings.Contains(new, "bad()") {
			return v, fmt.Errorf("%s: the new text in %s does not ask bad(), so it is wrong in all variants", file, name)
		}
		new = strings.ReplaceAll(strings.TrimSuffix(new, "\n"), "bad()", fmt.Sprintf("bad(%q)", v.name))
		v.edits = append(v.edits, edit{name, old, new})
	}
	if v.why == "" || v.notices == "" || v.pkg == "" || len(v.run) == 0 {
		return v, fmt.Errorf("%s: why, notices, package and run are needed", file)
	}
	return v, nil
}

// broken returns the files, by their names below root, that have all variants.
func broken(root string, all []knownBad) (map[string]string, error) {
	text := map[string]string{}
	for _, v := range all {
		for _, e := range v.edits {
			b, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			if text[e.file] == "" {
				text[e.file] = string(b)
			}
			if n := strings.Count(string(b), e.old); n != 1 {
				return nil, fmt.Errorf("%s: the text to replace stands %d times in %s, not once: bring the variant up to date:\n%s", v.name, n, e.file, e.old)
			}
			if strings.Count(text[e.file], e.old) != 1 {
				return nil, fmt.Errorf("%s: the text to replace in %s belongs to another variant, too, in whole or in part:\n%s", v.name, e.file, e.old)
			}
			text[e.file] = strings.Replace(text[e.file], e.old, e.new, 1)
			pkg := strings.Fields(string(b)[strings.Index("\n"+string(b), "\npackage "):])[1]
			text[path.Join(path.Dir(e.file), "knownbad_switches.go")] = fmt.Sprintf(switches, pkg)
		}
	}
	return text, nil
}

// buildKnownBad compiles the tests that notice, with all variants in the code, and returns the binary of each package.
func buildKnownBad(t *testing.T, root string, all []knownBad) map[string]string {
	t.Helper()
	text, err := broken(root, all)
	if err != nil {
		t.Fatal(err)
	}
	dir, replace := t.TempDir(), map[string]string{}
	for file, s := range text {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, file)] = to
	}
	overlay := filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), buildLimit)
	defer cancel()
	pkgs, begun := slices.Sorted(maps.Keys(controls)), time.Now()
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", dir + string(filepath.Separator)}
	build := exec.CommandContext(ctx, "go", append(args, pkgs...)...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the variants do not compile: %v\n%s", err, out)
	}
	t.Logf("%d variants, built in %v", len(all), time.Since(begun).Round(time.Second/10))
	bins := map[string]string{}
	for _, pkg := range pkgs {
		bins[pkg] = filepath.Join(dir, path.Base(pkg)+".test")
	}
	return bins
}

// exec runs the variant and returns what it printed; err is how it ended.
func (v knownBad) exec(t *testing.T, root, bin string) (out []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), knownBadLimit)
	defer cancel()
	run := exec.CommandContext(ctx, bin, v.run...)
	run.Dir = filepath.Join(root, v.pkg)
	run.Env = append(os.Environ(), knownBadVariable+"="+v.name)
	out, err = run.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("it did not end in time: %v", err)
	}
	return out, err
}

func (v knownBad) test(t *testing.T, root, bin string) {
	begun := time.Now()
	out, err := v.exec(t, root, bin)
	took := time.Since(begun).Round(time.Second / 10)
	var failed *exec.ExitError
	switch what := seen.Find(out); {
	case err == nil:
		t.Errorf("not noticed in %v, although %s", took, v.why)
	case !errors.As(err, &failed):
		t.Error(err)
	case what == nil:
		t.Errorf("it failed, but names no violation: %v\n%s", err, tail(out, 3000))
	default:
		t.Logf("noticed after %v: %s", took, tail(what, 300))
	}
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
