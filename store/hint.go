package store

import (
	"context"
	"errors"
	"time"
)

// Purpose says which connections a call uses. Those of a purpose are reserved for
// it: calls that are blocked elsewhere do not keep it waiting.
type Purpose int

// The purposes. Where connections are not scarce they are all one.
const (
	Calls      Purpose = iota // calls of users
	Heartbeats                // and the verbs that time drives, and look-ups of API keys
	Background                // sweeps and the feed
)

// ErrLocked is in the error of a statement that waited too long for a row, or
// another lock, that another transaction holds. The statement has done nothing.
var ErrLocked = errors.New("locked by another transaction")

// ErrLost is in the error of a statement whose connection ended, or could not be
// made. Another try finds another connection; what the statement has done is not
// always known.
var ErrLost = errors.New("the connection to the database is lost")

// hints say how a context's calls are to be carried out.
type hints struct {
	purpose         Purpose
	lockWait, limit time.Duration
}

type hintsKey struct{}

func hintsOf(ctx context.Context) hints {
	h, _ := ctx.Value(hintsKey{}).(hints)
	return h
}

// For marks calls as being for a purpose.
func For(ctx context.Context, p Purpose) context.Context {
	h := hintsOf(ctx)
	h.purpose = p
	return context.WithValue(ctx, hintsKey{}, h)
}

// PurposeOf is what For said.
func PurposeOf(ctx context.Context) Purpose { return hintsOf(ctx).purpose }

// WithLockWait bounds how long a statement waits for each lock; then it is
// ErrLocked. 0 = as the database has it.
func WithLockWait(ctx context.Context, d time.Duration) context.Context {
	h := hintsOf(ctx)
	h.lockWait = d
	return context.WithValue(ctx, hintsKey{}, h)
}

// LockWaitOf is what WithLockWait said.
func LockWaitOf(ctx context.Context) time.Duration { return hintsOf(ctx).lockWait }

// WithLimit bounds each statement; 0 = as the database has it.
func WithLimit(ctx context.Context, d time.Duration) context.Context {
	h := hintsOf(ctx)
	h.limit = d
	return context.WithValue(ctx, hintsKey{}, h)
}

// LimitOf is what WithLimit said.
func LimitOf(ctx context.Context) time.Duration { return hintsOf(ctx).limit }
