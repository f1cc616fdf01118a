package rest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"gridnode/engine"
	"gridnode/grid"
)

const (
	loadTimeout  = time.Second // for all workers together; those that do not answer have no load
	maxWorkersOf = 64          // workers that the diagnostics of one job name
)

// workerLoads are the figures of workers' processes, by member id. Those that are not known are not there.
type workerLoads map[string]SystemInfo

// workerLoads asks all workers at once.
func (s *Server) workerLoads(ctx context.Context, workers []engine.WorkerSlots) workerLoads {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	infos, errs := make([]SystemInfo, len(workers)), make([]error, len(workers))
	var asking errgroup.Group
	asking.SetLimit(monitorFanOut)
	for i, w := range workers {
		if errs[i] = context.DeadlineExceeded; w.Silent {
			continue
		}
		asking.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
				infos[i], errs[i] = s.cfg.Grid.SystemInfo(ctx, grid.MemberID(w.MemberID))
			}
			return nil
		})
	}
	_ = asking.Wait() // SystemInfo keeps to its context
	loads := workerLoads{}
	for i, w := range workers {
		if errs[i] == nil {
			loads[w.MemberID] = infos[i]
		}
	}
	return loads
}

// usage returns what part of its processors a worker's machine has work for, over a minute, and what part of the memory that it may take its process has.
// Nil is not known.
func (l workerLoads) usage(member string) (cpu, mem *float64) {
	info, ok := l[member]
	if !ok {
		return nil, nil
	}
	part := func(x float64) *float64 { return new(math.Round(x*1e4) / 1e4) }
	if info.LoadAverage >= 0 {
		cpu = part(info.LoadAverage / float64(max(info.Processors, 1)))
	}
	if info.HeapMax > 0 {
		mem = part(float64(info.HeapUsed) / float64(info.HeapMax))
	}
	return cpu, mem
}

// workerFit says what one worker is to a job that waits; ours.
type workerFit struct {
	Address   string `json:"address"`
	FreeSlots int    `json:"freeSlots"`
	Fits      bool   `json:"fits"`   // it would take a task of the job by itself
	Reason    string `json:"reason"` // why it does not, or why that does not help
}

// workerFits looks at each worker with the eyes of a job that wants so many slots; whole: all of them or none.
func workerFits(v engine.JobView, o engine.Overview, address func(member string) string) []workerFit {
	want, whole := lacking(v), v.StartTime.IsZero()
	room, unbounded := 0, false
	for _, w := range o.Slots {
		if hasTags(w, v.TagFilter) && !w.Silent {
			room, unbounded = room+w.Free(), unbounded || w.Dynamic
		}
	}
	fits := []workerFit{}
	for _, w := range o.Slots {
		if len(fits) == maxWorkersOf {
			break
		}
		f := workerFit{Address: address(w.MemberID), FreeSlots: w.Free()}
		switch missing := missingTags(w, v.TagFilter); {
		case w.Silent:
			f.Reason = "it does not answer for now, and gets no new tasks"
		case missing != "":
			f.Reason = "it does not have the tags " + missing
		case w.Free() == 0 && !w.Dynamic:
			f.Reason = fmt.Sprintf("all of its %d slots are in use", w.Total)
		case whole && !unbounded && room < want:
			f.Fits, f.Reason = true, fmt.Sprintf("the job wants %d slots at once, and the workers that match have %d free", want, room)
		case v.Unreadable:
			f.Fits, f.Reason = true, "the master cannot read the job's config"
		case w.Dynamic:
			f.Fits, f.Reason = true, "it takes any number of tasks"
		default:
			f.Fits, f.Reason = true, "its free slots are kept for jobs that come first, or are given at the next look"
		}
		fits = append(fits, f)
	}
	return fits
}

// missingTags lists the tags of a filter that a worker does not have, with what it has in their place.
func missingTags(w engine.WorkerSlots, filter map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(filter)) {
		switch got, ok := w.Tags[k]; {
		case !ok:
			out = append(out, k+"="+filter[k])
		case got != filter[k]:
			out = append(out, fmt.Sprintf("%s=%s (but %s)", k, filter[k], got))
		}
	}
	return strings.Join(out, ", ")
}

// addresses returns a function that tells a member's address, or its id if it is no member any more.
func (s *Server) addresses() func(member string) string {
	known := map[string]string{}
	if state, err := s.state(); err == nil {
		for _, m := range state.Members {
			known[string(m.ID)] = m.Address
		}
	}
	return func(member string) string { return cmp.Or(known[member], member) }
}
