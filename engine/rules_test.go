package engine

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// Rules looks at a store after each transaction that was applied to it, and notes each invariant of the life cycle that it breaks: those of I1 to
// I25 that can be seen in what is stored. It is for stores that apply one transaction at a time.
type Rules struct {
	mu   sync.Mutex
	off  bool
	jobs map[string]*ruled // by job id
	bad  []string
}

// ruled is what was seen of one job.
type ruled struct {
	last      snapshot
	ended     map[string]JobStatus // by incarnation
	forgotten map[string]bool      // incarnations whose record is gone
	known     map[string]bool      // all incarnations so far
}

// NewRules returns rules that have seen nothing.
func NewRules() *Rules { return &Rules{jobs: map[string]*ruled{}} }

// Off makes the rules look away: a test changes the store itself.
func (r *Rules) Off() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off = true
}

// Broken returns what was noted.
func (r *Rules) Broken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bad)
}

// Ends returns how many incarnations have come to an end.
func (r *Rules) Ends() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, j := range r.jobs {
		n += len(j.ended)
	}
	return n
}

// Applied looks at the job of a transaction. get reads the store as it is now, and nothing else is applied meanwhile.
func (r *Rules) Applied(get func(Key) Entry, t Txn) {
	id := ""
	for _, p := range t.Put {
		id = p.Key.Place
	}
	for _, k := range t.Delete {
		id = k.Place
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if id == "" || r.off {
		return
	}
	j := r.jobs[id]
	if j == nil {
		j = &ruled{last: snapshot{jobID: id}, ended: map[string]JobStatus{}, forgotten: map[string]bool{}, known: map[string]bool{}}
		r.jobs[id] = j
	}
	next, err := snapshotOf(id, get)
	if err != nil {
		r.bad = append(r.bad, fmt.Sprintf("job %s: stored bytes cannot be read: %v", id, err))
		return
	}
	note := func(format string, args ...any) {
		r.bad = append(r.bad, fmt.Sprintf("job %s: ", id)+fmt.Sprintf(format, args...))
	}
	j.state(next, note)
	j.entries(next, note)
	j.resumed(next, t, note)
	checkpointsStored(next, get, note)
	j.record(next, note)
	j.gone(next, note)
	j.last = next
}

func snapshotOf(id string, get func(Key) Entry) (snapshot, error) {
	s := snapshot{jobID: id}
	for _, err := range []error{
		load(get(keyOf(MapRunningJobInfo, id)), &s.info), load(get(keyOf(MapRunningJobState, id)), &s.state),
		load(get(keyOf(MapStateTimestamps, id)), &s.times), load(get(keyOf(MapPendingJobCleanup, id)), &s.record),
		load(get(keyOf(MapFinishedJobState, id)), &s.history),
	} {
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// state checks the step from the last state to the next one.
func (j *ruled) state(next snapshot, note func(string, ...any)) {
	st, was := next.state, j.last.state
	if st == nil {
		return
	}
	k := st.Incarnation
	if end, ok := j.ended[k]; ok && st.Status != end {
		note("I2: %s was stored as the end, and now the state is %s", end, st.Status)
	}
	if st.Status.Final() && j.ended[k] == "" {
		j.ended[k] = st.Status
		if next.record == nil || next.record.Incarnation != k {
			note("I8: ended %s without a cleanup record in the same step", st.Status)
		}
		if st.Status == JobCanceled && !st.Cancel {
			note("I4: CANCELED without a cancel")
		}
		if st.Status == JobSavepointDone && !st.Savepoint || st.Status == JobFinished && st.Savepoint {
			note("I4: ended %s, and the intent to stop with a savepoint is %v", st.Status, st.Savepoint)
		}
		if st.Status == JobFailed && st.Cause == "" || st.EndedMs == 0 {
			note("I7: ended %s, cause %q, at %d", st.Status, st.Cause, st.EndedMs)
		}
	}
	if was == nil {
		return
	}
	if was.Incarnation != k {
		note("I11: incarnation %s is written over %s", k, was.Incarnation)
		return
	}
	if st.Term < was.Term {
		note("I12: the term goes back from %d to %d", was.Term, st.Term)
	}
	if was.Cancel && !st.Cancel {
		note("I25: the cancel is gone")
	}
	if was.Savepoint && !st.Savepoint {
		note("I25: the intent to stop with a savepoint is gone")
	}
	if st.Status == JobDoingSavepoint && !st.Savepoint {
		note("I4: DOING_SAVEPOINT without an intent to")
	}
	j.steps(st, was, note)
}

func (j *ruled) steps(st, was *jobState, note func(string, ...any)) {
	if was.Status.Final() && !bytes.Equal(encode(was), encode(st)) {
		note("I2: the state of a job that is %s changed", was.Status)
	}
	for i := range min(len(st.Pipelines), len(was.Pipelines)) {
		p, q := &was.Pipelines[i], &st.Pipelines[i]
		if q.Restarts < p.Restarts {
			note("I12: the restarts of pipeline %d go back from %d to %d", q.ID, p.Restarts, q.Restarts)
		}
		if a, b := p.Ckpt, q.Ckpt; b.Next < a.Next || b.Done < a.Done || a.Final != 0 && b.Final != 0 && b.Final < a.Final {
			note("I12: the checkpoints of pipeline %d go back from %+v to %+v", q.ID, a, b)
		} else if a.Done == b.Done && (a.Committed && !b.Committed || a.Broken && !b.Broken) {
			note("I12: what became of checkpoint %d of pipeline %d is taken back: %+v, then %+v", a.Done, q.ID, a, b)
		}
		for n := range min(len(p.Tasks), len(q.Tasks)) {
			a, b := &p.Tasks[n], &q.Tasks[n]
			switch {
			case b.Attempt < a.Attempt:
				note("I13: attempts of a task go back from %d to %d", a.Attempt, b.Attempt)
			case b.Attempt > a.Attempt && was.Cancel:
				note("I25: attempt %d after the cancel", b.Attempt)
			case b.Attempt > a.Attempt && was.Savepoint && !p.Ckpt.Rescaled && p.Ckpt.Done != 0:
				note("I25: attempt %d after the intent to stop with a savepoint", b.Attempt)
			case b.Moving && !a.Moving && was.Savepoint:
				note("I25: attempt %d is moved after the intent to stop with a savepoint", b.Attempt)
			}
		}
	}
}

// entries checks that the entries of one job belong together, and go in their order.
func (j *ruled) entries(next snapshot, note func(string, ...any)) {
	for _, k := range next.incarnations() {
		j.known[k] = true
		if j.forgotten[k] {
			note("I15: entries of incarnation %s came back after its cleanup", k)
		}
	}
	if next.state != nil && next.times != nil && next.state.Incarnation != next.times.Incarnation {
		note("I11: timestamps of incarnation %s beside a state of %s", next.times.Incarnation, next.state.Incarnation)
	}
	if next.state != nil && next.info != nil && next.state.Incarnation != next.info.Incarnation {
		note("I11: info of incarnation %s beside a state of %s", next.info.Incarnation, next.state.Incarnation)
	}
	if j.last.info != nil && next.info == nil && next.state != nil {
		note("I9: the info goes before the state")
	}
	if j.last.state != nil && next.state == nil && next.times != nil {
		note("I9: the state goes before the timestamps")
	}
	if was := j.last.state; was != nil && !was.Status.Final() && (next.state == nil || next.info == nil && j.last.info != nil) {
		note("I20: an accepted job that is %s lost its state or its info", was.Status)
	}
	if i := next.info; i != nil && next.state == nil && j.ended[i.Incarnation] == "" {
		note("I20: an accepted job has an info and no state")
	}
	if h := next.history; h != nil && j.ended[h.View.Incarnation] != h.View.Status {
		note("I3: the history says %s, the end was %q", h.View.Status, j.ended[h.View.Incarnation])
	}
}

// resumed checks the start of an ended id from its checkpoints: it alone may take the history of the run before away, and it begins where one of them is.
func (j *ruled) resumed(next snapshot, t Txn, note func(string, ...any)) {
	i, st, old := next.info, next.state, j.last.history
	if i == nil || st == nil || j.last.info != nil {
		return
	}
	if i.Savepoint != slices.ContainsFunc(st.Pipelines, func(p pipelineState) bool { return p.Ckpt.Done != 0 }) {
		note("I11: a new run that is to go on from a checkpoint (%v) begins with %+v", i.Savepoint, st.Pipelines)
	}
	if st.Savepoint || st.Cancel {
		note("I11: a new run begins with an intent to stop it")
	}
	if !slices.Contains(t.Delete, keyOf(MapFinishedJobState, next.jobID)) {
		return
	}
	if !i.Savepoint {
		note("I11: a history goes for a run that does not go on from a checkpoint")
	}
	if old != nil && old.View.Status == JobFinished {
		note("I24: a job that is %s goes on", old.View.Status)
	}
}

// checkpointsStored checks that what tasks go on from, and a savepoint that is done, is there.
func checkpointsStored(next snapshot, get func(Key) Entry, note func(string, ...any)) {
	st := next.state
	if st == nil || st.Status.Final() && st.Status != JobSavepointDone {
		return
	}
	for _, p := range st.Pipelines {
		id := p.Ckpt.Done
		if st.Status.Final() {
			if id = p.Ckpt.Final; id == 0 {
				note("I24: SAVEPOINT_DONE, and pipeline %d has no savepoint", p.ID)
			}
		}
		if id != 0 && get(dataKey(next.jobID, st.Incarnation, p.ID, id)).Version == 0 {
			note("I24: the job is %s, and checkpoint %d of pipeline %d is not stored", st.Status, id, p.ID)
		}
	}
}

// incarnations lists those of the entries that only a live or ending job has.
func (s snapshot) incarnations() []string {
	var out []string
	if s.info != nil {
		out = append(out, s.info.Incarnation)
	}
	if s.state != nil {
		out = append(out, s.state.Incarnation)
	}
	if s.times != nil {
		out = append(out, s.times.Incarnation)
	}
	return out
}

func (j *ruled) record(next snapshot, note func(string, ...any)) {
	r := next.record
	if r == nil {
		return
	}
	switch end := j.ended[r.Incarnation]; {
	case end == "":
		note("I4: a cleanup record for incarnation %s, which has not ended", r.Incarnation)
	case end != r.Status:
		note("I3: the record says %s, the end was %s", r.Status, end)
	}
	if was := j.last.record; was != nil && was.Incarnation == r.Incarnation && forgets(was, r) {
		note("I17: the record forgets what was done: %+v after %+v", r, was)
	}
	if r.HistoryDone && next.history == nil && next.state != nil {
		note("I7: the record says that there is a history, and there is none")
	}
}

// forgets reports whether a record takes back what the one before it said. Failures are counted anew for each step that is done.
func forgets(was, now *cleanupRecord) bool {
	stepped := now.HistoryDone != was.HistoryDone || now.Artefacts != was.Artefacts
	return was.HistoryDone && !now.HistoryDone || was.Artefacts && !now.Artefacts || was.Attempts > now.Attempts && !stepped
}

// gone checks what may be missing once the record is.
func (j *ruled) gone(next snapshot, note func(string, ...any)) {
	if h := next.history; h != nil {
		if was := j.last.history; was != nil && was.View.Incarnation == h.View.Incarnation && !reflect.DeepEqual(was, h) {
			note("I2: the history of an ended job changed: %+v, then %+v", was, h)
		}
	}
	was := j.last.record
	if was == nil || next.record != nil && next.record.Incarnation == was.Incarnation {
		for _, k := range next.incarnations() {
			if j.ended[k] != "" && (next.record == nil || next.record.Incarnation != k) {
				note("I8: incarnation %s has ended and has entries, and no record names them", k)
			}
		}
		return
	}
	j.forgotten[was.Incarnation] = true
	if slices.Contains(next.incarnations(), was.Incarnation) {
		note("I8: the record goes before what it names")
	}
	if next.history == nil {
		note("I7: the record goes, and no history says how the job ended")
	}
}

// StateIn returns the state that a transaction writes, as tests outside may see it; ok is false if it writes none.
func StateIn(t Txn) (status JobStatus, committing, ok bool) {
	for _, p := range t.Put {
		var st jobState
		if p.Key.Map == MapRunningJobState && decode(p.Value, &st) == nil {
			committing = len(st.Pipelines) > 0
			for _, p := range st.Pipelines {
				committing = committing && p.Committing
			}
			return st.Status, committing, true
		}
	}
	return "", false, false
}
