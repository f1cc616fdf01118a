package gridtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// knownBad is production code made wrong on purpose, in one way. The suite has to notice.
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

// knownBadLimit bounds the making and the run of one variant, which take some ten seconds when the machine is quiet.
const knownBadLimit = 4 * time.Minute

// seen are the words of a test that saw a promise broken.
var seen = regexp.MustCompile(`(?m)violation: .*|seed \d+: .* (read|acknowledged|shows|shown|twice).*|has a lease, and .*|is removed at \d+, its lease runs to .*`)

// TestKnownBad tests the tests: each of the broken variants in testdata/knownbad must make them fail, by naming what is violated.
func TestKnownBad(t *testing.T) {
	if testing.Short() {
		t.Skip("each broken variant is compiled and run: minutes; left out with -short")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/knownbad/*.txt")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d variants, %v", len(files), err)
	}
	for _, file := range files {
		v, err := readKnownBad(file)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Run(v.name, func(t *testing.T) { v.test(t, root) })
	}
}

// readKnownBad reads a variant: lines "key: value", then for each edit "=== file", "--- old" and its lines, "--- new" and its lines.
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
		v.edits = append(v.edits, edit{name, old, strings.TrimSuffix(new, "\n")})
	}
	if v.why == "" || v.notices == "" || v.pkg == "" || len(v.run) == 0 {
		return v, fmt.Errorf("%s: why, notices, package and run are needed", file)
	}
	return v, nil
}

// overlay writes the broken files below dir and returns the file that tells the compiler.
func (v knownBad) overlay(root, dir string) (string, error) {
	text := map[string]string{}
	for _, e := range v.edits {
		if _, ok := text[e.file]; !ok {
			b, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return "", err
			}
			text[e.file] = string(b)
		}
		if n := strings.Count(text[e.file], e.old); n != 1 {
			return "", fmt.Errorf("the text to replace stands %d times in %s, not once: bring the variant up to date:\n%s", n, e.file, e.old)
		}
		text[e.file] = strings.Replace(text[e.file], e.old, e.new, 1)
	}
	replace := map[string]string{}
	for file, s := range text {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(s), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}

func (v knownBad) test(t *testing.T, root string) {
	dir := t.TempDir()
	overlay, err := v.overlay(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), knownBadLimit)
	defer cancel()
	bin := filepath.Join(dir, "broken.test")
	begun := time.Now()
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", bin, "-ldflags=-s -w", "-overlay", overlay, v.pkg)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the variant does not compile: %v\n%s", err, out)
	}
	built := time.Since(begun)
	run := exec.CommandContext(ctx, bin, v.run...)
	run.Dir = filepath.Join(root, v.pkg)
	out, err := run.CombinedOutput()
	var failed *exec.ExitError
	switch what := seen.Find(out); {
	case err == nil:
		t.Errorf("not noticed, although %s (%v)", v.why, time.Since(begun).Round(time.Second))
	case ctx.Err() != nil || !errors.As(err, &failed):
		t.Errorf("it did not end in time: %v", err)
	case what == nil:
		t.Errorf("it failed, but names no violation: %v\n%s", err, tail(out, 3000))
	default:
		t.Logf("noticed; built in %v, run for %v: %s", built.Round(time.Second/10), (time.Since(begun) - built).Round(time.Second/10), tail(what, 300))
	}
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
