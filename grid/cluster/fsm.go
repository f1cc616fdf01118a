package cluster

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
	"github.com/vmihailenco/msgpack/v5"

	"gridnode/grid"
	"gridnode/grid/pack"
)

// fsm adapts the pure grid.State to raft.FSM. raft calls its methods from one goroutine.
type fsm struct {
	view atomic.Pointer[view]
}

var _ raft.FSM = (*fsm)(nil)

func newFSM() *fsm {
	f := &fsm{}
	f.view.Store(&view{&grid.State{}, make(chan struct{})})
	return f
}

// publish makes the state visible and wakes those who wait for a change.
func (f *fsm) publish(s *grid.State) {
	old := f.view.Swap(&view{s, make(chan struct{})})
	close(old.superseded)
}

// Apply applies one entry. It returns nil or an error of the command; a bad command changes nothing on any member.
func (f *fsm) Apply(entry *raft.Log) any {
	if entry.Type != raft.LogCommand {
		return nil
	}
	state := f.view.Load().state
	var c grid.Command
	if err := pack.Unmarshal(entry.Data, &c); err != nil {
		c = grid.Command{} // rejected below, so that the entry counts on every member
	}
	if c.Claim != nil && c.Claim.Term != entry.Term {
		c = grid.Command{} // a claim of another term than the one that it was written in
	}
	next, err := state.Apply(c)
	f.publish(next)
	if err != nil {
		return err
	}
	return nil
}

// Snapshot takes the state, which is immutable.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) { return snapshot{f.view.Load().state}, nil }

// Restore replaces the state.
func (f *fsm) Restore(r io.ReadCloser) error {
	var s grid.State
	err := msgpack.NewDecoder(r).Decode(&s)
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("restore the agreed state: %w", err)
	}
	f.publish(&s)
	return nil
}

type snapshot struct{ state *grid.State }

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if err := msgpack.NewEncoder(sink).Encode(s.state); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (snapshot) Release() {}
