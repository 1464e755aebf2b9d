//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

// On systems other than Linux, processes that the tests leave running are not ended.

func startInGroup(cmd *exec.Cmd) (signal func(syscall.Signal), err error) {
	return func(syscall.Signal) { _ = cmd.Process.Kill() }, cmd.Start()
}
