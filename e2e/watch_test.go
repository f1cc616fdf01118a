package e2e

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// watch polls every live member until all jobs have ended with the status, and checks every answer on the way: see poll.
func (c *cluster) watch(jobs []job, want string, limit time.Duration) {
	c.t.Helper()
	c.await(limit, "all jobs ended", func() bool {
		for _, m := range c.live() {
			c.poll(m)
		}
		return !slices.ContainsFunc(jobs, func(j job) bool { return c.ended[j.id] == "" })
	})
	for _, j := range jobs {
		if c.ended[j.id] != want {
			c.t.Errorf("job %s ended %s, want %s (%s)", j.id, c.ended[j.id], want, info(c.live()[0], j.id).cause())
		}
	}
}

// poll asks a member for all lists and counts. Each job stands in exactly one list, where its status belongs; it leaves that of the running
// ones and never comes back; its result never changes; and the counts are those of the lists. The order of the questions matters: a job may
// go from running to ended between two of them, so the ended are asked for before and after.
func (c *cluster) poll(m *member) {
	c.t.Helper()
	before := list(m, "/finished-jobs")
	running := list(m, "/running-jobs")
	counts := read[overview](m, "/overview")
	after := list(m, "/finished-jobs")
	c.pollLists(m, ids(before), ids(running), ids(after))
	c.pollStatuses(m, running, after)
	c.pollCounts(m, counts, len(before), len(after))
	for _, v := range after {
		c.ended[v.JobID] = v.JobStatus
	}
	for id := range c.jobs {
		if v := info(m, id); c.ended[id] != "" && v.JobStatus != c.ended[id] {
			c.t.Fatalf("%s shows job %s %s after it had ended %s", m.name, id, v.JobStatus, c.ended[id])
		}
	}
}

func (c *cluster) pollLists(m *member, before, running, after []string) {
	c.t.Helper()
	for _, l := range [][]string{before, running, after} {
		if len(slices.Compact(slices.Clone(l))) != len(l) {
			c.t.Fatalf("%s lists a job twice: %v", m.name, l)
		}
		for _, id := range l {
			if !c.jobs[id] {
				c.t.Fatalf("%s lists job %s, which nobody submitted", m.name, id)
			}
		}
	}
	for id := range c.jobs {
		listed := slices.Contains(running, id)
		switch had := c.ended[id]; {
		case listed && (had != "" || slices.Contains(before, id)):
			c.t.Fatalf("%s lists job %s as running after it had ended %s", m.name, id, had)
		case had != "" && !slices.Contains(before, id):
			c.t.Fatalf("%s does not list job %s, which had ended %s", m.name, id, had)
		case !listed && !slices.Contains(after, id):
			c.t.Fatalf("%s lists job %s neither as running nor as ended", m.name, id)
		}
	}
}

func (c *cluster) pollStatuses(m *member, running, after []jobView) {
	c.t.Helper()
	for _, v := range running {
		if v.final() || v.FinishedTime != "" || v.FinishTime != "" {
			c.t.Fatalf("%s lists as running: %+v", m.name, v)
		}
	}
	for _, v := range after {
		if had := c.ended[v.JobID]; !v.final() || had != "" && v.JobStatus != had || v.FinishTime < v.CreateTime || v.FinishedTime != v.FinishTime {
			c.t.Fatalf("%s lists as ended, after it had ended %q: %+v", m.name, had, v)
		}
	}
}

func (c *cluster) pollCounts(m *member, o overview, before, after int) {
	c.t.Helper()
	ended, live := number(o.FinishedJobs)+number(o.FailedJobs)+number(o.CancelledJobs), number(o.RunningJobs)+number(o.PendingJobs)
	if ended+live != len(c.jobs) || ended < before || ended > after {
		c.t.Fatalf("%s counts %+v, with %d jobs in all and %d to %d ended", m.name, o, len(c.jobs), before, after)
	}
}

// number reads a count; -1 makes every sum wrong.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1 << 20
	}
	return n
}

// leftovers returns the sizes of the engine's maps that are not empty, history aside.
func leftovers(m *member) map[string]int {
	m.t.Helper()
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
	last := map[string]int{}
	start := time.Now()
	for ; time.Since(start) < limit; time.Sleep(50 * time.Millisecond) {
		if last = leftovers(c.live()[0]); len(last) == 0 {
			return
		}
	}
	c.t.Errorf("left in the engine's maps after %v: %v", limit, last)
}
