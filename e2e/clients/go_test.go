package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const goClient = "github.com/hazelcast/hazelcast-go-client@v1.4.2"

var suite = flag.String("suite", "", "tests of the Go client that are run, such as ^TestMap$; it takes minutes")

const suiteLimit = 4 * time.Minute

const wholeSeconds = "it reads an entry again and again and expects it to expire unread, as it does where idle times end at whole seconds"

// notServed are the parts of the suite that need what gridnode does not have, and why.
var notServed = map[string]string{
	"AddInterceptor":                "interceptors: a Java class of the test's own",
	"ExecuteOnEntries":              "an entry processor that is a Java class of the test's own",
	"ExecuteOnEntriesWithPredicate": "an entry processor that is a Java class of the test's own",
	"ExecuteOnKey":                  "an entry processor that is a Java class of the test's own",
	"ExecuteOnKeys":                 "an entry processor that is a Java class of the test's own",
	"PutIfAbsentWithTTLAndMaxIdle":  wholeSeconds,
	"PutTransientWithMaxIdle":       wholeSeconds,
	"PutTransientWithTTLAndMaxIdle": wholeSeconds,
	"PutWithMaxIdle":                wholeSeconds,
	"PutWithTTLAndMaxIdle":          wholeSeconds,
	"SetWithTTLAndMaxIdle":          wholeSeconds,
	"LoadAllReplacing":              "a map store: a Java class of the test's own",
	"LoadAllWithoutReplacing":       "a map store: a Java class of the test's own",
}

// skipped is notServed as go test wants it.
func skipped() string {
	return "^TestMap$/^(" + strings.Join(slices.Sorted(maps.Keys(notServed)), "|") + ")$"
}

// goClientSource returns a copy of the Go client with its tests, which come with the module.
func goClientSource(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", goClient).Output()
	if err != nil {
		t.Skipf("%s is not to be had here: %v", goClient, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(module.Dir)); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // the cache is read-only, and so is its copy
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestGoClient runs the Go client's own tests against members that the stand-in for the remote controller starts.
func TestGoClient(t *testing.T) {
	if *suite == "" {
		t.Skip("the Go client's own suite takes minutes: ask for it with -suite '^TestMap$'")
	}
	source, binary := goClientSource(t), buildMember(t)
	log, err := os.Create(filepath.Join(t.TempDir(), "members.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	c, err := NewController(func(cluster string, port int, seeds []string) (*Process, error) {
		return Start(binary, cluster, port, seeds, log)
	}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), suiteLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-run", *suite, "-skip", skipped(), ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "MEMBER_COUNT=3", "GOFLAGS=-mod=mod")
	var printed bytes.Buffer
	cmd.Stdout = &printed
	if testing.Verbose() {
		cmd.Stdout = io.MultiWriter(&printed, os.Stdout)
	}
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	out := printed.Bytes()
	passed, failed := outcomes(out)
	t.Logf("%d passed, %d failed", passed, len(failed))
	for _, f := range failed {
		t.Errorf("failed: %s", f)
	}
	if err != nil && len(failed) == 0 {
		t.Errorf("%v\n%s", err, out[max(0, len(out)-8000):])
	}
}

// outcomes reads what a verbose run printed: only tests without parts count.
func outcomes(out []byte) (passed int, failed []string) {
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		verdict, rest, ok := strings.Cut(strings.TrimSpace(lines.Text()), ": ")
		name, _, _ := strings.Cut(rest, " (")
		switch {
		case !ok:
		case verdict == "--- PASS":
			passed++
		case verdict == "--- FAIL":
			failed = append(failed, name)
		}
	}
	return passed, failed
}
