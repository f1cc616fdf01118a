package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// job is one job of a test and where its output goes.
type job struct {
	id   string
	dir  string
	rows int
}

// sequence is a job config: ids 1 to subtasks*rows into text files, at rate rows a second for each subtask (0: as fast as can be).
func sequence(dir string, subtasks, rows, rate int, env string) []byte {
	if rate > 0 {
		env += fmt.Sprintf(`,"read_limit.rows_per_second":%d`, rate)
	}
	return fmt.Appendf(nil, `{"env":{"job.name":"sequence","job.mode":"BATCH","job.retry.interval.seconds":1,"parallelism":%d%s},
"source":[{"plugin_name":"FakeSource","mode":"sequence","row.num":%d,"schema":{"fields":{"id":"bigint"}}}],
"sink":[{"plugin_name":"LocalFile","path":%q,"tmp_path":%q,"file_format_type":"text"}]}`,
		subtasks, env, rows, filepath.Join(dir, "out"), filepath.Join(dir, "tmp"))
}

// submit submits a config through a member; a query such as "?jobId=7" may be given.
func submit(m *member, config []byte, query string) string {
	m.t.Helper()
	a, err := m.call("POST", "/submit-job"+query, config)
	if err != nil || a.status != http.StatusOK {
		m.t.Fatalf("%s: submit: %d %s %v", m.name, a.status, a.body, err)
	}
	var v struct{ JobID string }
	if err := json.Unmarshal(a.body, &v); err != nil || v.JobID == "" {
		m.t.Fatalf("submit: %s", a.body)
	}
	return v.JobID
}

func startJob(t *testing.T, m *member, subtasks, rows, rate int, env string) job {
	t.Helper()
	j := job{dir: t.TempDir(), rows: subtasks * rows}
	j.id = submit(m, sequence(j.dir, subtasks, rows, rate, env), "")
	return j
}

type jobView struct {
	JobID, JobName, JobStatus, CreateTime, FinishTime, FinishedTime string
	ErrorMsg                                                        *string
}

func (v jobView) ended() bool {
	return slices.Contains([]string{"FINISHED", "FAILED", "CANCELED", "SAVEPOINT_DONE"}, v.JobStatus)
}

func info(m *member, id string) jobView { m.t.Helper(); return read[jobView](m, "/job-info/"+id) }

func ids(list []jobView) []string {
	out := []string{}
	for _, v := range list {
		out = append(out, v.JobID)
	}
	slices.Sort(out)
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

type overview struct{ Workers, Works, RunningJobs, PendingJobs, FinishedJobs, FailedJobs, CancelledJobs string }

// watch polls every live member until all jobs have ended with the status, and checks every answer on the way: nobody lists an ended job as
// running, loses a job, or takes a result back.
func (c *cluster) watch(jobs []job, want string, limit time.Duration) {
	c.t.Helper()
	ended := map[string]string{}
	polls := 0
	c.await(limit, "all jobs "+want, func() bool {
		all := true
		for _, m := range c.live() {
			all = c.poll(m, jobs, ended) && all
			polls++
		}
		return all
	})
	for _, j := range jobs {
		if ended[j.id] != want {
			v := info(c.live()[0], j.id)
			c.t.Errorf("job %s ended %s, want %s (%v)", j.id, ended[j.id], want, v.ErrorMsg)
		}
	}
	c.t.Logf("%d polls", polls)
}

func (c *cluster) poll(m *member, jobs []job, ended map[string]string) (all bool) {
	c.t.Helper()
	before := len(ended)
	running := ids(read[[]jobView](m, "/running-jobs"))
	finished := ids(read[[]jobView](m, "/finished-jobs"))
	all = true
	for _, j := range jobs {
		v := info(m, j.id)
		if was := ended[j.id]; was != "" {
			if v.JobStatus != was {
				c.t.Fatalf("%s shows job %s %s after it had ended %s", m.name, j.id, v.JobStatus, was)
			}
			if before == len(ended) && slices.Contains(running, j.id) {
				c.t.Fatalf("%s lists job %s as running after it had ended %s", m.name, j.id, was)
			}
		}
		if !slices.Contains(running, j.id) && !slices.Contains(finished, j.id) {
			c.t.Fatalf("%s lists job %s neither as running nor as finished", m.name, j.id)
		}
		if v.ended() {
			ended[j.id] = v.JobStatus
		} else {
			all = false
		}
	}
	return all
}

// leftovers returns the sizes of the engine's maps that are not empty, history aside.
func leftovers(m *member) map[string]int {
	v := read[struct {
		Maps []struct {
			Name string
			Size int
		}
	}](m, "/api/v1/maps")
	out := map[string]int{}
	for _, x := range v.Maps {
		if strings.HasPrefix(x.Name, "engine_") && !strings.HasPrefix(x.Name, "engine_finished") && x.Size > 0 {
			out[x.Name] = x.Size
		}
	}
	return out
}

// mapsEmptyWithin waits until nothing but history is left.
func (c *cluster) mapsEmptyWithin(limit time.Duration) {
	c.t.Helper()
	c.await(limit, "empty engine maps", func() bool { return len(leftovers(c.live()[0])) == 0 })
}
