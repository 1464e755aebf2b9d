//go:build unix

package gate

import (
	"errors"
	"syscall"
)

// nothingCame looks into a socket without reading from it.
func nothingCame(fd uintptr) bool {
	_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return errors.Is(err, syscall.EAGAIN)
}
