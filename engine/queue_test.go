package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gridnode/engine/config"
	"gridnode/engine/plugin"
)

// queueOf makes slots over workers w0, w1, ... with so many slots each.
func queueOf(perWorker ...int) (*slots, []Member) {
	var members []Member
	for i, n := range perWorker {
		members = append(members, Member{ID: fmt.Sprintf("w%d", i), Worker: true, Slots: n, JoinSeq: uint64(i + 1)})
	}
	return newSlots(Config{ScheduleStrategy: ScheduleWait}), members
}

// jobOf makes a job that was submitted at a time and waits for n workers.
func jobOf(id string, created int64, n int, mode plugin.Mode, tags map[string]string) (*definition, *jobState) {
	st := testState(1, n)
	st.CreatedMs, st.Status = created, JobPending
	return &definition{jobID: id, plan: &config.Job{Mode: mode, Tags: tags}}, st
}

func (s *slots) want(id string, created int64, n int, tags map[string]string) {
	s.publish(jobOf(id, created, n, plugin.Batch, tags))
}

// A job that waits is overtaken a bounded number of times; then what becomes free is kept until it fits.
// It is Z9 of zetaRows.
func TestQueueOvertakingIsBounded(t *testing.T) {
	s, members := queueOf(1, 1, 1)
	s.want("first", 1, 1, nil)
	if s.place("first", members, 1, true).workers == nil {
		t.Fatal("an empty cluster has no slot")
	}
	s.want("large", 2, 3, nil)
	passed := 0
	for i := range 100 {
		if s.place("large", members, 3, true).workers != nil {
			t.Fatal("three tasks got the two slots that are free")
		}
		id := fmt.Sprint("small", i)
		s.want(id, int64(3+i), 1, nil)
		got := s.place(id, members, 1, true)
		if got.workers == nil {
			if !strings.Contains(got.reason, "kept for jobs that come first") {
				t.Errorf("reason = %q", got.reason)
			}
			break
		}
		passed++
		s.publish(&definition{jobID: id}, nil) // it ends at once
	}
	if passed != maxOvertakes {
		t.Errorf("%d jobs overtook, want %d", passed, maxOvertakes)
	}
	if got := s.place("large", members, 3, true); got.overtaken != maxOvertakes {
		t.Errorf("overtaken = %d", got.overtaken)
	}
	s.publish(&definition{jobID: "first"}, nil)
	if s.place("large", members, 3, true).workers == nil {
		t.Error("the large job does not get the slots that were kept for it")
	}
}

// A job that waits for a job that never ends by itself keeps nobody away, however often it was overtaken.
func TestQueueNobodyWaitsForStreams(t *testing.T) {
	s, members := queueOf(1, 1, 1)
	s.publish(jobOf("stream", 1, 1, plugin.Streaming, nil))
	s.place("stream", members, 1, true)
	s.want("large", 2, 3, nil)
	for i := range 3 * maxOvertakes {
		id := fmt.Sprint("small", i)
		s.want(id, int64(3+i), 1, nil)
		if s.place(id, members, 1, true).workers == nil {
			t.Fatalf("job %d waits behind one that cannot run", i)
		}
		s.publish(&definition{jobID: id}, nil)
	}
}

// The slots of tasks that are to be restarted are kept for them: a job that ran is not pushed out by one that waits.
func TestQueueRestartsComeFirst(t *testing.T) {
	s, members := queueOf(2, 1)
	_, st := jobOf("running", 5, 3, plugin.Batch, nil)
	def := &definition{jobID: "running"}
	st.Status = JobRunning
	st.Pipelines[0].Status = TaskRunning
	for i, w := range []string{"w0", "w0", ""} {
		if w != "" {
			st.Pipelines[0].Tasks[i].Status, st.Pipelines[0].Tasks[i].Worker = TaskRunning, w
		}
	}
	s.publish(def, st)
	s.want("older", 1, 1, nil)
	if got := s.place("older", members, 1, true); got.workers != nil {
		t.Errorf("%v was given away while its task waits for its restart", got.workers)
	}
	if got := s.place("running", members, 1, false); !slices.Equal(got.workers, []string{"w1"}) {
		t.Errorf("the restart got %v", got.workers)
	}
}

