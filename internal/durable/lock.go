package durable

import (
	"context"
	"fmt"
	"os"
	"time"
)

// lockRetry is the pause between two attempts to get a lock.
const lockRetry = 10 * time.Millisecond

// Lock waits until this process holds the lock file at path alone, or ctx ends. release
// removes the file. A file that its last holder has just removed does not count as locked.
func Lock(ctx context.Context, path string) (release func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, fmt.Errorf("the lock file %s cannot be made: %w", path, err)
		}
		held, err := tryLock(f)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("the file %s cannot be locked: %w", path, err)
		}
		if held && isStill(f, path) {
			return func() {
				_ = os.Remove(path) // on a system that cannot remove an open file it stays, which does no harm
				_ = f.Close()       // this releases the lock
			}, nil
		}
		f.Close()
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func isStill(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(open, named)
}
