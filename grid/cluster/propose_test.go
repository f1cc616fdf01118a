package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"gridnode/grid"
	"gridnode/grid/transport"
)

func assign(p grid.PartitionID, epoch grid.Epoch, ids ...grid.MemberID) grid.Command {
	return grid.Command{Replica: &grid.ReplicaChange{Op: grid.OpAssign, Partition: p, Epoch: epoch, Members: ids}}
}

func TestPropose_FromAnyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 1, 3)
		for i, m := range w.members {
			if err := m.Propose(t.Context(), assign(grid.PartitionID(i), 0, m.Self().ID)); err != nil {
				t.Fatalf("%s: %v", m.host, err)
			}
			err := m.Propose(t.Context(), assign(grid.PartitionID(i), 0, m.Self().ID)) // the epoch has moved on
			if !errors.Is(err, grid.ErrRefused) || grid.KindOf(err) != grid.Definite {
				t.Errorf("%s: a command that does not fit: %v", m.host, err)
			}
			if err := m.Propose(t.Context(), grid.Command{Remove: &grid.RemoveMember{ID: "x"}}); !errors.Is(err, grid.ErrRefused) {
				t.Errorf("%s: removed another one: %v", m.host, err)
			}
		}
		w.await("all see it", time.Second, func() bool {
			for _, m := range w.members {
				s, _ := m.View()
				for i := range w.members {
					if s.Partitions[i].Epoch != 1 {
						return false
					}
				}
			}
			return true
		})
	})
}

// TestPropose_ErrorsAreHonest crashes the master at many moments while another member proposes: what was refused as not delivered must not be
// in the log, what was accepted must be.
func TestPropose_ErrorsAreHonest(t *testing.T) {
	t.Parallel()
	for at := time.Duration(0); at < 8*time.Millisecond; at += 700 * time.Microsecond {
		synctest.Test(t, func(t *testing.T) {
			w := formedWorld(t, uint64(at), 3)
			m := w.others(w.master())[0]
			go func() { time.Sleep(at); w.crash(w.master()) }()
			results := make([]error, 7)
			for i := range results {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				results[i] = m.Propose(ctx, assign(grid.PartitionID(i), 0, m.Self().ID))
				cancel()
				time.Sleep(time.Millisecond)
			}
			w.awaitAgreed(2, 10*time.Second)
			s, _ := m.View()
			for i, err := range results {
				there := s.Partitions[i].Epoch > 0 // no other command assigns it
				if err == nil && !there || err != nil && grid.KindOf(err) == grid.Retryable && there {
					t.Errorf("crash at %s: command %d ended with %v, and is in the log: %v", at, i, err, there)
				}
			}
		})
	}
}

func TestLease_ContextFollowsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(time.Second)
		defer l.close()
		if l.valid() || l.context().Err() == nil {
			t.Error("a lease that nobody granted")
		}
		sent := time.Now()
		time.Sleep(400 * time.Millisecond)
		l.extend(sent)
		first := l.context()
		time.Sleep(599 * time.Millisecond)
		if !l.valid() || first.Err() != nil {
			t.Error("it lapsed too early")
		}
		l.extend(sent.Add(900 * time.Millisecond))
		l.extend(sent) // an old grant comes late
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if !l.valid() || first.Err() != nil {
			t.Error("the extension does not count")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if l.valid() || !errors.Is(context.Cause(first), grid.ErrNoLease) {
			t.Errorf("it goes on: %v", context.Cause(first))
		}
		l.extend(time.Now())
		if second := l.context(); !l.valid() || second.Err() != nil || second == first {
			t.Error("no new lease")
		}
		l.close()
		if l.extend(time.Now()); l.valid() || l.context().Err() == nil {
			t.Error("a lease that was given up")
		}
	})
}

func TestLoopbackTCP(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	defer runs.Wait()
	defer cancel()
	var seeds []string
	var all []*Cluster
	var transports []*transport.Transport
	for i := range 3 {
		id := grid.MemberID(uuid.NewString())
		tr, err := transport.New(transport.Config{Bind: "127.0.0.1:0", Self: id, ClusterName: "test"})
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, tr.AdvertiseAddr())
		transports = append(transports, tr)
		cfg := DefaultConfig()
		cfg.ClusterName, cfg.Transport, cfg.Expect, cfg.Partitions = "test", tr, 3, 7
		cfg.Seeds = seeds[:1]
		cfg.Self = grid.Member{ID: id, Name: fmt.Sprint(i), Roles: []string{grid.RoleData}}
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for i, c := range all {
		runs.Go(func() {
			if err := transports[i].Run(ctx); err != nil {
				t.Error(err)
			}
		})
		runs.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	limit := time.After(20 * time.Second)
	for _, c := range all {
		select {
		case <-c.Joined():
		case <-limit:
			t.Fatal("not joined within 20 s")
		}
	}
	proposeCtx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	if err := all[2].Propose(proposeCtx, assign(1, 0, all[2].Self().ID)); err != nil {
		t.Error(err)
	}
	if err := all[1].Leave(proposeCtx); err != nil {
		t.Error(err)
	}
}
