package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
)

const (
	demoPoll  = 200 * time.Millisecond // between two looks
	demoLook  = time.Second            // that a look may take
	demoDoubt = 20 * time.Second       // without an answer, before it is a failure
)

// demoTask is where a task of the job was last seen.
type demoTask struct {
	attempt int
	member  string // id
}

// submit hands in the job.
func (d *demo) submit(ctx context.Context) error {
	rows, err := demoInput()
	if err != nil {
		return err
	}
	d.total = len(rows) - 1
	if err := writeInput(d.path("in"), rows, d.members); err != nil {
		return err
	}
	perSecond := d.total / d.members / int(demoRun.Seconds())
	body, err := demoConfig(d.path("in"), d.path("out"), d.path("tmp"), d.members, perSecond)
	if err != nil {
		return err
	}
	d.client.patience = demoDoubt
	rep, err := d.client.do(ctx, request{method: http.MethodPost, path: "/submit-job", body: body, repeatable: true,
		header: map[string]string{"Idempotency-Key": uuid.NewString(), "Content-Type": "application/json"}})
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(rep.body, &j); err != nil || j.JobID == "" {
		return fmt.Errorf("the answer to the submit cannot be read: %s", rep.body)
	}
	d.job = j.JobID
	d.screen.say("job %s submitted: copy %s rows of airports.csv, %s of %d rows/s", j.JobName, grouped(d.total), plural(d.members, "task"), perSecond)
	return nil
}

// watch looks at the job until it has ended, and kills the master in the middle.
func (d *demo) watch(ctx context.Context) error {
	for answered := time.Now(); ; {
		j, c, err := d.look(ctx)
		if err == nil {
			answered = time.Now()
			d.showTasks(j)
			d.showProgress(j, c)
			if end, ok := d.ended(j); ok {
				return end
			}
			if d.killed == nil && d.kill == "master" && j.JobStatus == "RUNNING" && count(j.Metrics.SourceReceivedCount) > d.total/4 {
				if err := d.killMaster(ctx, c); err != nil {
					return err
				}
			}
		}
		if time.Since(answered) > demoDoubt {
			return fmt.Errorf("no answer about the job for %v: %w", demoDoubt, err)
		}
		if err := errors.Join(d.alive(), pause(ctx, demoPoll)); err != nil {
			return err
		}
	}
}

// look asks for the job and the cluster.
func (d *demo) look(ctx context.Context) (j job, c demoCluster, err error) {
	ctx, cancel := context.WithTimeout(ctx, demoLook)
	defer cancel()
	if _, err = d.client.get(ctx, jobPath(d.job), &j); err != nil {
		return j, c, err
	}
	if j.JobStatus == "" {
		return j, c, noSuchJob(d.job)
	}
	_, err = d.client.get(ctx, "/api/v1/cluster", &c)
	return j, c, err
}

// ended tells whether the job has ended, and whether as it should.
func (d *demo) ended(j job) (err error, ok bool) {
	if err, ok = ended(j); !ok || err != nil {
		return err, ok
	}
	undisturbed := 0
	for _, t := range d.tasks {
		if t.attempt == 1 {
			undisturbed++
		}
	}
	d.screen.say("job %s, restarts %s; %d of %s ran through undisturbed", j.JobStatus, j.Restarts, undisturbed, plural(len(d.tasks), "task"))
	switch {
	case d.kill != "master":
		return nil, true
	case d.killed == nil:
		return errors.New("the job ended before the master was killed"), true
	case count(j.Restarts) == 0:
		return errors.New("a task was lost with the master, but none was restarted"), true
	}
	return nil, true
}

// showTasks tells which tasks have moved.
func (d *demo) showTasks(j job) {
	for _, t := range j.Tasks {
		now := demoTask{t.Attempt, t.Member}
		was, known := d.tasks[t.Subtask]
		if t.Member == "" || t.Status != "RUNNING" || was == now {
			continue
		}
		d.tasks[t.Subtask] = now
		if known {
			d.screen.say("task %d was lost with %s and runs again, from its start, on %s (attempt %d)", t.Subtask+1, d.names[was.member], d.names[now.member], t.Attempt)
		} else {
			d.screen.say("task %d runs on %s", t.Subtask+1, d.names[now.member])
		}
	}
}

func (d *demo) showProgress(j job, c demoCluster) {
	rows := count(j.Metrics.SourceReceivedCount)
	if j.JobStatus != "RUNNING" || rows == 0 { // a new master has no figures before the tasks have told it theirs
		return
	}
	d.screen.progress("%s  %5s of %s rows read   master %s, term %d", j.JobStatus, grouped(rows), grouped(d.total), c.MasterName, c.Term)
}

// count reads a count that REST shows as a text; what is not one counts as none.
func count(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// killMaster kills the master and waits for the next one.
func (d *demo) killMaster(ctx context.Context, c demoCluster) error {
	for _, m := range d.children {
		if m.name == c.MasterName {
			d.killed = m
		}
	}
	if d.killed == nil {
		return fmt.Errorf("no child is the master %q", c.MasterName)
	}
	if err := d.reach(d.killed); err != nil {
		return err
	}
	d.screen.say("kill -9 %d: that was %s, the master", d.killed.pid(), d.killed.name)
	began := time.Now()
	d.killed.kill()
	for {
		var now demoCluster
		lctx, cancel := context.WithTimeout(ctx, demoLook)
		_, err := d.client.get(lctx, "/api/v1/cluster", &now)
		cancel()
		switch {
		case err == nil && now.Term > c.Term && now.Master != "" && now.Master != c.Master:
			d.screen.say("%s is the new master, term %d, %d ms after the kill", now.MasterName, now.Term, time.Since(began).Milliseconds())
			return nil
		case time.Since(began) > demoDoubt:
			return fmt.Errorf("no new master after %v", demoDoubt)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}
