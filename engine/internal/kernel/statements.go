package kernel

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// statements returns fn with a transaction that calls Statement before each
// statement. Without one it returns fn itself.
func (w *DB) statements(fn func(ctx context.Context, tx store.Tx) error) func(ctx context.Context, tx store.Tx) error {
	if w.Statement == nil {
		return fn
	}
	return func(ctx context.Context, tx store.Tx) error { return fn(ctx, toldTx{tx, w.Statement}) }
}

// toldTx is a transaction that calls statement before each of its statements.
type toldTx struct {
	store.Tx
	statement func(query string)
}

// Exec implements store.Tx.
func (t toldTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	t.statement(query)
	return t.Tx.Exec(ctx, query, args...)
}

// Query implements store.Tx.
func (t toldTx) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	t.statement(query)
	return t.Tx.Query(ctx, query, args...)
}

// ExecEach implements store.Tx.
func (t toldTx) ExecEach(ctx context.Context, query string, rows [][]any) error {
	t.statement(query)
	return t.Tx.ExecEach(ctx, query, rows)
}

// ForgetNow makes Now read the clock again; see store.NowAgain.
func (t toldTx) ForgetNow() {
	if f, ok := t.Tx.(interface{ ForgetNow() }); ok {
		f.ForgetNow()
	}
}

// Unwrap returns the transaction itself.
func (t toldTx) Unwrap() store.Tx { return t.Tx }

// Native returns the driver's own transaction; see store.Native.
func (t toldTx) Native() any { return store.Native(t.Tx) }
