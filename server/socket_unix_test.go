//go:build unix

package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// socketPath returns a path that is short enough for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// onSocket serves h on a socket until stop; refused is the error if it cannot.
func onSocket(t *testing.T, path string, h http.Handler) (stop func() error, refused error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var log strings.Builder
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, "unix:"+path, h,
			server.ServeOptions{Log: slog.New(slog.NewTextHandler(&log, nil)), Listening: func(net.Addr) { close(up) }})
	}()
	select {
	case err := <-ended:
		cancel()
		return nil, err
	case <-up:
	}
	return sync.OnceValue(func() error {
		cancel()
		err := <-ended
		if log.Len() > 0 {
			t.Errorf("the log is %q", log.String())
		}
		return err
	}), nil
}

// A server on a Unix socket accepts calls without keys. Only its owner can use the file, which
// is removed when the server ends.
func TestASocketIsServed(t *testing.T) {
	path := socketPath(t)
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	p := pawltest.Open(t, pawltest.SQLite)
	stop, err := onSocket(t, path, server.New(p.Service, server.Options{Log: slog.New(slog.DiscardHandler)}))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket's mode is %v, %v", info.Mode(), err)
	}
	if server.Public("unix:" + path) {
		t.Error("a socket is said to be public")
	}
	c := client.New("unix:"+path, "")
	task, err := pawl.Create(t.Context(), c, pawl.NewTask{Type: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Service.GetTask(t.Context(), task.ID); err != nil || got.Type != "a" {
		t.Errorf("the task is %v, %v", got, err)
	}
	if _, err := onSocket(t, path, http.NotFoundHandler()); !errors.Is(err, pawl.ErrUnavailable) ||
		errors.Unwrap(err).Error() != "another server listens on it" {
		t.Errorf("a second server: %v", err)
	}
	if _, err := c.GetTask(t.Context(), task.ID); err != nil {
		t.Errorf("after a second server was refused: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// The socket of a killed server is replaced. A file that is not a socket stays unchanged.
func TestAStaleSocketIsReplaced(t *testing.T) {
	path := socketPath(t)
	killed, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	killed.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := killed.Close(); err != nil {
		t.Fatal(err)
	}
	stop, err := onSocket(t, path, http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := onSocket(t, path, http.NotFoundHandler()); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("in place of a file: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// Of servers that start at the same time over a stale socket, one listens and can be reached.
func TestOneOfManyServersGetsASocket(t *testing.T) {
	path := socketPath(t)
	for range 300 {
		stale, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		stale.(*net.UnixListener).SetUnlinkOnClose(false)
		_ = stale.Close()
		stops := make(chan func() error, 8)
		var starting sync.WaitGroup
		for range cap(stops) {
			starting.Go(func() {
				if stop, err := onSocket(t, path, http.NotFoundHandler()); err == nil {
					stops <- stop
				} else if !errors.Is(err, pawl.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
		starting.Wait()
		if len(stops) != 1 {
			t.Errorf("%d servers listen", len(stops))
		}
		if c, err := net.Dial("unix", path); err != nil {
			t.Error(err)
		} else {
			_ = c.Close()
		}
		for range len(stops) {
			if err := (<-stops)(); err != nil {
				t.Error(err)
			}
		}
	}
}
