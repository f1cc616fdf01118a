package e2e

import "syscall"

// childAttributes make a child end with this process, however that ends. One with a group of its own does not hear the terminal's Ctrl-C.
func childAttributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group, Pdeathsig: syscall.SIGKILL}
}
