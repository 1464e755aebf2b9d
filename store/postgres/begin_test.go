package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/postgres"
)

func setsTitle(ctx context.Context, tx store.Tx) error {
	_, err := tx.Exec(ctx, "UPDATE pawl.tasks SET title = 'changed'")
	return err
}

func looks(ctx context.Context, tx store.Tx) error {
	_, err := store.Row(ctx, tx, []any{new(int)}, "SELECT COUNT(*) FROM pawl.tasks WHERE title = 'changed'")
	return err
}

// The beginning of a transaction and what it sets are sent with its first statement.
func TestATransactionBeginsWithItsFirstStatement(t *testing.T) {
	h := newDatabase(t)
	p, url := newPooler(t, 4, true)
	db, err := postgres.Open(t.Context(), url, postgres.Options{Log: quiet, Schema: h.schema})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	type transaction = func(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error
	for _, c := range []struct {
		name  string
		in    transaction
		fn    func(ctx context.Context, tx store.Tx) error
		trips int64
	}{
		{"a view", db.View, looks, 2},
		{"a view by keys", db.View, func(ctx context.Context, tx store.Tx) error { return looks(store.ByKeys(ctx), tx) }, 2},
		{"a change", db.Do, setsTitle, 2},
		{"a whole change", db.Whole, setsTitle, 2},
		{"two statements", db.Do, func(ctx context.Context, tx store.Tx) error { return errors.Join(looks(ctx, tx), setsTitle(ctx, tx)) }, 3},
		{"rows", db.Do, func(ctx context.Context, tx store.Tx) error {
			return tx.ExecEach(ctx, "UPDATE pawl.tasks SET title = $1", [][]any{{"a"}, {"b"}})
		}, 2},
		{"a driver's transaction", db.Do, func(ctx context.Context, tx store.Tx) error {
			_, err := store.Native(tx).(pgx.Tx).Exec(ctx, "SELECT 1")
			return err
		}, 3},
		{"nothing", db.View, func(context.Context, store.Tx) error { return nil }, 0},
	} {
		for try := range 2 { // the first prepares the statements
			before := p.trips.Load()
			if err := c.in(t.Context(), c.fn); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if n := p.trips.Load() - before; try == 1 && n != c.trips {
				t.Errorf("%s waited for %d answers, want %d", c.name, n, c.trips)
			}
		}
	}
}

// A first statement that the server does not know begins no transaction, and nothing after it runs outside of one.
func TestNothingRunsAfterAFirstStatementThatFails(t *testing.T) {
	h := newDatabase(t)
	h.solo(1, nil)
	for _, first := range []string{
		"SELECT no_such_column FROM pawl.tasks", "SELECT 1 / (SELECT COUNT(*) FROM pawl.tasks WHERE title = 'changed')",
	} {
		err := h.db.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			if _, err := store.Row(ctx, tx, []any{new(int)}, first); err == nil {
				t.Errorf("%s: no error", first)
			}
			if err := setsTitle(ctx, tx); err == nil {
				t.Errorf("a statement ran after %s", first)
			}
			return nil
		})
		if err == nil {
			t.Errorf("a transaction was committed after %s", first)
		}
	}
	n := 0
	err := h.db.View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl.tasks WHERE title = 'changed'")
		return err
	})
	if err != nil || n != 0 {
		t.Errorf("%d tasks were changed, %v", n, err)
	}
}
