//go:build unix

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// longestSocket is how many bytes the path of a socket may have on this system.
const longestSocket = len(syscall.RawSockaddrUnix{}.Path) - 1

// listenSocket listens on a socket file that only its owner can use. It replaces the file of a
// server that has gone. Closing the listener removes the file.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // this releases the lock
	if err := lock(ctx, dir); err != nil {
		return nil, err
	}
	// Linux makes the file with the mode of the socket, so no other user can connect before
	// chmod.
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) }) // other systems refuse this
	}}
	ln, err := private.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err = removeStale(ctx, path); err != nil {
			return nil, err
		}
		ln, err = private.Listen(ctx, "unix", path)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = ln.Close()
		return nil, err
	}
	return ln, nil
}

// lock lets one server at a time listen in a directory: a socket that is bound and does not
// listen yet looks like that of a server that has gone.
func lock(ctx context.Context, dir *os.File) error {
	const patience, pause = 5 * time.Second, 10 * time.Millisecond
	for end := clock.Now().Add(patience); ; {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR), clock.Now().After(end):
			return fmt.Errorf("cannot lock the directory: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// removeStale removes a socket file that no server listens on. It removes no other file.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return errors.New("there is a file that is no socket")
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
		return errors.New("another server listens on it")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
