package main

import (
	"os/exec"
	"syscall"
)

// ownGroup makes cmd the leader of a process group, which can be signalled as one.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup signals all processes that cmd started and that did not leave its group.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, sig) }
