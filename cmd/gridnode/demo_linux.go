package main

import "syscall"

// childAttributes make a child end with this process, however that ends, and keep the terminal's Ctrl-C from it: it is told by us.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
