//go:build !linux

package clientproto

import "syscall"

// acknowledge does nothing where a system has no such option.
func acknowledge(syscall.RawConn) {}
