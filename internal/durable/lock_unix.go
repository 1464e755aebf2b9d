//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks an open file until it is closed or its process ends. It returns false when
// another process holds the lock.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
