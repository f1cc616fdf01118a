package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// slots knows how many tasks each worker has. It is a view of the states of the live jobs that this master drives, published by their
// drivers, and never an account of its own that could leak.
type slots struct {
	max      int // per worker; 0 is no bound
	strategy ScheduleStrategy

	mu      sync.Mutex
	used    map[string]map[string]int // job id -> member id -> tasks
	waiting map[string]queued         // jobs that did not fit, by id
	changed chan struct{}             // closed and replaced when slots become free
}

// queued is a job that waits for slots.
type queued struct {
	need      int
	createdMs int64
}

func newSlots(cfg Config) *slots {
	s := &slots{strategy: cfg.ScheduleStrategy, used: map[string]map[string]int{}, waiting: map[string]queued{}, changed: make(chan struct{})}
	if !cfg.DynamicSlot {
		s.max = cfg.SlotNum
	}
	return s
}

// publish notes the usage of a job as its state has it; nil removes the job.
func (s *slots) publish(jobID string, st *jobState) {
	use := map[string]int{}
	if st != nil && !st.Status.Final() {
		for _, p := range st.Pipelines {
			for i := range p.Tasks {
				if p.Tasks[i].active() {
					use[p.Tasks[i].Worker]++
				}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st == nil || st.Status.Final() || len(use) > 0 {
		delete(s.waiting, jobID)
	}
	if maps.Equal(s.used[jobID], use) {
		return
	}
	s.used[jobID] = use
	if len(use) == 0 {
		delete(s.used, jobID)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// freed returns a channel that is closed when the usage changes.
func (s *slots) freed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// place chooses workers for n tasks of a job and counts them as used until the job is published again. An older job that waits and
// would fit comes first.
func (s *slots) place(jobID string, st *jobState, members []Member, n int, all bool) placement {
	s.mu.Lock()
	defer s.mu.Unlock()
	loads := s.loads(members)
	if len(loads) == 0 {
		return placement{reason: "no worker is a member of the cluster"}
	}
	me := queued{need: n, createdMs: st.CreatedMs}
	free := s.reserveForOlder(jobID, me, loads)
	workers := spread(free, n, s.max, all)
	if workers == nil {
		if all {
			s.waiting[jobID] = me
		}
		total := s.max * len(loads)
		return placement{
			reason: fmt.Sprintf("not enough free slots: %d task groups wait, the cluster has %d slots, %d free", n, total, total-sum(loads)),
			reject: s.strategy == ScheduleReject,
		}
	}
	delete(s.waiting, jobID)
	use := maps.Clone(s.used[jobID])
	if use == nil {
		use = map[string]int{}
	}
	for _, w := range workers {
		use[w]++
	}
	s.used[jobID] = use
	return placement{workers: workers}
}

// reserveForOlder sets slots aside for older jobs that wait and fit; one that cannot fit now holds nobody up.
func (s *slots) reserveForOlder(jobID string, me queued, loads []workerLoad) []workerLoad {
	older := slices.DeleteFunc(slices.Collect(maps.Keys(s.waiting)), func(id string) bool {
		return id == jobID || s.waiting[id].createdMs >= me.createdMs
	})
	slices.SortFunc(older, func(a, b string) int { return cmp.Compare(s.waiting[a].createdMs, s.waiting[b].createdMs) })
	free := slices.Clone(loads)
	for _, id := range older {
		for _, w := range spread(free, s.waiting[id].need, s.max, true) {
			free[slices.IndexFunc(free, func(l workerLoad) bool { return l.worker == w })].tasks++
		}
	}
	return free
}

func (s *slots) loads(members []Member) []workerLoad {
	var loads []workerLoad
	for _, m := range members {
		if m.Worker && !m.Leaving {
			loads = append(loads, workerLoad{worker: m.ID})
		}
	}
	for _, use := range s.used {
		for i := range loads {
			loads[i].tasks += use[loads[i].worker]
		}
	}
	return loads
}

// counts returns the slots in all and those that are free. Without a bound, exactly the used slots exist.
func (s *slots) counts(members []Member) (total, free int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	loads := s.loads(members)
	used := sum(loads)
	if s.max == 0 {
		return used, 0
	}
	return s.max * len(loads), max(s.max*len(loads)-used, 0)
}

func sum(loads []workerLoad) int {
	n := 0
	for _, l := range loads {
		n += l.tasks
	}
	return n
}
