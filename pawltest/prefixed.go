package pawltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/store"
)

// prefix begins the names of Pawl's tables in a Prefixed database.
const prefix = "pawl_"

// sqliteURL returns the URL of a file.
func (d Database) sqliteURL(path string) string {
	if d == Prefixed {
		return "sqlite:" + path + "?prefix=" + prefix
	}
	return "sqlite:" + path
}

// local says that a database is a file.
func (d Database) local() bool { return d == SQLite || d == Prefixed }

// addApplication adds to a file with prefixed tables what an application might have: an object with the
// name of each of Pawl's tables and views. What writes to one of them fails.
func addApplication(path string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Query("SELECT substr(name, $1) FROM sqlite_schema WHERE type IN ('table', 'view') AND name LIKE 'pawl\\_%' ESCAPE '\\'",
		len(prefix)+1)
	if err != nil {
		return err
	}
	var names []string
	for rows.Next() {
		var name string
		err = errors.Join(err, rows.Scan(&name))
		names = append(names, name)
	}
	for _, name := range names {
		text := fmt.Sprintf("CREATE TABLE %s (id, name, application INTEGER NOT NULL);\nINSERT INTO %[1]s VALUES (1, 'mine', 1);\n", name)
		for _, op := range []string{"INSERT", "UPDATE", "DELETE"} {
			text += fmt.Sprintf("CREATE TRIGGER application_%s_%s BEFORE %[2]s ON %[1]s\nBEGIN SELECT RAISE(ABORT, 'not Pawl''s'); END;\n", name, op)
		}
		_, e := db.Exec(text)
		err = errors.Join(err, e)
	}
	return errors.Join(err, rows.Err())
}

// migrate makes a migrated SQLite database.
func (d Database) migrate(path string) error {
	db, err := engine.OpenDB(context.Background(), d.sqliteURL(path), engine.Options{})
	if err == nil {
		err = db.Close()
	}
	if err == nil && d == Prefixed {
		err = addApplication(path)
	}
	return err
}

// changed lists the tables but for those that are fixed.
func changed(ctx context.Context, db store.DB, tx store.Tx) (out []string, err error) {
	out, err = db.Dialect().Fences.Tables(ctx, tx)
	return slices.DeleteFunc(out, func(name string) bool { return slices.Contains(fixed, name) }), err
}
