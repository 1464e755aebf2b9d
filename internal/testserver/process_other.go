//go:build !linux

package testserver

import (
	"os/exec"
	"syscall"
)

// On systems other than Linux the server runs as the current user, and only Stop stops it.

func endWithParent(*exec.Cmd, *account, syscall.Signal) {}

func runAs(*exec.Cmd, *account) {}

func freeBytes(string) uint64 { return 0 }

func inMemory(string) bool { return false }

func alive(int) bool { return true }

func runnable(string) bool { return false }
