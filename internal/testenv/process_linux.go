package main

import (
	"os/exec"
	"syscall"
)

// startInGroup starts cmd in a process group of its own. signal reaches all processes that cmd started and that did not leave
// the group. The group also ends when this process is killed, at any time after the start: its leader, which is older than
// cmd, sees the end of its stdin then.
func startInGroup(cmd *exec.Cmd) (signal func(syscall.Signal), err error) {
	leader := exec.Command("sh", "-c", `trap '' TERM; read -r _; kill -9 0`)
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err = leader.StdinPipe(); err == nil {
		err = leader.Start()
	}
	if err != nil {
		return nil, err
	}
	go func() { _ = leader.Wait() }() // killed
	signal = func(sig syscall.Signal) { _ = syscall.Kill(-leader.Process.Pid, sig) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: leader.Process.Pid}
	if err = cmd.Start(); err != nil {
		signal(syscall.SIGKILL)
	}
	return signal, err
}
