package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// modelFault is a way in which the machine of checkpoints could be wrong. The model must notice each.
type modelFault int

const (
	correct         modelFault = iota
	commitTooEarly             // output is made visible when all tasks have answered, before that is durable
	restoreOlder               // a new attempt goes on from the checkpoint before the newest
	restoreNothing             // a new attempt begins at the start
	forgetAborted              // a task drops what it prepared for a checkpoint that was given up
	acceptAnyAnswer            // an answer counts whatever checkpoint it is for
	commitOnce                 // a commit whose outcome is unknown is not repeated
)

// ckptModel is a pipeline of tasks that count, its state, its checkpoints and its output, with everything that can go wrong drawn.
type ckptModel struct {
	fault   modelFault
	draw    func(n int, what string) int
	rows    int
	batch   bool
	st      *jobState
	data    map[uint64]*checkpointData
	visible map[string]int // row -> times
	done    map[string]bool
	r       rounds
	now     time.Duration
	members map[string]bool
	born    int // members ever
	tasks   map[taskRef]*modelTask
	obs     []observation // not yet applied
	opened  uint64
	answers []modelAnswer // that were sent; each may arrive late, and twice
}

type modelAnswer struct {
	id    uint64
	ref   taskRef
	point taskPoint
}

// modelTask is an attempt at work.
type modelTask struct {
	ref     taskRef
	worker  string
	pos     int
	from    int // of the part that is being written
	parts   int
	pending []modelPart
	asked   uint64
	point   *taskPoint // the last answer, kept to be sent again
	ended   bool
}

type modelPart struct {
	id  uint64
	out preparedOutput
}

func newModel(draw func(int, string) int, fault modelFault) *ckptModel {
	m := &ckptModel{fault: fault, draw: draw, rows: 12, data: map[uint64]*checkpointData{}, visible: map[string]int{}, done: map[string]bool{},
		members: map[string]bool{}, tasks: map[taskRef]*modelTask{}}
	m.batch = draw(2, "batch") == 1
	m.st = testState(1, 1+draw(3, "tasks"))
	for range 3 {
		m.join()
	}
	m.lead()
	return m
}

func (m *ckptModel) join() { m.born++; m.members[fmt.Sprintf("m%d", m.born)] = true }

// lead lets a new master begin: it remembers nothing.
func (m *ckptModel) lead() {
	m.r = rounds{interval: 10, timeout: 30, minPause: 1, began: m.now}
	m.opened = 0
	m.st.Term++
}

// world gives tasks to members at random.
func (m *ckptModel) world() world {
	return world{
		members: m.members, retryTimes: 1 << 20, nowMs: 5, held: func(*pipelineState) bool { return false },
		place: func(n int, _ bool) (p placement) {
			for range n {
				p.workers = append(p.workers, m.someone())
			}
			return p
		},
		checkpointDue: func(*pipelineState) bool { return m.r.ready(m.now) },
	}
}

func (m *ckptModel) someone() string {
	k := m.draw(len(m.members), "worker")
	for i := 1; ; i++ {
		if id := fmt.Sprintf("m%d", i); m.members[id] {
			if k == 0 {
				return id
			}
			k--
		}
	}
}

// step is one transaction of the master.
func (m *ckptModel) step() {
	p := &m.st.Pipelines[0]
	if o := m.r.result(m.now, p); o != nil {
		m.obs = append(m.obs, *o)
	}
	obs := m.obs
	m.obs = nil
	next := decide(m.st, obs, m.world())
	q := &next.Pipelines[0]
	if q.Ckpt.Done != p.Ckpt.Done {
		m.data[q.Ckpt.Done] = &checkpointData{ID: q.Ckpt.Done, Tasks: pointsOf(m.data[p.Ckpt.Done], q)}
	}
	if p.Ckpt.Open != q.Ckpt.Open && q.Ckpt.Open != 0 {
		m.opened = q.Ckpt.Open
	}
	m.st = next
	if orphan := m.r.follow(m.now, &m.st.Pipelines[0], m.opened); orphan != 0 {
		m.obs = append(m.obs, observation{kind: obsCkptAbort, ref: taskRef{Pipeline: 1}, ckpt: orphan})
	}
}

