package pawltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/store"
)

// kept is an open database that tests use one after the other, each with an engine of its own.
// Its connections and their prepared statements stay. Between two tests its rows become those
// that the migrations insert.
type kept struct {
	url    string
	path   string // of the file of SQLite
	which  Database
	schema *schema // nil on SQLite
	db     store.DB
	clock  atomic.Pointer[func() time.Time] // of SQLite
	log    atomic.Pointer[slog.Handler]
	lent   *lent // to the engine of the current test

	reset []string // the statements that reset the rows of SQLite
	print string   // what its schema and its fixed tables were at first
}

// resetLimit bounds what is done between two tests.
const resetLimit = 20 * time.Second

// keptOptions says whether an engine with these options can use a database of the pool: they
// say nothing about how the database is opened.
func keptOptions(o engine.Options) bool {
	return o.Schema == "" && o.Migrate == "" && !o.Existing && !o.KeepFileMode && o.DB == nil && o.MaxConns == 0 &&
		o.ListenURL == "" && o.Pool == nil
}

// take returns a database of the pool. Without Main there is none.
func take(t testing.TB, which Database) *kept {
	t.Helper()
	pool.mu.Lock()
	kept, all := pool.kept, pool.free[which]
	if n := len(all); n > 0 {
		k := all[n-1] // after the unlock, another may stand there
		pool.free[which] = all[:n-1]
		pool.mu.Unlock()
		return k
	}
	pool.mu.Unlock()
	if !kept {
		return nil
	}
	k, err := newKept(t, which)
	if err != nil {
		t.Fatalf("pawltest: %v", err)
	}
	return k
}

func put(which Database, k *kept) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.free[which] = append(pool.free[which], k)
}

func newKept(t testing.TB, which Database) (k *kept, err error) {
	k = &kept{which: which}
	h := slog.Default().Handler()
	k.log.Store(&h)
	log := slog.New(logHandler{&k.log})
	if which.local() {
		path, err := keptFile(which)
		if err != nil {
			return nil, err
		}
		now := func() time.Time { return (*k.clock.Load())() }
		k.url, k.path = which.sqliteURL(path), path
		if k.db, err = engine.OpenDB(context.Background(), k.url, engine.Options{Clock: now, Log: log}); err != nil {
			return nil, err
		}
		return k, k.learn()
	}
	k.url = Server(t)
	k.schema = freshSchema(t, k.url)
	k.url = which.url(t, k.url)
	if k.db, err = engine.OpenDB(context.Background(), k.url, engine.Options{Schema: k.schema.name, Log: log}); err != nil {
		return nil, err
	}
	return k, k.schema.holdClock(Start.UnixMicro())
}

// keptFile returns the path of a new migrated SQLite database in a directory of this process.
func keptFile(which Database) (string, error) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.dir == "" {
		dir, err := os.MkdirTemp("", "pawltest-")
		if err != nil {
			return "", err
		}
		pool.dir = dir
	}
	file, err := migratedFile(filepath.Join(pool.dir, string(which)+".db"), which)
	if err != nil {
		return "", err
	}
	pool.files++
	dir := filepath.Join(pool.dir, fmt.Sprint(pool.files))
	path := filepath.Join(dir, "pawl.db")
	return path, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, file, 0o600))
}

// lend gives the database to a new engine.
func (k *kept) lend(o *engine.Options, now func() time.Time) {
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	h := log.Handler()
	k.log.Store(&h)
	if o.Clock != nil {
		now = o.Clock
	}
	k.clock.Store(&now)
	k.lent = lend(k.db)
	o.DB = k.lent
}

// release resets the rows and puts the database back into the pool. It closes and removes the
// database when the test failed or changed more than rows, and when something of the test still
// uses it.
func (k *kept) release(sound bool) {
	if sound && k.lent.left() && k.clean() == nil {
		put(k.which, k)
		return
	}
	go func() { _ = k.drop() }() // a call in progress delays it
}

