package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"time"
)

// job submits one job, and leads it through all of its legs.
func (r *run) job(ctx context.Context, n int, j planned, began time.Time) {
	if pause(ctx, time.Until(began.Add(j.at))) != nil {
		return
	}
	dir := filepath.Join(r.dir, fmt.Sprintf("job-%03d", n))
	rng := rand.New(rand.NewPCG(r.cfg.seed, uint64(n)))
	id := r.submit(ctx, rng, n, 0, "", j.config(dir, 0))
	if id == "" {
		return
	}
	r.ledger.accepted(id, j, dir)
	for leg := 0; r.leg(ctx, rng, id, j, leg); leg++ {
		r.ledger.again(id)
		if r.submit(ctx, rng, n, leg+1, id, j.config(dir, leg+1)) != id {
			return
		}
		r.ledger.resumed(id)
	}
}

// submit has a leg of a job taken and returns the job's id, or "". Legs after the first go on from the job's savepoint.
func (r *run) submit(ctx context.Context, rng *rand.Rand, n, leg int, id, body string) string {
	path, got := "/submit-job", ""
	if leg > 0 {
		path += "?isStartWithSavePoint=true&jobId=" + id
	}
	what := fmt.Sprintf("the submit of job %d, leg %d", n, leg)
	r.persist(ctx, rng, func(m *member) bool {
		status, answer, err := r.fleet.call(ctx, m, http.MethodPost, path, body, "Idempotency-Key", fmt.Sprintf("soak-%d-%d-%d", r.cfg.seed, n, leg))
		var v struct{ JobID string }
		switch {
		case err != nil || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
			return false
		case leg > 0 && status == http.StatusConflict:
			return false // the last leg is still being cleaned up
		case status != http.StatusOK || json.Unmarshal(answer, &v) != nil || v.JobID == "":
			r.ledger.violate(unanswered, "%s answers %s (%s) with %d %s", m.name, what, id, status, answer)
		}
		got = v.JobID
		return true
	}, what)
	return got
}

// leg lets a job run until it is to be stopped, stops it, and reports whether another leg follows.
func (r *run) leg(ctx context.Context, rng *rand.Rand, id string, j planned, leg int) bool {
	switch {
	case j.saved() && !j.last(leg):
		if pause(ctx, j.stopAfter) != nil {
			return false
		}
		r.halt(ctx, rng, id, true)
	case j.kind == savedStream, j.kind == ckptStream && j.whole:
		if !r.awaitRows(ctx, id, j.all()) {
			return false
		}
		r.halt(ctx, rng, id, j.saved())
	case j.kind == canceled, j.kind == streaming, j.kind == ckptStream:
		if pause(ctx, j.stopAfter) != nil {
			return false
		}
		r.halt(ctx, rng, id, false)
	}
	if !j.saved() || j.last(leg) {
		return false
	}
	end := r.awaitEnd(ctx, id)
	if end == "" {
		r.ledger.violate(wrongEnd, "leg %d of job %s (%s) has come to no end within %v", leg, id, j.kind, legLimit)
	}
	return end == "SAVEPOINT_DONE"
}

// halt stops a job, with a savepoint or without. A job that has ended already is left alone.
func (r *run) halt(ctx context.Context, rng *rand.Rand, id string, savepoint bool) {
	r.ledger.stopped(id)
	r.persist(ctx, rng, func(m *member) bool {
		status, body, err := r.fleet.call(ctx, m, http.MethodPost, "/stop-job", fmt.Sprintf(`{"jobId":%q,"isStopWithSavePoint":%t}`, id, savepoint))
		switch {
		case err != nil || status >= 500:
			return false
		case status == http.StatusConflict:
			return !savepoint || r.ledger.endOf(id) != "" // else it does not run yet
		case status != http.StatusOK:
			r.ledger.violate(unanswered, "%s answers the stop of job %s with %d %s", m.name, id, status, body)
		}
		return true
	}, "the stop of job "+id)
}

// awaitRows waits until a running job has put out that many different rows.
func (r *run) awaitRows(ctx context.Context, id string, want int) bool {
	dir, n := r.dirOf(id), 0
	for end := time.Now().Add(r.cfg.waits(legLimit)); time.Now().Before(end); {
		if n = len(lines(dir)); n >= want {
			r.ledger.filled(id)
			return true
		}
		if r.ledger.endOf(id) != "" || pause(ctx, pollEvery) != nil {
			return false
		}
	}
	r.ledger.violate(lost, "job %s has put out %d of %d rows, and no more within %v", id, n, want, legLimit)
	return true // so that it ends
}

// awaitEnd waits for the end of a leg.
func (r *run) awaitEnd(ctx context.Context, id string) string {
	for end := time.Now().Add(r.cfg.waits(legLimit)); time.Now().Before(end); {
		if s := r.ledger.endOf(id); s != "" {
			return s
		}
		if pause(ctx, pollEvery) != nil {
			break
		}
	}
	return ""
}
