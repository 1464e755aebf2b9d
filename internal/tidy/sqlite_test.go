package tidy

import (
	"path"
	"strconv"
	"testing"
)

// The SQLite store has one kind of connection. It uses database/sql and its driver only for a
// caller's own transaction.
func TestDatabaseSQLIsForCallersTransactions(t *testing.T) {
	each(t, (*file).code, func(f *file) {
		if !f.under("store/sqlite") || path.Base(f.path) == "wrap_tx.go" {
			return
		}
		for _, spec := range f.ast.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if name == "database/sql" || name == "modernc.org/sqlite" {
				t.Errorf("%s:%d: %s is imported outside of wrap_tx.go", f.path, line(spec), name)
			}
		}
	})
}
