//go:build !linux

package testserver

import (
	"os/exec"
	"syscall"
)

// On systems other than Linux the server runs as the current user, and only Stop stops it.

func endWithParent(*exec.Cmd, *account, syscall.Signal) {}

func runAs(*exec.Cmd, *account) {}

// RoomOf cannot tell what room there is.
func RoomOf(string) (Room, bool) { return Room{}, false }

func inMemory(string) bool { return false }

func alive(int) bool { return true }

func runnable(string) bool { return false }
