package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrator is the common one behind a lock file, with our errors.
type migrator struct{ store.Migrator }

func (d *db) migrator() store.Migrator {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // embedded at build time
	}
	return migrator{store.NewMigrator(d.rw, files, rewrite, "schema_migrations", func(ctx context.Context) (func(), error) {
		return lockFile(ctx, d.path+".lock")
	})}
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

// SQL implements store.Migrator. From nothing, it marks the file as ours first:
// Open refuses others.
func (m migrator) SQL(from int64) (string, error) {
	text, err := m.Migrator.SQL(from)
	if err == nil && from <= 0 {
		text = fmt.Sprintf("PRAGMA application_id = %d;\nPRAGMA journal_mode = WAL;\n%s", applicationID, text)
	}
	return text, err
}

// lockFile waits until this process alone holds the lock file at path, and
// removes it when done. A file that its last holder has just removed is not it.
func lockFile(ctx context.Context, path string) (release func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate", Message: "the lock file " + path + " cannot be made", Err: err}
		}
		held, err := tryLock(f)
		if err != nil {
			f.Close()
			return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate", Message: "the file " + path + " cannot be locked", Err: err}
		}
		if held && isStill(f, path) {
			return func() {
				_ = os.Remove(path) // where an open file cannot be removed it stays, and does no harm
				_ = f.Close()       // and with it the lock goes
			}, nil
		}
		f.Close()
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate", Message: "given up while another process was migrating", Err: ctx.Err()}
		}
	}
}

func isStill(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(open, named)
}
