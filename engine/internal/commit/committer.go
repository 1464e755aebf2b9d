// Package commit runs concurrent calls of one hot verb as one statement and one commit.
package commit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// FlushLimit is the time limit of a flush. A flush does not end with its callers'
// contexts.
const FlushLimit = 30 * time.Second

// graceTime is how long a flush goes on in the goroutine of a caller whose context has ended. Then its connection is closed.
const graceTime = time.Second

const (
	maxFlushes   = 2    // concurrent flushes of one verb
	maxGroupRows = 1000 // maximum rows of one statement
	largeRows    = 50   // rows of a large call: its statement costs more than beginning one
)

// Committer gathers concurrent calls of one hot verb into one statement. Calls that
// arrive during a flush go into the next one. There is no timer, so a single caller does
// not wait, and its call runs in its own goroutine. No call is answered before its commit.
//
// A group has at most one call per item; a second call waits for the next flush. If the
// database refuses a statement, the group runs again in halves, so that an error reaches
// only the call that caused it. A call that meets a lock of another transaction runs
// alone, outside the groups, and so do later calls for its item. A group whose outcome is
// unknown never runs again. A panic becomes the error of its group.
type Committer[Row, Ans any] struct {
	options Options[Row, Ans]
	// transaction is the method of the database that runs the transaction of a verb.
	transaction func(store.DB, context.Context, func(context.Context, store.Tx) error) error

	mu       sync.Mutex
	waiting  []*request[Row, Ans]
	running  int
	closed   bool // no request is accepted
	flushes  sync.WaitGroup
	locked   time.Time                // when a group last met a lock; zero = never
	separate map[string]*separateItem // by item
}

// Options describe a Committer's rows and answers and how to run them. DB, Ord, RowOf, and
// either Verb or Execute are required. Calls in a caller's transaction need Verb.
type Options[Row, Ans any] struct {
	DB    store.DB             // on which the groups run
	Item  func(*Row) string    // unique within a group; nil = always unique
	Fits  func(a, b *Row) bool // whether two rows can be in one group; nil = always
	Size  func(*Row) int       // its share of maxGroupRows; nil = 1
	Bytes func(*Row) int       // bytes of its values; nil = not counted
	Ord   func(*Row) *int      // the row's field for its index in the call
	RowOf func(*Ans) *int      // the answer's field for the index of its row
	// LargeFlushes is how many flushes may run while a large call waits, which gains little by a group: one
	// is computed while others wait for their commits. 0 = as many as for other calls.
	LargeFlushes int
	// Verb runs rows in a transaction.
	Verb func(ctx context.Context, tx store.Tx, rows []Row) ([]Ans, error)
	// Cold says that Verb is not a hot verb: it runs in DB.Do, not in DB.Auto.
	Cold bool
	// LeavesLocked says that a call which meets a lock of another transaction does not run again:
	// its caller handles the error.
	LeavesLocked bool
	// Execute runs the rows of a group instead of Verb, in transactions of its own.
	Execute func(ctx context.Context, rows []Row) ([]Ans, error)
	// Orphaned gets the answers of a caller that gave up during the flush;
	// nil = they are dropped.
	Orphaned func(ctx context.Context, rows []Row, out []Ans)
	// Committed is told how many calls each group had that succeeded; nil = not called.
	Committed func(calls int)
	// Panicked gets each panic; the group is answered with an error. nil = not called.
	Panicked func(ctx context.Context, p Panic)
	// Ungrouped says that the store groups calls itself, so every call has its own flush.
	// Without Orphaned, the flush runs in the caller's goroutine and with its context: if
	// ctx ends, the store's answer says what became of the call.
	Ungrouped bool
}

// New returns a Committer.
func New[Row, Ans any](o Options[Row, Ans]) *Committer[Row, Ans] {
	c := &Committer[Row, Ans]{options: o, transaction: store.DB.Auto}
	if o.Cold {
		c.transaction = store.DB.Do
	}
	return c
}

// request has the rows of one call, numbered 0…n-1, and its answers.
type request[Row, Ans any] struct {
	ctx       context.Context // says who calls; it does not end
	rows      []Row
	out       []Ans
	err       error
	done      chan struct{}
	abandoned bool // its caller gave up during the flush
	alone     bool // it runs outside the groups
}

// Ord returns the row's field for its index in the call.
func (c *Committer[Row, Ans]) Ord(r *Row) *int { return c.options.Ord(r) }

// RowOf returns the answer's field for the index of its row.
func (c *Committer[Row, Ans]) RowOf(a *Ans) *int { return c.options.RowOf(a) }

// Close refuses further requests and those that wait, and waits until no flush is running.
func (c *Committer[Row, Ans]) Close() {
	c.mu.Lock()
	c.closed = true
	for _, req := range c.waiting {
		req.err = errClosed
		close(req.done)
	}
	c.waiting = nil
	c.mu.Unlock()
	c.flushes.Wait()
}

var errClosed = &pawl.Error{Code: pawl.CodeUnavailable, Message: "the engine is closed"}

