package partition

import (
	"fmt"
	"time"

	"gridnode/grid"
	"gridnode/grid/pack"
)

// The messages between replicas. Each carries the partition and the sender's epoch of it; a receiver that knows a higher epoch ignores it.

// effectsMsg carries effects, primary to backup. Prev is the epoch of the effect right before the first.
type effectsMsg struct {
	Partition grid.PartitionID
	Epoch     grid.Epoch
	Prev      grid.Epoch
	Effects   []Effect
}

// ackMsg says that the backup holds all effects up to Seq, whose epoch is Last. With Missing set it also says that it could not apply what
// came, and wants what follows.
type ackMsg struct {
	Partition grid.PartitionID
	Epoch     grid.Epoch
	Seq       uint64
	Last      grid.Epoch
	Missing   bool
}

// sealMsg asks a former or present replica to adopt the epoch.
type sealMsg struct {
	Partition grid.PartitionID
	Epoch     grid.Epoch
}

// sealedMsg answers it with what the replica holds.
type sealedMsg struct {
	Partition grid.PartitionID
	Epoch     grid.Epoch
	Born      grid.Epoch
	Seq       uint64
	Last      grid.Epoch
}

// copyMsg is one piece of a full copy: the content after effect Seq. Pieces come in order, from 0; the receiver keeps its old data until the
// last one is there.
type copyMsg struct {
	Partition grid.PartitionID
	Epoch     grid.Epoch
	Born      grid.Epoch
	ID        uint64 // names the copy; unique per sender
	Seq       uint64
	Last      grid.Epoch
	Piece, Of int
	Calls     bool // Data is a part of the table of calls, else of the store's content
	Data      []byte
}

// copiedMsg acknowledges the pieces of a copy up to, not including, Next.
type copiedMsg struct {
	Partition grid.PartitionID
	Epoch     grid.Epoch
	ID        uint64
	Next      int
}

// invokeMsg asks the primary to run an operation.
type invokeMsg struct {
	Partition grid.PartitionID
	Op        []byte
	Request   Request       // of a call that writes
	Wait      time.Duration // how long it may wait at the primary for what it needs
}

// invokeManyMsg asks a member to run one operation on several partitions whose primary it should be.
type invokeManyMsg struct {
	Partitions []grid.PartitionID
	Op         []byte
}

// manyReply is the answer of one partition. Code 0 is success.
type manyReply struct {
	Partition grid.PartitionID
	Code      uint16
	Text      string
	Reply     []byte
}

// instructMsg is the master's wish to a primary: make Member primary in its place, or drop it.
type instructMsg struct {
	Partition grid.PartitionID
	Epoch     grid.Epoch
	Op        grid.ReplicaOp
	Member    grid.MemberID
}

func encode(v any) []byte {
	b, err := pack.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("partition: encode %T: %v", v, err)) // our own plain structs always encode
	}
	return b
}

// decode reads a message of untrusted bytes.
func decode[T any](b []byte) (m T, err error) {
	if err := pack.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%w: %T: %v", grid.ErrBadMessage, m, err)
	}
	return m, nil
}
