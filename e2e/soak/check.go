package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// check asks one member all along, as long as it lives.
func (r *run) check(m *member) {
	rng := rand.New(rand.NewPCG(r.cfg.seed, uint64(m.cmd.Process.Pid)))
	r.checkers.Go(func() {
		for {
			select {
			case <-m.ended:
				return
			default:
			}
			if r.ask(m, rng); pause(r.checking, pollEvery) != nil {
				return
			}
		}
	})
}

// ask asks for both lists and for some jobs, and has the answers judged.
func (r *run) ask(m *member, rng *rand.Rand) {
	ctx := r.checking
	for _, list := range []struct {
		path  string
		judge func(string, time.Time, []view)
	}{{"/running-jobs", r.ledger.running}, {"/finished-jobs", r.ledger.ended}, {"/running-jobs", r.ledger.running}} {
		began := time.Now()
		views, ok, err := read[[]view](ctx, r.fleet, m, list.path)
		if err != nil {
			r.ledger.violate(unanswered, "%v", err)
		}
		if ok {
			list.judge(m.name, began, views)
		}
	}
	ids := r.ledger.ids()
	for range min(len(ids), 3) {
		id := ids[rng.IntN(len(ids))]
		began := time.Now()
		v, ok, err := read[view](ctx, r.fleet, m, "/job-info/"+id)
		if err != nil {
			r.ledger.violate(unanswered, "%v", err)
		}
		if ok {
			r.ledger.shown(m.name, began, id, v, v.JobStatus != "")
		}
	}
}

// leftovers says what of the jobs is left in the cluster besides history.
func (r *run) leftovers(ctx context.Context) error {
	for _, m := range r.fleet.awake() {
		v, ok, err := read[struct {
			Maps []struct {
				Name string
				Size int
			}
		}](ctx, r.fleet, m, "/api/v1/maps")
		if err != nil || !ok {
			return fmt.Errorf("%s does not list its maps: %w", m.name, errNoAnswer)
		}
		for _, x := range v.Maps {
			if most := r.mayStay(x.Name); strings.HasPrefix(x.Name, "engine_") && x.Size > most {
				return fmt.Errorf("%s has %d entries in %s, at most %d may stay", m.name, x.Size, x.Name, most)
			}
		}
	}
	return r.leftFiles()
}

// mayStay is how many entries of a map may be left when all jobs have ended: history, the figures of checkpoints, and what a job that failed can be
// started again from.
func (r *run) mayStay(name string) int {
	failed, checkpointed := r.ledger.keeping()
	switch name {
	case "engine_checkpoint_monitor":
		return checkpointed
	case "engine_checkpoint-id-map":
		return failed
	case "engine_checkpoint_data":
		return failed * maxRetained
	}
	if strings.HasPrefix(name, "engine_finished") {
		return math.MaxInt
	}
	return 0
}

// leftFiles says what is left in the directory of checkpoints of jobs that may have nothing there.
func (r *run) leftFiles() error {
	dirs, err := os.ReadDir(r.checkpoints())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, d := range dirs {
		files := tree(filepath.Join(r.checkpoints(), d.Name()))
		n := 0
		for _, f := range files {
			if strings.Contains(f, ".ckpt ") {
				n++
			}
		}
		most := 0
		if r.ledger.mayKeep(d.Name()) {
			most = maxRetained
		}
		if n > most || most == 0 && len(files) > 0 {
			return fmt.Errorf("job %s has %d checkpoints in files, at most %d may stay: %v", d.Name(), n, most, files)
		}
	}
	return err
}

// forget has the savepoints removed that nobody starts a job from any more.
func (r *run) forget(ctx context.Context) {
	rng := rand.New(rand.NewPCG(r.cfg.seed, 1))
	for _, id := range r.ledger.saved() {
		r.persist(ctx, rng, func(m *member) bool {
			status, body, err := r.fleet.call(ctx, m, http.MethodDelete, "/api/v1/jobs/"+id+"/savepoints", "")
			if err == nil && status != http.StatusOK && status != http.StatusConflict && status < 500 {
				r.ledger.violate(lost, "%s answers the removal of the savepoint of job %s with %d %s", m.name, id, status, body)
				return true
			}
			return err == nil && status == http.StatusOK
		}, "the removal of the savepoint of job "+id)
	}
}

// counts checks that every member counts each accepted job once.
func (r *run) counts(ctx context.Context) {
	want := len(r.ledger.ids())
	for _, m := range r.fleet.awake() {
		o, ok, err := read[struct{ RunningJobs, PendingJobs, FinishedJobs, FailedJobs, CancelledJobs, SavepointDoneJobs, TotalSlot, UnassignedSlot string }](ctx, r.fleet, m, "/overview")
		if err != nil || !ok {
			r.ledger.violate(unanswered, "%s does not answer when all is over: %v", m.name, err)
			continue
		}
		sum := 0
		for _, text := range []string{o.RunningJobs, o.PendingJobs, o.FinishedJobs, o.FailedJobs, o.CancelledJobs, o.SavepointDoneJobs} {
			n, err := strconv.Atoi(text)
			if err != nil {
				n = -1 << 20
			}
			sum += n
		}
		if o.TotalSlot != o.UnassignedSlot {
			r.ledger.violate(orphan, "%s has %s slots, of which %s are free when all jobs have ended", m.name, o.TotalSlot, o.UnassignedSlot)
		}
		if sum != want || o.RunningJobs != "0" || o.PendingJobs != "0" {
			r.ledger.violate(wrongEnd, "%s counts %+v, with %d jobs accepted", m.name, o, want)
		}
	}
}

// committed lists the files that a job has put out, with size and time.
func committed(e *entry) []string {
	var all []string
	for _, o := range outputs {
		all = append(all, tree(filepath.Join(e.dir, o.dir))...)
	}
	return all
}

// tree lists the files below a directory. One that goes while it is being looked at is not there.
func tree(dir string) []string {
	var out []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if st, err := d.Info(); err == nil {
			out = append(out, fmt.Sprintf("%s %d %v", strings.TrimPrefix(path, dir), st.Size(), st.ModTime().UnixNano()))
		}
		return nil
	})
	return out
}

// lines counts how often each line is in the output of a job.
func lines(dir string) map[string]int {
	seen := map[string]int{}
	for _, o := range outputs {
		files, _ := filepath.Glob(filepath.Join(dir, o.dir, "*"))
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				continue
			}
			for s := bufio.NewScanner(f); s.Scan(); {
				seen[o.letter+strings.TrimSpace(s.Text())]++
			}
			_ = f.Close()
		}
	}
	return seen
}
