package sqlite

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
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

// lastWait is how long a caller that gives up while its call is being written
// still waits to learn what became of it.
const lastWait = time.Second

// writer is the one connection that writes, and the queue for it. A call that
// finds it free runs at once, in its caller's goroutine. Other calls wait in order
// and go into the next transaction together (see serve).
type writer struct {
	path string

	mu     sync.Mutex
	taken  bool    // the connection is in use by a caller or by serve
	queue  []*call // those who wait for it
	closed bool
	idle   chan struct{} // closed when it is given back after closing

	session connection // nil until first used, and after it broke; its taker's
	version int64      // data_version when the schema was looked at last; 0 = never on this connection
}

// stage is how far a call in the queue has come.
type stage int

const (
	waiting  stage = iota
	running        // its fn is at work
	written        // its fn is done; the commit is to come
	answered       // done is closed, or its caller has gone
)

// call is one Do that found the connection in use.
type call struct {
	ctx   context.Context
	fn    func(ctx context.Context, tx store.Tx) error
	hot   bool // from Auto
	err   error
	done  chan struct{}
	stage stage
	since time.Time // when it was first held up by another process
	alone bool      // not in a group: its caller gets the connection
	turn  bool      // and has it
}

// Do implements store.DB. Concurrent calls share a transaction and its fsync:
// an error of one undoes only its own part, and none is answered before the
// commit. It must not be called from within itself.
func (d *db) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.write(ctx, fn, false)
}

func (d *db) write(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error, hot bool) error {
	if err := ctx.Err(); err != nil {
		return classify(err)
	}
	c, err := d.writer.enter(ctx, fn, hot)
	if err != nil {
		return err
	}
	if c != nil {
		if err := d.writer.await(c); !c.turn {
			return err
		}
	}
	defer d.pass()
	return retryLocked(ctx, func() error { return d.once(ctx, fn) })
}

// enter takes the connection if it is free, and otherwise joins the queue.
func (w *writer) enter(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error, hot bool) (*call, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errClosed
	}
	if !w.taken {
		w.taken = true
		return nil, nil
	}
	c := &call{ctx: ctx, fn: fn, hot: hot, done: make(chan struct{})}
	w.queue = append(w.queue, c)
	return c, nil
}

// await is the caller's side of the queue. A call that is cancelled before its turn is
// removed; one that is cancelled later usually still gets its outcome.
func (w *writer) await(c *call) error {
	select {
	case <-c.done:
		return c.err
	case <-c.ctx.Done():
	}
	for wait := lastWait; !w.leave(c, wait < lastWait); wait = longNap {
		timer := time.NewTimer(wait)
		select {
		case <-c.done:
			timer.Stop()
			return c.err
		case <-timer.C:
		}
	}
	return c.err
}

// leave takes a call out for a caller who gave up: at any time while it waits,
// and when pressed also before its commit. Never while its fn is at work, which
// may change what is the caller's.
func (w *writer) leave(c *call, pressed bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case c.stage == answered:
	case c.stage == waiting:
		if i := slices.Index(w.queue, c); i >= 0 {
			w.queue = slices.Delete(w.queue, i, i+1)
		}
		c.err = classify(c.ctx.Err())
	case c.stage == written && pressed:
		c.err = &pawl.Error{Code: pawl.CodeUnavailable, Message: "the outcome is unknown: the call was given up while it was being written", Err: c.ctx.Err()}
	default:
		return false
	}
	c.stage = answered
	return true
}

// answer gives each caller the outcome of its call, unless it has gone.
func (w *writer) answer(calls []*call, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range calls {
		if c.stage == answered {
			continue
		}
		if err != nil {
			c.err = err
		}
		c.stage = answered
		close(c.done)
	}
}

// pass gives the connection back: to those who wait, if there are any.
func (d *db) pass() {
	w := &d.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		go d.serve()
		return
	}
	w.taken = false
	if w.closed {
		close(w.idle)
	}
}

// close sends away who waits, and waits for what is under way.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	left := w.queue
	w.queue = nil
	taken := w.taken
	w.idle = make(chan struct{})
	w.mu.Unlock()
	w.answer(left, errClosed)
	if taken {
		<-w.idle
	}
	if w.session != nil {
		w.session.discard()
		w.session = nil
	}
}

// retryLocked runs fn until it does not meet another connection's lock, as long as the
// context and patience allow.
func retryLocked(ctx context.Context, fn func() error) error {
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

// once is one try for a single caller: it commits if fn returns nil and
// nothing failed.
func (d *db) once(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	t := &tx{session: d.writer.session, moment: &txTime{clock: d.clock}}
	done := false
	defer func() {
		if !done { // fn failed or panicked
			d.undo(t.failed)
		}
	}()
	if err := t.run(ctx, fn); err != nil {
		return err
	}
	if err := d.commit(); err != nil {
		return t.fail(err)
	}
	done = true
	d.limitLog()
	return nil
}

// begin opens a write transaction, on a new connection if there is none.
func (d *db) begin(ctx context.Context) (err error) {
	if err := d.present(); err != nil {
		return err
	}
	w := &d.writer
	if w.session == nil {
		if w.session, err = openConn(w.path); err != nil {
			w.session = nil
			return classify(err)
		}
		w.version = 0
	}
	if _, err := w.session.exec(context.Background(), "BEGIN IMMEDIATE", nil); err != nil {
		if broken(err) {
			d.drop(err)
		}
		return classify(err)
	}
	if err := d.fits(); err != nil {
		d.undo(err)
		return err
	}
	return nil
}

// fits says whether this program may still write to the schema. It looks only when
// another connection has written since it looked last.
func (d *db) fits() error {
	if !d.guarded.Load() {
		return nil
	}
	var v int64
	t := &tx{session: d.writer.session}
	_, err := store.Row(context.Background(), t, []any{&v}, "PRAGMA data_version")
	if err != nil || v == d.writer.version {
		return err
	}
	if err := store.CheckSchema(context.Background(), t, d.dialect.Migrator); err != nil {
		return err
	}
	d.writer.version = v
	return nil
}

func (d *db) commit() error {
	_, err := d.writer.session.exec(context.Background(), "COMMIT", nil)
	return err
}

// undo rolls back after failed. Where that cannot be trusted the connection goes.
func (d *db) undo(failed error) {
	s := d.writer.session
	s.settle()
	_, err := s.exec(context.Background(), "ROLLBACK", nil)
	if broken(failed) {
		err = failed
	}
	if err != nil && !inactive(err, failed) {
		d.drop(err)
	}
}

func (d *db) drop(err error) {
	d.log.Warn("sqlite: the writing connection is opened anew", "err", err)
	d.writer.session.discard()
	d.writer.session = nil
}
