package kernel

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/pawl-work/pawl/store"
)

// DB is a database that wakes the feed after each transaction of this process.
// When a migration has excluded this program, it refuses all transactions.
type DB struct {
	store.DB
	Moves     Moves
	Wake      func()
	Statement func(query string) // engine.Options.Statement
	excluded  atomic.Pointer[error]
}

// Excluded says that a migration has excluded this program; nil = none has.
func (w *DB) Excluded() error {
	if err := w.excluded.Load(); err != nil {
		return *err
	}
	return nil
}

// Do implements store.DB.
func (w *DB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	a := w.attempts()
	for fn = w.statements(fn); a.next(ctx); {
		a.err = w.DB.Do(ctx, fn)
	}
	return w.wrote(a.err)
}

// Auto implements store.DB.
func (w *DB) Auto(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	a := w.attempts()
	for fn = w.statements(fn); a.next(ctx); {
		a.err = w.DB.Auto(ctx, fn)
	}
	return w.wrote(a.err)
}

// Whole implements store.DB.
func (w *DB) Whole(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	a := w.attempts()
	for fn = w.statements(fn); a.next(ctx); {
		a.err = w.DB.Whole(ctx, fn)
	}
	return w.wrote(a.err)
}

// View implements store.DB.
func (w *DB) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := w.admits(ctx); err != nil {
		return err
	}
	return w.learn(w.DB.View(ctx, w.statements(fn)))
}

// Look is View for statements that need no common snapshot; see store.Dialect.
func (w *DB) Look(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := w.admits(ctx); err != nil {
		return err
	}
	return w.learn(w.Dialect().Look(ctx, w.statements(fn)))
}

// Look is the Look of the database. In a transaction it reads there.
func (k *Kernel) Look(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if k.Scope != nil {
		return k.DB.View(ctx, fn)
	}
	return k.Base.Look(ctx, fn)
}

// admits returns why no transaction of a caller may run.
func (w *DB) admits(ctx context.Context) error {
	if err := w.Excluded(); err != nil {
		return err
	}
	return w.refuse(ctx)
}

// admission is admits for the parts of tx, a transaction that a caller began itself. It looks at the schema
// once: such a transaction is on a connection that no one else examines.
func (w *DB) admission(tx store.Tx) func(ctx context.Context) error {
	fits := false
	return func(ctx context.Context) error {
		err := w.admits(ctx)
		if err == nil && !fits {
			err = w.fitsIn(ctx, tx)
			fits = err == nil
		}
		return err
	}
}

// fitsIn is Fits in a transaction that a caller began. What an old snapshot of its does not have is read beside it, if a
// connection is free: others may wait for this transaction with those that are not.
func (w *DB) fitsIn(ctx context.Context, tx store.Tx) error {
	old, err := w.Dialect().Snapshot(ctx, tx)
	if err == nil && old {
		if err := w.Fits(store.IfFree(ctx)); !errors.Is(err, store.ErrNoneFree) {
			return err
		}
	}
	return cmp.Or(err, w.learn(store.CheckSchema(ctx, tx, w.Dialect().Migrator)))
}

// wrote wakes the feed after a transaction that may have written and that returned err.
func (w *DB) wrote(err error) error {
	w.Wake()
	return w.learn(err)
}

// learn returns err and remembers if it says that this program is excluded.
func (w *DB) learn(err error) error {
	if errors.Is(err, store.ErrExcluded) {
		w.excluded.Store(&err)
	}
	return err
}

// Fits checks that this program may still use the schema.
func (w *DB) Fits(ctx context.Context) error {
	return w.Look(ctx, func(ctx context.Context, tx store.Tx) error { return store.CheckSchema(ctx, tx, w.Dialect().Migrator) })
}
