package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Options configure a database. The zero value of a field is its default.
type Options struct {
	// Schema is the schema of Pawl's tables: lower-case letters, digits and underscores, at
	// most 63. "" = the URL's parameter schema, else pawl.
	Schema string
	// MaxConns bounds the connections of this database in this process, at least 2; 0 = the URL's
	// parameter max_conns, else 8. From 4 on, one of them is for LISTEN.
	MaxConns int
	// ListenURL is where LISTEN connects to, for a URL that is a pooler's; "" = the URL's parameter
	// listen_url, else the URL itself if a connection there is a session.
	ListenURL string
	// Pool is a *pgxpool.Pool of the embedding program, whose connections are then used instead of own
	// ones. They keep their settings. Close leaves the pool open.
	Pool any
	// Log gets one line per retried transaction; nil = slog.Default.
	Log *slog.Logger
}

const (
	oldestServer = 140000
	defaultConns = 8
	leastConns   = 2 // a migration needs one beside the one that has the lock of migrations
	mostConns    = 10_000
)

var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// db implements store.DB. Auto and Whole are hot: the planner has no choice in their statements.
// Do and View are cold. What differs is set by their transactions. See store.Purpose for the others.
type db struct {
	mode                        mode
	conns                       *pgxpool.Pool
	slots                       *slots
	hot, cold                   *pool
	heartbeats, background, due *pool
	session                     string // the settings of a session
	probing                     atomic.Bool
	dictionary                  dictionary
	plain                       *sql.DB // for migrations, which have no time limits
	listens                     bool
	wires                       trackedConns
	dialect                     store.Dialect
	log                         *slog.Logger

	guarded   atomic.Bool // see store.Dialect
	resetting sync.Mutex
	lastReset time.Time
}

// Open connects to the server at url. It returns an invalid error for a wrong URL, a wrong
// schema name or a server that is too old, and an unavailable error for a server that does
// not answer. It does not migrate.
func Open(ctx context.Context, url string, o Options) (store.DB, error) {
	t, err := targetOf(url, o)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	d, err := open(ctx, t, o)
	if errors.Is(err, errSpread) && t.mode == "" {
		o.Log.InfoContext(ctx, "a pooler of transactions answers there: pool_mode=transaction is used")
		t.mode = modeTransaction
		d, err = open(ctx, t, o)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func open(ctx context.Context, t target, o Options) (*db, error) {
	d := &db{log: o.Log}
	switch {
	case t.own != nil:
		d.mode = borrowed
	case t.mode == modeTransaction:
		d.mode = transactions
	}
	err := d.connect(t)
	if err == nil {
		d.dialect = d.capabilities(t)
		err = d.checkSessions(ctx)
	}
	if err == nil {
		err = d.check(ctx)
	}
	if err != nil {
		return nil, errors.Join(t.at(classify(err)), d.Close())
	}
	return d, nil
}

// connect creates the pool, which opens its connections on first use.
func (d *db) connect(t target) (err error) {
	one := t.config.ConnConfig
	one.DialFunc = d.wires.dial
	if one.ConnectTimeout == 0 {
		one.ConnectTimeout = dialLimit
	}
	d.wires.first = one.ConnectTimeout
	given := func(name string, d time.Duration) time.Duration {
		if ms, err := strconv.Atoi(one.RuntimeParams[name]); err == nil && ms > 0 {
			d = time.Duration(ms) * time.Millisecond
		}
		return d
	}
	hot := poolKind{"hot", useHot, usePatientHot, given("statement_timeout", hotLimit), given("lock_timeout", hotLock), false}
	cold := poolKind{"cold", useCold, usePatientCold, given("statement_timeout", coldLimit), given("lock_timeout", coldLock), true}
	beats, background, due := hot, cold, hot
	beats.name, beats.use, beats.patient = "heartbeats", useHeartbeats, usePatientHeartbeats
	due.name, due.use, due.patient = "due", useDue, usePatientDue
	background.name, background.use, background.patient, background.lock = "background", useBackground, usePatientBackground, hot.lock
	if d.mode == transactions { // a pooler accepts few parameters; each transaction sets these
		for _, name := range []string{"statement_timeout", "lock_timeout"} {
			delete(one.RuntimeParams, name)
		}
		one.DefaultQueryExecMode, one.StatementCacheCapacity = pgx.QueryExecModeCacheDescribe, 0
	}
	d.listens = t.conns >= listensFrom && (d.mode == sessions || t.listen != nil || d.mode == borrowed)
	pooled := t.conns
	if d.listens && t.listen != nil {
		pooled-- // LISTEN has a connection beside the pool
	}
	d.slots, d.session = newSlots(pooled, d.listens && t.listen == nil), ofSession(hot)
	d.hot, d.cold, d.heartbeats, d.background, d.due = d.kind(hot), d.kind(cold), d.kind(beats), d.kind(background), d.kind(due)
	d.dictionary.db = d
	if d.conns = t.own; t.own == nil {
		d.conns, err = d.newPool(t.config, int32(pooled))
	}
	if err == nil {
		d.plain = sql.OpenDB(unhurried{d, stdlib.GetPoolConnector(d.conns)})
		d.plain.SetMaxIdleConns(0)
		d.plain.SetMaxOpenConns(1) // with the lock of migrations these are two, and there may be no more
	}
	return err
}

// check asks the server for its version, encoding and rights.
func (d *db) check(ctx context.Context) error {
	var version int
	var encoding string
	var named bool
	err := d.cold.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), "+
			"has_function_privilege('pg_control_system()', 'EXECUTE') AND "+
			"has_function_privilege('pg_walfile_name(pg_lsn)', 'EXECUTE')").Scan(&version, &encoding, &named)
	})
	switch {
	case err != nil:
		return classify(err)
	case version < oldestServer:
		return pawl.Invalid("/url", "the server is PostgreSQL %d; Pawl needs 14 or newer", version/10000)
	case encoding != "UTF8":
		return pawl.Invalid("/url", "the database's encoding is %s; Pawl needs UTF8", encoding)
	}
	if !named { // no right to ask: then only a lower position shows that the database went back in time
		d.dialect.Commits.Server = func(context.Context, store.Tx) (store.Server, error) { return store.Server{}, nil }
		d.dialect.Commits.State = unnamedState
	}
	return nil
}

// Dialect implements store.DB.
func (d *db) Dialect() *store.Dialect { return &d.dialect }

// Close implements store.DB. It waits for the calls in progress.
func (d *db) Close() error {
	if d.plain == nil {
		return nil
	}
	err := d.plain.Close()
	if d.mode == borrowed {
		return err
	}
	d.conns.Close()
	return err
}

func (d *db) migrator(schema string) store.Migrator {
	files, table := scripts(schema)
	return classified{store.NewMigrator(migrationDB{d, schema, table}, files, table)}
}

// scripts returns the migrations of a schema and the name of its table of migrations.
func scripts(schema string) (fsys fs.FS, table string) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // embedded at build time
	}
	return store.Rewritten(files, rewriteFor(schema)), `"` + schema + `".schema_migrations`
}

// classified is a migrator that classifies errors.
type classified struct{ store.Migrator }

func (m classified) Up(ctx context.Context) ([]store.Migration, error) {
	done, err := m.Migrator.Up(ctx)
	return done, store.SchemaMismatch(classify(err))
}

func (m classified) Status(ctx context.Context) ([]store.Migration, error) {
	all, err := m.Migrator.Status(ctx)
	return all, store.SchemaMismatch(classify(err))
}
