package partition

import (
	"time"

	"gridnode/grid"
)

// Store holds one replica's data and knows what operations mean. A replica calls it under its own lock, never from two goroutines at once.
// now is a reading of the monotonic clock.
type Store interface {
	// Execute decides an operation and changes nothing. v is the version that its writes will have.
	Execute(op grid.Op, v Version, now time.Time) Outcome
	// Apply does an effect, on the primary and on backups alike, in the order of their versions. The effect may be kept, not changed. It
	// returns what the effect has made come true of what operations wait for: see [Outcome.Wait].
	Apply(effect []byte, v Version, now time.Time) (woken []string, err error)
	// Over returns an effect that ends what is over, at most a bounded number of things, or nil: entries whose time has passed, and what
	// belongs to members that are gone.
	Over(now time.Time, isMember func(grid.MemberID) bool) []byte
	// Snapshot captures the whole content as it is now, to be had in pieces of about size bytes each: piece encodes the i-th, as often as it is
	// asked, and says what was so when the snapshot was taken, whatever has been applied since. Capturing must be quick, for the partition
	// waits. piece is called as the store's own methods are.
	Snapshot(size int, now time.Time) (pieces int, piece func(i int, now time.Time) []byte)
	// Restore adds one piece of a snapshot to a new, empty store.
	Restore(piece []byte, now time.Time) error
}

// Watcher is a [Store] that is told what is committed. It is called on the primary alone, under the replica's lock and never twice for the
// same: when a reign begins to serve, with all that the replica holds, and whenever more has been committed. The store holds effects beyond
// upTo, perhaps, which may yet be undone.
type Watcher interface {
	Committed(upTo uint64, born, reign grid.Epoch)
}

// Outcome is what [Store.Execute] decided.
type Outcome struct {
	Reply  []byte
	Err    error  // refused: nothing is to be done; Reply is ignored
	Effect []byte // what to apply everywhere; nil: the operation only read
	// Sees is the sequence number of the newest write that the decision depended on, present or absent: the answer waits for its commit.
	Sees uint64
	// Wait, if set, says that the operation cannot be done now and what it waits for; all else is ignored. It is executed again once an
	// effect has woken that.
	Wait string
}
