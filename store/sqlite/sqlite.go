// Package sqlite keeps Pawl in one SQLite file. It is pure Go and needs no installation.
// Any number of processes on one machine can use the file. When a call answers, its commit
// is on disk (WAL, synchronous=FULL).
//
// In each process one connection writes, for one goroutine at a time. Between processes
// SQLite's own lock decides; a process that does not get the lock retries with jitter.
// Readers see a snapshot and never wait. A process that stops running inside a write
// transaction blocks the writers of all other processes until it continues or is killed.
//
// All connections are those of zombiezen.com/go/sqlite: the writer's, the readers', and
// one for each migration, backup and check of the file. database/sql and its driver are
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
	// Clock returns the time; nil = the machine's wall clock. The time of a transaction is
	// never below that of the newest event, whatever Clock returns.
	Clock func() time.Time
	Log   *slog.Logger // nil = slog.Default()
	// Existing makes Open refuse a file that is missing or empty, with not_found.
	Existing bool
	// KeepMode leaves the permissions of the file and its log as they are. Otherwise those of
	// group and others are removed if this user owns the file.
	KeepMode bool
	// Prefix begins the names of all tables, indexes, triggers and views of Pawl: they are in a file of
	// the application, beside its own. Pawl then changes nothing else of the file, and KeepMode is
	// implied. "" = the file is Pawl's.
	Prefix string
}

// db implements store.DB.
type db struct {
	path    string
	prefix  string
	rewrite func(string) string
	file    os.FileInfo // the file at path when it was opened
	log     *slog.Logger
	clock   *monotonicClock
	writer  writer
	readers map[store.Purpose]*readers // separate, so that slow lists do not delay other purposes
	version versionReader
	dialect *store.Dialect
	closing sync.Once
	wal     walLimit
	guarded atomic.Bool // Guard was called
}

var errClosed = &pawl.Error{Code: pawl.CodeUnavailable, Message: "the database has been closed"}

// Open opens the SQLite file at path. It creates the file if there is none, unless
// Existing is set. The Migrator creates the schema.
//
// A path without its directory, a file that is not a database or is another program's, and
// ":memory:" are invalid. (A database in memory would not survive, and connections could
// not share it.) Errors of the disk or of permissions are unavailable.
func Open(ctx context.Context, path string, o Options) (store.DB, error) {
	if o.Clock == nil {
		o.Clock = clock.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	path, err := checkPath(path)
	if err = cmp.Or(err, checkPrefix(o.Prefix)); err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); o.Existing && (os.IsNotExist(err) || err == nil && info.Size() == 0) {
		return nil, &pawl.Error{Code: pawl.CodeNotFound, Op: "open", Message: "there is no database " + path +
			"; check its name, or create it with `pawl migrate up`"}
	}
	d := &db{path: path, prefix: o.Prefix, rewrite: rewriter(o.Prefix), log: o.Log,
		clock: newMonotonicClock(o.Clock, o.Log), wal: walLimit{bound: walBound, wait: walWait}}
	if err := cmp.Or(createFile(path), d.prepareFile(ctx)); err != nil {
		return nil, err
	}
	if !o.KeepMode && o.Prefix == "" {
		restrict(ctx, path, o.Log)
	}
	read := func() (*conn, error) { return d.open(readerPragmas) }
	d.version.open = read
	d.readers = map[store.Purpose]*readers{
		store.Calls:      newReaders(read, max(4, 2*runtime.GOMAXPROCS(0))),
		store.Heartbeats: newReaders(read, 1),
		store.Background: newReaders(read, 2),
	}
	d.dialect = d.capabilities()
	if _, err = d.version.version(ctx); err == nil {
		d.file, err = os.Stat(path)
	}
	if err != nil {
		_ = d.Close()
		return nil, classify(err)
	}
	return d, nil
}

// open opens a connection to the database.
func (d *db) open(pragmas []string) (*conn, error) {
	c, err := openConn(d.path, false, pragmas)
	if err == nil {
		c.rewrite = d.rewrite
	}
	return c, err
}

func (d *db) Dialect() *store.Dialect { return d.dialect }

// Auto is Do, because a hot verb is several statements here. A hot verb fails only when
// something is wrong, so in a group it runs without a savepoint.
func (d *db) Auto(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.write(ctx, fn, true)
}

// Whole is Do, because all writes are the same here.
func (d *db) Whole(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.Do(ctx, fn)
}

// Close waits for the calls in progress. The last connection to the file moves the
// contents of the write-ahead log into the file.
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
