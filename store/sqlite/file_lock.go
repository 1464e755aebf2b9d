package sqlite

import (
	"context"
	"os"
	"time"

	"github.com/pawl-work/pawl"
)

// lockFile waits until this process holds the lock file at path alone. release removes the
// file. A file that its last holder has just removed does not count as locked.
func lockFile(ctx context.Context, path string) (release func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate", Message: "the lock file " + path + " cannot be made", Err: err}
		}
		held, err := tryLock(f)
		if err != nil {
			f.Close()
			return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate", Message: "the file " + path + " cannot be locked", Err: err}
		}
		if held && isStill(f, path) {
			return func() {
				_ = os.Remove(path) // on a system that cannot remove an open file it stays, which does no harm
				_ = f.Close()       // this releases the lock
			}, nil
		}
		f.Close()
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate", Message: "given up while another process was migrating",
				Err: ctx.Err()}
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
