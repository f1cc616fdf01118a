//go:build unix && !linux

package main

import "syscall"

// childAttributes keep the terminal's Ctrl-C from a child: it is told by us.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
