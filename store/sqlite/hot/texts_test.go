package hot_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/sqlite"
	"github.com/pawl-work/pawl/store/sqlite/hot"
)

func TestEveryTextPrepares(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "work.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Dialect().Migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(hot.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		for text, query := range store.Texts(hot.Files, name) {
			n++
			// EXPLAIN compiles the statement and runs nothing; what is not bound is NULL.
			err := db.View(t.Context(), func(ctx context.Context, tx store.Tx) error {
				rows, err := tx.Query(ctx, "EXPLAIN "+query, make([]any, 30)...)
				if err == nil {
					rows.Close()
				}
				return err
			})
			if err != nil {
				t.Errorf("%s %s: %v", name, text, err)
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d texts were found", n)
	}
}
