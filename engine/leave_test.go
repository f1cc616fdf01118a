package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// lostStore is a store whose partitions went with the members that had them.
type lostStore struct{ Store }

func (lostStore) Get(context.Context, Key) (Entry, error) { return Entry{}, ErrRetryable }

// crowd is a cluster of certain members; the first is this one.
type crowd struct {
	Cluster
	members []Member
}

func (c crowd) Self() string { return c.members[0].ID }

func (c crowd) Members() ([]Member, <-chan struct{}) { return c.members, nil }

// TestDrain_WhenAllLeave: a member whose jobs' states went with others that left does not wait for somebody to take its tasks, unless somebody stays.
func TestDrain_WhenAllLeave(t *testing.T) {
	leaves := func(id string) Member { return Member{ID: id, Worker: true, Leaving: true} }
	stays := func(id string) Member { return Member{ID: id, Worker: true} }
	for name, tc := range map[string]struct {
		members []Member
		waits   bool
	}{
		"alone":               {members: []Member{leaves("a")}},
		"the others leave":    {members: []Member{leaves("a"), leaves("b"), leaves("c")}},
		"one stays":           {members: []Member{leaves("a"), leaves("b"), stays("c")}, waits: true},
		"one without workers": {members: []Member{leaves("a"), {ID: "b"}}, waits: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &Service{worker: &worker{
				cfg:   Config{Store: lostStore{}, Cluster: crowd{members: tc.members}},
				execs: map[execKey]*execution{{jobID: "1"}: {key: execKey{jobID: "1"}, phase: ended}},
			}}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began := time.Now()
			if err := s.Drain(ctx); (err != nil) != tc.waits {
				t.Errorf("%s: %v after %s", name, err, time.Since(began))
			}
		})
	}
}
