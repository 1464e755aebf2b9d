package sqlite

import (
	"os"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// The write-ahead log is restarted when it is larger than walBound. The restart waits for
// the reads in progress, and writers wait with it: first for walWait, then twice as long
// each time that this was not enough, at most for walWaitMax. After an attempt that was
// not enough, ten times its wait passes before the next one.
const (
	walBound   = 32 << 20
	walWait    = 250 * time.Millisecond
	walWaitMax = 4 * time.Second
)

// walLimit says when to restart the log. Only the holder of the writing connection uses
// it.
type walLimit struct {
	bound int64
	wait  time.Duration // the wait of the next attempt
	next  time.Time     // no attempt before this time
}

// limitWAL restarts the log when it is too large. SQLite does this by itself only at a
// moment without a reader of the log, and with overlapping reads there is no such moment.
// While this connection keeps writers out and the whole log is in the database file, new
// readers do not use the log. So the wait is as long as the longest read in progress. The
// caller has the writing connection, outside a transaction.
func (d *db) limitWAL() {
	l, c := &d.wal, d.writer.conn
	info, err := os.Stat(d.path + "-wal")
	if err != nil || info.Size() <= l.bound || clock.Now().Before(l.next) {
		return
	}
	blocked := int64(1)
	// Several attempts: readers can make one long attempt wait to its end for a lock that a
	// new attempt gets at once.
	for wait := l.wait / 16; wait < l.wait && err == nil && blocked != 0; wait *= 2 {
		c.raw.SetBusyTimeout(wait)
		err = c.row([]any{&blocked, new(int64), new(int64)}, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	c.raw.SetBusyTimeout(0)
	if err != nil {
		d.discardWriter(err)
	}
	if err == nil && blocked == 0 {
		l.wait = walWait
		return
	}
	l.next = clock.Now().Add(10 * l.wait)
	l.wait = min(2*l.wait, walWaitMax)
}
