package store

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Purpose says which connections a call uses. Connections are reserved for a purpose, so
// calls that are blocked on other connections do not delay it.
type Purpose int

// The purposes. A database that does not need to limit connections uses the same ones for
// all.
const (
	Calls      Purpose = iota // calls of clients
	Heartbeats                // heartbeats, time-driven verbs and look-ups of API keys
	Background                // sweeps and the feed
)

// ErrLocked is in the error of a statement that waited too long for a lock that another
// transaction holds, for example on a row. The statement has changed nothing.
var ErrLocked = errors.New("locked by another transaction")

// ErrNoneFree is in the error of a transaction that was to run only if a connection is free. It has not
// begun.
var ErrNoneFree = errors.New("no connection is free")

// ErrFenced is in the error of a change that the triggers of a move refuse. The statement has changed nothing.
var ErrFenced = errors.New("a trigger refuses the change")

// ErrLost is in the error of a statement whose connection ended or could not be made. A
// second try gets another connection. It is not always known what the statement has done.
var ErrLost = errors.New("the connection to the database is lost")

// ErrRolledBack is in the error of a statement whose transaction the database ended so that
// others can continue, as after a deadlock. The whole transaction may run again.
var ErrRolledBack = errors.New("the database rolled the transaction back")

// ErrDown is in the error of a statement that the database as a whole could not carry out: it is in
// recovery, read-only, out of connections or memory, its disk is full, or it refused the login. No
// other row fares better, and a later try may succeed.
var ErrDown = errors.New("the database cannot serve now")

// IsDown reports whether an error is that of the whole database, and not of the row or the task
// that the statement was about: ErrDown or ErrLost.
func IsDown(err error) bool { return errors.Is(err, ErrDown) || errors.Is(err, ErrLost) }

// OfDatabase reports whether the database refused a statement, or could not be reached. It is false
// for an error of Pawl's rules and of code of the embedding program, such as a hook.
func OfDatabase(err error) bool {
	var undone Undone
	return IsDown(err) || errors.As(err, &undone)
}

// hints say how to run the calls of a context.
type hints struct {
	purpose         Purpose
	lockWait, limit time.Duration
	byKeys          bool
	once            bool
	ifFree          bool
}

type hintsKey struct{}

func hintsOf(ctx context.Context) hints {
	h, _ := ctx.Value(hintsKey{}).(hints)
	return h
}

// For returns a context whose calls have the given purpose.
func For(ctx context.Context, p Purpose) context.Context {
	h := hintsOf(ctx)
	h.purpose = p
	return context.WithValue(ctx, hintsKey{}, h)
}

// PurposeOf returns the purpose that For has set.
func PurposeOf(ctx context.Context) Purpose { return hintsOf(ctx).purpose }

// WithLockWait bounds how long a statement waits for each lock. After that it fails with
// ErrLocked. 0 = the database's setting.
func WithLockWait(ctx context.Context, d time.Duration) context.Context {
	h := hintsOf(ctx)
	h.lockWait = d
	return context.WithValue(ctx, hintsKey{}, h)
}

// LockWaitOf returns the bound that WithLockWait has set.
func LockWaitOf(ctx context.Context) time.Duration { return hintsOf(ctx).lockWait }

// BoundLockWait is WithLockWait for the rest of a transaction, on PostgreSQL.
func BoundLockWait(ctx context.Context, tx Tx, d time.Duration) error {
	_, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(d.Milliseconds(), 10))
	return err
}

// WithLimit bounds the run time of each statement. 0 = the database's setting.
func WithLimit(ctx context.Context, d time.Duration) context.Context {
	h := hintsOf(ctx)
	h.limit = d
	return context.WithValue(ctx, hintsKey{}, h)
}

// LimitOf returns the bound that WithLimit has set.
func LimitOf(ctx context.Context) time.Duration { return hintsOf(ctx).limit }

// ByKeys returns a context whose queries find their rows by keys. PostgreSQL then reads no table
// as a whole, and does not plan such a query again for other keys. It applies to views.
func ByKeys(ctx context.Context) context.Context {
	h := hintsOf(ctx)
	h.byKeys = true
	return context.WithValue(ctx, hintsKey{}, h)
}

// IsByKeys returns what ByKeys has set.
func IsByKeys(ctx context.Context) bool { return hintsOf(ctx).byKeys }

// Once returns a context whose transactions run once: their code has told others what it found
// and did. They do not end in order to run again with what they need.
func Once(ctx context.Context) context.Context {
	h := hintsOf(ctx)
	h.once = true
	return context.WithValue(ctx, hintsKey{}, h)
}

// IsOnce returns what Once has set.
func IsOnce(ctx context.Context) bool { return hintsOf(ctx).once }

// IfFree returns a context whose transactions do not wait for a connection: if none is free, they fail
// with ErrNoneFree. A caller that is in another transaction needs it: those that have the connections
// may wait for that one.
func IfFree(ctx context.Context) context.Context {
	h := hintsOf(ctx)
	h.ifFree = true
	return context.WithValue(ctx, hintsKey{}, h)
}

// IsIfFree returns what IfFree has set.
func IsIfFree(ctx context.Context) bool { return hintsOf(ctx).ifFree }
