package sqlite

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// How long a write waits for another process, and between two tries: short,
// for SQLite's lock has no queue and the gaps of a busy neighbour are short too.
// With SQLite's own waiting, one of three busy processes got a tenth of the turns.
const (
	patience = 30 * time.Second
	firstNap = 200 * time.Microsecond
	longNap  = 2 * time.Millisecond
)

// writer is the one connection that writes, and the turn to use it.
type writer struct {
	db      *sql.DB
	turn    chan struct{} // holds one while somebody writes
	session *session      // nil until first used, and after it broke
	closed  bool
}

func (w *writer) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return classify(err)
	}
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return classify(ctx.Err())
	}
	if w.closed {
		<-w.turn
		return errClosed
	}
	return nil
}

func (w *writer) close() {
	w.turn <- struct{}{}
	w.closed = true
	if w.session != nil {
		w.session.discard()
		w.session = nil
	}
	<-w.turn
}

// Do implements store.DB. It must not be called from within itself: one
// goroutine writes at a time.
func (d *db) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := d.writer.take(ctx); err != nil {
		return err
	}
	defer func() { <-d.writer.turn }()
	return persist(ctx, func() error { return d.once(ctx, fn) })
}

// persist runs fn until it does not meet somebody else's lock, as long as the
// context and patience allow.
func persist(ctx context.Context, fn func() error) error {
	var start time.Time
	nap := firstNap
	for {
		err := fn()
		if err == nil || !busy(err) {
			return err
		}
		if start.IsZero() {
			start = clock.Now()
		}
		if clock.Now().Sub(start) > patience {
			return err
		}
		timer := time.NewTimer(nap/2 + rand.N(nap))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &pawl.Error{Code: pawl.CodeUnavailable, Message: "the call was given up while the database was busy", Err: ctx.Err()}
		}
		nap = min(nap*2, longNap)
	}
}

// once is one try: it commits if fn returns nil and nothing failed.
func (d *db) once(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) (err error) {
	if err := d.present(); err != nil {
		return err
	}
	w := &d.writer
	if w.session == nil {
		if w.session, err = connect(ctx, w.db); err != nil {
			return err
		}
	}
	t := &tx{session: w.session, clock: d.clock}
	if _, err := w.session.exec(context.Background(), "BEGIN IMMEDIATE", nil); err != nil {
		d.heed(err)
		return classify(err)
	}
	done := false
	defer func() {
		if !done { // fn failed or panicked
			d.undo(t)
		}
	}()
	err = fn(ctx, t)
	if t.failed != nil {
		err = t.failed // whatever fn made of it
	}
	if err == nil {
		err = t.fail(ctx.Err())
	}
	if err != nil {
		return err
	}
	t.session.settle()
	if _, err := t.session.exec(context.Background(), "COMMIT", nil); err != nil {
		return t.fail(err)
	}
	done = true
	return nil
}

// undo rolls back. Where that cannot be trusted the connection goes.
func (d *db) undo(t *tx) {
	t.session.settle()
	_, err := t.session.exec(context.Background(), "ROLLBACK", nil)
	if broken(t.failed) {
		err = t.failed
	}
	if err != nil && !inactive(err, t.failed) {
		d.drop(err)
	}
}

func (d *db) heed(err error) {
	if broken(err) {
		d.drop(err)
	}
}

func (d *db) drop(err error) {
	d.log.Warn("sqlite: the writing connection is opened anew", "err", err)
	d.writer.session.discard()
	d.writer.session = nil
}
