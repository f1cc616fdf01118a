package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gridnode/engine/plugin"
)

// maxOvertakes is how many jobs that were submitted later may get slots before a job that does not fit yet. After that, what becomes free is
// kept for it, as far as it can ever fit.
const maxOvertakes = 16

// slots knows how many tasks each worker has. It is a view of the states of the live jobs that this master drives, published by their
// drivers, and never an account of its own that could leak.
type slots struct {
	max      int // per worker that does not say how many it has; 0 is no bound
	strategy ScheduleStrategy

	mu      sync.Mutex
	jobs    map[string]*booking // by job id
	changed chan struct{}       // closed and replaced when slots become free
}

// booking is what one job has and wants.
type booking struct {
	used      map[string]int // member id -> tasks
	need      int            // task groups that wait for a worker
	restart   bool           // the job has run: what waits was started before
	tags      map[string]string
	streaming bool // it does not end by itself
	createdMs int64
	overtaken int // jobs submitted later that got slots which this one could have had

	checks    int // how often this master looked whether it fits
	checkedMs int64
}

func newSlots(cfg Config) *slots {
	s := &slots{strategy: cfg.ScheduleStrategy, jobs: map[string]*booking{}, changed: make(chan struct{})}
	if !cfg.DynamicSlot {
		s.max = cfg.SlotNum
	}
	return s
}

// publish notes what a job has and wants as its state says; nil removes the job.
func (s *slots) publish(def *definition, st *jobState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.jobs[def.jobID]
	now := bookingOf(def, st)
	if now != nil && was != nil {
		now.overtaken = max(now.overtaken, was.overtaken)
		now.checks, now.checkedMs = was.checks, was.checkedMs
	}
	if now == nil {
		delete(s.jobs, def.jobID)
	} else {
		s.jobs[def.jobID] = now
	}
	if givesRoom(was, now) {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// checked tells how often this master looked whether a job fits, and when it did last.
func (s *slots) checked(jobID string) (int, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.jobs[jobID]
	if b == nil {
		return 0, time.Time{}
	}
	return b.checks, timeOf(b.checkedMs)
}

// givesRoom reports whether others may have more than before after a job's booking has changed.
func givesRoom(was, now *booking) bool {
	if was == nil || now == nil {
		return was != nil
	}
	for w, n := range was.used {
		if now.used[w] < n {
			return true
		}
	}
	return now.need < was.need && maps.Equal(was.used, now.used)
}

// bookingOf returns nil for a job that neither has nor wants anything.
func bookingOf(def *definition, st *jobState) *booking {
	if st == nil || st.Status.Final() {
		return nil
	}
	b := &booking{
		used: activeBy(st), createdMs: st.CreatedMs, overtaken: st.Overtaken,
		restart: st.Status != JobCreated && st.Status != JobPending,
	}
	if def.plan != nil {
		b.tags, b.streaming = def.plan.Tags, def.plan.Mode == plugin.Streaming
	}
	stopping := st.Cancel || st.Status == JobFailing || st.Status == JobCanceling
	for _, p := range st.Pipelines {
		for i := range p.Tasks {
			if p.Tasks[i].Status == TaskCreated && !stopping && !p.Status.ended() {
				b.need++
			}
		}
	}
	return b
}

// freed returns a channel that is closed when somebody who waits may fit now.
func (s *slots) freed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// bounded reports whether any worker has a fixed number of slots.
func (s *slots) bounded(members []Member) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.Worker && s.slotsOf(m) > 0 })
}

// slotsOf returns the slots of a worker; 0 is no bound.
func (s *slots) slotsOf(m Member) int {
	if m.Slots == 0 {
		return s.max
	}
	return max(m.Slots, 0)
}