// Do runs rows, numbered 0…n-1, and returns the store's answers. On the Committer's own
// database they run together with the other waiting requests. Any other db is the
// caller's transaction, in which they run at once.
//
// If ctx ends before the flush, the request is removed; if it ends during the flush, the
// error says that the outcome is unknown, or a request that runs in its caller's goroutine ends within graceTime.
func (c *Committer[Row, Ans]) Do(ctx context.Context, db store.DB, rows []Row) ([]Ans, error) {
	if db != c.options.DB {
		return c.inTransaction(ctx, db, rows)
	}
	req := &request[Row, Ans]{rows: rows}
	if c.options.Ungrouped && c.options.Orphaned == nil {
		if !c.begin() {
			return nil, errClosed
		}
		defer c.flushes.Done()
		err := c.attempt(ctx, []*request[Row, Ans]{req})
		return req.out, err
	}
	begins, err := c.enqueue(ctx, req)
	if err != nil {
		return nil, err
	}
	if begins {
		c.lead(ctx, req)
	}
	select {
	case <-req.done:
		return req.out, req.err
	case <-ctx.Done():
		return c.withdraw(ctx, req)
	}
}

// begin counts a flush of the caller's goroutine. It reports false if the Committer is closed.
func (c *Committer[Row, Ans]) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.flushes.Add(1) // never beside the Wait of Close
	}
	return !c.closed
}

// inTransaction runs rows in the caller's transaction. A panic goes on to the caller.
func (c *Committer[Row, Ans]) inTransaction(ctx context.Context, db store.DB, rows []Row) (answers []Ans, err error) {
	ctx, cancel := context.WithTimeout(ctx, FlushLimit)
	defer cancel()
	c.sort(rows)
	err = c.transaction(db, ctx, func(ctx context.Context, tx store.Tx) (err error) {
		answers, err = c.options.Verb(ctx, tx, rows)
		return err
	})
	return answers, err
}

// enqueue adds a request to the queue. begins says that its caller begins a flush.
func (c *Committer[Row, Ans]) enqueue(ctx context.Context, req *request[Row, Ans]) (begins bool, err error) {
	req.ctx, req.done = context.WithoutCancel(ctx), make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false, errClosed
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	c.waiting = append(c.waiting, req)
	if begins = c.options.Ungrouped || c.running < c.flushesFor(req); begins {
		c.running++
		c.flushes.Add(1)
	}
	return begins, nil
}

// flushesFor returns how many flushes may run while a request waits.
func (c *Committer[Row, Ans]) flushesFor(req *request[Row, Ans]) int {
	if len(req.rows) >= largeRows {
		return max(maxFlushes, c.options.LargeFlushes)
	}
	return maxFlushes
}

// lead flushes the next group. A request that is alone in it runs in its caller's goroutine, and for at most graceTime after
// the end of ctx. Other groups, those that follow, and what is undone when its caller has gone have a goroutine of their own.
func (c *Committer[Row, Ans]) lead(ctx context.Context, req *request[Row, Ans]) {
	group := c.nextBatch()
	if !c.options.Ungrouped && c.options.Orphaned == nil && len(group) == 1 && group[0] == req {
		c.runHere(ctx, req, group)
		group = c.nextBatch()
	}
	if len(group) == 0 {
		c.flushes.Done()
		return
	}
	go c.run(group)
}

// runHere flushes a group of one request, whose caller it is.
func (c *Committer[Row, Ans]) runHere(ctx context.Context, req *request[Row, Ans], group []*request[Row, Ans]) {
	if len(c.together(group)) > 0 {
		within, cancel := context.WithCancel(req.ctx)
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(graceTime, cancel) })()
		err := c.attempt(c.groupWait(within), group)
		if errors.Is(err, context.Canceled) {
			err = unknown(ctx)
		}
		c.tried(req.ctx, group, err)
	}
	c.answer(req.ctx, group, false)
}

// withdraw answers the caller of a request whose ctx has ended. It removes the request if
// no flush has begun it.
func (c *Committer[Row, Ans]) withdraw(ctx context.Context, req *request[Row, Ans]) ([]Ans, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, req); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		return nil, ctx.Err()
	}
	select {
	case <-req.done:
		return req.out, req.err
	default:
	}
	req.abandoned = true
	return nil, unknown(ctx)
}

func unknown(ctx context.Context) error {
	return &pawl.Error{Code: pawl.CodeUnavailable, Err: ctx.Err(),
		Message: "the outcome is unknown: the call was cancelled while it was being written"}
}

// run flushes groups until no request waits. It runs each group as one statement, except
// the requests that must run separately. If the database refuses the statement, it runs
// the halves of the group, and so on.
func (c *Committer[Row, Ans]) run(group []*request[Row, Ans]) {
	defer c.flushes.Done()
	for ; len(group) > 0; group = c.nextBatch() {
		for left := c.together(group); len(left) > 0; {
			part := left[0]
			err := c.attempt(c.groupWait(part[0].ctx), part) // alone, a request is refused or not for its own caller
			left = append(c.tried(part[0].ctx, part, err), left[1:]...)
		}
		c.answer(group[0].ctx, group, false)
	}
}

// answer wakes the callers of the group's requests that ran alone, or, if alone is false,
// the callers of the others.
func (c *Committer[Row, Ans]) answer(ctx context.Context, group []*request[Row, Ans], alone bool) {
	var abandoned []*request[Row, Ans]
	c.mu.Lock()
	for _, req := range group {
		if req.alone != alone {
			continue
		}
		close(req.done)
		if req.abandoned && c.options.Orphaned != nil && len(req.out) > 0 {
			abandoned = append(abandoned, req)
		}
	}
	c.mu.Unlock()
	for _, req := range abandoned {
		c.orphan(ctx, req)
	}
}

// orphan calls Orphaned for a caller that gave up. A panic is reported to Panicked only.
func (c *Committer[Row, Ans]) orphan(ctx context.Context, req *request[Row, Ans]) {
	var err error
	defer c.recovered(ctx, &err)
	c.options.Orphaned(ctx, req.rows, req.out)
}
