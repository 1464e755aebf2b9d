package postgres

import (
	"syscall"
	"time"
)

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT, which package syscall lacks

// setUserTimeout bounds how long sent data may stay unacknowledged. On an old kernel
// without this option, only the limits of statements apply.
func setUserTimeout(fd uintptr, d time.Duration) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
}
