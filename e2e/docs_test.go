package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shown is a command as a page shows it, with the output below it.
type shown struct {
	file    string
	line    int
	command string
	output  []string
	moved   bool // the first master has lost its place by itself, so it may be another that is shown as master
}

// shownIn returns the commands of a page: lines that begin with "$ " in a code block, indented or fenced.
func shownIn(t *testing.T, file string) (out []shown) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fenced, open := false, false // open: lines belong to the last command
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "```") {
			fenced, open = !fenced, false
			continue
		}
		code, indented := strings.CutPrefix(line, "    ")
		if !indented && !fenced {
			open = false
			continue
		}
		if command, ok := strings.CutPrefix(code, "$ "); ok {
			out = append(out, shown{file: filepath.Base(file), line: i + 1, command: command})
			open = true
		} else if open && code != "" {
			last := &out[len(out)-1]
			last.output = append(last.output, code)
		}
	}
	return out
}

// vary are what differs from run to run, and what stands for it when outputs are compared.
var vary = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`(127\.0\.0\.1|localhost):\d+`), "ADDRESS"},
	{regexp.MustCompile(`\b\d{13,}\b`), "ID"}, // of jobs; versions
	{regexp.MustCompile(`\b\d+(\.\d+)?s\b`), "DURATION"},
	{regexp.MustCompile(`gridnode \S+ +\(.*`), "BUILD"},
	{regexp.MustCompile(`(cluster +)\S+( +member)`), "${1}NAME$2"},
	{regexp.MustCompile(`(data,worker +)\d+ +\d+`), "${1}OWNED BACKUPS"},
	{regexp.MustCompile(`(RUNNING +TIME +- +)\d+ +\d+`), "${1}READ WRITTEN"},
	{regexp.MustCompile(` +`), " "},
}

// role is the column of a member's role.
var role = regexp.MustCompile(`(master|member) (ACTIVE)`)

func (s shown) alike(line string) string {
	if line = alike(line); s.moved {
		line = role.ReplaceAllString(line, "ROLE $2")
	}
	return line
}

func alike(line string) string {
	for _, v := range vary {
		line = v.what.ReplaceAllString(line, v.as)
	}
	return strings.TrimSpace(line)
}

// compare holds the output against the one that is shown.
func (s shown) compare(t *testing.T, got string) {
	t.Helper()
	if diff := s.diff(got); diff != "" {
		t.Errorf("%s:%d: $ %s\nshown and true differ (-shown +true):\n%s", s.file, s.line, s.command, diff)
	}
}

// diff is where the output differs from the one that is shown, in which "..." at the end of a line, or alone on one, stands for anything.
func (s shown) diff(got string) string {
	var want, have []string
	lines := strings.Split(strings.TrimRight(got, "\n"), "\n")
	for i, line := range s.output {
		if strings.TrimSpace(line) == "..." {
			lines = lines[:min(i, len(lines))]
			break
		}
		begin, cut := strings.CutSuffix(s.alike(line), "...")
		want = append(want, begin)
		if i < len(lines) {
			line := s.alike(lines[i])
			if cut && strings.HasPrefix(line, begin) {
				line = begin
			}
			have = append(have, line)
		}
	}
	have = append(have, lines[min(len(want), len(lines)):]...)
	return cmp.Diff(want, have)
}

// reader follows the pages like a reader who types all that they show, into one cluster.
type reader struct {
	t   *testing.T
	c   *cluster
	dir string // where the shell is; the example jobs are there, made faster, and write below it
	ids map[string]string
}

var (
	startLine = regexp.MustCompile(`^gridnode start --name (\S+)$`)
	killLine  = regexp.MustCompile(`^kill -9 \$\(pgrep -f 'gridnode start --name (\S+)'\)$`)
	looks     = regexp.MustCompile(`^gridnode (members|job list)$`) // they show what is on its way, and may be asked again
	jobID     = regexp.MustCompile(`\b\d{15,}\b`)
)