// place chooses workers for n tasks of a job and counts them as used until the job is published again. What jobs before it in the queue can
// have now is kept for them.
func (s *slots) place(jobID string, members []Member, n int, all bool) placement {
	s.mu.Lock()
	defer s.mu.Unlock()
	me := s.jobs[jobID]
	if me == nil {
		return placement{reason: "the job is not known yet"}
	}
	me.checks, me.checkedMs = me.checks+1, time.Now().UnixMilli()
	loads := s.loads(members)
	if len(loads) == 0 {
		return placement{reason: "no worker is a member of the cluster", overtaken: me.overtaken}
	}
	reject := all && s.strategy == ScheduleReject
	fit := matching(loads, me.tags)
	if len(fit) == 0 {
		return placement{reason: fmt.Sprintf("no worker has the tags %s", tagText(me.tags)), reject: reject, overtaken: me.overtaken}
	}
	kept := s.keepForOthers(jobID, me, loads)
	workers := spread(matching(kept, me.tags), n, all)
	if workers == nil {
		return placement{reason: shortage(n, me.tags, fit, matching(kept, me.tags)), reject: reject, overtaken: me.overtaken}
	}
	s.noteOvertaken(jobID, me, workers, loads)
	for _, w := range workers {
		me.used[w]++
	}
	me.need -= len(workers)
	return placement{workers: workers}
}

// before reports whether a comes before b in the queue: first what was running already, then by the time of the submit.
func before(aID string, a *booking, bID string, b *booking) int {
	if a.restart != b.restart {
		if a.restart {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.createdMs, b.createdMs), cmp.Compare(aID, bID))
}

// waiting returns the ids of the other jobs that wait before this one, in the order of the queue.
func (s *slots) waiting(jobID string, me *booking) []string {
	var ids []string
	for id, b := range s.jobs {
		if id != jobID && b.need > 0 && before(id, b, jobID, me) < 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(x, y string) int { return before(x, s.jobs[x], y, s.jobs[y]) })
	return ids
}

// keepForOthers returns the loads with the slots taken that are kept for jobs before this one: those that fit now, those that are restarted,
// and those that have been overtaken often enough. Any other one that does not fit holds nobody up.
func (s *slots) keepForOthers(jobID string, me *booking, loads []workerLoad) []workerLoad {
	kept := slices.Clone(loads)
	for _, id := range s.waiting(jobID, me) {
		b := s.jobs[id]
		free := matching(kept, b.tags)
		got := spread(free, b.need, true)
		if got == nil && (b.restart || b.overtaken >= maxOvertakes && s.canFit(b, loads)) {
			got = spread(free, b.need, false)
		}
		for _, w := range got {
			kept[slices.IndexFunc(kept, func(l workerLoad) bool { return l.worker == w })].tasks++
		}
	}
	return kept
}

// canFit reports whether a job fits once all jobs that end by themselves have ended. Otherwise it waits for an operator, not for its turn.
func (s *slots) canFit(b *booking, loads []workerLoad) bool {
	room := 0
	for _, l := range matching(loads, b.tags) {
		if l.slots == 0 {
			return true
		}
		held := 0
		for _, other := range s.jobs {
			if other.streaming {
				held += other.used[l.worker]
			}
		}
		room += max(l.slots-held, 0)
	}
	return room >= b.need
}

// noteOvertaken counts a placement against every job that waits since before and could have used one of the workers.
func (s *slots) noteOvertaken(jobID string, me *booking, workers []string, loads []workerLoad) {
	if me.restart {
		return
	}
	for _, id := range s.waiting(jobID, me) {
		b := s.jobs[id]
		uses := slices.ContainsFunc(matching(loads, b.tags), func(l workerLoad) bool { return slices.Contains(workers, l.worker) })
		if !b.restart && uses && b.overtaken < maxOvertakes {
			b.overtaken++
		}
	}
}

// impossible returns why a job of so many task groups cannot run on the workers that the cluster has, however long it waits; "" if it can,
// or if no worker with its tags is there to judge by.
func (s *slots) impossible(n int, tags map[string]string, members []Member) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	fit := matching(s.loads(members), tags)
	total := 0
	for _, l := range fit {
		if l.slots == 0 {
			return ""
		}
		total += l.slots
	}
	if len(fit) == 0 || n <= total {
		return ""
	}
	on := ""
	if len(tags) > 0 {
		on = " with the tags " + tagText(tags)
	}
	return fmt.Sprintf("the job has %d task groups, and the cluster's %d workers%s have %d slots in all: lower the parallelism, add workers, "+
		"or raise engine.slot-service.slot-num", n, len(fit), on, total)
}

