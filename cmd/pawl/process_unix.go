//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// group gives a program a process group of its own: it and what it starts stop
// together, and a terminal's interrupt reaches only us.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks a program's group to stop, kill makes it. There may be nobody left.
func terminate(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func kill(cmd *exec.Cmd)            { killGroup(cmd.Process.Pid) }
func killGroup(id int)              { _ = syscall.Kill(-id, syscall.SIGKILL) }

// freeze stops this process until another thaws it. Another thread may be the
// one that gets the signal, and until it stops us all this one would go on, into
// a transaction perhaps that then stays open: hence the pause.
func freeze() error {
	err := syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	time.Sleep(100 * time.Millisecond)
	return err
}

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// wasKilled reads SIGKILL from how a process ended.
func wasKilled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	s, ok := exit.Sys().(syscall.WaitStatus)
	return ok && s.Signaled() && s.Signal() == syscall.SIGKILL
}
