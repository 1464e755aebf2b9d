package sqlite

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// Bounds of a group. Calls beyond them go into the next group.
const (
	groupCalls     = 512
	groupTime      = 5 * time.Millisecond // after this time no further call begins
	callersTimeout = 150 * time.Microsecond
)

// group has the calls of one transaction. If there are several, each has a savepoint, so
// that its error undoes nothing else. Calls from Auto have none.
type group struct {
	calls  []*call
	joint  bool
	time   txTime
	now    *call // the call that is running
	failed error // the error that ended the transaction
}

// serveQueue commits waiting calls, group after group, until no call waits or the next
// call runs alone. If a fn panics or ends its goroutine, the group is rolled back and runs
// again without it. That call then runs in its caller's goroutine.
func (d *db) serveQueue() {
	g := &group{}
	defer func() {
		if g.now == nil {
			return
		}
		_ = recover()
		d.rollback(nil)
		g.now.alone = true
		d.writer.requeue(g.calls)
		d.release()
	}()
	for !d.writer.handOver() {
		d.writer.awaitCallers(len(g.calls))
		if !d.beginForQueue() {
			continue
		}
		*g = group{time: txTime{clock: d.clock}}
		d.run(g)
		d.finish(g)
	}
}

// handOver gives the connection to the first waiting call if that call runs alone, and
// releases it if no call waits. It returns false when there is a group to write.
func (w *writer) handOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		w.taken = false
		if w.closed {
			close(w.idle)
		}
		return true
	}
	c := w.queue[0]
	if c.alone {
		w.queue = w.queue[1:]
		c.stage, c.given = answered, true
		close(c.done)
	}
	return c.alone
}

// awaitCallers waits until the callers that were just answered have made their next calls.
// Otherwise half of the callers would wait during each fsync for the other half. It ends
// when as many calls wait as were in the last group, or after callersTimeout.
func (w *writer) awaitCallers(last int) {
	if last < 2 || w.count() >= last {
		return
	}
	for began := clock.Now(); w.count() < last && clock.Now().Sub(began) < callersTimeout; {
		runtime.Gosched()
	}
}

// beginForQueue begins a transaction. It waits for other processes as long as a queued
// call does.
func (d *db) beginForQueue() bool {
	for delay := firstDelay; ; delay = min(delay*2, maxDelay) {
		err := d.begin(context.Background())
		if err == nil {
			return true
		}
		if !d.writer.failExpired(err) {
			return false
		}
		time.Sleep(delay/2 + rand.N(delay))
	}
}

// failExpired answers the calls that have waited too long with the error busy. If the
// error is another one, it answers every call. It returns false when no call waits.
func (w *writer) failExpired(err error) bool {
	var expired []*call
	w.mu.Lock()
	now := clock.Now()
	w.queue = slices.DeleteFunc(w.queue, func(c *call) bool {
		if c.since.IsZero() {
			c.since = now
		}
		if busy(err) && now.Sub(c.since) <= lockTimeout {
			return false
		}
		expired = append(expired, c)
		return true
	})
	left := len(w.queue)
	w.mu.Unlock()
	w.answer(expired, err)
	return left > 0
}

// run runs the waiting calls in order.
func (d *db) run(g *group) {
	w := &d.writer
	n := w.count()
	g.joint = n > 1
	for began := clock.Now(); g.failed == nil && len(g.calls) < n && clock.Now().Sub(began) < groupTime; {
		c := w.next(g)
		if c == nil {
			return
		}
		d.runOne(g, c)
	}
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(len(w.queue), groupCalls)
}

// next removes from the queue the next call that can join the group, and returns it.
func (w *writer) next(g *group) *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 || w.queue[0].alone {
		return nil
	}
	c := w.queue[0]
	w.queue = w.queue[1:]
	c.stage = running
	g.calls, g.now = append(g.calls, c), c
	return c
}

func (d *db) runOne(g *group, c *call) {
	conn, caller := d.writer.conn, c.ctx
	saved := g.joint && !c.hot
	if g.joint && c.hot { // the cancellation of one caller must not end the group's transaction
		caller = context.WithoutCancel(caller)
	}
	if saved {
		if _, err := conn.exec("SAVEPOINT call"); err != nil {
			g.failed = err
		}
	}
	var err error
	if g.failed == nil {
		t := &tx{conn: conn, time: &g.time, names: &d.writer.names}
		err = t.end(caller, c.fn(caller, t))
		if err != nil && (!saved || broken(err)) {
			g.failed = err
		}
	}
	if saved && g.failed == nil {
		if err != nil {
			if _, gone := conn.exec("ROLLBACK TO call"); gone != nil {
				g.failed = err // SQLite has rolled back the whole transaction by itself
			}
		}
	}
	if saved && g.failed == nil {
		if _, gone := conn.exec("RELEASE call"); gone != nil {
			g.failed = gone
		}
	}
	d.writer.mu.Lock()
	defer d.writer.mu.Unlock()
	g.now = nil
	if c.stage == running {
		c.stage, c.err = written, err
	}
}

// finish commits and answers. If the transaction failed, each of its calls runs again
// alone, so that no call gets the error of another one. It does not do so if the commit
// failed in a way that may have written something.
func (d *db) finish(g *group) {
	w := &d.writer
	err := g.failed
	if err == nil {
		if err = d.commit(); err == nil {
			w.answer(g.calls, nil)
			w.tell(len(g.calls))
			d.limitWAL()
			return
		}
	}
	d.rollback(err)
	if busy(err) || g.joint && (g.failed != nil || full(err)) {
		for _, c := range g.calls {
			c.alone = true
		}
		w.requeue(g.calls)
		return
	}
	w.answer(g.calls, classify(err))
}

// requeue puts the calls of a rolled-back group back at the front of the queue.
func (w *writer) requeue(calls []*call) {
	w.mu.Lock()
	var back []*call
	for _, c := range calls {
		if c.stage != answered {
			c.stage, c.err = waiting, nil
			back = append(back, c)
		}
	}
	if !w.closed {
		w.queue = slices.Insert(w.queue, 0, back...)
		back = nil
	}
	w.mu.Unlock()
	w.answer(back, errClosed)
}
