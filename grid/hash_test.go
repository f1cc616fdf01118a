package grid

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

// The vectors were taken from official Hazelcast clients: Go, Node.js and Python agreed on every one. data is the serialized key as it
// travels; its first 8 bytes, partition hash and type, are not hashed.
func TestHash_IsHazelcasts(t *testing.T) {
	for _, test := range []struct {
		value, data string
		hash        int32
		partition   PartitionID
	}{
		{"string k", "00000000 fffffff5 00000001 6b", 211586814, 41},
		{"string v", "00000000 fffffff5 00000001 76", 355565182, 174},
		{"string key", "00000000 fffffff5 00000003 6b6579", 1476017569, 80},
		{"empty string", "00000000 fffffff5 00000000", 923237662, 11},
		{"string counter", "00000000 fffffff5 00000007 636f756e746572", -317898450, 3},
		{"int32 1", "00000000 fffffff9 00000001", 768969306, 31},
		{"int64 1", "00000000 fffffff8 0000000000000001", 1824103549, 110},
		{"int64 42", "00000000 fffffff8 000000000000002a", 1624962215, 145},
		{"boolean true", "00000000 fffffffc 01", 535970202, 223},
		{"int16 1", "00000000 fffffffa 0001", -519236155, 155},
		{"double 1.5", "00000000 fffffff6 3ff8000000000000", -867000382, 109},
		{"JSON", "00000000 ffffff7e 00000007 7b2261223a317d", 1343167611, 13},
	} {
		t.Run(test.value, func(t *testing.T) {
			data, err := hex.DecodeString(strings.ReplaceAll(test.data, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			if got := Hash(data[8:]); got != test.hash {
				t.Errorf("hash %d, want %d", got, test.hash)
			}
			if got := PartitionOf(test.hash, DefaultPartitions); got != test.partition {
				t.Errorf("partition %d, want %d", got, test.partition)
			}
		})
	}
}

func TestPartitionOf_Edges(t *testing.T) {
	for _, test := range []struct {
		hash int32
		n    int
		want PartitionID
	}{
		{math.MinInt32, DefaultPartitions, 0}, // it has no absolute value
		{math.MinInt32 + 1, DefaultPartitions, math.MaxInt32 % DefaultPartitions},
		{math.MaxInt32, DefaultPartitions, math.MaxInt32 % DefaultPartitions},
		{-1, DefaultPartitions, 1},
		{0, DefaultPartitions, 0},
		{12345, 1, 0},
	} {
		if got := PartitionOf(test.hash, test.n); got != test.want {
			t.Errorf("PartitionOf(%d, %d) = %d, want %d", test.hash, test.n, got, test.want)
		}
	}
}
