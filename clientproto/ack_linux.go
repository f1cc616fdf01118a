package clientproto

import "syscall"

// acknowledge has what the connection has received acknowledged now. That it fails costs time only.
func acknowledge(raw syscall.RawConn) {
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
	})
}
