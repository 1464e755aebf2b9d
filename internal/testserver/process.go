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

// account is the user a server runs as, where we are root and it must not be.
type account struct{ uid, gid uint32 }

// accountOf is the account of a name; nil, ourselves, unless we are root.
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

// process is a program of ours that runs until end, or until we are gone.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// launch starts cmd as who. Should we be killed, the kernel sends it orphaned.
func launch(cmd *exec.Cmd, who *account, orphaned syscall.Signal) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.exited)
		runtime.LockOSThread() // until it ends: the kernel ties the program's life to this thread's
		dieWithUs(cmd, who, orphaned)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return p, <-started
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// end signals the program, waits for its end and kills it after 10 s. One that
// was never started has ended.
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
