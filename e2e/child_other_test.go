//go:build unix && !linux

package e2e

import "syscall"

// childAttributes give a child a group of its own, if wanted: then it does not hear the terminal's Ctrl-C.
func childAttributes(group bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: group} }
