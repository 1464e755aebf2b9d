package childproc

import (
	"os/exec"
	"syscall"
)

// DieWithParent has the kernel kill a program when the thread that started it
// ends: that thread must be locked until the program has ended.
func DieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }
