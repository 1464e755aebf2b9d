package sqlite

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/durable"
)

// lockFile waits until this process holds the lock file at path alone. release removes the
// file.
func lockFile(ctx context.Context, path string) (release func(), err error) {
	release, err = durable.Lock(ctx, path)
	switch {
	case err == nil:
		return release, nil
	case ctx.Err() != nil:
		return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate", Message: "given up while another process was migrating", Err: err}
	}
	return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate", Message: err.Error(), Err: err}
}
