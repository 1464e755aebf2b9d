// Package commit runs concurrent calls of one hot verb as one statement and one commit.
package commit

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// FlushLimit is the time limit of a flush. A flush does not end with its callers'
// contexts.
const FlushLimit = 30 * time.Second

const (
	maxFlushes   = 2    // concurrent flushes of one verb
	maxGroupRows = 1000 // maximum rows of one statement
)

// Committer gathers concurrent calls of one hot verb into one statement. Calls that
// arrive during a flush go into the next one. There is no timer, so a single caller does
// not wait. No call is answered before its commit.
//
// A group has at most one call per item; a second call waits for the next flush. If the
// database refuses a statement, the group runs again in halves, so that an error reaches
// only the call that caused it. A call that meets a lock of another transaction runs
// alone, outside the groups, and so do later calls for its item. A group whose outcome is
// unknown never runs again. A panic becomes the error of its group.
type Committer[Row, Ans any] struct {
	options  Options[Row, Ans]
	mu       sync.Mutex
	waiting  []*request[Row, Ans]
	running  int
	flushes  sync.WaitGroup
	locked   time.Time                // when a group last met a lock; zero = never
	separate map[string]*separateItem // by item
}

// Options describe a Committer's rows and answers and how to run them. Ord, RowOf and
// Execute are required.
type Options[Row, Ans any] struct {
	Item    func(*Row) string    // unique within a group; nil = always unique
	Fits    func(a, b *Row) bool // whether two rows can be in one group; nil = always
	Size    func(*Row) int       // its share of maxGroupRows; nil = 1
	Bytes   func(*Row) int       // bytes of its values; nil = not counted
	Ord     func(*Row) *int      // the row's field for its index in the call
	RowOf   func(*Ans) *int      // the answer's field for the index of its row
	Execute func(ctx context.Context, rows []Row) ([]Ans, error)
	// Orphaned gets the answers of a caller that gave up during the flush;
	// nil = they are dropped.
	Orphaned func(ctx context.Context, rows []Row, out []Ans)
	// Panicked gets each panic; the group is answered with an error. nil = not called.
	Panicked func(ctx context.Context, p Panic)
	// Ungrouped gives every call its own flush, because the store groups calls itself.
	Ungrouped bool
}

// New returns a Committer.
func New[Row, Ans any](o Options[Row, Ans]) *Committer[Row, Ans] {
	return &Committer[Row, Ans]{options: o}
}

// request has the rows of one call, numbered 0…n-1, and its answers.
type request[Row, Ans any] struct {
	rows      []Row
	out       []Ans
	err       error
	done      chan struct{}
	abandoned bool // its caller gave up during the flush
	alone     bool // it runs outside the groups
}

// Alone runs rows at once with execute, within the caller's own transaction.
func (c *Committer[Row, Ans]) Alone(ctx context.Context, rows []Row, execute func(ctx context.Context, rows []Row) ([]Ans, error)) ([]Ans, error) {
	ctx, cancel := context.WithTimeout(ctx, FlushLimit)
	defer cancel()
	c.sort(rows)
	return execute(ctx, rows)
}

// Direct runs rows at once in the caller's goroutine, for a store that groups concurrent
// calls itself. A panic becomes an error, as in Do. If ctx ends, the store's answer says
// what became of the call. Direct does not call Orphaned.
func (c *Committer[Row, Ans]) Direct(ctx context.Context, rows []Row) (out []Ans, err error) {
	c.flushes.Add(1)
	defer c.flushes.Done()
	defer c.recovered(ctx, &err)
	ctx, cancel := context.WithTimeout(ctx, FlushLimit)
	defer cancel()
	c.sort(rows)
	return c.options.Execute(ctx, rows)
}

// Ord returns the row's field for its index in the call.
func (c *Committer[Row, Ans]) Ord(r *Row) *int { return c.options.Ord(r) }

// RowOf returns the answer's field for the index of its row.
func (c *Committer[Row, Ans]) RowOf(a *Ans) *int { return c.options.RowOf(a) }

// Wait waits until no flush is running.
func (c *Committer[Row, Ans]) Wait() { c.flushes.Wait() }

// Do runs rows, numbered 0…n-1, together with the other waiting requests and returns
// the store's answers. If ctx ends before the flush, the request is removed; if it ends
// during the flush, the error says that the outcome is unknown.
func (c *Committer[Row, Ans]) Do(ctx context.Context, rows []Row) ([]Ans, error) {
	req := &request[Row, Ans]{rows: rows, done: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, req)
	if c.options.Ungrouped || c.running < maxFlushes {
		c.running++
		c.flushes.Add(1)
		go c.run(context.WithoutCancel(ctx))
	}
	c.mu.Unlock()
	select {
	case <-req.done:
		return req.out, req.err
	case <-ctx.Done():
	}
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
	return nil, &pawl.Error{Code: pawl.CodeUnavailable, Message: "the outcome is unknown: the call was cancelled while it was being written", Err: ctx.Err()}
}

// run flushes until no request waits.
func (c *Committer[Row, Ans]) run(ctx context.Context) {
	defer c.flushes.Done()
	for {
		c.mu.Lock()
		group := c.nextBatch()
		if len(group) == 0 {
			c.running--
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		c.flush(ctx, group)
		c.answer(ctx, group, false)
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
