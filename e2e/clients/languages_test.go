package clients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	installWithin = 4 * time.Minute // the packages, once for each version of what pins them
	checkWithin   = 2 * time.Minute
)

// language is one in which there is a client of Hazelcast.
type language struct {
	name  string
	tools []string
	pins  []string // files that say which packages it needs
	// install puts the packages into a directory.
	install func(t *testing.T, dir string) error
	// program returns what runs a source file of the language, without its arguments.
	program func(t *testing.T, packages, source string) *exec.Cmd
	use     string // the checks
	whole   string // what they put as a whole number, as JSON
	foreign string // and the type id of what others cannot read
}

var languages = []language{
	{
		name: "node", tools: []string{"node", "npm"}, pins: []string{"node/package.json", "node/package-lock.json"}, use: "node/use.js",
		whole: "9007199254740993", foreign: "-25",
		install: func(t *testing.T, dir string) error {
			return runTool(t, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir)
		},
		program: func(_ *testing.T, packages, source string) *exec.Cmd {
			cmd := exec.Command("node", source)
			cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(packages, "node_modules"))
			return cmd
		},
	},
	{
		name: "python", tools: []string{"python3"}, pins: []string{"python/requirements.txt"}, use: "python/use.py",
		whole: "7", foreign: "-21",
		install: func(t *testing.T, dir string) error {
			args := []string{"-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"}
			return runTool(t, "python3", append(args, "--target", filepath.Join(dir, "site"), "-r", filepath.Join(dir, "requirements.txt"))...)
		},
		program: func(_ *testing.T, packages, source string) *exec.Cmd {
			cmd := exec.Command("python3", source)
			cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(packages, "site"), "PYTHONDONTWRITEBYTECODE=1")
			return cmd
		},
	},
	{
		name: "java", tools: []string{"java", "javac", "mvn"}, pins: []string{"java/pom.xml"}, use: "java/Use.java",
		whole: "9007199254740993", foreign: "-100",
		install: func(t *testing.T, dir string) error {
			return runTool(t, "mvn", "-q", "-B", "-f", filepath.Join(dir, "pom.xml"), "dependency:copy-dependencies", "-DoutputDirectory="+dir)
		},
		program: compiledJava,
	},
}

// compiledJava compiles the classes that lie beside source, and runs that one.
func compiledJava(t *testing.T, packages, source string) *exec.Cmd {
	t.Helper()
	classes := t.TempDir()
	sources, err := filepath.Glob(filepath.Join(filepath.Dir(source), "*.java"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(packages, "*") + string(os.PathListSeparator) + classes
	if err := runTool(t, "javac", append([]string{"-nowarn", "-cp", path, "-d", classes}, sources...)...); err != nil {
		t.Fatal(err)
	}
	main := strings.TrimSuffix(filepath.Base(source), ".java")
	return exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", path, main)
}

// runTool runs a tool; its error has what it printed.
func runTool(t *testing.T, name string, args ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out[max(0, len(out)-2000):])
	}
	return nil
}

// packages returns a directory with what the language's programs need. It is made once, and kept for the next time.
func (l language) packages(t *testing.T) string {
	t.Helper()
	for _, tool := range l.tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED, nothing is said about %s: %s is not installed", l.name, tool)
		}
	}
	hash := sha256.New()
	for _, file := range l.pins {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n%s", file, len(b), b)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "gridnode-clients", l.name+"-"+hex.EncodeToString(hash.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := l.fill(t, dir); err != nil {
		t.Skipf("SKIPPED, nothing is said about %s: its client is not to be had here: %v", l.name, err)
	}
	return dir
}

// fill makes the directory, whole or not at all.
func (l language) fill(t *testing.T, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), "part-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(part) }()
	for _, file := range l.pins {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(part, filepath.Base(file)), b, 0o644); err != nil {
			return err
		}
	}
	if err := l.install(t, part); err != nil {
		return err
	}
	if err := os.Rename(part, dir); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return nil
}

// output runs a program with the processes that it starts, for a bounded time, and returns what it printed.
func output(t *testing.T, cmd *exec.Cmd) (string, error) {
	t.Helper()
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return "", err
	}
	group := -cmd.Process.Pid
	timer := time.AfterFunc(checkWithin, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
	err := cmd.Wait()
	timer.Stop()
	_ = syscall.Kill(group, syscall.SIGKILL) // what it may have left
	return printed.String(), err
}

