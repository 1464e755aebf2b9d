package sqlite

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// Bounds of a group; who is beyond them goes into the next one.
const (
	groupCalls = 512
	groupTime  = 5 * time.Millisecond // after that long no further call is begun
	gatherTime = 150 * time.Microsecond
)

// group is the calls of one transaction. When there are several, each has a
// savepoint, and so its error undoes nothing else.
type group struct {
	calls  []*call
	joint  bool
	moment txTime
	now    *call // whose fn is at work
	failed error // what spoilt the transaction
}

// serve commits what waits, group after group, until nothing does or somebody
// wants the connection for himself. A fn that does not return (it panics, or ends
// its goroutine) takes its group with it, which then goes without; it is run
// once more where that belongs, in its caller's goroutine.
func (d *db) serve() {
	g := &group{}
	defer func() {
		if g.now == nil {
			return
		}
		_ = recover()
		d.undo(nil)
		g.now.alone = true
		d.writer.requeue(g.calls)
		d.pass()
	}()
	for !d.writer.handOver() {
		d.writer.gather(len(g.calls))
		if !d.beginForQueue() {
			continue
		}
		*g = group{moment: txTime{clock: d.clock}}
		d.run(g)
		d.finish(g)
	}
}

// handOver gives the connection to the first of the queue if he wants it for
// himself, and back if nobody waits; false = there is a group to write.
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
		c.stage, c.turn = answered, true
		close(c.done)
	}
	return c.alone
}

// gather lets those who have just been answered come back with their next calls
// before the next group sets out: else half of them would wait for each fsync
// while the other half is in it. It ends when as many wait as were in the last
// group, or when that is not to be expected.
func (w *writer) gather(last int) {
	if last < 2 || w.count() >= last {
		return
	}
	for began := clock.Now(); w.count() < last && clock.Now().Sub(began) < gatherTime; {
		runtime.Gosched()
	}
}

// beginForQueue begins a transaction, waiting for other processes as long as
// somebody in the queue does.
func (d *db) beginForQueue() bool {
	for nap := firstNap; ; nap = min(nap*2, longNap) {
		err := d.begin(context.Background())
		if err == nil {
			return true
		}
		if !d.writer.failExpired(err) {
			return false
		}
		time.Sleep(nap/2 + rand.N(nap))
	}
}

// failExpired tells those whose patience is at its end that the connection is busy, and
// everybody that it does not work; false = nobody waits any more.
func (w *writer) failExpired(err error) bool {
	var told []*call
	w.mu.Lock()
	now := clock.Now()
	w.queue = slices.DeleteFunc(w.queue, func(c *call) bool {
		if c.since.IsZero() {
			c.since = now
		}
		if busy(err) && now.Sub(c.since) <= patience {
			return false
		}
		told = append(told, c)
		return true
	})
	left := len(w.queue)
	w.mu.Unlock()
	w.answer(told, err)
	return left > 0
}

// run carries out what waits now, in its order.
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

// next takes the next call that can go with the group off the queue.
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
	s, ctx, caller := d.writer.session, context.Background(), c.ctx
	saved := g.joint && !c.hot
	if g.joint && c.hot { // a caller who goes in the middle of it must not spoil the group
		caller = context.WithoutCancel(caller)
	}
	if saved {
		if _, err := s.exec(ctx, "SAVEPOINT call", nil); err != nil {
			g.failed = err
		}
	}
	var err error
	if g.failed == nil {
		t := &tx{session: s, moment: &g.moment}
		err = t.run(caller, c.fn)
		if err != nil && (!saved || broken(err)) {
			g.failed = err
		}
	}
	if saved && g.failed == nil {
		if err != nil {
			if _, gone := s.exec(ctx, "ROLLBACK TO call", nil); gone != nil {
				g.failed = err // SQLite has rolled everything back by itself
			}
		}
	}
	if saved && g.failed == nil {
		if _, gone := s.exec(ctx, "RELEASE call", nil); gone != nil {
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

// finish commits and answers. When the transaction was spoilt, each of its calls
// is tried by itself, so that none is told of another's misfortune; but not when
// a commit failed in a way that may have left something behind.
func (d *db) finish(g *group) {
	w := &d.writer
	err := g.failed
	if err == nil {
		if err = d.commit(); err == nil {
			w.answer(g.calls, nil)
			d.limitLog()
			return
		}
	}
	d.undo(err)
	if busy(err) || g.joint && (g.failed != nil || full(err)) {
		for _, c := range g.calls {
			c.alone = true
		}
		w.requeue(g.calls)
		return
	}
	w.answer(g.calls, classify(err))
}

// requeue puts the calls of a group that was rolled back where they were.
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
