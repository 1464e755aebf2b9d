package sweep_test

import (
	"context"
	"testing"

	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// besideDB runs something else before the first write of its first transaction.
type besideDB struct {
	store.DB
	before func()
}

func (b *besideDB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return b.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error { return fn(ctx, &besideTx{tx, b}) })
}

func (b *besideDB) once() {
	if before := b.before; before != nil {
		b.before = nil
		before()
	}
}

type besideTx struct {
	store.Tx
	db *besideDB
}

func (t *besideTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	t.db.once()
	return t.Tx.Exec(ctx, query, args...)
}

func (t *besideTx) ExecEach(ctx context.Context, query string, rows [][]any) error {
	t.db.once()
	return t.Tx.ExecEach(ctx, query, rows)
}

// A fork of an archived task reads the task's own rows if it is restored meanwhile.
func TestAnArchiveIsReadBesideItsRestore(t *testing.T) {
	each(t, func(h *fixture) {
		if h.Database == pawltest.SQLite {
			return // transactions that write follow each other
		}
		task := createFullTask(h)
		h.OK(h.Retire(h.Context(), task.ID))
		db := &besideDB{DB: h.DB, before: func() { h.OK(h.Restore(h.Context(), "default", task.ID)) }}
		read := 0
		h.OK(h.Peek(h.Context(), db, "default", task.ID, func(ctx context.Context, tx store.Tx, archived bool) error {
			read++
			_, err := store.GetTask(ctx, tx, "default", task.ID)
			if err == nil && archived {
				t.Error("the rows of the archive were read")
			}
			return err
		}))
		h.same(read, 1, "reads")
	})
}
