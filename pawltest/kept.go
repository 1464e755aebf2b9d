package pawltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/store"
)

// kept is an open database that tests use one after the other, each with engines of its own.
// Its connections and their prepared statements stay. Between two tests its rows become those
// that the migrations insert.
type kept struct {
	kind
	*opened // for the engine of the current test
	url     string
	path    string  // of the file of SQLite
	schema  *schema // nil on SQLite

	mu     sync.Mutex
	others []*opened // for further engines, which are like those of other processes

	reset []string // the statements that reset the rows of SQLite
	print string   // what its schema and its fixed tables were at first
}

// kind is what tests ask of a database. A change of PostgreSQL's clock would have all statements planned anew.
type kind struct {
	which Database
	flows bool // by the machine's clock
}

// opened is a database as one process opens it. Engines have it one after the other.
type opened struct {
	db    store.DB
	clock atomic.Pointer[func() time.Time] // of SQLite
	log   atomic.Pointer[slog.Handler]
	lent  *lent // to the engine that had it last
}

// mostOthers bounds the connections that stay: a test of many engines opens more for itself.
const mostOthers = 2

// resetLimit bounds what is done between two tests.
const resetLimit = 20 * time.Second

// keptOptions says whether an engine with these options can use a database of the pool: they
// say nothing about how the database is opened.
func keptOptions(o engine.Options) bool {
	return o.Schema == "" && o.Migrate == "" && !o.Existing && !o.KeepFileMode && o.DB == nil && o.MaxConns == 0 &&
		o.ListenURL == "" && o.Pool == nil
}

// take returns a database of the pool. Without Main there is none.
func take(t testing.TB, of kind) *kept {
	t.Helper()
	pool.mu.Lock()
	kept, all := pool.kept, pool.free[of]
	if n := len(all); n > 0 {
		k := all[n-1] // after the unlock, another may stand there
		pool.free[of] = all[:n-1]
		pool.mu.Unlock()
		return k
	}
	pool.mu.Unlock()
	if !kept {
		return nil
	}
	k, err := newKept(t, of)
	if err != nil {
		t.Fatalf("pawltest: %v", err)
	}
	return k
}

func put(k *kept) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.free[k.kind] = append(pool.free[k.kind], k)
}

func newKept(t testing.TB, of kind) (k *kept, err error) {
	k = &kept{kind: of}
	if of.which.local() {
		if k.path, err = keptFile(of.which); err != nil {
			return nil, err
		}
		k.url = of.which.sqliteURL(k.path)
		if k.opened, err = k.open(); err != nil {
			return nil, err
		}
		return k, k.learn()
	}
	k.url, k.schema = of.which.fresh(t, true)
	if k.opened, err = k.open(); err != nil {
		return nil, err
	}
	if of.flows {
		return k, k.schema.letClockRun()
	}
	return k, k.schema.holdClock(Start.UnixMicro())
}

// open opens the database as a process does.
func (k *kept) open() (*opened, error) {
	d := &opened{}
	h := slog.Default().Handler()
	d.log.Store(&h)
	o := engine.Options{Log: slog.New(logHandler{&d.log}), Clock: func() time.Time { return (*d.clock.Load())() }}
	if k.schema != nil {
		o.Schema = k.schema.name
	}
	var err error
	d.db, err = engine.OpenDB(context.Background(), k.url, o)
	return d, err
}

// another gives the database to a further engine of the test, as another process opens it, unless the test has many.
func (k *kept) another(o *engine.Options, now func() time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.others, func(d *opened) bool { return d.lent.ended() })
	switch {
	case i >= 0:
		k.others[i].db.Dialect().Forget()
	case len(k.others) == mostOthers:
		return nil
	default:
		d, err := k.open()
		if err != nil {
			return err
		}
		i, k.others = len(k.others), append(k.others, d)
	}
	k.others[i].lend(o, now)
	return nil
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
func (d *opened) lend(o *engine.Options, now func() time.Time) {
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	h := log.Handler()
	d.log.Store(&h)
	if o.Clock != nil {
		now = o.Clock
	}
	d.clock.Store(&now)
	d.lent = lend(d.db)
	o.DB = d.lent
}

// release resets the rows and puts the database back into the pool. It closes and removes the
// database when the test failed or changed more than rows, and when something of the test still
// uses it.
func (k *kept) release(sound bool) {
	if sound && k.left() && k.clean() == nil {
		put(k)
		return
	}
	go func() { _ = k.drop() }() // a call in progress delays it
}

// left reports whether the engines of the test have closed the database and no call is in progress.
func (k *kept) left() bool {
	for _, d := range append([]*opened{k.opened}, k.others...) {
		if !d.lent.left() {
			return false
		}
	}
	return true
}

// drop closes the database and removes it.
func (k *kept) drop() error {
	err := k.db.Close()
	for _, d := range k.others {
		err = errors.Join(err, d.db.Close())
	}
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
