package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pawl-work/pawl/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrator is the common Migrator with classified errors.
type migrator struct {
	store.Migrator
	prefix string
}

func (d *db) migrator() store.Migrator {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // embedded at build time
	}
	return migrator{store.NewMigrator(migrationDB{d}, store.Rewritten(files, d.rewrite), d.prefix+"schema_migrations"), d.prefix}
}

// SQL returns exactly what migrating runs on a SQLite database for the migrations after
// the given number, for tables with a prefix. It needs no database.
func SQL(prefix string, from int64) (string, error) {
	if err := checkPrefix(prefix); err != nil {
		return "", err
	}
	return (&db{prefix: prefix, rewrite: rewriter(prefix)}).migrator().SQL(from)
}

// migrationDB implements store.MigrationDB.
type migrationDB struct{ *db }

// Applied implements store.MigrationDB.
func (m migrationDB) Applied(ctx context.Context) (all []store.Migration, err error) {
	err = m.View(ctx, func(ctx context.Context, tx store.Tx) error {
		var tables int64
		if _, err := store.Row(ctx, tx, []any{&tables},
			"SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'pawl.schema_migrations'"); err != nil || tables == 0 {
			return err
		}
		rows, err := tx.Query(ctx, "SELECT id, description, executed_at, oldest FROM pawl.schema_migrations ORDER BY id")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var x store.Migration
			if err := rows.Scan(&x.ID, &x.Description, &x.ExecutedAt, &x.Oldest); err != nil {
				return err
			}
			all = append(all, x)
		}
		return rows.Err()
	})
	return all, err
}

// Apply implements store.MigrationDB, on a connection of its own. The connection is closed
// afterwards, with its cache and everything that a script has set on it.
func (m migrationDB) Apply(ctx context.Context, create []string, scripts []store.Script) error {
	c, err := m.open(writerPragmas)
	if err != nil {
		return err
	}
	defer c.close()
	c.watch(ctx)
	err = c.script(strings.Join(create, ";\n"))
	for i := 0; i < len(scripts) && err == nil; i++ {
		err = c.script(scripts[i].SQL)
	}
	return err
}

// Lock implements store.MigrationDB.
func (m migrationDB) Lock(ctx context.Context) (func(), error) {
	return lockFile(ctx, m.path+".lock")
}

// Up implements store.Migrator.
func (m migrator) Up(ctx context.Context) ([]store.Migration, error) {
	var done []store.Migration
	err := retryLocked(ctx, func() (err error) {
		done, err = m.Migrator.Up(ctx)
		return err
	})
	return done, store.SchemaMismatch(classify(err))
}

// Status implements store.Migrator.
func (m migrator) Status(ctx context.Context) ([]store.Migration, error) {
	var all []store.Migration
	err := retryLocked(ctx, func() (err error) {
		all, err = m.Migrator.Status(ctx)
		return err
	})
	return all, store.SchemaMismatch(classify(err))
}

// SQL implements store.Migrator. From 0 on, it first marks the file as Pawl's, because
// Open refuses other files without a prefix.
func (m migrator) SQL(from int64) (string, error) {
	text, err := m.Migrator.SQL(from)
	if err == nil && from <= 0 && m.prefix == "" {
		text = fmt.Sprintf("PRAGMA application_id = %d;\nPRAGMA journal_mode = WAL;\n%s", applicationID, text)
	}
	return text, err
}