// What is free is kept for a restart even if it is not enough for all of it.
func TestQueueRestartsTakeWhatThereIs(t *testing.T) {
	s, members := queueOf(1)
	def, st := jobOf("running", 5, 2, plugin.Batch, nil)
	st.Status = JobRunning
	s.publish(def, st)
	s.want("older", 1, 1, nil)
	if got := s.place("older", members, 1, true); got.workers != nil {
		t.Errorf("%v was given away while two tasks wait for their restart", got.workers)
	}
	if got := s.place("running", members, 2, false); !slices.Equal(got.workers, []string{"w0"}) {
		t.Errorf("the restart got %v", got.workers)
	}
}

// A new master keeps the queue: who waits is known before anybody is placed, with how often he was overtaken.
func TestQueueIsKnownFromTheStates(t *testing.T) {
	s, members := queueOf(1, 1, 1)
	def, st := jobOf("holder", 1, 1, plugin.Batch, nil)
	st.Status, st.Pipelines[0].Tasks[0].Status, st.Pipelines[0].Tasks[0].Worker = JobRunning, TaskRunning, "w0"
	s.publish(def, st)
	def, st = jobOf("large", 2, 3, plugin.Batch, nil)
	st.Overtaken = maxOvertakes
	s.publish(def, st)
	s.want("small", 3, 1, nil)
	if got := s.place("small", members, 1, true); got.workers != nil {
		t.Error("a new master lets the large job be overtaken again")
	}
}

func TestQueueTags(t *testing.T) {
	s, members := queueOf(1, 0, 2)
	members[0].Tags = map[string]string{"disk": "ssd", "zone": "a"}
	members[1].Tags, members[1].Slots = map[string]string{"disk": "ssd"}, -1
	for _, test := range []struct {
		tags   map[string]string
		n      int
		want   string // the worker, or the reason
		cannot string // what a submit is told
	}{
		{nil, 9, "w1", ""},
		{map[string]string{"zone": "a", "disk": "ssd"}, 1, "w0", ""},
		{map[string]string{"zone": "a"}, 2, "workers with the tags zone=a have 1 slots", "1 workers with the tags zone=a have 1 slots in all"},
		{map[string]string{"zone": "b"}, 1, "no worker has the tags zone=b", ""},
		{map[string]string{"disk": ""}, 1, "no worker has the tags disk=", ""},
	} {
		s.want("j", 1, test.n, test.tags)
		got := s.place("j", members, test.n, true)
		if text := strings.Join(got.workers, ",") + got.reason; !strings.Contains(text, test.want) {
			t.Errorf("tags %v: %s", test.tags, text)
		}
		s.publish(&definition{jobID: "j"}, nil)
		if text := s.impossible(test.n, test.tags, members); (text == "") != (test.cannot == "") || !strings.Contains(text, test.cannot) {
			t.Errorf("tags %v: impossible = %q", test.tags, text)
		}
	}
}

