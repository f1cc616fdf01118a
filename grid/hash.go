package grid

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// HashSeed is the seed that Hazelcast hashes keys with, so that its clients find a key's partition themselves.
const HashSeed = 0x01000193

// Hash is MurmurHash3 x86 32 of data with [HashSeed]; blocks are read little-endian. Source: Austin Appleby's reference, as Hazelcast uses it.
func Hash(data []byte) int32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	h := uint32(HashSeed)
	n := len(data)
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * c1
		k = bits.RotateLeft32(k, 15) * c2
		h = bits.RotateLeft32(h^k, 13)*5 + 0xe6546b64
	}
	var k uint32
	switch len(data) {
	case 3:
		k ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		k ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		k ^= uint32(data[0])
		k = bits.RotateLeft32(k*c1, 15) * c2
		h ^= k
	}
	h ^= uint32(n)
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	return int32(h)
}

// PartitionOf maps a key's hash to one of n partitions, as Hazelcast does.
func PartitionOf(hash int32, n int) PartitionID {
	if hash == math.MinInt32 {
		return 0
	}
	if hash < 0 {
		hash = -hash
	}
	return PartitionID(int(hash) % n)
}
