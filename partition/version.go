package partition

import "gridnode/grid"

// Version names one write of an entry: the epoch in which the write was made, and its sequence number in the partition. Versions of a
// partition grow and are never used twice, also when a write is lost with its primary.
type Version uint64

const seqBits = 40

// MakeVersion joins an epoch (below 2^24) and a sequence number (below 2^40).
func MakeVersion(e grid.Epoch, seq uint64) Version {
	return Version(uint64(e)<<seqBits | seq&(1<<seqBits-1))
}

// Epoch is the epoch in which the write was made.
func (v Version) Epoch() grid.Epoch { return grid.Epoch(v >> seqBits) }

// Seq is the sequence number of the write.
func (v Version) Seq() uint64 { return uint64(v) & (1<<seqBits - 1) }
