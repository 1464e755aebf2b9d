package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// account is the user that a server runs as, for servers that refuse to run as root.
type account struct{ uid, gid uint32 }

// accountOf returns the account of a name if this process runs as root, else nil: the current
// user.
func accountOf(name string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("a server does not run as root, and there is no user %s", name)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &account{uint32(uid), uint32(gid)}, errors.Join(err1, err2)
}

// process is a program that this process started. It runs until end, or until this process
// ends.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// launch starts cmd as who. If this process is killed, the kernel sends the program the signal
// orphaned.
func launch(cmd *exec.Cmd, who *account, orphaned syscall.Signal) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.exited)
		runtime.LockOSThread() // until the program ends: the kernel ties its life to this thread
		endWithParent(cmd, who, orphaned)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return p, <-started
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// end signals the program and waits for its end; it kills the program after 10 s. It does
// nothing for a program that was never started.
func (p *process) end(sig syscall.Signal) {
	if p == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}
