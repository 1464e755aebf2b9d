//go:build !unix

package sqlite

import "os"

// inode returns 0: the system has no such number.
func inode(os.FileInfo) uint64 { return 0 }
