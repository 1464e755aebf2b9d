package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
)

// walkOrders is a table of the caller's. Each of its rows has a task that was created in
// the same transaction.
type walkOrders struct {
	w        *concurrentWalk
	table    string
	file     *sql.DB // of SQLite
	prepares bool    // the server accepts prepared transactions

	mu   sync.Mutex
	made []string // tasks of the round, committed or not
}

func newWalkOrders(t *testing.T, w *concurrentWalk) *walkOrders {
	t.Helper()
	o := &walkOrders{w: w, table: "walk_orders"}
	var err error
	if w.killer == nil {
		o.file, err = sql.Open("sqlite", strings.TrimPrefix(w.p.URL, "sqlite:")+"?_txlock=immediate&_pragma=busy_timeout(60000)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = o.file.Close() })
	} else {
		o.table = w.p.Schema + "." + o.table
		err := w.killer.QueryRow(t.Context(), "SELECT current_setting('max_prepared_transactions')::int > 10").Scan(&o.prepares)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { o.must(o.exec(context.Background(), "DROP TABLE "+o.table)) })
	}
	o.must(o.exec(t.Context(), "CREATE TABLE "+o.table+" (task_id text PRIMARY KEY)"))
	return o
}

func (o *walkOrders) must(err error) {
	if err != nil {
		o.w.Error(err)
	}
}

func (o *walkOrders) exec(ctx context.Context, query string, args ...any) (err error) {
	if o.file != nil {
		_, err = o.file.ExecContext(ctx, query, args...)
		return err
	}
	_, err = o.w.killer.Exec(ctx, query, args...)
	return err
}

// order creates a task and an order in one transaction, which commits, rolls back, or is
// prepared and decided later.
func (w *concurrentWalk) order(ctx context.Context, draw *rand.Rand, _ pawl.Service) error {
	o, e := w.orders, w.engines[draw.IntN(2)]
	task := pawl.NewTask{Type: "plain", Items: newItems(draw, "plain", draw.IntN(3), nil)}
	if o.file != nil {
		tx, err := o.file.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		made, err := e.In(tx).Create(ctx, task)
		if err != nil {
			return err
		}
		o.note(made.ID)
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+o.table+" VALUES ($1)", made.ID); err != nil || draw.IntN(4) == 0 {
			return err
		}
		return tx.Commit()
	}
	c, err := pgx.Connect(ctx, w.own)
	if err != nil {
		return cut(c, err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	tx, err := c.Begin(ctx)
	if err != nil {
		return cut(c, err)
	}
	made, err := e.In(tx).Create(ctx, task)
	if err != nil {
		return cut(c, err)
	}
	o.note(made.ID)
	if _, err := tx.Exec(ctx, "INSERT INTO "+o.table+" VALUES ($1)", made.ID); err != nil || draw.IntN(4) == 0 {
		return cut(c, err)
	}
	if o.prepares && draw.IntN(2) == 0 {
		_, err = tx.Exec(ctx, fmt.Sprintf("PREPARE TRANSACTION '%s %s'", w.p.Schema, made.ID))
		if err == nil && draw.IntN(2) == 0 {
			return o.decide(ctx, draw)
		}
		return cut(c, err)
	}
	return cut(c, tx.Commit(ctx))
}

// cut returns an error as unavailable if a killed connection may have caused it.
func cut(c *pgx.Conn, err error) error {
	if err != nil && (c == nil || c.IsClosed()) {
		return &pawl.Error{Code: pawl.CodeUnavailable, Err: err}
	}
	return err
}

func (o *walkOrders) note(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.made = append(o.made, id)
}

// decide commits a prepared transaction or rolls it back. Another call may have done so
// already.
func (o *walkOrders) decide(ctx context.Context, draw *rand.Rand) error {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	rows, err := o.w.killer.Query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE $1", o.w.p.Schema+" %")
	if err != nil {
		return err
	}
	gids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, gid := range gids {
		verb := "COMMIT"
		if draw.IntN(3) == 0 {
			verb = "ROLLBACK"
		}
		_, gone := o.w.killer.Exec(ctx, verb+" PREPARED '"+gid+"'")
		err = errors.Join(err, gone)
	}
	return err
}

// resolve decides all prepared transactions, and adds the tasks of the committed ones to
// the round's tasks.
func (o *walkOrders) resolve(draw *rand.Rand) {
	if o.prepares {
		o.must(o.decide(o.w.Context(), draw))
	}
	for _, id := range o.made {
		task, err := o.w.p.Service.GetTask(o.w.Context(), id)
		if errors.Is(err, pawl.ErrNotFound) {
			continue
		}
		o.must(o.w.noted(nil, task, err))
	}
}

// check compares the tasks with the orders: neither exists without the other.
func (o *walkOrders) check() {
	for _, id := range o.made {
		query := "SELECT count(*) FROM " + o.table + " WHERE task_id = $1"
		var n int
		if o.file != nil {
			o.must(o.file.QueryRowContext(o.w.Context(), query, id).Scan(&n))
		} else {
			o.must(o.w.killer.QueryRow(o.w.Context(), query, id).Scan(&n))
		}
		if there := slices.Contains(o.w.tasks, id); there != (n == 1) {
			o.w.Errorf("task %s is there: %v; its order: %d", id, there, n)
		}
	}
	o.made = nil
	o.must(o.exec(o.w.Context(), "DELETE FROM "+o.table))
}
