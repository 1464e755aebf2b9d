package sqlite

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// The write-ahead log is started over when it is larger than logBound. That waits
// for the reads under way, and writers wait with it: for logWait at first, twice as
// long each time when that was not enough, at most for logWaitMax. In between
// passes ten times as long.
const (
	logBound   = 32 << 20
	logWait    = 250 * time.Millisecond
	logWaitMax = 4 * time.Second
)

// logLimit says when to start the log over. It belongs to the holder of the writing
// connection.
type logLimit struct {
	bound int64
	wait  time.Duration // of the next attempt
	next  time.Time     // no attempt before
}

// limitLog starts the log over where it is too large. SQLite does so by itself only
// at a moment without a reader of the log, which never comes when reads overlap.
// While this connection keeps writers out and all of the log is in the database
// file, new readers do not use the log. So the wait is as long as the longest read
// under way. The caller has the writing connection, outside a transaction.
func (d *db) limitLog() {
	l, s := &d.wal, d.writer.session
	info, err := os.Stat(d.path + "-wal")
	if err != nil || info.Size() <= l.bound || clock.Now().Before(l.next) {
		return
	}
	ctx, blocked := context.Background(), int64(1)
	// Several attempts: readers can keep a long one waiting to its end for a lock
	// that a new one gets at once.
	for wait := l.wait / 16; wait < l.wait && err == nil && blocked != 0; wait *= 2 {
		if _, err = s.exec(ctx, fmt.Sprintf("PRAGMA busy_timeout(%d)", wait.Milliseconds()), nil); err == nil {
			_, err = store.Row(ctx, &tx{session: s}, []any{&blocked}, "PRAGMA wal_checkpoint(TRUNCATE)")
			s.settle()
		}
	}
	if err == nil {
		_, err = s.exec(ctx, "PRAGMA busy_timeout(0)", nil)
	}
	if err != nil {
		d.drop(err)
	}
	if err == nil && blocked == 0 {
		l.wait = logWait
		return
	}
	l.next = clock.Now().Add(10 * l.wait)
	l.wait = min(2*l.wait, logWaitMax)
}
