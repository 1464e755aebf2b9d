package sqlite

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-work/pawl"
)

// applicationID marks Pawl's files in the header of a SQLite database: "pawl".
const applicationID = 0x7061776c

func invalid(format string, args ...any) error {
	return &pawl.Error{Code: pawl.CodeInvalid, Op: "open", Message: fmt.Sprintf(format, args...)}
}

// checkPath returns the absolute path, so that it names the same file from then on.
func checkPath(path string) (string, error) {
	switch {
	case path == "":
		return "", invalid("a SQLite database needs the path of its file")
	case strings.Contains(path, ":memory:"):
		return "", invalid("a database in memory keeps nothing and cannot be shared: name a file, in a temporary directory if it is to go away")
	case strings.ContainsRune(path, 0):
		return "", invalid("the path of the database holds a NUL")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", &pawl.Error{Code: pawl.CodeUnavailable, Op: "open", Message: "the working directory cannot be read", Err: err}
	}
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case os.IsPermission(err):
		return "", &pawl.Error{Code: pawl.CodeUnavailable, Op: "open", Message: "no permission to enter the directory of the database " + path,
			Err: err}
	case err != nil:
		return "", invalid("the directory %s does not exist: make it first", dir)
	case !info.IsDir():
		return "", invalid("%s is not a directory", dir)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", invalid("%s is not a regular file", path)
	}
	return path, nil
}

// dsn returns the URL of a file for SQLite. It escapes ?, # and % in the path.
func dsn(path, mode string) string {
	if path = filepath.ToSlash(path); !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: "mode=" + mode}).String()
}

// present checks that the path still names the open file. Otherwise SQLite would continue
// to write to a file that no longer has a name.
func (d *db) present() error {
	now, err := os.Stat(d.path)
	switch {
	case err != nil:
		return &pawl.Error{Code: pawl.CodeUnavailable, Message: "the database file " + d.path + " is gone", Err: err}
	case !os.SameFile(now, d.file):
		return &pawl.Error{Code: pawl.CodeUnavailable, Message: "another file has taken the place of " + d.path + ": restart to use it"}
	}
	return nil
}

// createFile creates a missing file, with permissions for this user only. SQLite gives its
// log files, in the same directory, the same permissions.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil // the file exists, or SQLite reports what is wrong
	}
	return f.Close()
}

// prepareFile marks an empty file as Pawl's and sets it to WAL. It leaves a file of Pawl's
// as it is, and refuses any other file before a byte of it changes. It reads the file only
// through SQLite: closing another descriptor of the file would release every lock that
// this process has on it.
func prepareFile(ctx context.Context, path string) error {
	return retryLocked(ctx, func() error {
		c, err := openConn(path, true, []string{"busy_timeout(50)"})
		if err != nil {
			return classify(err)
		}
		defer c.close()
		c.watch(ctx)
		ours, err := isPawls(c, path)
		if err == nil && !ours {
			err = markFile(c, path)
		}
		if err != nil {
			return err
		}
		var mode string
		if err := c.row([]any{&mode}, "PRAGMA journal_mode = WAL"); err != nil {
			return classify(err)
		}
		if mode != "wal" {
			return &pawl.Error{Code: pawl.CodeUnavailable, Op: "open", Message: "the file system of " + path +
				" cannot hold a write-ahead log; use a local disk"}
		}
		return nil
	})
}

// isPawls says whether a file is Pawl's; it returns false for an empty file. It reads the
// mark and the tables in one statement, because between two statements another process may
// mark the file.
func isPawls(c *conn, path string) (bool, error) {
	var id, tables int64
	err := c.row([]any{&id, &tables}, "SELECT (SELECT application_id FROM pragma_application_id), COUNT(*) FROM sqlite_schema")
	switch {
	case err != nil && codeOf(err) == codeNotADB:
		return false, invalid("%s is not a SQLite database", path)
	case err != nil:
		return false, classify(err)
	case id == applicationID:
		return true, nil
	case id != 0 || tables > 0:
		return false, invalid("%s is another program's SQLite database: give Pawl a file of its own, "+
			"or its tables a prefix: sqlite:%s?prefix=pawl_", path, path)
	}
	return false, nil
}

// markFile marks an empty file, unless another process has just marked it.
func markFile(c *conn, path string) error {
	if err := c.script(incremental); err != nil { // before the file has its first page
		return classify(err)
	}
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return classify(err)
	}
	ours, err := isPawls(c, path)
	if err == nil && !ours {
		err = classify(c.script(fmt.Sprintf("PRAGMA application_id = %d", applicationID)))
	}
	if err == nil {
		_, err = c.exec("COMMIT")
		err = classify(err)
	}
	return err // without a commit, closing the connection rolls back
}
