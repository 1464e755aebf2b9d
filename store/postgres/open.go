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
	// MaxConns bounds the connections for calls, at least 4; 0 = 10. Six tenths of them are
	// for hot verbs. In addition, heartbeats have up to 2 connections, sweeps and the feed up
	// to 3, and LISTEN and new names have one each.
	MaxConns int
	// Log gets one line per retried transaction; nil = slog.Default.
	Log *slog.Logger
}

const oldestServer = 140000

var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// db implements store.DB with several pools. Auto uses the hot connections, whose plans
// cannot change. Do and View use the cold ones. The others are reserved, see
// store.Purpose.
type db struct {
	hot, cold              *pool
	heartbeats, background *pool
	names                  *pool // one connection, on which no statement waits for another transaction of Pawl
	dictionary             dictionary
	plain                  *sql.DB         // for migrations, which have no time limits
	unhurried              *pgx.ConnConfig // the configuration of plain
	wires                  trackedConns
	dialect                store.Dialect
	log                    *slog.Logger

	guarded   atomic.Bool // see store.Dialect
	resetting sync.Mutex
	lastReset time.Time
}

// Open connects to the server at url. It returns an invalid error for a wrong URL, a wrong
// schema name or a server that is too old, and an unavailable error for a server that does
// not answer. It does not migrate.
func Open(ctx context.Context, url string, o Options) (store.DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// Without err, which repeats the URL with its password.
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Op: "open", Message: "the URL is not one of a PostgreSQL database"}
	}
	params := cfg.ConnConfig.RuntimeParams
	if o.Schema == "" {
		o.Schema = params["schema"]
	}
	if o.Schema == "" {
		o.Schema = "pawl"
	}
	delete(params, "schema")
	if !identifier.MatchString(o.Schema) {
		return nil, pawl.Invalid("/schema", "%q is not a schema's name: lower-case letters, digits and underscores, at most 63", o.Schema)
	}
	if params["application_name"] == "" {
		params["application_name"] = "pawl"
	}
	if o.MaxConns == 0 {
		o.MaxConns = 10
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	d := &db{log: o.Log}
	if err := d.connect(cfg, int32(max(4, o.MaxConns))); err != nil {
		return nil, classify(err)
	}
	d.dialect = d.capabilities(cfg.ConnConfig, o.Schema)
	if err = d.checkSessions(ctx); err == nil {
		err = d.check(ctx)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// connect creates the pools, which open their connections on first use.
func (d *db) connect(cfg *pgxpool.Config, total int32) (err error) {
	one := cfg.ConnConfig
	one.DialFunc = d.wires.dial
	if one.ConnectTimeout == 0 {
		one.ConnectTimeout = dialLimit
	}
	d.wires.first = one.ConnectTimeout
	set := func(name string, d time.Duration) time.Duration {
		if ms, err := strconv.Atoi(one.RuntimeParams[name]); err == nil && ms > 0 {
			d = time.Duration(ms) * time.Millisecond
		}
		return d
	}
	hot := poolKind{"hot", total - total*4/10, hotSession, set("statement_timeout", hotLimit), set("lock_timeout", hotLock)}
	cold := poolKind{"cold", total * 4 / 10, everySession, set("statement_timeout", coldLimit), set("lock_timeout", coldLock)}
	beats, background := hot, cold
	beats.name, background.name = "heartbeats", "background"
	beats.conns, background.conns, background.lock = 2, 3, hot.lock
	names := cold
	names.name, names.conns = "names", 1
	var errs [5]error
	d.hot, errs[0] = d.pool(cfg, hot)
	d.cold, errs[1] = d.pool(cfg, cold)
	d.heartbeats, errs[2] = d.pool(cfg, beats)
	d.background, errs[3] = d.pool(cfg, background)
	d.names, errs[4] = d.pool(cfg, names)
	d.dictionary.db = d
	d.unhurried = one.Copy()
	d.unhurried.DialFunc = new(trackedConns).dial // these connections are never closed for silence
	d.plain = stdlib.OpenDB(*d.unhurried, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, everySession+"; SET statement_timeout = 0; SET lock_timeout = 0")
		return err
	}))
	d.plain.SetMaxIdleConns(0)
	return errors.Join(errs[:]...)
}

// check asks the server for its version, encoding and rights.
func (d *db) check(ctx context.Context) error {
	var version int
	var encoding string
	var named bool
	err := d.cold.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), "+
		"has_function_privilege('pg_control_system()', 'EXECUTE') AND "+
		"has_function_privilege('pg_walfile_name(pg_lsn)', 'EXECUTE')").Scan(&version, &encoding, &named)
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
	}
	return nil
}

// Dialect implements store.DB.
func (d *db) Dialect() *store.Dialect { return &d.dialect }

// Close implements store.DB. It waits for the calls in progress.
func (d *db) Close() error {
	err := d.plain.Close()
	for _, p := range d.pools() {
		p.Close()
	}
	return err
}

func (d *db) migrator(conn *pgx.ConnConfig, schema string) store.Migrator {
	files, table := scripts(schema)
	return classified{store.NewMigrator(migrationDB{d.plain, files, schema, table, conn}, files, table)}
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