func addresses(members []*Process) string {
	var list []string
	for _, m := range members {
		list = append(list, m.Address())
	}
	return strings.Join(list, ",")
}

// The official clients of other languages, unmodified, do with maps what their documentation says: see use.* for what that is. What they put
// is read over HTTP, and the other way round.
func TestOtherLanguages_UseMaps(t *testing.T) {
	t.Parallel()
	members := startMembers(t, 3)
	for key, v := range map[string][2]string{
		"text": {"text/plain", "héllo"}, "json": {"application/json", `{"a":[1,null]}`}, "number": {"application/json", "42"},
		"bytes": {"application/octet-stream", "\x00\x01\xff"},
	} {
		put(t, members[0].HTTP+"/api/v1/maps/from-rest/entries/"+key, v[0], v[1])
	}
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			cmd := l.program(t, l.packages(t), l.use)
			cmd.Args = append(cmd.Args, "clients", addresses(members))
			out, err := output(t, cmd)
			t.Log(out)
			if err != nil || !strings.HasSuffix(out, "all ok\n") {
				t.Fatalf("%s: %v", l.use, err)
			}
			l.readOverHTTP(t, members[1].HTTP+"/api/v1/maps/"+l.name+"-to-rest/entries")
		})
	}
}

// readOverHTTP checks what the language's client has put.
func (l language) readOverHTTP(t *testing.T, url string) {
	for key, want := range map[string][2]string{
		"text": {"text/plain; charset=utf-8", "héllo"}, "double": {"application/json", "1.5"}, "yes": {"application/json", "true"},
		"whole": {"application/json", l.whole}, "bytes": {"application/octet-stream", "\x00\x01\xff"},
	} {
		if body, header := get(t, url+"/"+key); body != want[1] || header.Get("Content-Type") != want[0] || header.Get("Gridnode-Type") != "" {
			t.Errorf("%s over HTTP: %q, %v", key, body, header)
		}
	}
	body, header := get(t, url+"/json")
	if strings.ReplaceAll(body, " ", "") != `{"a":[1,null]}` || header.Get("Content-Type") != "application/json" {
		t.Errorf("JSON over HTTP: %q, %v", body, header)
	}
	if _, header := get(t, url+"/foreign"); header.Get("Gridnode-Type") != l.foreign {
		t.Errorf("what only %s can read, over HTTP: %v", l.name, header)
	}
	if list, _ := get(t, url); !strings.Contains(list, `"type":`+l.foreign) || !strings.Contains(list, `"json":1.5`) {
		t.Errorf("the list over HTTP: %s", list)
	}
}

var web = &http.Client{Timeout: 10 * time.Second}

func put(t *testing.T, url, contentType, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	answer, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusCreated {
		t.Fatalf("PUT %s: %s\n%s", url, answer.Status, text)
	}
}

func get(t *testing.T, url string) (string, http.Header) {
	t.Helper()
	answer, err := web.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %s, %v\n%s", url, answer.Status, err, body)
	}
	return string(body), answer.Header
}

// The programs of examples/clients do as their page says.
func TestExamples(t *testing.T) {
	t.Parallel()
	m := startAt(t, "dev", freePort(t), nil, nil)
	const dir = "../../examples/clients/"
	programs := map[string]func(t *testing.T) *exec.Cmd{
		"go": func(*testing.T) *exec.Cmd { return exec.Command("go", "run", dir+"go") },
	}
	for _, l := range languages {
		source := dir + map[string]string{"node": "hello.js", "python": "hello.py", "java": "Hello.java"}[l.name]
		programs[l.name] = func(t *testing.T) *exec.Cmd { return l.program(t, l.packages(t), source) }
	}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := program(t)
			cmd.Args = append(cmd.Args, m.Address())
			out, err := output(t, cmd)
			bare := strings.NewReplacer("'", "", `"`, "", " ", "").Replace(out)
			if err != nil || !strings.Contains(bare, "city:Oslo") || !strings.Contains(bare, "[ann]") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
