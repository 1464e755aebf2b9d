package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill a program when the thread that started it
// ends: that thread must be locked until the program has ended.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }
