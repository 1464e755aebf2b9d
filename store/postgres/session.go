package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// errPooler is the error for a transaction pooler, which distributes the statements of one
// connection over several sessions. Settings, prepared statements, LISTEN and the lock of
// migrations would then belong to the sessions of others.
func errPooler() error { return pawl.Invalid("/url", useSessions) }

const useSessions = "a pooler of transactions answers there: it gives the statements of one connection to several sessions of the " +
	"server; " +
	"use session pooling (pool_mode=session in PgBouncer), or connect to the server itself"

// The keys of the data that is stored with a connection.
const (
	releasedAt = "pawl released at"
	backendID  = "pawl backend"
)

// backend returns the process id of the server's session, after it has run other
// statements. It sends all of them as one message, which a pooler cannot split.
func backend(ctx context.Context, c *pgx.Conn, statements string) (pid string, err error) {
	results, err := c.PgConn().Exec(ctx, statements+"SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return "", err
	}
	if rows := results[len(results)-1].Rows; len(rows) == 1 && len(rows[0]) == 1 {
		pid = string(rows[0][0])
	}
	return pid, nil
}

// begin sets the settings of a new connection.
func (d *db) begin(ctx context.Context, c *pgx.Conn, settings string) error {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	pid, err := backend(ctx, c, settings+";")
	c.PgConn().CustomData()[backendID] = pid
	if err != nil || !d.guarded.Load() {
		return err
	}
	var x store.Migration
	newest := d.dialect.Migrator.Newest()
	err = c.QueryRow(ctx, d.dialect.Rewrite(store.Excluding), pgx.QueryExecModeExec, newest).Scan(&x.ID, &x.Description, &x.Oldest)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return store.Excluded(x, newest)
}

// usable says whether a connection that was idle still answers, and from the same session.
func (p *pool) usable(ctx context.Context, c *pgx.Conn) (bool, error) {
	at, used := c.PgConn().CustomData()[releasedAt].(time.Time)
	if !used || clock.Now().Sub(at) < pingAfter {
		return true, nil
	}
	ctx, end := p.bound(ctx, min(pingLimit, p.limit))
	defer end()
	pid, err := backend(ctx, c, "")
	if err != nil {
		return false, nil // the pool replaces the connection
	}
	return same(c, pid)
}

func same(c *pgx.Conn, pid string) (bool, error) {
	if pid != c.PgConn().CustomData()[backendID] {
		return false, errPooler()
	}
	return true, nil
}

// checkSessions refuses a transaction pooler: a connection whose session changes, or two
// connections with the same session. While the second connection is in a transaction, a
// pooler cannot give its session to the first.
func (d *db) checkSessions(ctx context.Context) error {
	var conns [2]*pgx.Conn
	for i, p := range []*pool{d.hot, d.cold} { // one connection of each pool: a pool may have only one
		c, _, free, err := p.acquire(ctx, false)
		if err != nil {
			return classify(err)
		}
		defer free()
		conns[i] = c.Conn()
	}
	ctx, end := d.cold.bound(ctx, d.cold.limit)
	defer end()
	if conns[0].PgConn().CustomData()[backendID] == conns[1].PgConn().CustomData()[backendID] {
		return errPooler()
	}
	for _, ask := range []struct {
		conn       int
		statements string
	}{{0, ""}, {0, ""}, {1, "BEGIN;"}, {0, ""}, {1, ""}, {1, "ROLLBACK;"}, {1, ""}} {
		pid, err := backend(ctx, conns[ask.conn], ask.statements)
		if err != nil {
			return classify(err)
		}
		if _, err := same(conns[ask.conn], pid); err != nil {
			return err
		}
	}
	return nil
}
