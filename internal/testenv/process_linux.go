package main

import (
	"os/exec"
	"strconv"
	"syscall"
)

// ownGroup makes cmd the leader of a process group, which can be signalled as one.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup signals all processes that cmd started and that did not leave its group.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, sig) }

// endGroupWithParent starts a watcher that kills the group of cmd when this process ends without a word, as by a kill: its
// stdin ends then. stop ends the watcher.
func endGroupWithParent(cmd *exec.Cmd) (stop func()) {
	watcher := exec.Command("sh", "-c", `read -r _; kill -9 -"$0"`, strconv.Itoa(cmd.Process.Pid))
	ownGroup(watcher)
	_, err := watcher.StdinPipe()
	if err == nil {
		err = watcher.Start()
	}
	if err != nil {
		note("what this run starts may outlive it: %v", err)
		return func() {}
	}
	return func() {
		_ = watcher.Process.Kill()
		_ = watcher.Wait() // killed
	}
}
