//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

// Elsewhere than on Linux the server runs as ourselves and is stopped by Stop
// alone; what tests leave running stays.

func ownGroup(*exec.Cmd) {}

func signalGroup(cmd *exec.Cmd, _ syscall.Signal) { _ = cmd.Process.Kill() }

func dieWithUs(*exec.Cmd, *account) {}

func runAs(*exec.Cmd, *account) {}

func room(string) uint64 { return 0 }

func alive(int) bool { return true }
