package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// spec says what a job does: each of its subtasks copies rows ids, at rate a second (0: as fast as can be).
type spec struct {
	subtasks, rows, rate int
	env                  string // more of env, each option after a comma
	query                string // of the submit, such as "?jobId=7"
}

// job is one job of a test and where its output goes.
type job struct {
	id   string
	dir  string
	rows int
}

// config is a job that writes the ids 1 to subtasks*rows into text files.
func (s spec) config(dir string) string {
	env := s.env
	if s.rate > 0 {
		env += fmt.Sprintf(`,"read_limit.rows_per_second":%d`, s.rate)
	}
	return fmt.Sprintf(`{"env":{"job.name":"sequence","job.mode":"BATCH","job.retry.interval.seconds":1,"parallelism":%d%s},
"source":[{"plugin_name":"FakeSource","mode":"sequence","row.num":%d,"schema":{"fields":{"id":"bigint"}}}],
"sink":[%s]}`, cmp.Or(s.subtasks, 1), env, s.rows, textSink(dir, ""))
}

// textSink writes text files below a directory; more is added to its options.
func textSink(dir, more string) string {
	return fmt.Sprintf(`{"plugin_name":"LocalFile","path":%q,"tmp_path":%q,"file_format_type":"text"%s}`,
		filepath.Join(dir, "out"), filepath.Join(dir, "tmp"), more)
}

// submit submits a config and returns the id of the job.
func (m *member) submit(config, query string) string {
	m.t.Helper()
	a := m.post("/submit-job"+query, config)
	id, err := submitted(a)
	if err != nil {
		m.t.Fatalf("%s: submit: %v", m.name, err)
	}
	m.c.jobs[id] = true
	return id
}

// submitted reads the id out of the answer to a submit.
func submitted(a answer) (string, error) {
	var v struct{ JobID string }
	if a.status != http.StatusOK {
		return "", fmt.Errorf("%d %s", a.status, a.body)
	}
	if err := json.Unmarshal(a.body, &v); err != nil || v.JobID == "" {
		return "", fmt.Errorf("no id in %s", a.body)
	}
	return v.JobID, nil
}

func (m *member) start(s spec) job {
	m.t.Helper()
	j := job{dir: m.t.TempDir(), rows: cmp.Or(s.subtasks, 1) * s.rows}
	j.id = m.submit(s.config(j.dir), s.query)
	return j
}

// startEvenly starts jobs through one member after the other.
func (c *cluster) startEvenly(specs ...spec) []job {
	c.t.Helper()
	live := c.live()
	var jobs []job
	for i, s := range specs {
		jobs = append(jobs, live[i%len(live)].start(s))
	}
	return jobs
}

// stopJob stops a job, and repeats that until it is accepted: a master may die meanwhile.
func (m *member) stopJob(id string) {
	m.t.Helper()
	m.c.await(20*time.Second, "a stop accepted", func() bool {
		a, err := m.call("POST", "/stop-job", fmt.Appendf(nil, `{"jobId":%q}`, id))
		if err == nil && a.status != http.StatusOK && a.status != http.StatusServiceUnavailable && a.status != http.StatusGatewayTimeout {
			m.t.Fatalf("%s: stop of %s: %d %s", m.name, id, a.status, a.body)
		}
		return err == nil && a.status == http.StatusOK
	})
}

type jobView struct {
	JobID, JobName, JobStatus, CreateTime, FinishTime, FinishedTime, Restarts string
	ErrorMsg                                                                  *string
	Metrics                                                                   struct{ SourceReceivedCount, SinkWriteCount string }
	Tasks                                                                     []taskView
}

type taskView struct {
	Subtask, Attempt int
	Status, Member   string // the member's id
}

func (v taskView) waits() bool { return v.Status != "RUNNING" }

func (v jobView) final() bool {
	return slices.Contains([]string{"FINISHED", "FAILED", "CANCELED", "SAVEPOINT_DONE"}, v.JobStatus)
}

func (v jobView) cause() string {
	if v.ErrorMsg == nil {
		return ""
	}
	return *v.ErrorMsg
}

func info(m *member, id string) jobView { m.t.Helper(); return read[jobView](m, "/job-info/"+id) }

func list(m *member, path string) []jobView { m.t.Helper(); return read[[]jobView](m, path) }

func ids(list []jobView) []string {
	out := []string{}
	for _, v := range list {
		out = append(out, v.JobID)
	}
	slices.Sort(out)
	return out
}

type overview struct{ Workers, Works, RunningJobs, PendingJobs, FinishedJobs, FailedJobs, CancelledJobs string }

// awaitRunning waits until jobs run with all their tasks.
func (c *cluster) awaitRunning(jobs ...job) {
	c.t.Helper()
	for _, j := range jobs {
		c.await(20*time.Second, "job "+j.id+" running", func() bool {
			v := info(c.live()[0], j.id)
			if v.final() {
				c.t.Fatalf("job %s is %s already", j.id, v.JobStatus)
			}
			return v.JobStatus == "RUNNING" && len(v.Tasks) > 0 && !slices.ContainsFunc(v.Tasks, taskView.waits)
		})
	}
}

// files returns what is below a directory of the job, with size and time of each file.
func (j job) files(t *testing.T, sub string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(filepath.Join(j.dir, sub), func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil {
			out = append(out, fmt.Sprintf("%s %d %v", path, st.Size(), st.ModTime()))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// lines returns how often each committed line is there.
func (j job) lines(t *testing.T) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(j.dir, "out", "*"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			seen[strings.TrimSpace(line)]++
		}
	}
	return seen
}

// exact checks that the committed lines are the ids, each once.
func (j job) exact(t *testing.T) {
	t.Helper()
	seen := j.lines(t)
	missing, doubled := 0, 0
	for i := 1; i <= j.rows; i++ {
		switch seen[fmt.Sprint(i)] {
		case 1:
		case 0:
			missing++
		default:
			doubled++
		}
	}
	if missing+doubled > 0 || len(seen) != j.rows {
		t.Errorf("job %s: %d different rows, want %d; %d missing, %d doubled", j.id, len(seen), j.rows, missing, doubled)
	}
}

// nothing checks that a job that did not end well has left no row and no file.
func (j job) nothing(t *testing.T) {
	t.Helper()
	for _, sub := range []string{"out", "tmp"} {
		if left := j.files(t, sub); len(left) > 0 {
			t.Errorf("job %s left %v", j.id, left)
		}
	}
}
