package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const (
	// incremental lets a file shrink in steps. SQLite takes it over only while the file has no table, or in a VACUUM.
	incremental = "PRAGMA auto_vacuum = INCREMENTAL"
	// shrinkPages is how many pages a step of shrink moves: a few milliseconds in which nothing else is written.
	shrinkPages = 2000
	// keptPages is how many free pages stay in any case. A tenth of the file stays too: the next rows need them.
	keptPages = 256
	// compactWait is how long compact waits for the transactions in progress.
	compactWait = 10 * time.Second
	// shrinks is the value of the pragma auto_vacuum of such a file.
	shrinks = 2
)

// shrink implements store.Dialect.Shrink. A file that was made before files could shrink stays as
// it is until compact. A file of the application stays as it is.
func (d *db) shrink(ctx context.Context, tx store.Tx) (more bool, err error) {
	if d.prefix != "" {
		return false, nil
	}
	var mode, free, pages int64
	if _, err = store.Row(ctx, tx, []any{&mode, &free, &pages},
		"SELECT (SELECT auto_vacuum FROM pragma_auto_vacuum), (SELECT freelist_count FROM pragma_freelist_count), "+
			"(SELECT page_count FROM pragma_page_count)"); err != nil {
		return false, err
	}
	surplus := free - max(keptPages, pages/10)
	if mode != shrinks || surplus <= 0 {
		return false, nil
	}
	_, err = tx.Exec(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", min(surplus, shrinkPages)))
	return surplus > shrinkPages && err == nil, err
}

// compact implements store.Dialect.Compact with a VACUUM on a connection of its own. From then on the
// file can shrink in steps.
func (d *db) compact(ctx context.Context) (freed int64, err error) {
	if d.prefix != "" {
		return 0, &pawl.Error{Code: pawl.CodeInvalid, Op: "compact", Message: "the file is the application's, and VACUUM writes all of its " +
			"tables anew: run VACUUM in the application, at a time when writers may wait"}
	}
	c, err := d.open(writerPragmas)
	if err != nil {
		return 0, classify(err)
	}
	defer c.close()
	c.watch(ctx)
	c.raw.SetBusyTimeout(compactWait)
	size := func() (n int64, err error) {
		err = c.row([]any{&n}, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
		return n, err
	}
	before, err := size()
	if err == nil {
		err = c.script(incremental + ";\nVACUUM")
	}
	if err != nil {
		return 0, classify(err)
	}
	after, err := size()
	if err == nil { // until then the file keeps its size; a read in progress may put it off to a later checkpoint
		err = c.row([]any{new(int64), new(int64), new(int64)}, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return max(0, before-after), classify(err)
}
