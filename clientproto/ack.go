package clientproto

import (
	"net"
	"syscall"
)

// The Go client's connections hold back the end of a request until what came before it is acknowledged, and a system may take 40 ms before it
// acknowledges by itself what it has no answer to. So while a message is only partly there, what came is acknowledged at once.

// rawOf returns what acknowledge needs; nil if the system cannot be told.
func rawOf(c net.Conn) syscall.RawConn {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}
