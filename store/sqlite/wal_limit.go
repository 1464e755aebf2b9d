package sqlite

import (
	"os"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// The write-ahead log is started over when it is larger than walBound. That waits
// for the reads under way, and writers wait with it: for walWait at first, twice as
// long each time when that was not enough, at most for walWaitMax. In between
// passes ten times as long.
const (
	walBound   = 32 << 20
	walWait    = 250 * time.Millisecond
	walWaitMax = 4 * time.Second
)

// walLimit says when to start the log over. It belongs to the holder of the writing
// connection.
type walLimit struct {
	bound int64
	wait  time.Duration // of the next attempt
	next  time.Time     // no attempt before
}

// limitWAL starts the log over where it is too large. SQLite does so by itself only
// at a moment without a reader of the log, which never comes when reads overlap.
// While this connection keeps writers out and all of the log is in the database
// file, new readers do not use the log. So the wait is as long as the longest read
// under way. The caller has the writing connection, outside a transaction.
func (d *db) limitWAL() {
	l, c := &d.wal, d.writer.conn
	info, err := os.Stat(d.path + "-wal")
	if err != nil || info.Size() <= l.bound || clock.Now().Before(l.next) {
		return
	}
	blocked := int64(1)
	// Several attempts: readers can keep a long one waiting to its end for a lock
	// that a new one gets at once.
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
