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

// errSpread is in the error of a pooler of transactions, which gives the statements of one
// connection to several sessions. Settings, prepared statements and LISTEN would then belong to the
// sessions of others.
var errSpread = errors.New("several sessions answer on one connection")

func errPooler() error {
	e := pawl.Invalid("/url", useTransactions)
	e.Err = errSpread
	return e
}

const useTransactions = "a pooler of transactions answers there: it gives the statements of one connection to several sessions of the " +
	"server; add pool_mode=transaction to the URL, or connect to the server itself or to a pooler of sessions"

// The keys of the data that is stored with a connection.
const (
	takenAt   = "pawl taken at"
	backendID = "pawl backend"
	isSet     = "pawl settings" // the session has its settings
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

// begin refuses a new connection if a migration has excluded this program.
func (d *db) begin(ctx context.Context, c *pgx.Conn) error {
	if !d.guarded.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	var x store.Migration
	newest := d.dialect.Migrator.Newest()
	err := c.QueryRow(ctx, d.dialect.Rewrite(store.Excluding), pgx.QueryExecModeExec, newest).Scan(&x.ID, &x.Description, &x.Oldest)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return store.Excluded(x, newest)
}

// admit is begin for a connection of the embedding program, once.
func (d *db) admit(ctx context.Context, c *pgx.Conn) error {
	data := c.PgConn().CustomData()
	if data[isSet] != nil || !d.guarded.Load() {
		return nil
	}
	err := d.begin(ctx, c)
	if err == nil {
		data[isSet] = true
	}
	return err
}

// usable sets the settings of a new session, and says whether a connection that was taken long ago still
// answers, and from the same session.
func (d *db) usable(ctx context.Context, c *pgx.Conn) (bool, error) {
	data, now := c.PgConn().CustomData(), clock.Now()
	at, used := data[takenAt].(time.Time)
	data[takenAt] = now
	if d.mode == sessions && data[isSet] == nil && !d.probing.Load() {
		ctx, cancel := context.WithTimeout(ctx, dialLimit)
		defer cancel()
		pid, err := backend(ctx, c, d.session)
		if err != nil {
			return false, err
		}
		data[isSet] = true
		return d.same(c, pid)
	}
	if !used || now.Sub(at) < pingAfter {
		return true, nil
	}
	ctx, end := d.hot.bound(ctx, min(pingLimit, d.hot.limit))
	defer end()
	pid, err := backend(ctx, c, "")
	if err != nil {
		return false, nil // the pool replaces the connection
	}
	return d.same(c, pid)
}

// same checks that a connection's session is the one that answered first.
func (d *db) same(c *pgx.Conn, pid string) (bool, error) {
	if d.mode != sessions {
		return true, nil
	}
	data := c.PgConn().CustomData()
	if data[backendID] == nil {
		data[backendID] = pid
	}
	if pid != data[backendID] {
		return false, errPooler()
	}
	return true, nil
}

// checkSessions finds a pooler of transactions: a connection whose session changes, or two
// connections with the same session. While the second connection is in a transaction, a
// pooler cannot give its session to the first. The sessions have no settings of Pawl yet, because
// they may be those of others.
func (d *db) checkSessions(ctx context.Context) error {
	if d.mode != sessions {
		return nil
	}
	d.probing.Store(true)
	defer d.probing.Store(false)
	var conns [2]*pgx.Conn
	for i, p := range []*pool{d.hot, d.background} { // each may have one, also when there are two in all
		c, _, free, err := p.acquire(ctx, false)
		if err != nil {
			return classify(err)
		}
		defer free()
		conns[i] = c.Conn()
	}
	ctx, end := d.cold.bound(ctx, d.cold.limit)
	defer end()
	for i, ask := range []struct {
		conn       int
		statements string
	}{{0, ""}, {1, ""}, {0, ""}, {1, "BEGIN;"}, {0, ""}, {1, ""}, {1, "ROLLBACK;"}, {1, ""}} {
		pid, err := backend(ctx, conns[ask.conn], ask.statements)
		if err != nil {
			return classify(err)
		}
		if _, err := d.same(conns[ask.conn], pid); err != nil {
			return err
		}
		if i == 1 && pid == conns[0].PgConn().CustomData()[backendID] {
			return errPooler()
		}
	}
	return nil
}
