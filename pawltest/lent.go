package pawltest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// lent is a database of the pool for one engine. Its Close leaves the connections open for the
// next test.
type lent struct {
	store.DB
	dialect store.Dialect
	views   atomic.Pointer[store.DB] // where View reads instead; nil = from DB

	mu     sync.Mutex
	closed bool
	calls  int           // in progress
	idle   chan struct{} // closed when the last call has ended after Close
}

// closeWait is how long Close waits for the calls in progress. A database on which one is still
// in progress then is not used again.
var closeWait = 10 * time.Second

var errClosed = &pawl.Error{Code: pawl.CodeUnavailable, Message: "the database has been closed"}

func lend(db store.DB) *lent {
	l := &lent{DB: db, dialect: *db.Dialect(), idle: make(chan struct{})}
	of := db.Dialect()
	l.dialect.Look = func(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
		return l.call(func() error { return of.Look(ctx, fn) })
	}
	l.dialect.Notify = func(ctx context.Context, payloads []string) error {
		return l.call(func() error { return of.Notify(ctx, payloads) })
	}
	l.dialect.Listen = func(ctx context.Context, ready func(), heard func(payload string)) error {
		return l.call(func() error { return of.Listen(ctx, ready, heard) })
	}
	l.dialect.Changed = func(ctx context.Context) (v int64, err error) {
		err = l.call(func() error { v, err = of.Changed(ctx); return err })
		return v, err
	}
	return l
}

// call runs one call, unless the database is closed.
func (l *lent) call(run func() error) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errClosed
	}
	l.calls++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.calls--; l.closed && l.calls == 0 {
			close(l.idle)
		}
	}()
	return run()
}

// Do implements store.DB.
func (l *lent) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return l.call(func() error { return again(ctx, l.DB.Do, fn) })
}

// twice makes each second transaction run twice, as after a deadlock: the first time it is rolled back. It is for tests of
// this package.
var (
	twice bool
	runs  atomic.Int64

	errAgain = errors.New("pawltest: the transaction runs again")
)

func again(ctx context.Context, do func(context.Context, func(context.Context, store.Tx) error) error,
	fn func(ctx context.Context, tx store.Tx) error) error {
	if !twice || runs.Add(1)%2 == 0 {
		return do(ctx, fn)
	}
	err := do(ctx, func(ctx context.Context, tx store.Tx) error { return cmp.Or(fn(ctx, tx), errAgain) })
	if errors.Is(err, errAgain) {
		err = do(ctx, fn)
	}
	return err
}

// Auto implements store.DB.
func (l *lent) Auto(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return l.call(func() error { return l.DB.Auto(ctx, fn) })
}

// Whole implements store.DB.
func (l *lent) Whole(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return l.call(func() error { return again(ctx, l.DB.Whole, fn) })
}

// View implements store.DB.
func (l *lent) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	from := l.DB
	if other := l.views.Load(); other != nil {
		from = *other
	}
	return l.call(func() error { return from.View(ctx, fn) })
}

// Dialect implements store.DB.
func (l *lent) Dialect() *store.Dialect { return &l.dialect }

// Close implements store.DB: it waits for the calls in progress.
func (l *lent) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		if l.calls == 0 {
			close(l.idle)
		}
	}
	l.mu.Unlock()
	l.left()
	return nil
}

// ended is left, without a wait.
func (l *lent) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed && l.calls == 0
}

// left reports whether the engine has closed the database and no call is in progress.
func (l *lent) left() bool {
	end := time.NewTimer(closeWait)
	defer end.Stop()
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if !closed {
		return false
	}
	select {
	case <-l.idle:
		return true
	case <-end.C:
		return false
	}
}

// logHandler passes the lines of a database to the log of the engine that has it now.
type logHandler struct{ to *atomic.Pointer[slog.Handler] }

// Enabled implements slog.Handler.
func (h logHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return (*h.to.Load()).Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	return (*h.to.Load()).Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(a []slog.Attr) slog.Handler { return (*h.to.Load()).WithAttrs(a) }

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler { return (*h.to.Load()).WithGroup(name) }
