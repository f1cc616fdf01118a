//go:build unix && !linux

package main

import "syscall"

// childAttributes give a child a group of its own, so that it does not hear the terminal's Ctrl-C.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
