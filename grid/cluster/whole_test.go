package cluster

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"

	"gridnode/grid"
)

// TestWhole_AllThatALogAndASnapshotHold: what a survivor reports is its applied state with all that follows in the log, also when a snapshot has
// been installed that is not restored yet; and it never reports less under a higher index.
func TestWhole_AllThatALogAndASnapshotHold(t *testing.T) {
	claim := func(term uint64) []byte {
		return packed(t, &grid.Command{Claim: &grid.ClaimMaster{ID: "b", Term: term}})
	}
	build := func(applied uint64, snapshotAt uint64, from, to uint64) (*group, *fsm) {
		g, f := &group{store: raft.NewInmemStore(), snaps: &snapshotStore{}}, newFSM()
		s := small()
		s.Index = applied
		f.publish(s, applied)
		if snapshotAt > 0 {
			s := small()
			s.Index, s.Losses = snapshotAt, 9
			sink, err := g.snaps.Create(raft.SnapshotVersionMax, snapshotAt, 4, raft.Configuration{}, 0, nil)
			if err = errors.Join(err, (snapshot{s}).Persist(sink)); err != nil {
				t.Fatal(err)
			}
		}
		for i := from; i <= to; i++ {
			if err := g.store.StoreLog(&raft.Log{Index: i, Term: 5, Type: raft.LogCommand, Data: claim(5)}); err != nil {
				t.Fatal(err)
			}
		}
		return g, f
	}
	for _, x := range []struct {
		name                          string
		applied, snapshotAt, from, to uint64
		index, state, term, losses    uint64
		compacted                     bool
	}{
		{name: "all is applied", applied: 12, from: 1, to: 12, index: 12, state: 12, term: 5},
		{name: "the log goes on", applied: 7, from: 1, to: 12, index: 12, state: 12, term: 5},
		{name: "behind a snapshot of its own", applied: 12, snapshotAt: 10, from: 9, to: 14, index: 14, state: 14, term: 5},
		{name: "a snapshot is installed and not restored", applied: 7, snapshotAt: 20, index: 20, state: 20, term: 4, losses: 9},
		{name: "and the log goes on after it", applied: 7, snapshotAt: 20, from: 21, to: 23, index: 23, state: 23, term: 5, losses: 9},
		{name: "an old log before it", applied: 7, snapshotAt: 20, from: 1, to: 8, index: 20, state: 20, term: 5, losses: 9},
		{name: "the log begins too late", applied: 7, from: 10, to: 12, compacted: true},
	} {
		g, f := build(x.applied, x.snapshotAt, x.from, x.to)
		s, term, index, err := g.whole(f)
		if x.compacted {
			if !errors.Is(err, errCompacted) {
				t.Errorf("%s: %v", x.name, err)
			}
			continue
		}
		if err != nil || index != x.index || s.Index != x.state || term != x.term || s.Losses != x.losses {
			t.Errorf("%s: index %d, state %+v, term %d, %v", x.name, index, s, term, err)
		}
	}
}
