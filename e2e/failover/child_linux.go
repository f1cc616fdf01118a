package main

import "syscall"

// childAttributes give a child a group of its own, so that it does not hear the terminal's Ctrl-C, and end it with the thread that started it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
