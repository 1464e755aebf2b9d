package sqlite

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// tx implements store.Tx on a connection.
type tx struct {
	conn *conn
	time *txTime
	// names remembers the numbers of actors from one transaction to the next; nil = nothing.
	names *store.Names
	// failed is the first error that ended the transaction. After a full disk and similar
	// errors, SQLite rolls back by itself. Later statements would then commit one by one, so
	// none is run.
	failed error
	// reads says that the end of a context interrupts a statement. A write transaction checks
	// its context between statements instead. Its statements are short, and an interrupted
	// statement undoes the whole transaction of a group.
	reads bool
}

// txTime is what the calls of a transaction share: its only time, which is read on first
// use, and whether one of them has inserted a name.
type txTime struct {
	clock *monotonicClock
	now   int64
	made  bool // it has inserted a name, which is not committed yet
}

// Known implements store.Dictionary. After the transaction has inserted a name, it does not
// remember what it reads: a rollback may remove the row again.
func (t *tx) Known() *store.Names {
	if t.time == nil || t.time.made {
		return nil
	}
	return t.names
}

// MakeActors implements store.Dictionary: the caller inserts the names in this transaction,
// unless all of them have their rows.
func (t *tx) MakeActors(ctx context.Context, names []store.ActorName) (bool, error) {
	all := len(names) > 0
	for _, n := range names {
		_, found, err := store.FindActor(ctx, t, n)
		if err != nil {
			return false, err
		}
		all = all && found
	}
	if t.time != nil && !all {
		t.time.made = true
	}
	return all, nil
}

// MakeQueues implements store.Dictionary in the same way.
func (t *tx) MakeQueues(ctx context.Context, _ []store.QueueName) (bool, error) {
	return t.MakeActors(ctx, nil)
}

// end is called after the function of a transaction, which returned err, and before the
// commit. An error that the function ignored still counts, and when the caller has gone,
// there is no commit.
func (t *tx) end(ctx context.Context, err error) error {
	if t.failed != nil {
		err = t.failed // even if the function ignored it
	}
	if err == nil {
		err = t.fail(ctx.Err())
	}
	t.conn.closeRows()
	return err
}

// check is called before each statement.
func (t *tx) check(ctx context.Context) error {
	switch {
	case t.failed != nil:
		return t.failed
	case ctx.Err() != nil:
		return t.fail(ctx.Err())
	case t.reads:
		t.conn.watch(ctx)
	}
	return nil
}

// fail classifies an error, and remembers it if no statement may follow it.
func (t *tx) fail(err error) error {
	if err == nil {
		return nil
	}
	keep := statementOnly(err)
	err = classify(err)
	if !keep && t.failed == nil {
		t.failed = err
	}
	return err
}

// Exec implements store.Tx.
func (t *tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if err := t.check(ctx); err != nil {
		return 0, err
	}
	n, err := t.conn.exec(query, args...)
	return n, t.fail(err)
}

// Query implements store.Tx.
func (t *tx) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	r, err := t.conn.query(t, query, args)
	if err != nil {
		return nil, t.fail(err)
	}
	return r, nil
}

// ExecEach implements store.Tx.
func (t *tx) ExecEach(ctx context.Context, query string, rows [][]any) error {
	for _, args := range rows {
		if _, err := t.Exec(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}

// Now implements store.Tx.
func (t *tx) Now(ctx context.Context) (int64, error) {
	if t.time.now == 0 {
		now, err := t.time.clock.now(ctx, t)
		if err != nil {
			return 0, err
		}
		t.time.now = now
	}
	return t.time.now, nil
}
