package testserver

import (
	"os/exec"
	"syscall"
)

// endWithParent prepares cmd to run as the given user, in a process group of its own, so that
// Ctrl-C in the terminal reaches only this process. If this process is killed, the kernel
// sends cmd a signal. The kernel watches the thread that starts cmd: the caller must have
// locked it and keep it.
func endWithParent(cmd *exec.Cmd, u *account, orphaned syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: orphaned}
	runAs(cmd, u)
}

// runAs makes cmd run as the given user; nil is the current user.
func runAs(cmd *exec.Cmd, u *account) {
	if u == nil {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.uid, Gid: u.gid}
}

// freeBytes returns how many bytes are free at a path.
func freeBytes(path string) uint64 {
	var s syscall.Statfs_t
	if syscall.Statfs(path, &s) != nil {
		return 0
	}
	return s.Bavail * uint64(s.Bsize)
}

// alive reports whether a process exists.
func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

// inMemory reports whether a directory is in memory, so that it is lost with the machine's
// power.
func inMemory(path string) bool {
	const tmpfs, ramfs = 0x01021994, 0x858458f6
	var s syscall.Statfs_t
	return syscall.Statfs(path, &s) == nil && (uint32(s.Type) == tmpfs || uint32(s.Type) == ramfs)
}

// runnable reports whether programs may run from a directory.
func runnable(path string) bool {
	const noexec = 8
	var s syscall.Statfs_t
	return syscall.Statfs(path, &s) == nil && s.Flags&noexec == 0
}