// call does one of the calls that are due, with an outcome that the master may not learn.
func (m *ckptModel) call() {
	calls := dueCalls(m.st, m.batch, func(taskRef) bool { return true })
	if len(calls) == 0 {
		return
	}
	c := calls[m.draw(len(calls), "call")]
	lost := m.draw(4, "answer lost") == 0
	p, t := m.st.task(c.ref)
	tell := func(o observation) {
		if !lost {
			m.obs = append(m.obs, o)
		}
	}
	switch c.kind {
	case callDeploy:
		if m.members[c.worker] && m.tasks[c.ref] == nil && t.Status == TaskDeploying {
			m.start(c.ref, c.worker)
		}
		if m.tasks[c.ref] != nil {
			tell(observation{kind: obsRunning, ref: c.ref})
		}
	case callCancel:
		if x := m.tasks[c.ref]; x != nil {
			x.ended = true
			tell(observation{kind: obsEnded, ref: c.ref, status: TaskCanceled})
		}
	case callBarrier:
		if x := m.tasks[c.ref]; x != nil && !x.ended && m.members[c.worker] {
			m.barrier(x, c.ckpt)
			m.answers = append(m.answers, modelAnswer{c.ckpt, c.ref, *x.point})
			if !lost {
				m.answer(len(m.answers) - 1)
			}
		}
	case callCkptCommit:
		for _, pt := range m.data[c.ckpt].Tasks {
			m.commitAll(pt.Prepared)
		}
		if m.fault == commitOnce && m.draw(2, "commit fails") == 0 {
			lost = false
		}
		tell(observation{kind: obsCkptCommitted, ref: c.ref, ckpt: c.ckpt})
	case callCheck:
		tell(observation{kind: obsChecked, ref: c.ref})
	case callCommit:
		m.commitAll(t.Prepared)
		tell(observation{kind: obsCommitted, ref: c.ref})
	}
	_ = p
}

// answer lets an answer arrive.
func (m *ckptModel) answer(i int) {
	a := m.answers[i]
	if m.fault == acceptAnyAnswer {
		a.id = m.r.id
	}
	m.r.answer(a.id, a.ref, a.point)
	if o := m.r.result(m.now, &m.st.Pipelines[0]); m.fault == commitTooEarly && o != nil {
		for _, pt := range o.points {
			m.commitAll(pt.Prepared)
		}
	}
}

func (m *ckptModel) start(ref taskRef, worker string) {
	x := &modelTask{ref: ref, worker: worker}
	id := m.st.Pipelines[0].Ckpt.Done
	switch m.fault {
	case restoreOlder:
		if id > 1 {
			id--
		}
	case restoreNothing:
		id = 0
	}
	if pt := m.data[id].point(ref.Source, ref.Subtask); pt != nil {
		x.pos = int(pt.Position[0])
	}
	x.from = x.pos
	m.tasks[ref] = x
}

// barrier cuts a task's output, once for each checkpoint.
func (m *ckptModel) barrier(x *modelTask, id uint64) {
	if id <= x.asked {
		return
	}
	x.asked = id
	if m.fault == forgetAborted {
		x.pending = nil
	}
	last := uint64(0)
	if c := m.st.Pipelines[0].Ckpt; c.Committed {
		last = c.Done
	}
	kept := x.pending[:0]
	for _, part := range x.pending {
		if part.id > last {
			kept = append(kept, part)
		}
	}
	x.pending = append(kept, modelPart{id, m.cut(x)})
	x.point = &taskPoint{Source: x.ref.Source, Subtask: x.ref.Subtask, Position: []byte{byte(x.pos)}, Prepared: prepared(x)}
}

func (m *ckptModel) cut(x *modelTask) preparedOutput {
	x.parts++
	out := preparedOutput{Data: fmt.Appendf(nil, "%d/%d/%d:%d-%d", x.ref.Subtask, x.ref.Attempt, x.parts, x.from, x.pos)}
	x.from = x.pos
	return out
}

func prepared(x *modelTask) (out []preparedOutput) {
	for _, part := range x.pending {
		out = append(out, part.out)
	}
	return out
}

