//go:build !linux

package childproc

import "os/exec"

// DieWithParent does nothing: only Linux can end a program with its parent.
func DieWithParent(*exec.Cmd) {}
