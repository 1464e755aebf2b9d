//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

// On systems other than Linux, processes that the tests leave running are not ended.

func ownGroup(*exec.Cmd) {}

func signalGroup(cmd *exec.Cmd, _ syscall.Signal) { _ = cmd.Process.Kill() }

func endGroupWithParent(*exec.Cmd) (stop func()) { return func() {} }