// TestPages_ShowWhatIsSo runs every command that the pages show, in their order, and compares what it prints with what is shown. Members take
// ports of their own, and the job of the README is made faster.
func TestPages_ShowWhatIsSo(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, c: newCluster(t), dir: t.TempDir(), ids: map[string]string{}}
	r.copyExamples()
	ran := 0
	for _, page := range slices.Concat([]string{"../README.md"}, pages, []string{"../examples/README.md"}) {
		for _, s := range shownIn(t, page) {
			r.do(s)
			ran++
		}
	}
	if ran < 10 {
		t.Errorf("only %d commands were found", ran)
	}
}

// copyExamples takes the example jobs along, with this test's directory in place of /tmp/gridnode and rows that come faster.
func (r *reader) copyExamples() {
	r.t.Helper()
	files, err := filepath.Glob("../examples/*.json")
	if err == nil {
		err = os.MkdirAll(filepath.Join(r.dir, "examples"), 0o755)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	rate := regexp.MustCompile(`("read_limit.rows_per_second": )\d+`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			r.t.Fatal(err)
		}
		text = rate.ReplaceAll(bytes.ReplaceAll(text, []byte("/tmp/gridnode"), []byte(r.dir)), []byte("${1}800"))
		if err := os.WriteFile(filepath.Join(r.dir, "examples", filepath.Base(f)), text, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *reader) do(s shown) {
	r.t.Helper()
	if m := startLine.FindStringSubmatch(s.command); m != nil {
		started := r.c.add(loopback, loopback)
		if started.name != m[1] {
			r.t.Errorf("%s:%d: %s is started after %d others", s.file, s.line, m[1], len(r.c.members)-1)
		}
		r.c.awaitSafe(len(r.c.live()))
		if len(s.output) > 0 {
			s.compare(r.t, started.printed())
		}
		return
	}
	if m := killLine.FindStringSubmatch(s.command); m != nil { // the reader's own members only
		i := slices.IndexFunc(r.c.members, func(x *member) bool { return x.name == m[1] && !x.gone })
		if i < 0 {
			r.t.Fatalf("%s:%d: %s does not run", s.file, s.line, m[1])
		}
		r.c.members[i].kill()
		return
	}
	got := r.shell(s)
	for end := time.Now().Add(10 * time.Second); looks.MatchString(s.command) && s.diff(got) != "" && time.Now().Before(end); got = r.shell(s) {
		time.Sleep(50 * time.Millisecond)                                                // a reader takes longer than that to look
		s.moved = strings.Contains(r.c.members[0].output(), `msg="not master any more"`) // as on a machine that has no time for it
	}
	s.compare(r.t, got)
}

// printed is what a member has printed about itself, without what it logs.
func (m *member) printed() string {
	var out []string
	for line := range strings.Lines(m.output()) {
		if !strings.HasPrefix(line, "time=") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// shell runs a command as a reader's shell would: the program is found, the first member's port is not 8080, and what was written down from
// an earlier output, the id of a job, is what that command printed here.
func (r *reader) shell(s shown) string {
	r.t.Helper()
	var endpoints []string
	for _, m := range r.c.live() {
		endpoints = append(endpoints, m.http)
	}
	text := strings.ReplaceAll(s.command, "localhost:8080", strings.TrimPrefix(endpoints[0], "http://"))
	text = strings.ReplaceAll(text, "/tmp/gridnode", r.dir)
	for was, is := range r.ids {
		text = strings.ReplaceAll(text, was, is)
	}
	cmd := exec.Command("bash", "-c", text)
	cmd.Dir, cmd.WaitDelay = r.dir, time.Second
	cmd.Env = append(program().Env, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "GRIDNODE_HTTP="+strings.Join(endpoints, ","))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	done := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	err := cmd.Run()
	done.Stop()
	if err != nil || stderr.Len() > 0 {
		r.t.Errorf("%s:%d: $ %s: %v\n%s", s.file, s.line, s.command, err, stderr.String())
	}
	shownIDs, trueIDs := jobID.FindAllString(strings.Join(s.output, "\n"), -1), jobID.FindAllString(stdout.String(), -1)
	for i := range min(len(shownIDs), len(trueIDs)) {
		r.ids[shownIDs[i]] = trueIDs[i]
	}
	return stdout.String()
}
