package sqlite

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// Do implements store.DB. Concurrent calls share a transaction and its fsync. An error of
// one call undoes only that call, and no call is answered before the commit. Do must not
// be called from within its own fn.
func (d *db) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.write(ctx, fn, false)
}

// write runs fn as a call of a group, or alone if the connection is free. Alone, it tries
// again while another process has the lock.
func (d *db) write(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error, hot bool) error {
	if alone, err := d.writer.enter(ctx, fn, hot); !alone {
		return err
	}
	var t *tx // nil = no transaction is open
	defer func() {
		if t != nil { // fn panicked or ended its goroutine
			d.rollback(t.failed)
		}
		d.release()
	}()
	var wait lockWait
	for {
		err := d.begin(ctx)
		if err == nil {
			t = &tx{conn: d.writer.conn, time: &txTime{clock: d.clock}, names: &d.writer.names}
			err = d.conclude(t, t.end(ctx, fn(ctx, t)))
			t = nil
		}
		if again, err := wait.again(ctx, err); !again {
			return err
		}
	}
}

// conclude commits the transaction of a single caller, or rolls it back if err is not nil.
func (d *db) conclude(t *tx, err error) error {
	if err == nil {
		err = t.fail(d.commit())
	}
	if err != nil {
		d.rollback(t.failed)
		return err
	}
	d.writer.tell(1)
	d.limitWAL()
	return nil
}

// begin opens a write transaction, on a new connection if there is none.
func (d *db) begin(ctx context.Context) (err error) {
	if err := d.present(); err != nil {
		return err
	}
	w := &d.writer
	if w.conn == nil {
		if w.conn, err = d.open(writerPragmas); err != nil {
			return classify(err)
		}
		w.version, w.seen = 0, 0
	}
	if _, err := w.conn.exec("BEGIN IMMEDIATE"); err != nil {
		if broken(err) {
			d.discardWriter(err)
		}
		return classify(err)
	}
	if err := d.checkSchema(); err != nil {
		d.rollback(err)
		return err
	}
	return nil
}

// checkSchema says whether this program may still write to the schema. It reads the schema
// only when another connection has written since the last check.
func (d *db) checkSchema() error {
	var v int64
	t := &tx{conn: d.writer.conn}
	_, err := store.Row(context.Background(), t, []any{&v}, "PRAGMA data_version")
	if err != nil {
		return err
	}
	if v != d.writer.seen {
		d.writer.names.Forget()
		d.writer.seen = v
	}
	if v == d.writer.version || !d.guarded.Load() {
		return nil
	}
	if err := store.CheckSchema(context.Background(), t, d.dialect.Migrator); err != nil {
		return err
	}
	d.writer.version = v
	return nil
}

func (d *db) commit() error {
	_, err := d.writer.conn.exec("COMMIT")
	return err
}

// rollback rolls back after the error failed. If the rollback is not reliable, it closes
// the connection.
func (d *db) rollback(failed error) {
	c := d.writer.conn
	c.closeRows()
	_, err := c.exec("ROLLBACK")
	if broken(failed) {
		err = failed
	}
	if err != nil && !inactive(err, failed) {
		d.discardWriter(err)
	}
}

func (d *db) discardWriter(err error) {
	d.log.Warn("sqlite: the writing connection is opened anew", "err", err)
	_ = d.writer.conn.close()
	d.writer.conn = nil
}
