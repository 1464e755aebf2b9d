package testserver

import (
	"math"
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

// RoomOf returns the room of the file system that a directory is on; ok is false if that cannot be told.
func RoomOf(dir string) (room Room, ok bool) {
	var s syscall.Statfs_t
	var of syscall.Stat_t
	if syscall.Statfs(dir, &s) != nil || syscall.Stat(dir, &of) != nil {
		return Room{}, false
	}
	room = Room{System: uint64(of.Dev), Bytes: s.Bavail * uint64(s.Bsize), Files: s.Ffree}
	if s.Files == 0 { // it does not count them
		room.Files = math.MaxUint64
	}
	return room, true
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
