package engine

import (
	"maps"
	"slices"
	"time"
)

// rounds decides about the checkpoints of one pipeline for one master: when the next is due, whether the one in flight is complete, whether it
// is late. It has no clock and waits for nothing: now is the time since the master began to drive the job. What it decides becomes true by a
// transaction on the job's state, which looks at it again: see completeCheckpoint and its neighbours. A new master starts with new rounds, and so gives
// up what its predecessor had in flight.
type rounds struct {
	interval, timeout, minPause time.Duration

	id    uint64 // in flight; 0: none
	began time.Duration
	ended time.Duration // when the last one ended, however
	acks  map[taskRef]taskPoint
}

// ready reports whether a checkpoint may begin, as far as time tells.
func (r *rounds) ready(now time.Duration) bool {
	return r.interval > 0 && r.id == 0 && now >= r.begins()
}

// begins is when the next checkpoint may begin.
func (r *rounds) begins() time.Duration { return max(r.began+r.interval, r.ended+r.minPause) }

// follow takes note of the state after a step. opened is the checkpoint that a step of this master has opened, if any. It returns the id of one
// that is open and not this master's: nobody collects its answers, so it is to be given up.
func (r *rounds) follow(now time.Duration, p *pipelineState, opened uint64) (orphan uint64) {
	if r.id != 0 && r.id != p.Ckpt.Open {
		r.id, r.acks, r.ended = 0, nil, now
	}
	switch {
	case p.Ckpt.Open == 0 || p.Ckpt.Open == r.id:
		return 0
	case p.Ckpt.Open == opened:
		r.id, r.began, r.acks = opened, now, map[taskRef]taskPoint{}
		return 0
	}
	return p.Ckpt.Open
}

// answer takes the point of a task. One for another checkpoint is of no use.
func (r *rounds) answer(id uint64, ref taskRef, pt taskPoint) {
	if id == r.id && id != 0 {
		r.acks[ref] = pt
	}
}

// result tells what became of the checkpoint in flight: complete, late, or not known yet (nil).
func (r *rounds) result(now time.Duration, p *pipelineState) *observation {
	if r.id == 0 || r.id != p.Ckpt.Open {
		return nil
	}
	missing := r.missing(p)
	o := &observation{kind: obsCkptDone, ref: taskRef{Pipeline: p.ID}, ckpt: r.id, points: maps.Clone(r.acks)}
	switch {
	case len(missing) == 0:
		return o
	case now >= r.began+r.timeout:
		o.kind, o.points, o.late = obsCkptLate, nil, missing
		return o
	}
	return nil
}

// missing lists the running tasks that have not answered.
func (r *rounds) missing(p *pipelineState) []taskRef {
	var out []taskRef
	for i := range p.Tasks {
		t := &p.Tasks[i]
		if _, ok := r.acks[p.ref(t)]; t.Status == TaskRunning && !ok {
			out = append(out, p.ref(t))
		}
	}
	return out
}

// next is when time alone will change something.
func (r *rounds) next() time.Duration {
	if r.id != 0 {
		return r.began + r.timeout
	}
	return r.begins()
}

// canOpen reports whether the state lets a checkpoint begin: all tasks run or have come to their ends, and the last one is done with.
func canOpen(st *jobState, p *pipelineState) bool {
	return st.Status == JobRunning && !st.Cancel && !st.Savepoint && p.Status == TaskRunning && !p.Committing &&
		p.Ckpt.Open == 0 && p.Ckpt.settled() && !p.Ckpt.Broken && hasTask(p, TaskRunning) && steady(p) && !(p.Ckpt.Rescaled && hasTask(p, TaskFinished))
}

// steady reports whether no task of a pipeline is lost, ending, being moved or being started.
func steady(p *pipelineState) bool {
	return !slices.ContainsFunc(p.Tasks, func(t taskState) bool { return !wasRunning(t) || t.Moving && t.Status == TaskRunning })
}
