package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// CheckpointRef names a checkpoint outside of the grid.
type CheckpointRef struct {
	JobID, Incarnation string
	Pipeline           int
	ID                 uint64
}

func (r CheckpointRef) String() string {
	return fmt.Sprintf("checkpoint %d of pipeline %d of job %s", r.ID, r.Pipeline, r.JobID)
}

// CheckpointStorage keeps complete checkpoints outside of the grid as well, so that they survive the loss of all members. Every member reaches the
// same storage. The grid stays the truth while it lives: the storage is read only where the grid has nothing. All methods may be called at once.
type CheckpointStorage interface {
	// Put stores a checkpoint; when it returns nil that is durable. A repeat replaces it. It stores nothing after its context has ended.
	Put(ctx context.Context, ref CheckpointRef, data []byte) error
	// Settle notes that all output of a checkpoint is visible.
	Settle(ctx context.Context, ref CheckpointRef) error
	// List returns all checkpoints of a job, in no particular order. Corrupt ones are among them.
	List(ctx context.Context, jobID string) ([]CheckpointRef, error)
	// Get returns a checkpoint, and whether it was settled. What cannot be read whole is an error that names where it lies.
	Get(ctx context.Context, ref CheckpointRef) (data []byte, settled bool, err error)
	// Where says where a checkpoint lies, for messages.
	Where(ref CheckpointRef) string
	// Delete removes a checkpoint. One that is not there is no error.
	Delete(ctx context.Context, ref CheckpointRef) error
	// Clean removes all that is stored of an incarnation that has ended, but for the checkpoints that are to be kept: also what a member that died has left
	// of one that it was storing.
	Clean(ctx context.Context, jobID, incarnation string, keep []CheckpointRef) error
	// Supersede removes all that is stored of another incarnation of the job, unless something of it was stored after since: then it lives, in another cluster
	// that has the same storage.
	Supersede(ctx context.Context, jobID, incarnation string, since time.Time) error
	// Expire says when all that is stored of an incarnation may go. The last call counts.
	Expire(ctx context.Context, jobID, incarnation string, at time.Time) error
	// Sweep removes what may go by now, of whatever job, and what nobody can need: what members that died have left of checkpoints that they were storing.
	Sweep(ctx context.Context, now time.Time) error
}

// CheckpointConfig says when jobs take checkpoints that do not say so themselves, and what is kept of them.
type CheckpointConfig struct {
	Interval    time.Duration     // of streaming jobs
	Timeout     time.Duration     // of one checkpoint, and of a savepoint
	MaxRetained int               // per pipeline
	Storage     CheckpointStorage // nil: in the grid only
}

// sealed is the stored form of a checkpoint: a digest stands in front, so that damage is found.
func sealed(c *checkpointData) []byte {
	body := encode(c)
	sum := sha256.Sum256(body)
	return append(sum[:], body...)
}

// unseal reads the stored form.
func unseal(b []byte) (*checkpointData, error) {
	if len(b) < sha256.Size {
		return nil, fmt.Errorf("it has %d bytes, which is too short", len(b))
	}
	body := b[sha256.Size:]
	if sum := sha256.Sum256(body); string(sum[:]) != string(b[:sha256.Size]) {
		return nil, fmt.Errorf("it is corrupt: its digest is %s, and should be %s", hex.EncodeToString(sum[:4]), hex.EncodeToString(b[:4]))
	}
	c := new(checkpointData)
	if err := decode(body, c); err != nil {
		return nil, err
	}
	return c, nil
}

// loadCheckpoint reads a checkpoint of the grid. One that is not there, or cannot be read, is a definite error: nothing may begin from the start in
// its place.
func loadCheckpoint(ctx context.Context, store Store, jobID, incarnation string, pipeline int, id uint64) (*checkpointData, error) {
	e, err := store.Get(ctx, dataKey(jobID, incarnation, pipeline, id))
	if err != nil {
		return nil, fmt.Errorf("read checkpoint %d of pipeline %d: %w", id, pipeline, err)
	}
	return openCheckpoint(e, pipeline, id)
}

func openCheckpoint(e Entry, pipeline int, id uint64) (*checkpointData, error) {
	if e.Version == 0 {
		return nil, fmt.Errorf("checkpoint %d of pipeline %d is not stored any more", id, pipeline)
	}
	c, err := unseal(e.Value)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %d of pipeline %d cannot be read: %w", id, pipeline, err)
	}
	return c, nil
}
