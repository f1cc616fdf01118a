package plugin

import "context"

// Restorable is a [Source] whose readers can go on where readers of an earlier run stopped. Jobs with checkpoints or savepoints need it.
type Restorable interface {
	Source
	// Restore opens the reader of subtask tc.Subtask out of tc.Parallelism, which goes on from positions: what [Positioner.Position] of each
	// reader of the earlier run returned, in the order of their subtasks; nil stands for a reader that had nothing left. If there are as many
	// positions as subtasks, each subtask goes on from its own. Otherwise what was left is shared out anew; the shares together are all of it,
	// and disjoint, and each subtask computes its own from the same positions. It creates no rows that the earlier run did not still have.
	Restore(ctx context.Context, tc TaskContext, positions [][]byte) (Reader, error)
}

// Positioner is the [Reader] of a [Restorable]. Its Read may be called again after it returned because its context ended: no row is lost then.
type Positioner interface {
	Reader
	// Position says what is left behind the rows that Read has returned. It is called between two calls of Read.
	Position() ([]byte, error)
}

// Cutter is a [Writer] whose output can be cut into parts, one for each checkpoint. Jobs with checkpoints or savepoints need it.
type Cutter interface {
	Writer
	// Cut ends the part of the output that was written so far and makes it durable, so that only [Sink.Commit] is left to do for it. It returns
	// what Commit needs, or nil if there is nothing to commit. Writes go on after it, into the next part. A part that was cut outlives
	// Close: it waits for its commit, or for the cleanup.
	Cut(ctx context.Context) (prepared []byte, err error)
	// State is what the writer of a later run has to know about the rows that were written so far; nil: nothing.
	State() ([]byte, error)
	// Restore gives a new writer, before its first Write, the states of the writers that it goes on for: one, if the parallelism is the same;
	// none, one or several, if it was changed.
	Restore(states [][]byte) error
	// Forget says that a part was committed and that this is recorded, so that its commit is not repeated.
	Forget(prepared []byte) error
}
