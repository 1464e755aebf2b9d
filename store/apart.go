package store

import (
	"context"
	"errors"
	"time"
)

// apartLock bounds the wait for each lock after things that ran together met a locked row.
const apartLock = 100 * time.Millisecond

// Apart runs things together. If that fails it runs each half by itself, and so on, until each
// failing thing is alone: it is passed to failed, and the others are done. So a row that another
// transaction locks stops only what needs it. Apart returns an error only if stop says that
// trying the other things is pointless.
func Apart[T any](ctx context.Context, things []T, run func(ctx context.Context, things []T) error,
	stop func(error) bool, failed func(T, error)) error {
	if len(things) == 0 {
		return nil
	}
	err := run(ctx, things)
	switch {
	case err == nil:
		return nil
	case stop(err):
		return err
	case len(things) == 1:
		failed(things[0], err)
		return nil
	}
	if wait := LockWaitOf(ctx); errors.Is(err, ErrLocked) && (wait == 0 || wait > apartLock) {
		ctx = WithLockWait(ctx, apartLock)
	}
	mid := len(things) / 2
	if err := Apart(ctx, things[:mid], run, stop, failed); err != nil {
		return err
	}
	return Apart(ctx, things[mid:], run, stop, failed)
}
