//go:build !unix

package clientproto

import "syscall"

// writeNow leaves everything to the writer.
func writeNow(syscall.RawConn, []byte) int { return 0 }
