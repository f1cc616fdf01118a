package transport

import (
	"errors"
	"log/slog"
	"time"

	"gridnode/grid"
)

// Config is what a [Transport] needs.
type Config struct {
	Network     Network       // nil means [TCP]
	Bind        string        // host:port to listen on; port 0 takes a free one
	Advertise   string        // host or host:port that others reach it by; empty means the bound address
	Self        grid.MemberID // required
	ClusterName string        // streams of another name are refused

	// Resolve gives a member's address. It is called often and must not block. It may be nil if [Transport.ResolveWith] is called before Run.
	Resolve func(grid.MemberID) (addr string, ok bool)

	Logger *slog.Logger // nil discards
}

// Validate names the first field that cannot be used.
func (c *Config) Validate() error {
	switch {
	case c.Self == "":
		return errors.New("transport: Self is empty")
	case c.Bind == "":
		return errors.New("transport: Bind is empty")
	}
	return nil
}

const (
	dialTimeout    = time.Second
	sniffTimeout   = 5 * time.Second // for the first bytes and the handshake of an accepted stream
	firstBackoff   = 20 * time.Millisecond
	maxBackoff     = time.Second
	pingEvery      = time.Second
	maxMissedPings = 5 // intervals without a byte from the other side after which the connection is given up
	writeStall     = 5 * time.Second
	maxBuffer      = 64 << 20 // bytes waiting on one connection
	keepBuffer     = 1 << 20  // a write buffer larger than this is not kept
	maxHandshake   = 4 << 10
	forgetAfter    = time.Minute // an unused destination
)
