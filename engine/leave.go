package engine

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// drainPoll is how often a member that leaves looks whether its tasks are gone.
const drainPoll = 50 * time.Millisecond

// leaversOf returns the ids of the members that are leaving, and whether a worker with these tags stays.
func leaversOf(members []Member, tags map[string]string) (leaving map[string]bool, elsewhere bool) {
	for _, m := range members {
		switch {
		case m.Leaving && leaving == nil:
			leaving = map[string]bool{m.ID: true}
		case m.Leaving:
			leaving[m.ID] = true
		case m.Worker && hasTags(m.Tags, tags):
			elsewhere = true
		}
	}
	return leaving, elsewhere
}

// markParting marks attempts on members that are leaving: their loss will cost no restart. If another worker may have them, they are stopped,
// to be started there; otherwise they go on as long as their member is there. Those of a job that is being stopped with a savepoint are left alone:
// they end by themselves, and the member waits for that.
func (d *decider) markParting() {
	if d.stopping() || d.st.Savepoint {
		return
	}
	for i := range d.st.Pipelines {
		p := &d.st.Pipelines[i]
		for j := range p.Tasks {
			t := &p.Tasks[j]
			if d.w.leaving[t.Worker] && (t.Status == TaskDeploying || t.Status == TaskRunning) {
				t.Parting = true
				t.Moving = t.Moving || d.w.elsewhere
			}
		}
	}
}

// startElsewhere has an attempt on a leaving member, which has ended or was lost, followed by another one, without a restart of its pipeline.
func (d *decider) startElsewhere(t *taskState) {
	t.Parting, t.Moving = false, false
	t.turn(TaskFailed)
	t.turn(TaskCreated)
}

// Drain returns when this member, which is leaving, runs no task any more that can be moved to another member, and all its reports were taken.
// The master moves them; Drain only waits. If ctx ends before, it says how many tasks are left.
func (s *Service) Drain(ctx context.Context) error {
	for {
		left := s.worker.movable(ctx)
		if left == 0 {
			return nil
		}
		if sleep(ctx, drainPoll) != nil {
			return fmt.Errorf("%d tasks were not moved in time: %w", left, context.Cause(ctx))
		}
	}
}

// movable counts the executions that still may be moved away. What is not known counts, unless all members are leaving: then nobody can take a task,
// and what says so may have gone with those who left first.
func (w *worker) movable(ctx context.Context) int {
	byJob := map[string][]*execution{}
	w.mu.Lock()
	for _, e := range w.execs {
		byJob[e.key.jobID] = append(byJob[e.key.jobID], e)
	}
	w.mu.Unlock()
	n := 0
	for id, execs := range byJob {
		st, err := w.state(ctx, id)
		if err != nil && w.nobodyStays() {
			continue
		}
		for _, e := range execs {
			if err != nil || !settled(st, e.key.incarnation, e.ref) && !staysBehind(st, e.ref) || e.is() == starting {
				n++
			}
		}
	}
	return n
}

// nobodyStays reports whether all members are leaving, or are gone.
func (w *worker) nobodyStays() bool {
	members, _ := w.cfg.Cluster.Members()
	self := w.cfg.Cluster.Self()
	return !slices.ContainsFunc(members, func(m Member) bool { return m.ID != self && !m.Leaving })
}

// staysBehind reports whether the master has decided that an attempt on a leaving member has nowhere to go.
func staysBehind(st *jobState, ref taskRef) bool {
	_, t := st.task(ref)
	return t.Parting && !t.Moving
}
