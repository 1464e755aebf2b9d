// Package sqlite keeps Pawl in one SQLite file: pure Go, nothing to install,
// any number of processes on one machine. A commit has reached the disk when a
// call answers (WAL, synchronous=FULL).
//
// One connection per process writes, one goroutine at a time; between processes
// SQLite's own lock decides, and a process that finds it taken retries with jitter.
// Readers see a snapshot and never wait. A process that stands still inside
// a write transaction blocks the writers of all others until it goes on or is
// killed.
//
// All connections are of zombiezen.com/go/sqlite: the writer's, the readers', and one
// for each migration, backup and check of the file. database/sql and its driver are
// used only for a caller's own transaction: see WrapTx.
package sqlite

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// Options of Open. The zero value works.
type Options struct {
	// Clock is the time; nil = the machine's wall clock. Whatever it says, the
	// time of a transaction is never below the newest stamp on record.
	Clock func() time.Time
	Log   *slog.Logger // nil = slog.Default()
	// Existing refuses a file that is missing or empty, as not_found.
	Existing bool
	// KeepMode leaves the permissions of the file and its log as they are; else
	// those of group and others are taken away when the file is this user's.
	KeepMode bool
}

// db implements store.DB.
type db struct {
	path    string
	file    os.FileInfo // which file it was when it was opened
	log     *slog.Logger
	clock   *monotonicClock
	writer  writer
	readers map[store.Purpose]*readers // apart, so that slow lists keep no other purpose waiting
	version versionReader
	dialect *store.Dialect
	closing sync.Once
	wal     walLimit
	guarded atomic.Bool // Guard was called
}

var errClosed = &pawl.Error{Code: pawl.CodeUnavailable, Message: "the database has been closed"}

// Open opens the SQLite file at path, and creates it if there is none, unless only
// an Existing one is to be opened. The Migrator brings the schema. A path without its
// directory, a file that is no database or another program's, and ":memory:" (nothing
// would survive, and connections could not share it) are invalid; what the disk or the
// permissions refuse is unavailable.
func Open(ctx context.Context, path string, o Options) (store.DB, error) {
	if o.Clock == nil {
		o.Clock = clock.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	path, err := checkPath(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); o.Existing && (os.IsNotExist(err) || err == nil && info.Size() == 0) {
		return nil, &pawl.Error{Code: pawl.CodeNotFound, Op: "open", Message: "there is no database " + path + "; check its name, or create it with `pawl migrate up`"}
	}
	if err := cmp.Or(createFile(path), prepareFile(ctx, path)); err != nil {
		return nil, err
	}
	if !o.KeepMode {
		restrict(ctx, path, o.Log)
	}
	d := &db{path: path, log: o.Log, clock: newMonotonicClock(o.Clock, o.Log), wal: walLimit{bound: walBound, wait: walWait}}
	d.writer.path, d.version.path = path, path
	d.readers = map[store.Purpose]*readers{
		store.Calls:      newReaders(path, max(4, 2*runtime.GOMAXPROCS(0))),
		store.Heartbeats: newReaders(path, 1),
		store.Background: newReaders(path, 2),
	}
	d.dialect = d.capabilities(o.Clock)
	if _, err = d.version.version(ctx); err == nil {
		d.file, err = os.Stat(path)
	}
	if err != nil {
		_ = d.Close()
		return nil, classify(err)
	}
	return d, nil
}

func (d *db) Dialect() *store.Dialect { return d.dialect }

// Auto is Do: a hot verb is several statements here. It fails only when
// something is wrong, and so goes without a savepoint in a group.
func (d *db) Auto(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.write(ctx, fn, true)
}

// Whole is Do: all writes are alike here.
func (d *db) Whole(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.Do(ctx, fn)
}

// Close waits for what is under way. The last connection to the file folds the
// write-ahead log back into it.
func (d *db) Close() error {
	var err error
	d.closing.Do(func() {
		err = d.version.close()
		for _, r := range d.readers {
			err = errors.Join(err, r.close())
		}
		err = errors.Join(err, d.writer.close())
	})
	return err
}