// drop closes the database and removes it.
func (k *kept) drop() error {
	err := k.db.Close()
	if k.schema != nil {
		return errors.Join(err, k.schema.drop())
	}
	return errors.Join(err, os.RemoveAll(filepath.Dir(k.path)))
}

// clean makes the rows those that the migrations insert. An error says that more than a few rows was
// changed, or that another transaction has rows.
func (k *kept) clean() error {
	defer k.db.Dialect().Forget()
	if k.schema != nil {
		return k.schema.clean()
	}
	if err := k.removeOthers(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), resetLimit)
	defer cancel()
	return k.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		rows := int64(0)
		for _, query := range k.reset {
			n, err := tx.Exec(ctx, query)
			if rows += n; err != nil {
				return err
			}
		}
		if rows > mostRows {
			return errMany
		}
		print, err := k.fingerprint(ctx, tx)
		if err == nil && print != k.print {
			err = errChanged
		}
		return err
	})
}

// removeOthers removes what an engine has put beside its SQLite file: a key that signs.
func (k *kept) removeOthers() error {
	path := k.path
	all, err := os.ReadDir(filepath.Dir(path))
	for _, e := range all {
		switch name := filepath.Join(filepath.Dir(path), e.Name()); name {
		case path, path + "-wal", path + "-shm", path + ".lock":
		default:
			err = errors.Join(err, os.RemoveAll(name))
		}
	}
	return err
}

// mostRows is the number of rows from which a database is not used again: those that were removed
// would slow down the reads of the next test.
const mostRows = 10_000

var (
	errChanged = errors.New("the test has changed the schema")
	errMany    = errors.New("the test has inserted many rows")
)

// fixed are the tables that no test changes, or that its removal from the pool would show.
var fixed = []string{"schema_migrations", "moves"}

// learn makes the statements of reset, when the database has just been migrated. What the migrations
// inserted is kept in temporary tables of the connection that writes.
func (k *kept) learn() error {
	return k.db.Do(context.Background(), func(ctx context.Context, tx store.Tx) (err error) {
		tables, err := changed(ctx, k.db, tx)
		if err != nil {
			return err
		}
		k.reset = []string{"INSERT INTO pawl.retention_gate VALUES ('pawltest')"}
		var seeds []string
		for _, table := range tables {
			if table != "retention_gate" {
				k.reset = append(k.reset, "DELETE FROM pawl."+table)
			}
			var n int
			if _, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl."+table); err != nil {
				return err
			}
			if n > 0 {
				seeds = append(seeds, "INSERT INTO pawl."+table+" SELECT * FROM temp.first_"+table)
				if _, err := tx.Exec(ctx, "CREATE TEMP TABLE first_"+table+" AS SELECT * FROM pawl."+table); err != nil {
					return err
				}
			}
		}
		k.reset = append(k.reset, "DELETE FROM pawl.gate_hints", // again: the ends of leases add some
			"DELETE FROM pawl.retention_gate", "DELETE FROM sqlite_sequence")
		k.reset = append(k.reset, seeds...)
		k.print, err = k.fingerprint(ctx, tx)
		return err
	})
}

// fingerprint returns a text that differs when the schema or a fixed table differs.
func (k *kept) fingerprint(ctx context.Context, tx store.Tx) (string, error) {
	var version, moves string
	var schema, migrations int64
	if _, err := store.Row(ctx, tx, []any{&schema}, "PRAGMA schema_version"); err != nil {
		return "", err
	}
	_, err := store.Row(ctx, tx, []any{&migrations, &version, &moves}, `SELECT (SELECT COUNT(*) FROM pawl.schema_migrations),
		(SELECT group_concat(id || description || executed_at || oldest) FROM pawl.schema_migrations),
		(SELECT group_concat(concat_ws(' ', code, class, event, from_state, to_state, task_from, task_to)) FROM pawl.moves)`)
	return fmt.Sprint(schema, migrations, version, moves), err
}
