package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const goClient = "github.com/hazelcast/hazelcast-go-client@v1.4.2"

// The suite that is asked for; see docs/clients.md.
var (
	suiteRun     = flag.String("suite", "", "tests of the Go client that are run, such as ^TestMap$; it takes minutes")
	suitePackage = flag.String("suite-package", ".", "package of the Go client that has them, such as ./predicate")
	suiteMembers = flag.Int("suite-members", 3, "members of a cluster that its tests start")
	suiteLimit   = flag.Duration("suite-limit", 10*time.Minute, "how long they may take")
)

// notServed are tests of the Go client that cannot pass here, as -skip has them, and why.
var notServed = map[string]string{
	"^TestClient$/^GetDistributedObjects$": "it makes a set",
	"^TestClient$/^GetProxyInstance$/Client$/^(list|multi-map|pn-counter|queue|replicated-map|set|topic)$": "of Hazelcast's structures there are maps only",
	"^TestClientInternal$/^ProxyManagerShutdown$":                                                          "it makes a queue",
	"^TestServer$": "its scripts store lists and classes of Java, which no client can write",
}

// skipped is notServed as one pattern.
func skipped() string { return strings.Join(slices.Sorted(maps.Keys(notServed)), "|") }

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

// program returns one of our programs, built.
func program(t *testing.T, pkg string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := exec.Command("go", "build", "-o", file, pkg).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return file
}

// run is one run of tests of the Go client.
type run struct {
	dir, binary string
	tests, skip string
	members     int
	env         []string
	limit       time.Duration
}

// buildSuite builds the tests of a package of the Go client. The paths in the binary are those of the module, so that Go's cache knows it again.
func buildSuite(t *testing.T, source, pkg string) (dir, binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "suite.test")
	cmd := exec.Command("go", "test", "-c", "-trimpath", "-tags", "hazelcastinternal,hazelcastinternaltest", "-o", binary, pkg)
	cmd.Dir, cmd.Env = source, append(os.Environ(), "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build of %s: %v\n%s", pkg, err, out)
	}
	return filepath.Join(source, pkg), binary
}

// do runs the tests and returns what they printed.
func (r run) do(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	args := []string{"-test.v", "-test.parallel=4", "-test.timeout=" + r.limit.String(), "-test.run", r.tests}
	if r.skip != "" {
		args = append(args, "-test.skip", r.skip)
	}
	cmd := exec.CommandContext(ctx, r.binary, args...)
	cmd.Dir = r.dir
	cmd.Env = append(append(os.Environ(), fmt.Sprintf("MEMBER_COUNT=%d", r.members)), r.env...)
	var printed bytes.Buffer
	cmd.Stdout = &printed
	if testing.Verbose() {
		cmd.Stdout = io.MultiWriter(&printed, os.Stdout)
	}
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	return printed.Bytes(), err
}

