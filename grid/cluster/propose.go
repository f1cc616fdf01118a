package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	"github.com/vmihailenco/msgpack/v5"

	"gridnode/grid"
	"gridnode/grid/pack"
	"gridnode/grid/wire"
)

// Propose puts a command into the log, by way of the leader if that is another member. nil means that it is committed and was applied at the
// leader. A command that did not fit the state is an error that wraps grid.ErrRefused; one that certainly did not get into the log is
// retryable; after any other error that wraps grid.ErrIndeterminate it may be there, or get there still.
//
// Not every command may be proposed: members are added, and removed if they have not asked for it, by the master alone.
func (c *Cluster) Propose(ctx context.Context, cmd grid.Command) error {
	if err := proposable(c.self.ID, cmd); err != nil {
		return err
	}
	r := c.raft.Load()
	if r == nil {
		return errNotRunning()
	}
	if r.State() == raft.Leader {
		return c.apply(ctx, r, cmd)
	}
	_, leader := r.LeaderWithID()
	if leader == "" {
		return grid.ErrNoMaster
	}
	if grid.MemberID(leader) == c.self.ID { // it has just lost that role
		return grid.ErrNotMaster
	}
	body, err := msgpack.Marshal(&cmd)
	if err != nil {
		return fmt.Errorf("encode command: %w: %v", grid.ErrBadRequest, err)
	}
	_, err = c.t.Call(ctx, grid.MemberID(leader), wire.Propose, body)
	return err
}

// proposable refuses what only the master may decide.
func proposable(from grid.MemberID, cmd grid.Command) error {
	switch {
	case cmd.Form != nil, cmd.Claim != nil, cmd.Add != nil:
		return fmt.Errorf("%w: only the master proposes this", grid.ErrRefused)
	case cmd.Suspend != nil:
		return fmt.Errorf("%w: only the master suspends a member", grid.ErrRefused)
	case cmd.Remove != nil && cmd.Remove.ID != from:
		return fmt.Errorf("%w: only the master removes another member", grid.ErrRefused)
	case cmd.State != nil && (cmd.State.ID != from || cmd.State.State != grid.Leaving):
		return fmt.Errorf("%w: a member may only declare itself leaving", grid.ErrRefused)
	case cmd.Attrs != nil && cmd.Attrs.ID != from:
		return fmt.Errorf("%w: a member only changes its own attributes", grid.ErrRefused)
	}
	for _, sub := range cmd.Batch {
		if err := proposable(from, sub); err != nil {
			return err
		}
	}
	return nil
}

// servePropose puts another member's command into the log.
func (c *Cluster) servePropose(from grid.MemberID, body []byte, reply func([]byte, error)) {
	if reply == nil {
		return
	}
	var cmd grid.Command
	if err := pack.Unmarshal(body, &cmd); err != nil {
		reply(nil, fmt.Errorf("%w: %v", grid.ErrBadMessage, err))
		return
	}
	if err := proposable(from, cmd); err != nil {
		reply(nil, err)
		return
	}
	r := c.raft.Load()
	if r == nil || r.State() != raft.Leader {
		reply(nil, grid.ErrNotMaster)
		return
	}
	select {
	case c.forwards <- struct{}{}:
	default:
		reply(nil, fmt.Errorf("%w: %d commands are being proposed", grid.ErrOverloaded, maxForwards))
		return
	}
	ok := c.background(func() {
		defer func() { <-c.forwards }()
		reply(nil, c.apply(context.Background(), r, cmd)) // ends with leadership at the latest
	})
	if !ok {
		<-c.forwards
		reply(nil, grid.ErrNotMaster)
	}
}

// apply puts a command into this leader's log and waits until it is applied.
func (c *Cluster) apply(ctx context.Context, r *raft.Raft, cmd grid.Command) error {
	data, err := msgpack.Marshal(&cmd)
	if err != nil {
		return fmt.Errorf("encode command: %w: %v", grid.ErrBadRequest, err)
	}
	future := r.Apply(data, applyQueue)
	if err := c.await(ctx, future); err != nil {
		return applyError(err)
	}
	if err, ok := future.Response().(error); ok {
		return fmt.Errorf("%w: %w", grid.ErrRefused, err)
	}
	return nil
}

// await waits for a future or for ctx. Futures end with raft's shutdown at the latest, so the goroutine that a ctx leaves behind does, too.
func (c *Cluster) await(ctx context.Context, f raft.Future) error {
	result := make(chan error, 1)
	if !c.background(func() { result <- f.Error() }) {
		return raft.ErrRaftShutdown
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// applyError says what an error of raft.Apply means for the command. Only what raft answers before it appends proves that nothing happened.
func applyError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return grid.ErrNotMaster
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: raft is busy", grid.ErrOverloaded)
	}
	return fmt.Errorf("%w: %v", grid.ErrIndeterminate, err)
}
