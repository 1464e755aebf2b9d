//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// inode returns the number of a file in its file system.
func inode(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino)
	}
	return 0
}
