package main

import "syscall"

// childAttributes make a member end with this process, however that ends, and deaf to the terminal's Ctrl-C.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
