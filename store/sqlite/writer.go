package sqlite

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// outcomeWait is how long a caller that gives up while its call is being written still
// waits for the outcome.
const outcomeWait = time.Second

// writer is the only connection that writes, and its queue. A call that finds the
// connection free runs at once, in its caller's goroutine. Other calls wait in order and
// go into the next transaction together (see serveQueue).
type writer struct {
	mu     sync.Mutex
	taken  bool    // the connection is in use by a caller or by serveQueue
	queue  []*call // the calls that wait for the connection
	closed bool
	idle   chan struct{} // closed when the connection is released after close

	conn    *conn       // nil until it is first used, and after it broke; only the holder uses it
	version int64       // data_version when the schema was checked last; 0 = never on this connection
	seen    int64       // data_version of the last transaction; 0 = none on this connection
	names   store.Names // learned while no other connection has written

	waits     atomic.Int64              // calls that found the connection in use
	committed atomic.Pointer[func(int)] // is told how many calls each transaction had; nil = nothing is
}

// tell tells how many calls the transaction had that was just committed.
func (w *writer) tell(calls int) {
	if told := w.committed.Load(); told != nil {
		(*told)(calls)
	}
}

// stage is the progress of a call in the queue.
type stage int

const (
	waiting  stage = iota
	running        // its fn is running
	written        // its fn is done; the commit follows
	answered       // done is closed, or its caller has gone
)

// call is one call of Do or Auto that found the connection in use.
type call struct {
	ctx   context.Context
	fn    func(ctx context.Context, tx store.Tx) error
	hot   bool // from Auto
	err   error
	done  chan struct{}
	stage stage
	since time.Time // when another process first delayed it
	alone bool      // not in a group: its caller gets the connection
	given bool      // its caller has the connection
}

// enter waits for the connection or for the outcome of a group. It returns true if the
// caller has the connection, which it must release. Otherwise err is the outcome of fn.
func (w *writer) enter(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error, hot bool) (alone bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, classify(err)
	}
	c, err := w.acquire(ctx, fn, hot)
	if err != nil || c == nil {
		return err == nil, err
	}
	err = w.wait(c)
	return c.given, err
}

// acquire takes the connection if it is free. Otherwise it adds a call to the queue.
func (w *writer) acquire(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error, hot bool) (*call, error) {
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
	w.waits.Add(1)
	return c, nil
}

// wait waits for the outcome of a call, in its caller's goroutine. A call that is
// cancelled before it runs is removed from the queue. A call that is cancelled later
// usually still gets its outcome.
func (w *writer) wait(c *call) error {
	select {
	case <-c.done:
		return c.err
	case <-c.ctx.Done():
	}
	for wait := outcomeWait; !w.withdraw(c, wait < outcomeWait); wait = maxDelay {
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

// withdraw ends a call whose caller gave up. It can do so at any time while the call waits
// and, with unknown, also between the end of its fn and the commit. It never does so while
// the fn is running, because the fn may change data of the caller.
func (w *writer) withdraw(c *call, unknown bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case c.stage == answered:
	case c.stage == waiting:
		if i := slices.Index(w.queue, c); i >= 0 {
			w.queue = slices.Delete(w.queue, i, i+1)
		}
		c.err = classify(c.ctx.Err())
	case c.stage == written && unknown:
		c.err = &pawl.Error{Code: pawl.CodeUnavailable, Err: c.ctx.Err(),
			Message: "the outcome is unknown: while the call was being written, the caller cancelled it, or its time ran out"}
	default:
		return false
	}
	c.stage = answered
	return true
}

// answer gives each caller the outcome of its call, unless the caller has gone.
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

// release gives the connection to the waiting calls, or makes it free if there are none.
func (d *db) release() {
	w := &d.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		go d.serveQueue()
		return
	}
	w.taken = false
	if w.closed {
		close(w.idle)
	}
}

// close refuses the calls that wait, and waits for those in progress.
func (w *writer) close() (err error) {
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
	if w.conn != nil {
		err = w.conn.close()
		w.conn = nil
	}
	return err
}
