package engine

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/postgres"
	"github.com/pawl-work/pawl/store/sqlite"
)

// Schema opens the database at url only for its migrations. It runs none of them, and
// none needs to have run. Call done at the end.
func Schema(ctx context.Context, url string, o Options) (m store.Migrator, done func() error, err error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	db, err := openDB(ctx, url, o)
	if err != nil {
		return nil, nil, err
	}
	return db.Dialect().Migrator, db.Close, nil
}

// SchemaSQL returns exactly the SQL that the migrations after number from run. The
// dialect is sqlite or postgres. schema is PostgreSQL's schema; "" = pawl. A URL of
// SQLite in place of a dialect gives the tables its prefix.
func SchemaSQL(dialect, schema string, from int64) (string, error) {
	_, prefix, local, err := sqlite.SplitURL(dialect)
	switch {
	case err != nil:
		return "", err
	case local, dialect == "sqlite":
		return sqlite.SQL(prefix, from)
	case dialect == "postgres":
		return postgres.SQL(schema, from)
	}
	return "", &pawl.Error{Code: pawl.CodeInvalid, Op: "migrate", Message: "a dialect is sqlite or postgres"}
}

// SchemaScript is SchemaSQL in a form that may run again on PostgreSQL: a migration that has run
// before is left out there.
func SchemaScript(dialect, schema string, from int64) (string, error) {
	text, err := SchemaSQL(dialect, schema, from)
	if err == nil && dialect == "postgres" {
		text = postgres.Once(text, cmp.Or(schema, "pawl"))
	}
	return text, err
}

// Compact gives the space of removed rows back and returns the freed bytes. On SQLite it writes the whole file
// anew: writers wait meanwhile, and it needs as much free disk as the database takes. On
// PostgreSQL it vacuums each table while work goes on.
func (e *Engine) Compact(ctx context.Context) (freed int64, err error) {
	return e.db.Dialect().Compact(ctx)
}

// Backup writes a copy of an open SQLite database, as of one moment, to a new file while
// work goes on. It copies the archives to the new directory FILE.archives, where an
// engine over the copy finds them. If the file or the directory exists, that is a
// conflict. On PostgreSQL it is invalid: use pg_dump.
func (e *Engine) Backup(ctx context.Context, file string) error {
	var files *archives.Copying
	defer func() { files.Remove() }()
	return sqlite.Backup(ctx, e.k.Base.DB, file, func(ctx context.Context, path string) (_ func(context.Context) error, err error) {
		files, err = archives.BeginCopy(ctx, e.opts.Sweep.ArchiveDir, path+archivesBeside)
		return files.End, err
	})
}