// With REJECT a job that does not fit fails, at its start only, and not because the cluster has no worker yet.
func TestQueueReject(t *testing.T) {
	_, members := queueOf(1)
	s := newSlots(Config{ScheduleStrategy: ScheduleReject})
	s.want("j", 1, 2, nil)
	s.want("tagged", 1, 1, map[string]string{"gpu": "yes"})
	for _, test := range []struct {
		id      string
		members []Member
		all     bool
		want    bool
	}{{"j", members, true, true}, {"tagged", members, true, true}, {"tagged", members, false, false}, {"j", nil, true, false}} {
		if got := s.place(test.id, test.members, 2, test.all); got.workers != nil && test.all || got.reject != test.want {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}

// Those who wait are woken when there may be more room, and not when there is less.
func TestQueueWakes(t *testing.T) {
	s, members := queueOf(2, 2)
	def, st := jobOf("j", 1, 2, plugin.Batch, nil)
	woken := func(change func()) bool {
		before := s.freed()
		change()
		return before != s.freed()
	}
	set := func(i int, status TaskStatus, worker string) func() {
		return func() {
			st = st.clone()
			st.Pipelines[0].Tasks[i].Status, st.Pipelines[0].Tasks[i].Worker = status, worker
			s.publish(def, st)
		}
	}
	for _, step := range []struct {
		what   string
		change func()
		want   bool
	}{
		{"submitted", func() { s.publish(def, st) }, false},
		{"placed", func() { s.place("j", members, 2, true) }, false},
		{"deployed", set(0, TaskDeploying, "w0"), true}, // the other one was placed, and is not now
		{"deployed too", set(1, TaskDeploying, "w1"), false},
		{"runs", set(0, TaskRunning, "w0"), false},
		{"moved", set(0, TaskRunning, "w1"), true},
		{"lost", set(0, TaskCreated, ""), true},
		{"ended", set(1, TaskFinished, "w1"), true},
		{"canceled while it waits", func() { st = st.clone(); st.Cancel = true; s.publish(def, st) }, true},
		{"gone", func() { s.publish(def, nil) }, true},
		{"gone again", func() { s.publish(def, nil) }, false},
	} {
		if got := woken(step.change); got != step.want {
			t.Errorf("%s: woken %v", step.what, got)
		}
	}
}

// Whatever jobs come and go: no worker gets more tasks than it has slots, a first grant is all or nothing, only matching workers are used, and
// as batch jobs end, every job that can fit gets its turn.
func TestQueueKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 4).Draw(t, "slots")
		s, members := queueOf(sizes...)
		for i := range members {
			members[i].Tags = map[string]string{"t": fmt.Sprint(i % 2)}
		}
		running, waiting := map[string][]string{}, map[string]int{}
		tagsOf := map[string]map[string]string{}
		check := func() {
			for i, m := range members {
				n := 0
				for _, ws := range running {
					for _, w := range ws {
						if w == m.ID {
							n++
						}
					}
				}
				if n > sizes[i] {
					t.Fatalf("worker %s has %d tasks and %d slots", m.ID, n, sizes[i])
				}
			}
		}
		try := func(id string) {
			got := s.place(id, members, waiting[id], true)
			if got.workers == nil {
				if got.reason == "" {
					t.Fatal("refused without a reason")
				}
				return
			}
			if len(got.workers) != waiting[id] {
				t.Fatalf("job %s wanted %d workers and got %v", id, waiting[id], got.workers)
			}
			for _, w := range got.workers {
				for k, v := range tagsOf[id] {
					if members[slices.IndexFunc(members, func(m Member) bool { return m.ID == w })].Tags[k] != v {
						t.Fatalf("job %s with tags %v got %s", id, tagsOf[id], w)
					}
				}
			}
			running[id] = got.workers
			delete(waiting, id)
			check()
		}
		for i := range rapid.IntRange(1, 40).Draw(t, "jobs") {
			id, n := fmt.Sprintf("j%02d", i), rapid.IntRange(1, 4).Draw(t, "n")
			var tags map[string]string
			if rapid.Bool().Draw(t, "tagged") {
				tags = map[string]string{"t": fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "tag"))}
			}
			if s.impossible(n, tags, members) != "" || len(matching(s.loads(members), tags)) == 0 {
				continue
			}
			tagsOf[id], waiting[id] = tags, n
			s.want(id, int64(i), n, tags)
			try(id)
			for other := range running {
				if rapid.IntRange(0, 2).Draw(t, "end") == 0 {
					delete(running, other)
					s.publish(&definition{jobID: other}, nil)
				}
			}
			for _, other := range sortedKeys(waiting) {
				try(other)
			}
		}
		for rounds := 0; len(waiting) > 0; rounds++ {
			if rounds > 100 {
				t.Fatalf("never placed: %v", waiting)
			}
			for other := range running {
				delete(running, other)
				s.publish(&definition{jobID: other}, nil)
			}
			for _, other := range sortedKeys(waiting) {
				try(other)
			}
		}
	})
}

func sortedKeys(m map[string]int) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// How often and when the master looked whether a job fits is counted, over what else changes in the job, and ends with it.
func TestQueueCountsItsChecks(t *testing.T) {
	s, members := queueOf(1)
	s.want("one", 1, 1, nil)
	s.want("two", 2, 2, nil)
	if n, at := s.checked("two"); n != 0 || !at.IsZero() {
		t.Errorf("before the first: %d at %v", n, at)
	}
	for range 3 {
		if s.place("two", members, 2, true).workers != nil {
			t.Fatal("two tasks got the one slot")
		}
		s.want("two", 2, 2, nil)
	}
	if n, at := s.checked("two"); n != 3 || at.IsZero() {
		t.Errorf("after three: %d at %v", n, at)
	}
	if n, _ := s.checked("one"); n != 0 {
		t.Errorf("of a job that nobody looked at: %d", n)
	}
	s.publish(&definition{jobID: "two"}, nil)
	if n, _ := s.checked("two"); n != 0 {
		t.Errorf("of a job that is gone: %d", n)
	}
}
