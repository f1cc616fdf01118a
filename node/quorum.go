package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

const (
	// quorumPatience is how long after the end of its lease a member still tries: a new master is there long before that, if there ever is.
	quorumPatience = 5 * time.Second
	// quorumPause keeps callers that repeat at once what is refused at once from doing so all the time.
	quorumPause = 50 * time.Millisecond
)

// guarded is the partitions, with what this member knows about the majority of the voters in its errors: "no lease" and "not ready" say what a
// replica sees, and callers want to know why that does not end. After a while it does not even try.
type guarded struct {
	imap.Invoker
	quorum func() (lapsed time.Duration, err error)
}

func (g guarded) Read(ctx context.Context, p grid.PartitionID, op grid.Op) ([]byte, error) {
	if err := g.hopeless(ctx); err != nil {
		return nil, err
	}
	reply, err := g.Invoker.Read(ctx, p, op)
	return reply, explained(err, g.quorum)
}

func (g guarded) Write(ctx context.Context, p grid.PartitionID, op grid.Op, wait time.Duration) ([]byte, error) {
	if err := g.hopeless(ctx); err != nil {
		return nil, err
	}
	reply, err := g.Invoker.Write(ctx, p, op, wait)
	return reply, explained(err, g.quorum)
}

func (g guarded) InvokeAll(ctx context.Context, op []byte, each func(grid.PartitionID, []byte) error) error {
	if err := g.hopeless(ctx); err != nil {
		return err
	}
	return explained(g.Invoker.InvokeAll(ctx, op, each), g.quorum)
}

func (g guarded) hopeless(ctx context.Context) error {
	lapsed, err := g.quorum()
	if lapsed < quorumPatience {
		return nil
	}
	select {
	case <-time.After(quorumPause):
	case <-ctx.Done():
	}
	return err
}

// explained says of what did not run that there is no majority, if so. Other errors stay as they are.
func explained(err error, quorum func() (time.Duration, error)) error {
	if err == nil || grid.KindOf(err) != grid.Retryable || errors.Is(err, grid.ErrNoQuorum) || errors.Is(err, grid.ErrClosed) ||
		errors.Is(err, grid.ErrBusy) {
		return err
	}
	if _, no := quorum(); no != nil {
		return fmt.Errorf("%w (%v)", no, err)
	}
	return err
}
