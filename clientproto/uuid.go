package clientproto

import (
	"crypto/sha256"

	"github.com/google/uuid"
)

// uuidValue is a UUID in network order. The zero value stands for null.
type uuidValue [16]byte

// uuidOf parses a UUID as members write theirs. Whatever else a text is, it becomes a UUID of its own.
func uuidOf(s string) uuidValue {
	if u, err := uuid.Parse(s); err == nil {
		return uuidValue(u)
	}
	sum := sha256.Sum256([]byte(s))
	return uuidValue(sum[:16])
}

func newUUID() uuidValue { return uuidValue(uuid.New()) }

func (u uuidValue) String() string { return uuid.UUID(u).String() }
