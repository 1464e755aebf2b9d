package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"modernc.org/sqlite"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// WrapTx runs Pawl's statements in a caller's own transaction on the same file, opened
// with the driver "sqlite" of modernc.org/sqlite. Other drivers do not work: they number
// $2, $1 in the order of the text, and Pawl does not know the codes of their errors.
//
// The caller commits or rolls back. After an error other than a conflict the caller must
// roll back. Begin such a transaction with _txlock=immediate if possible: one that has
// read first may not be able to write, which is answered with unavailable. now nil = the
// machine's clock.
func WrapTx(sqlTx *sql.Tx, now func() time.Time) store.Tx {
	if now == nil {
		now = clock.Now
	}
	return wrap(sqlTx, newMonotonicClock(now, nil), rewrite)
}

func wrap(sqlTx *sql.Tx, clock *monotonicClock, rewrite func(string) string) store.Tx {
	return &wrapped{tx: sqlTx, rewrite: rewrite, clock: clock, stmts: map[string]*sql.Stmt{}}
}

// wrapAny is WrapTx for a value of any type, with the clock of the database: one of its own would not know
// of a jump, and its events would take the clock of the database with them. It returns nil when the value
// is no *sql.Tx.
func (d *db) wrapAny(tx any) store.Tx {
	if t, ok := tx.(*sql.Tx); ok {
		return wrap(t, d.clock, d.rewrite)
	}
	return nil
}

type wrapped struct {
	tx      *sql.Tx
	rewrite func(string) string
	clock   *monotonicClock
	now     int64
	stmts   map[string]*sql.Stmt // closed with the transaction
}

func (w *wrapped) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if st, found := w.stmts[query]; found {
		return st, nil
	}
	st, err := w.tx.PrepareContext(ctx, w.rewrite(query))
	if err != nil {
		return nil, classify(err)
	}
	w.stmts[query] = st
	return st, nil
}

func (w *wrapped) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	st, err := w.statement(ctx, query)
	if err != nil {
		return 0, err
	}
	res, err := st.ExecContext(ctx, args...)
	if err != nil {
		return 0, classify(err)
	}
	n, err := res.RowsAffected()
	return n, classify(err)
}

// Query does not keep the statement, because its rows may still be read when the same text
// is queried again.
func (w *wrapped) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	rows, err := w.tx.QueryContext(ctx, w.rewrite(query), args...)
	if err != nil {
		return nil, classify(err)
	}
	return wrappedRows{rows}, nil
}

func (w *wrapped) ExecEach(ctx context.Context, query string, rows [][]any) error {
	for _, args := range rows {
		if _, err := w.Exec(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}

func (w *wrapped) Now(ctx context.Context) (int64, error) {
	if w.now == 0 {
		now, err := w.clock.now(ctx, w)
		if err != nil {
			return 0, err
		}
		w.now = now
	}
	return w.now, nil
}

type wrappedRows struct{ *sql.Rows }

func (r wrappedRows) Scan(dest ...any) error { return classify(r.Rows.Scan(dest...)) }
func (r wrappedRows) Err() error             { return classify(r.Rows.Err()) }
func (r wrappedRows) Close()                 { _ = r.Rows.Close() }

// driverCode returns the extended result code of the driver's error, or 0 for any other
// error.
func driverCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}