func (s *slots) loads(members []Member) []workerLoad {
	var loads []workerLoad
	for _, m := range members {
		if !m.Worker || m.Leaving || m.Silent {
			continue
		}
		l := workerLoad{worker: m.ID, slots: s.slotsOf(m), tags: m.Tags}
		for _, b := range s.jobs {
			l.tasks += b.used[m.ID]
		}
		loads = append(loads, l)
	}
	return loads
}

// counts returns the slots of each worker, as used by the jobs with these states. Without a bound, exactly the used slots exist.
func (s *slots) counts(members []Member, states map[string]*jobState) []WorkerSlots {
	used := map[string]map[string]int{} // by member and job
	for id, st := range states {
		if !shown(st) {
			continue
		}
		for w, n := range activeBy(st) {
			if used[w] == nil {
				used[w] = map[string]int{}
			}
			used[w][id] = n
		}
	}
	var out []WorkerSlots
	for _, m := range members {
		if !m.Worker || m.Leaving {
			continue
		}
		n := s.slotsOf(m)
		w := WorkerSlots{MemberID: m.ID, Tags: m.Tags, Dynamic: n == 0, Silent: m.Silent, Total: n, Jobs: slices.Sorted(maps.Keys(used[m.ID]))}
		for _, tasks := range used[m.ID] {
			w.Used += tasks
		}
		if w.Dynamic {
			w.Total = w.Used
		}
		out = append(out, w)
	}
	return out
}

// activeBy counts the tasks of a job that hold a slot, by member.
func activeBy(st *jobState) map[string]int {
	used := map[string]int{}
	for _, p := range st.Pipelines {
		for i := range p.Tasks {
			if t := &p.Tasks[i]; t.active() {
				used[t.Worker]++
			}
		}
	}
	return used
}

// shortage says what is missing. fit are the workers that match, kept the same with what is kept for others.
func shortage(n int, tags map[string]string, fit, kept []workerLoad) string {
	total, used, taken := 0, 0, 0
	for i := range fit {
		total, used, taken = total+fit[i].slots, used+min(fit[i].tasks, fit[i].slots), taken+min(kept[i].tasks, fit[i].slots)
	}
	text := fmt.Sprintf("not enough free slots: %d task groups wait, the cluster has %d slots, %d free", n, total, total-used)
	if len(tags) > 0 {
		text = fmt.Sprintf("not enough free slots: %d task groups wait, workers with the tags %s have %d slots, %d free", n, tagText(tags), total, total-used)
	}
	if taken > used {
		text += fmt.Sprintf(", %d of them kept for jobs that come first", taken-used)
	}
	return text
}

func tagText(tags map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, k+"="+tags[k])
	}
	return strings.Join(out, ",")
}

// workerLoad is how many tasks a worker has, and how many it may have.
type workerLoad struct {
	worker string
	tasks  int
	slots  int // 0 is no bound
	tags   map[string]string
}

// matching returns the workers that have all these tags.
func matching(loads []workerLoad, tags map[string]string) []workerLoad {
	var out []workerLoad
	for _, l := range loads {
		if hasTags(l.tags, tags) {
			out = append(out, l)
		}
	}
	return out
}

// hasTags reports whether all that is wanted is there, with exactly these values.
func hasTags(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// spread chooses a worker for each of n tasks, always the least loaded one that has a slot. It returns as many as fit, or with all either n or
// none. Among equals the first in loads comes first.
func spread(loads []workerLoad, n int, all bool) []string {
	loads = slices.Clone(loads)
	var out []string
	for range n {
		best := -1
		for i, l := range loads {
			if (l.slots == 0 || l.tasks < l.slots) && (best < 0 || l.tasks < loads[best].tasks) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		loads[best].tasks++
		out = append(out, loads[best].worker)
	}
	if all && len(out) < n {
		return nil
	}
	return out
}