// controller starts the stand-in for the remote controller. Its members have the classes of the suite; they log to a file. Of each member that has
// started it tells started, if that has room.
func controller(t *testing.T, started chan<- struct{}) {
	t.Helper()
	binary, stores := program(t, "gridnode/e2e/clients/member"), t.TempDir()
	log, err := os.Create(filepath.Join(t.TempDir(), "members.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	c, err := NewController(func(w Wanted) (*Process, error) {
		store := filepath.Join(stores, strconv.Itoa(w.First))
		p, err := Start(binary, nil, w, log, "--stored", strings.Join(w.Stored, ","), "--store", store)
		select {
		case started <- struct{}{}:
		default:
		}
		return p, err
	}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
}

// TestGoClient_Maps runs what the Go client's own tests have of maps, queries and aggregations, as its authors wrote them, against clusters of three
// members.
func TestGoClient_Maps(t *testing.T) {
	if *suiteRun != "" || testing.Short() {
		t.Skip("it takes a minute; with -suite the tests are chosen")
	}
	t.Parallel()
	source := goClientSource(t)
	started := make(chan struct{}, 64)
	controller(t, started)
	dir, binary := buildSuite(t, source, ".")
	maps := run{dir: dir, binary: binary, tests: "^TestMap$", members: 3, limit: *suiteLimit}
	var wg sync.WaitGroup
	defer wg.Wait()
	// Some only wait for most of their time, so they do that while the others run. Each run looks for ports that are free, so the members of one have to
	// be there when the next begins.
	const sleepers = "^TestMap$/^(PutWithTTL|SetTTL|SetWithTTLAndMaxIdle)$"
	for _, half := range []string{"DISABLE_NONSMART=1", "DISABLE_SMART=1"} {
		waiting := maps
		waiting.tests, waiting.env = sleepers, []string{half}
		wg.Go(func() {
			out, err := waiting.do(t.Context())
			report(t, out, err)
		})
		for range waiting.members {
			select {
			case <-started:
			case <-time.After(time.Minute):
				t.Error("three members have not started within a minute")
				return
			}
		}
	}
	maps.skip = sleepers
	out, err := maps.do(t.Context())
	report(t, out, err)
	for _, pkg := range []string{"./predicate", "./aggregate"} {
		dir, binary := buildSuite(t, source, pkg)
		out, err := run{dir: dir, binary: binary, tests: "^Test", members: 3, limit: *suiteLimit}.do(t.Context())
		report(t, out, err)
	}
}

// TestGoClient runs any of the Go client's own tests against members that the stand-in for the remote controller starts.
func TestGoClient(t *testing.T) {
	if *suiteRun == "" {
		t.Skip("ask for tests of the Go client with -suite, such as -suite '^TestMap$'; see docs/clients.md")
	}
	controller(t, nil)
	dir, binary := buildSuite(t, goClientSource(t), *suitePackage)
	out, err := run{dir: dir, binary: binary, tests: *suiteRun, skip: skipped(), members: *suiteMembers, limit: *suiteLimit}.do(t.Context())
	report(t, out, err)
}

// report takes what a run printed. Several runs may report at once.
func report(t *testing.T, out []byte, err error) {
	t.Helper()
	passed, failed, skipped := outcomes(out)
	t.Logf("%d passed, %d failed, %d skipped", passed, len(failed), len(skipped))
	for _, s := range skipped {
		t.Logf("skipped: %s", s)
	}
	for _, f := range failed {
		t.Errorf("failed: %s", f)
	}
	if at := bytes.Index(out, []byte("\npanic: ")); err != nil && at >= 0 { // what was under way then has no verdict
		t.Errorf("%v: %s", err, out[at:min(len(out), at+3000)])
	} else if err != nil && len(failed) == 0 {
		t.Errorf("%v\n%s", err, out[max(0, len(out)-8000):])
	}
}

// outcomes reads what a verbose run printed. A test with parts counts only if it failed and none of them did.
func outcomes(out []byte) (passed int, failed, skipped []string) {
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	verdicts := map[string]string{}
	for lines.Scan() {
		verdict, rest, ok := strings.Cut(strings.TrimSpace(lines.Text()), ": ")
		name, _, _ := strings.Cut(rest, " (")
		if ok && strings.HasPrefix(verdict, "--- ") {
			verdicts[name] = verdict
		}
	}
	parts := map[string]string{} // the worst verdict of a test's parts
	for name, verdict := range verdicts {
		for i, r := range name {
			if r == '/' && parts[name[:i]] != "--- FAIL" {
				parts[name[:i]] = verdict
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		switch {
		case parts[name] != "" && (verdicts[name] != "--- FAIL" || parts[name] == "--- FAIL"):
		case verdicts[name] == "--- PASS":
			passed++
		case verdicts[name] == "--- FAIL":
			failed = append(failed, name)
		case verdicts[name] == "--- SKIP":
			skipped = append(skipped, name)
		}
	}
	return passed, failed, skipped
}

func TestOutcomes(t *testing.T) {
	out := []byte("=== RUN   TestA\n    --- PASS: TestA/x (0.1s)\n    --- SKIP: TestA/y (0.00s)\n--- PASS: TestA (0.1s)\n--- FAIL: TestB (1s)\n    --- PASS: TestB/x (0s)\n" +
		"--- FAIL: TestC (1s)\n    --- FAIL: TestC/x (0s)\n        --- FAIL: TestC/x/1 (0s)\n    --- PASS: TestC/y (0s)\nno --- FAIL: here\n")
	passed, failed, skipped := outcomes(out)
	if passed != 3 || !slices.Equal(failed, []string{"TestB", "TestC/x/1"}) || !slices.Equal(skipped, []string{"TestA/y"}) {
		t.Errorf("%d passed, failed %q, skipped %q", passed, failed, skipped)
	}
}