// commitAll makes parts visible, each once however often it is asked.
func (m *ckptModel) commitAll(outs []preparedOutput) {
	for _, o := range outs {
		if m.done[string(o.Data)] {
			continue
		}
		if m.fault == commitOnce && m.draw(3, "disk full") == 0 {
			continue
		}
		m.done[string(o.Data)] = true
		var task, attempt, part, from, to int
		if _, err := fmt.Sscanf(string(o.Data), "%d/%d/%d:%d-%d", &task, &attempt, &part, &from, &to); err != nil {
			panic(err)
		}
		for i := from; i < to; i++ {
			m.visible[fmt.Sprintf("%d/%d", task, i)]++
		}
	}
}

// work lets one task make a row, or come to its end.
func (m *ckptModel) work() {
	p := &m.st.Pipelines[0]
	t := &p.Tasks[m.draw(len(p.Tasks), "task")]
	x := m.tasks[p.ref(t)]
	switch {
	case x == nil || x.ended || !m.members[x.worker]:
	case x.pos < m.rows:
		x.pos++
	case m.batch:
		x.ended = true
		x.pending = append(x.pending, modelPart{1 << 40, m.cut(x)})
		m.report(x)
	}
}

func (m *ckptModel) report(x *modelTask) {
	m.obs = append(m.obs, observation{kind: obsEnded, ref: x.ref, status: TaskFinished, prepared: prepared(x),
		end: &taskPoint{Done: true, Position: []byte{byte(x.pos)}}})
}

// chaos does one thing that can happen at any time.
func (m *ckptModel) chaos() {
	switch k := m.draw(100, "event"); {
	case k < 45:
		m.work()
	case k < 65:
		m.call()
	case k < 85:
		m.step()
	case k < 94:
		m.now += time.Duration(m.draw(8, "time"))
	case k < 95:
		if len(m.answers) > 0 {
			m.answer(m.draw(len(m.answers), "late answer"))
		}
	case k < 97:
		delete(m.members, m.someone())
		m.join()
	case k < 99:
		m.lead()
		m.obs = nil // what was not durable is gone
		for _, x := range m.tasks {
			if x.ended && m.batch {
				m.report(x) // reports are sent until they are taken
			}
		}
	}
}

// calm lets everything run until all rows are visible, or long enough to say that they never will be.
func (m *ckptModel) calm() error {
	for range 4000 {
		if err := m.exact(false); err != nil {
			return err
		}
		if m.st.Status.Final() || !m.batch && m.exact(true) == nil {
			return m.exact(true)
		}
		for range 3 {
			m.work()
			m.call()
		}
		m.step()
		m.now++
	}
	return fmt.Errorf("nothing comes of it: %+v, visible %d", m.st.Pipelines[0], len(m.visible))
}

// exact checks that no row is visible twice, and, at the end, that each is visible once.
func (m *ckptModel) exact(end bool) error {
	for row, n := range m.visible {
		if n > 1 {
			return fmt.Errorf("row %s is visible %d times", row, n)
		}
	}
	if want := m.rows * len(m.st.Pipelines[0].Tasks); end && len(m.visible) != want {
		return fmt.Errorf("%d rows are visible, want %d", len(m.visible), want)
	}
	return nil
}

func runModel(draw func(int, string) int, fault modelFault, events int) error {
	m := newModel(draw, fault)
	for range events {
		m.chaos()
	}
	return m.calm()
}

// Whatever is lost, repeated and late, every row becomes visible once.
func TestCheckpointsAreExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		if err := runModel(draw, correct, 300); err != nil {
			t.Fatal(err)
		}
	})
}

// The model notices when the machine is wrong, and only then.
func TestCheckpointModelNoticesFaults(t *testing.T) {
	for name, fault := range map[string]modelFault{"correct": correct, "commit before it is durable": commitTooEarly,
		"restore from an older one": restoreOlder, "restore from nothing": restoreNothing, "output of a checkpoint given up is dropped": forgetAborted,
		"answer to another checkpoint counts": acceptAnyAnswer, "commit is not repeated": commitOnce} {
		t.Run(name, func(t *testing.T) {
			var found error
			for seed := range uint64(400) {
				rng := rand.New(rand.NewPCG(seed, 7))
				if found = runModel(func(n int, _ string) int { return rng.IntN(n) }, fault, 300); found != nil {
					break
				}
			}
			if (found != nil) != (fault != correct) {
				t.Errorf("the model says: %v", found)
			}
		})
	}
}
