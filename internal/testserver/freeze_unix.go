//go:build unix

package testserver

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Freeze sends SIGSTOP to all processes of the server: connections stay open and
// nothing answers, as when the whole machine hangs. Stop works on a frozen server.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw sends SIGCONT to a frozen server.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

// signal signals the first process and its children, which have their own sessions.
// The first process is signalled first, so that it starts no more children.
func (s *Server) signal(sig syscall.Signal) error {
	if err := syscall.Kill(s.PID(), sig); err != nil {
		return err
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // the program's name ends here
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(s.PID()) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				return err
			}
			_ = syscall.Kill(pid, sig) // the process may have ended
		}
	}
	return nil
}
