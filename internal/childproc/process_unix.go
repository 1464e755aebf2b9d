//go:build unix

// Package childproc starts and ends child processes in process groups, and keeps the
// beginning or the end of their output.
package childproc

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// SetGroup gives a program a process group of its own: it and its children stop
// together, and an interrupt from the terminal reaches this process only.
func SetGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Terminate sends SIGTERM to a program's process group.
func Terminate(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// Kill sends SIGKILL to a program's process group. It reports whether the group had a process.
func Kill(cmd *exec.Cmd) bool { return KillGroup(cmd.Process.Pid) }

// KillGroup sends SIGKILL to a process group. It reports whether the group had a process.
func KillGroup(id int) bool { return syscall.Kill(-id, syscall.SIGKILL) == nil }

// Freeze sends SIGSTOP to this process and returns after SIGCONT. The signal may be
// delivered to another thread. The pause keeps this thread from continuing until then,
// for example into a transaction that would stay open.
func Freeze() error {
	err := syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	time.Sleep(100 * time.Millisecond)
	return err
}

// Thaw sends SIGCONT to a frozen process.
func Thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// WasKilled reports whether SIGKILL ended a process.
func WasKilled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	s, ok := exit.Sys().(syscall.WaitStatus)
	return ok && s.Signaled() && s.Signal() == syscall.SIGKILL
}

// KillChildrenAtEnd does nothing on Unix: a watcher kills the process groups.
func KillChildrenAtEnd() error { return nil }
