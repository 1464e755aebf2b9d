package worker

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"github.com/pawl-work/pawl/internal/childproc"
)

// WatchCommand is the argument with which a worker starts pawl as its watcher process.
const WatchCommand = "watch-process-groups"

// watcher is a process that outlives a killed worker for a moment. It reads the worker's
// process groups from a pipe, and kills them when the pipe ends.
type watcher struct {
	pipe *os.File
	cmd  *exec.Cmd
}

func startWatcher() (*watcher, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command(self, WatchCommand)
	cmd.Args[0], cmd.Stdin, cmd.Dir = os.Args[0], r, "/"
	childproc.SetGroup(cmd) // a terminal's interrupt must not end it
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("watcher of process groups: %w", err)
	}
	return &watcher{w, cmd}, nil
}

// began and ended inform the watcher; a worker without one works as well.
func (w *watcher) began(group int) { w.send("+", group) }
func (w *watcher) ended(group int) { w.send("-", group) }

func (w *watcher) send(sign string, group int) {
	if w != nil {
		_, _ = fmt.Fprintf(w.pipe, "%s%d\n", sign, group) // a watcher that was killed cannot be told
	}
}

func (w *watcher) close() {
	if w != nil {
		w.pipe.Close()
		_ = w.cmd.Wait()
	}
}

// WatchGroups is the code of the watcher process.
func WatchGroups(stdin io.Reader) int {
	groups := map[int]bool{}
	for in := bufio.NewScanner(stdin); in.Scan(); {
		line := in.Text()
		if n, err := strconv.Atoi(line[min(1, len(line)):]); err == nil && n > 1 {
			if line[0] == '+' {
				groups[n] = true
			} else {
				delete(groups, n)
			}
		}
	}
	for n := range groups {
		childproc.KillGroup(n)
	}
	return 0
}
