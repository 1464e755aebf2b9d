package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	lib "modernc.org/sqlite/lib"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const codeNotADB = lib.SQLITE_NOTADB

// meaning is what a result code of SQLite means for a caller.
type meaning struct {
	code    pawl.Code
	message string
}

// meanings are the meanings of primary result codes. Any other code is a mistake in Pawl.
var meanings = map[int]meaning{
	lib.SQLITE_BUSY:      {pawl.CodeUnavailable, "the database is busy: another process holds its lock"},
	lib.SQLITE_LOCKED:    {pawl.CodeUnavailable, "the database is busy"},
	lib.SQLITE_SCHEMA:    {pawl.CodeUnavailable, "the schema changed meanwhile"},
	lib.SQLITE_INTERRUPT: {pawl.CodeUnavailable, "the caller cancelled the call, or its time ran out"},
	lib.SQLITE_NOMEM:     {pawl.CodeUnavailable, "out of memory"},
	lib.SQLITE_PERM:      {pawl.CodeUnavailable, "no permission to open the database file"},
	lib.SQLITE_AUTH:      {pawl.CodeUnavailable, "no permission to use the database file"},
	lib.SQLITE_READONLY:  {pawl.CodeUnavailable, "the database file or its directory is read-only"},
	lib.SQLITE_IOERR:     {pawl.CodeUnavailable, "the disk under the database does not answer"},
	lib.SQLITE_FULL:      {pawl.CodeUnavailable, "the disk under the database is full"},
	lib.SQLITE_CANTOPEN:  {pawl.CodeUnavailable, "the database file cannot be opened or created"},
	lib.SQLITE_PROTOCOL:  {pawl.CodeUnavailable, "the database's lock cannot be taken"},
	lib.SQLITE_NOLFS:     {pawl.CodeUnavailable, "the file system cannot hold a file that large"},
	lib.SQLITE_TOOBIG:    {pawl.CodeTooLarge, "the value is too large for the database"},
	lib.SQLITE_NOTADB:    {pawl.CodeInvalid, "the file is not a SQLite database"},
	lib.SQLITE_CORRUPT:   {pawl.CodeInternal, "the database file is damaged: restore a backup"},
	// The database's own checks, for example of moves that are not allowed and of append-only
	// rows.
	lib.SQLITE_CONSTRAINT: {pawl.CodeInternal, "the database refused the change"},
}

// extended has the extended result codes whose meaning differs from that of the primary
// code.
var extended = map[int]meaning{
	lib.SQLITE_CONSTRAINT_UNIQUE:     {pawl.CodeConflict, "there is one already"},
	lib.SQLITE_CONSTRAINT_PRIMARYKEY: {pawl.CodeConflict, "there is one already"},
	lib.SQLITE_CONSTRAINT_ROWID:      {pawl.CodeConflict, "there is one already"},
}

// codeOf returns the extended result code of an error of SQLite, or 0 for any other error.
func codeOf(err error) int {
	var e *sqlError
	if errors.As(err, &e) {
		return e.code
	}
	return driverCode(err)
}

// classify converts an error of SQLite to a *pawl.Error, by its code.
func classify(err error) error {
	var known *pawl.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &pawl.Error{Code: pawl.CodeUnavailable, Message: "the caller cancelled the call, or its time ran out", Err: err}
	}
	code := codeOf(err)
	v, found := extended[code]
	if !found {
		v, found = meanings[code&0xff]
	}
	if !found {
		v = meaning{code: pawl.CodeInternal}
	}
	down := v.code == pawl.CodeUnavailable && !busy(err) && code&0xff != lib.SQLITE_INTERRUPT
	if code != 0 && !broken(err) {
		err = store.Undone{Err: err}
	}
	if code == lib.SQLITE_CONSTRAINT_TRIGGER && strings.Contains(err.Error(), beingMoved) {
		err = fmt.Errorf("%w: %w", store.ErrFenced, err)
	}
	if down {
		err = fmt.Errorf("%w: %w", store.ErrDown, err)
	}
	e := &pawl.Error{Code: v.code, Message: v.message, Err: err}
	if e.Code == pawl.CodeConflict {
		e.Allowed = []string{}
	}
	return e
}

// busy says that another connection had the lock, so that a later try may succeed.
func busy(err error) bool {
	switch codeOf(err) & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_SCHEMA, lib.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// statementOnly says that the error undid only its statement. After any other error the
// transaction is gone or not reliable.
func statementOnly(err error) bool {
	return codeOf(err)&0xff == lib.SQLITE_CONSTRAINT
}

// inactive says that a ROLLBACK found nothing to roll back, because the error that failed
// the transaction had rolled it back.
func inactive(rollback, failed error) bool {
	return failed != nil && codeOf(rollback) == lib.SQLITE_ERROR
}

// full says that the disk is full. Nothing of the transaction was written.
func full(err error) bool { return codeOf(err)&0xff == lib.SQLITE_FULL }

// broken says that the connection must not be used again.
func broken(err error) bool {
	switch codeOf(err) & 0xff {
	case lib.SQLITE_IOERR, lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_NOMEM, lib.SQLITE_CANTOPEN, lib.SQLITE_MISUSE:
		return true
	}
	return false
}
