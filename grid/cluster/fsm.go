package cluster

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"gridnode/grid"
	"gridnode/grid/pack"
)

// fsm adapts the pure grid.State to raft.FSM. raft calls its methods from one goroutine.
type fsm struct {
	view  atomic.Pointer[view]
	snaps raft.SnapshotStore // of the raft that uses it; set before that starts
}

var _ raft.FSM = (*fsm)(nil)

func newFSM() *fsm {
	f := &fsm{}
	f.view.Store(&view{state: &grid.State{}, superseded: make(chan struct{})})
	return f
}

// publish makes the state visible, which holds all up to the index, and wakes those who wait for a change.
func (f *fsm) publish(s *grid.State, index uint64) {
	old := f.view.Swap(&view{state: s, index: index, superseded: make(chan struct{})})
	close(old.superseded)
}

// Apply applies one entry. It returns nil or an error of the command; a bad command changes nothing on any member.
func (f *fsm) Apply(entry *raft.Log) any {
	if entry.Type != raft.LogCommand {
		return nil
	}
	next, err := applyEntry(f.view.Load().state, entry)
	f.publish(next, entry.Index)
	if err != nil {
		return err
	}
	return nil
}

// applyEntry returns the state after an entry that is a command.
func applyEntry(state *grid.State, entry *raft.Log) (*grid.State, error) {
	var c grid.Command
	if err := pack.Unmarshal(entry.Data, &c); err != nil {
		c = grid.Command{} // rejected below, so that the entry counts on every member
	}
	if c.Claim != nil && c.Claim.Term != entry.Term {
		c = grid.Command{} // a claim of another term than the one that it was written in
	}
	return state.Apply(c)
}

// Snapshot takes the state, which is immutable.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) { return snapshot{f.view.Load().state}, nil }

// Restore replaces the state.
func (f *fsm) Restore(r io.ReadCloser) error {
	s, err := readSnapshot(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("restore the agreed state: %w", err)
	}
	var index uint64 // of the snapshot: raft keeps it before it has it restored
	if list, err := f.snaps.List(); err == nil && len(list) > 0 {
		index = list[0].Index
	}
	f.publish(s, index)
	return nil
}

func readSnapshot(r io.Reader) (*grid.State, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var s grid.State
	return &s, pack.Unmarshal(b, &s)
}

type snapshot struct{ state *grid.State }

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	b, err := pack.Marshal(s.state)
	if err == nil {
		_, err = sink.Write(b)
	}
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (snapshot) Release() {}
