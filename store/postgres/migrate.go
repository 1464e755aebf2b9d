package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// migrationDB implements store.MigrationDB.
type migrationDB struct {
	of     *db
	schema string
	table  string // the table of migrations, with its schema
}

// Applied implements store.MigrationDB.
func (m migrationDB) Applied(ctx context.Context) ([]store.Migration, error) {
	var exists bool
	if err := m.of.plain.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", m.table).Scan(&exists); err != nil || !exists {
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

// Apply implements store.MigrationDB. A script is one request of several statements.
func (m migrationDB) Apply(ctx context.Context, create []string, scripts []store.Script) error {
	c, err := m.of.plain.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var exists bool
	if err := c.QueryRowContext(ctx, "SELECT to_regnamespace(quote_ident($1)) IS NOT NULL", m.schema).Scan(&exists); err != nil {
		return err
	}
	if exists { // a role may have the schema without the right to make one, for which the server asks first
		create = create[1:]
	}
	texts := []string{strings.Join(create, ";\n")}
	for _, s := range scripts {
		text := s.SQL
		if m.of.mode != sessions { // no session has the settings
			text = strings.Replace(text, "BEGIN;", "BEGIN; "+set("SET LOCAL", unlimited), 1)
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		if err := m.run(ctx, c, text); err != nil {
			return stoppedByViews(err)
		}
	}
	return nil
}

// run runs a script, which is one transaction. One that loses a deadlock, as against a program of an older version that
// works meanwhile, runs again.
func (m migrationDB) run(ctx context.Context, c *sql.Conn, script string) error {
	for n := 1; ; n++ {
		_, err := c.ExecContext(ctx, script)
		if err == nil {
			return nil
		}
		_, _ = c.ExecContext(ctx, "ROLLBACK")
		if pg := (*pgconn.PgError)(nil); n == tries || !errors.As(err, &pg) || pg.Code != deadlock {
			return err
		}
		m.of.log.InfoContext(ctx, "a migration lost a deadlock and runs again", "try", n, "cause", err)
		if err := pause(ctx, time.Duration(n)*100*time.Millisecond); err != nil {
			return err
		}
	}
}

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

// set replaces the settings of the session. If that fails, the session is closed.
func (c *unhurriedConn) set(ctx context.Context, settings string) error {
	if c.of.mode != sessions {
		return nil
	}
	pg := c.Conn.Conn()
	_, err := pg.Exec(ctx, "RESET ALL; "+readCommitted+settings)
	if err != nil {
		_ = pg.Close(ctx)
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
