package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// migrationDB implements store.MigrationDB: goose runs the scripts.
type migrationDB struct {
	of     *db
	fsys   fs.FS // the files of the scripts
	schema string
	table  string // the table of migrations, with its schema
}

// Applied implements store.MigrationDB.
func (m migrationDB) Applied(ctx context.Context) ([]store.Migration, error) {
	exists, err := gooseStore{table: m.table}.TableExists(ctx, m.of.plain)
	if err != nil || !exists {
		return nil, err
	}
	rows, err := m.of.plain.QueryContext(ctx, "SELECT id, description, executed_at, oldest FROM "+m.table+" ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []store.Migration
	for rows.Next() {
		var x store.Migration
		if err := rows.Scan(&x.ID, &x.Description, &x.ExecutedAt, &x.Oldest); err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, rows.Err()
}

// Apply implements store.MigrationDB.
func (m migrationDB) Apply(ctx context.Context, create []string, scripts []store.Script) error {
	files := m.fsys
	if m.of.mode != sessions { // no session has the settings
		files = store.Rewritten(files, func(text string) string {
			return strings.Replace(text, gooseUp, gooseUp+set("SET LOCAL", unlimited)+"\n", 1)
		})
	}
	p, err := goose.NewProvider("", m.of.plain, files, goose.WithStore(gooseStore{m.table, create, scripts}),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err == nil {
		_, err = p.Up(ctx)
	}
	return stoppedByViews(err)
}

// gooseUp begins the statements of a script, which are one transaction.
const gooseUp = "-- +goose Up\n"

// stoppedByViews says what to do about an object of the user's that reads a view which a migration makes anew.
func stoppedByViews(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != dependentObjects {
		return err
	}
	return &pawl.Error{Code: pawl.CodeConflict, Op: "migrate", Err: err, Message: "a migration makes views anew, and others depend on them: " +
		strings.ReplaceAll(pg.Detail, "\n", ", ") + "; drop those, migrate, and create them again (pg_get_viewdef prints the text of a view)"}
}

const dependentObjects = "2BP01" // dependent_objects_still_exist

// Lock implements store.MigrationDB with an advisory lock of a transaction, which also a pooler
// keeps on one session. The server releases it when the process dies.
func (m migrationDB) Lock(ctx context.Context) (func(), error) {
	c, free, err := m.of.hold(ctx, nil)
	if err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, "BEGIN; "+set("SET LOCAL", unlimited)); err != nil {
		free()
		return nil, err
	}
	// The lock is polled. A statement that waits for it would have a snapshot, and a CREATE
	// INDEX CONCURRENTLY would wait for that snapshot.
	for {
		var mine bool
		err := c.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended('pawl migrate ' || $1, 0))", m.schema).Scan(&mine)
		if err == nil && !mine {
			err = pause(ctx, 50*time.Millisecond)
		}
		if err != nil {
			free()
			return nil, err
		}
		if mine {
			return free, nil
		}
	}
}

// unlimited are the settings of migrations.
var unlimited = []setting{{"statement_timeout", "0"}, {"lock_timeout", "0"}, {"idle_in_transaction_session_timeout", "0"}}

// unhurried connects migrations, with connections of the pool.
type unhurried struct {
	db *db
	of driver.Connector
}

// Driver implements driver.Connector.
func (u unhurried) Driver() driver.Driver { return u.of.Driver() }

// Connect implements driver.Connector.
func (u unhurried) Connect(ctx context.Context) (driver.Conn, error) {
	if _, err := u.db.slots.take(ctx, useSession); err != nil {
		return nil, err
	}
	c, err := u.of.Connect(ctx)
	if err != nil {
		u.db.slots.give(useSession)
		return nil, err
	}
	out := &unhurriedConn{c.(*stdlib.Conn), u.db}
	u.db.wires.spare(out.Conn.Conn(), true)
	if err := out.set(ctx, set("SET", always, unlimited)); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// unhurriedConn gives its connection back with the settings of the others when it is closed.
type unhurriedConn struct {
	*stdlib.Conn
	of *db
}

// set replaces the settings of the session. If that fails, the session is not used again.
func (c *unhurriedConn) set(ctx context.Context, settings string) error {
	if c.of.mode != sessions {
		return nil
	}
	pg := c.Conn.Conn()
	_, err := pg.Exec(ctx, "RESET ALL; "+readCommitted+settings)
	if err != nil {
		pg.PgConn().CustomData()[foreign] = true
	}
	return err
}

// Close implements driver.Conn.
func (c *unhurriedConn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	if pg := c.Conn.Conn(); !pg.IsClosed() {
		_ = c.set(ctx, c.of.session)
		c.of.wires.spare(pg, false)
	}
	err := c.Conn.Close()
	c.of.slots.give(useSession)
	return err
}

// gooseStore is goose's view of the table of migrations. goose counts a migration 0, which
// is not stored in the table.
type gooseStore struct {
	table   string
	create  []string
	scripts []store.Script
}

func (s gooseStore) Tablename() string { return s.table }

func (s gooseStore) TableExists(ctx context.Context, db database.DBTxConn) (found bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT to_regclass('"+s.table+"') IS NOT NULL").Scan(&found)
	return found, err
}

func (s gooseStore) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	for _, text := range s.create {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (s gooseStore) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	i := slices.IndexFunc(s.scripts, func(x store.Script) bool { return x.ID == req.Version })
	if i < 0 {
		return nil
	}
	_, err := db.ExecContext(ctx, s.scripts[i].Record)
	return err
}

func (s gooseStore) Delete(context.Context, database.DBTxConn, int64) error {
	return errors.ErrUnsupported // forward only
}

func (s gooseStore) GetMigration(ctx context.Context, db database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	var micros int64
	err := db.QueryRowContext(ctx, fmt.Sprintf("SELECT executed_at FROM %s WHERE id = %d", s.table, version)).Scan(&micros)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, database.ErrVersionNotFound
	}
	return &database.GetMigrationResult{Timestamp: time.UnixMicro(micros), IsApplied: true}, err
}

func (s gooseStore) GetLatestVersion(ctx context.Context, db database.DBTxConn) (id int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM "+s.table).Scan(&id)
	return id, err
}

func (s gooseStore) ListMigrations(ctx context.Context, db database.DBTxConn) ([]*database.ListMigrationsResult, error) {
	rows, err := db.QueryContext(ctx, "SELECT id FROM "+s.table+" ORDER BY id DESC")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []*database.ListMigrationsResult
	for rows.Next() {
		x := &database.ListMigrationsResult{IsApplied: true}
		if err := rows.Scan(&x.Version); err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return append(out, &database.ListMigrationsResult{IsApplied: true}), rows.Err()
}
