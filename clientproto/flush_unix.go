//go:build unix

package clientproto

import (
	"errors"
	"syscall"
)

// writeNow writes as much of b as the system takes without waiting, and returns how much that was. Of a connection that is broken it takes nothing.
func writeNow(raw syscall.RawConn, b []byte) (n int) {
	_ = raw.Write(func(fd uintptr) bool {
		for n < len(b) {
			m, err := syscall.Write(int(fd), b[n:])
			if n += max(m, 0); err != nil && !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		return true
	})
	return n
}
