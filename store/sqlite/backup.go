package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	direct "zombiezen.com/go/sqlite"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/durable"
	"github.com/pawl-work/pawl/store"
)

// Backup writes a copy of an open database to the new file dest while other calls
// continue. The copy has the state of one moment. When the file gets the name dest, the
// copy is complete and on disk, and so is what is copied besides: before begins that ahead of this moment, and what
// it returns ends it after; nil = nothing. A dest that exists is a conflict; a missing directory is invalid.
func Backup(ctx context.Context, from store.DB, dest string,
	before func(ctx context.Context, dest string) (after func(context.Context) error, err error)) error {
	d, ok := from.(*db)
	if !ok {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: "backup", Message: "only a SQLite database is copied this way; for PostgreSQL use pg_dump"}
	}
	dest, err := checkPath(dest)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dest); !errors.Is(err, fs.ErrNotExist) {
		return &pawl.Error{Code: pawl.CodeConflict, Op: "backup", Message: dest + " exists already", Allowed: []string{}, Err: err}
	}
	partial, release, err := createPartial(dest)
	if err != nil {
		return &pawl.Error{Code: pawl.CodeUnavailable, Op: "backup", Message: "no file can be made beside " + dest, Err: err}
	}
	defer release()
	defer os.Remove(partial.Name())
	defer partial.Close()
	after := func(context.Context) error { return nil }
	if before != nil {
		if after, err = before(ctx, dest); err != nil {
			return err
		}
	}
	if err := d.copyTo(ctx, partial.Name()); err != nil {
		return err
	}
	if err := d.markCopy(partial.Name()); err != nil {
		return err
	}
	if err := partial.Sync(); err != nil {
		return notOnDisk(err)
	}
	if err := after(ctx); err != nil {
		return err
	}
	if err := os.Rename(partial.Name(), dest); err != nil {
		return notOnDisk(err)
	}
	dir, err := os.Open(filepath.Dir(dest))
	if err != nil {
		return notOnDisk(err)
	}
	defer dir.Close()
	_ = dir.Sync() // the new name; some systems cannot sync a directory
	return nil
}

// partialSuffix ends the names of copies that are not complete.
const partialSuffix = ".partial"

// createPartial makes the file of a copy. It removes what copies that were killed have left beside the same name, if it can.
func createPartial(dest string) (f *os.File, release func(), err error) {
	dir, base := filepath.Dir(dest), filepath.Base(dest)
	_ = durable.RemoveAbandoned(dir, func(name string) bool {
		return strings.HasPrefix(name, base+".") && strings.HasSuffix(name, partialSuffix)
	})
	return durable.CreateHeld(dir, base+".*"+partialSuffix)
}

func notOnDisk(err error) error {
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: "backup", Message: "the copy cannot be put on the disk", Err: err}
}

// copyTo copies the database on a connection of its own, because the readers' connections
// cannot write.
func (d *db) copyTo(ctx context.Context, path string) error {
	c, err := d.open(writerPragmas)
	if err != nil {
		return classify(err)
	}
	defer c.close()
	c.watch(ctx)
	if d.prefix != "" {
		return copyPages(ctx, c, path)
	}
	_, err = c.exec("VACUUM INTO $1", path)
	return classify(err)
}

// copyPages copies a file of the application page by page, which needs none of the functions and collations
// that its tables may use. The pages are those of one snapshot.
func copyPages(ctx context.Context, from *conn, path string) error {
	to, err := openConn(path, true, nil)
	if err != nil {
		return classify(err)
	}
	defer to.close()
	if _, err := from.exec("BEGIN"); err != nil {
		return classify(err)
	}
	if err := from.row([]any{new(int64)}, "SELECT COUNT(*) FROM sqlite_schema"); err != nil {
		return classify(err)
	}
	b, err := direct.NewBackup(to.raw, "main", from.raw, "main")
	if err != nil {
		return classify(asSQLError(err))
	}
	defer b.Close()
	for more := true; more && err == nil; {
		if more, err = b.Step(copiedPages); err == nil {
			err = ctx.Err()
		}
	}
	return classify(asSQLError(err))
}

// copiedPages is how many pages a step of a copy has.
const copiedPages = 2000
