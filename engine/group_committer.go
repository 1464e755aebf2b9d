package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

const (
	maxFlushes   = 2                // concurrent flushes of one verb
	maxGroupRows = 1000             // maximum rows of one statement
	flushLimit   = 30 * time.Second // time limit of a flush; it does not end with its callers' contexts

	// Rows may be locked by other transactions. A group waits groupLock for each lock if
	// a group met one within lockMemory. A call that runs alone waits aloneLock.
	groupLock  = 100 * time.Millisecond
	aloneLock  = 3 * time.Second
	lockMemory = 10 * time.Second
)

// groupCommitter gathers concurrent calls of one hot verb into one statement. Calls
// that arrive during a flush go into the next one. There is no timer, so a single
// caller does not wait. No call is answered before its commit.
//
// A group holds one call per item; a second call waits for the next flush. If the
// database refuses a statement, the group runs again in halves, so that an error
// reaches only the call that caused it. A call that meets a lock of another
// transaction runs alone, beside the groups, and so do later calls for its item.
// A group whose outcome is unknown is never run again. A panic becomes the error of
// its group.
type groupCommitter[Row, Ans any] struct {
	item    func(*Row) string    // unique within a group; nil = always unique
	fits    func(a, b *Row) bool // whether two rows can be in one group; nil = always
	size    func(*Row) int       // its share of maxGroupRows; nil = 1
	bytes   func(*Row) int       // bytes of its values; nil = not counted
	ord     func(*Row) *int      // the row's field for its index in the call
	rowOf   func(*Ans) *int      // the answer's field for the index of its row
	root    *Engine              // its database runs the groups
	execute func(e *Engine, ctx context.Context, rows []Row) ([]Ans, error)
	// orphaned gets the answers of a caller that gave up during the flush;
	// nil = they are dropped.
	orphaned func(ctx context.Context, rows []Row, out []Ans)
	// panicked gets each panic; the group is answered with an error.
	panicked func(ctx context.Context, p panicked)
	// ungrouped = every call has its own flush, because the store groups them.
	ungrouped bool

	mu       sync.Mutex
	waiting  []*request[Row, Ans]
	running  int
	flushes  sync.WaitGroup
	locked   time.Time                // when a group last met a lock; zero = never
	separate map[string]*separateItem // by item
}

// request is the rows of one call, numbered 0…n-1.
type request[Row, Ans any] struct {
	rows      []Row
	out       []Ans
	err       error
	done      chan struct{}
	abandoned bool // its caller gave up during the flush
	alone     bool // it runs outside the groups
}

// do runs rows together with the other waiting requests and returns the store's
// answers. If ctx ends before the flush, the request is removed; if it ends during
// the flush, the error says that the outcome is unknown. Within a transaction of e
// the rows run at once and alone.
func (c *groupCommitter[Row, Ans]) do(ctx context.Context, e *Engine, rows []Row) ([]Ans, error) {
	if e.scope != nil {
		ctx, cancel := context.WithTimeout(ctx, flushLimit)
		defer cancel()
		c.sort(rows)
		return c.execute(e, ctx, rows)
	}
	req := &request[Row, Ans]{rows: rows, done: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, req)
	if c.ungrouped || c.running < maxFlushes {
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
func (c *groupCommitter[Row, Ans]) run(ctx context.Context) {
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

// answer wakes the callers of the group's requests that ran alone, or of those that
// did not.
func (c *groupCommitter[Row, Ans]) answer(ctx context.Context, group []*request[Row, Ans], alone bool) {
	var abandoned []*request[Row, Ans]
	c.mu.Lock()
	for _, req := range group {
		if req.alone != alone {
			continue
		}
		close(req.done)
		if req.abandoned && c.orphaned != nil && len(req.out) > 0 {
			abandoned = append(abandoned, req)
		}
	}
	c.mu.Unlock()
	for _, req := range abandoned {
		_ = c.shield(ctx, func(ctx context.Context) error { c.orphaned(ctx, req.rows, req.out); return nil })
	}
}

// separateItem is an item whose calls run alone, because another transaction holds a
// lock that they need.
type separateItem struct {
	until time.Time     // from then on calls join groups again
	done  chan struct{} // closed when the running call has ended; nil = none runs
	err   error         // the error of that call
}

// runAlone runs a request alone, with time to wait for a lock. One call per item
// waits; if it does not get the lock, the calls behind it fail with the same error.
func (c *groupCommitter[Row, Ans]) runAlone(ctx context.Context, req *request[Row, Ans]) {
	c.mu.Lock()
	req.alone = true
	c.flushes.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.flushes.Done()
		group := []*request[Row, Ans]{req}
		a, err := c.enter(req)
		if err == nil {
			err = c.shield(ctx, func(ctx context.Context) error { return c.attempt(store.WithLockWait(ctx, aloneLock), group) })
			c.leave(req, a, err)
		}
		if err != nil {
			req.out, req.err = nil, err
		}
		c.answer(ctx, group, true)
	}()
}

// enter waits until no other call for the request's items runs alone. It fails if
// that call did not get its lock.
func (c *groupCommitter[Row, Ans]) enter(req *request[Row, Ans]) (*separateItem, error) {
	for {
		c.mu.Lock()
		other := c.separateOf(req)
		if other == nil || other.done == nil {
			a := &separateItem{done: make(chan struct{})}
			c.set(req, a)
			c.mu.Unlock()
			return a, nil
		}
		c.mu.Unlock()
		<-other.done
		if errors.Is(other.err, store.ErrLocked) {
			return nil, other.err
		}
	}
}

func (c *groupCommitter[Row, Ans]) leave(req *request[Row, Ans], a *separateItem, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.err = err
	close(a.done)
	if err == nil {
		c.set(req, nil)
	} else {
		c.set(req, &separateItem{until: clock.Now().Add(lockMemory)})
	}
}

// set stores the state of a request's items; nil = they join groups. c.mu is held.
func (c *groupCommitter[Row, Ans]) set(req *request[Row, Ans], a *separateItem) {
	if c.item == nil {
		return
	}
	if c.separate == nil {
		c.separate = map[string]*separateItem{}
	}
	maps.DeleteFunc(c.separate, func(_ string, a *separateItem) bool { return a.done == nil && clock.Now().After(a.until) })
	for i := range req.rows {
		if item := c.item(&req.rows[i]); a == nil {
			delete(c.separate, item)
		} else {
			c.separate[item] = a
		}
	}
}

// separateOf returns the state of a request's items, a running one first; nil = the
// request may join a group. c.mu is held.
func (c *groupCommitter[Row, Ans]) separateOf(req *request[Row, Ans]) (found *separateItem) {
	for i := 0; i < len(req.rows) && len(c.separate) > 0; i++ {
		switch a := c.separate[c.item(&req.rows[i])]; {
		case a == nil:
		case a.done != nil:
			return a
		case clock.Now().Before(a.until):
			found = a
		}
	}
	return found
}

// nextBatch removes the next group's requests from the queue, in order. A request
// whose item is in the group already stays for the next group.
func (c *groupCommitter[Row, Ans]) nextBatch() []*request[Row, Ans] {
	if len(c.waiting) < 2 {
		only := c.waiting
		c.waiting = nil
		return only
	}
	var group, rest []*request[Row, Ans]
	seen := map[string]bool{}
	total, bytes := 0, 0
	for _, req := range c.waiting {
		n, b := c.sum(req, c.size, 1), c.sum(req, c.bytes, 0)
		if total > 0 && (total+n > maxGroupRows || bytes+b > pawl.MaxGroupBytes || !c.joins(req, group[0], seen)) {
			rest = append(rest, req)
			continue
		}
		if c.item != nil {
			for i := range req.rows {
				seen[c.item(&req.rows[i])] = true
			}
		}
		total, bytes = total+n, bytes+b
		group = append(group, req)
	}
	c.waiting = rest
	return group
}

// sum adds up a measure of the request's rows; without one, each row counts as each.
func (c *groupCommitter[Row, Ans]) sum(req *request[Row, Ans], of func(*Row) int, each int) int {
	if of == nil {
		return each * len(req.rows)
	}
	n := 0
	for i := range req.rows {
		n += of(&req.rows[i])
	}
	return n
}

// joins reports whether a request can go into the group that begins with first and
// has the items in seen.
func (c *groupCommitter[Row, Ans]) joins(req, first *request[Row, Ans], seen map[string]bool) bool {
	if c.fits != nil && !c.fits(&req.rows[0], &first.rows[0]) {
		return false
	}
	for i := range req.rows {
		if c.item != nil && seen[c.item(&req.rows[i])] {
			return false
		}
	}
	return true
}

// flush runs a group as one statement and stores the answers in its requests.
func (c *groupCommitter[Row, Ans]) flush(ctx context.Context, group []*request[Row, Ans]) {
	group = slices.DeleteFunc(slices.Clone(group), func(req *request[Row, Ans]) bool {
		c.mu.Lock()
		separate := c.separateOf(req) != nil
		c.mu.Unlock()
		if separate {
			c.runAlone(ctx, req)
		}
		return separate
	})
	if len(group) > 0 {
		c.try(ctx, group)
	}
}

func (c *groupCommitter[Row, Ans]) try(ctx context.Context, group []*request[Row, Ans]) {
	err := c.shield(ctx, func(ctx context.Context) error {
		if c.metLocks() {
			ctx = store.WithLockWait(ctx, groupLock)
		}
		return c.attempt(ctx, group)
	})
	locked := errors.Is(err, store.ErrLocked)
	if locked {
		c.mu.Lock()
		c.locked = clock.Now()
		c.mu.Unlock()
	}
	switch {
	case err == nil:
	case locked && len(group) == 1:
		c.runAlone(ctx, group[0])
	case len(group) == 1 || !locked && !wroteNothing(err): // the statement may have been committed: do not run it again
		for _, req := range group {
			req.out, req.err = nil, err
		}
	default:
		c.try(ctx, group[:len(group)/2])
		c.try(ctx, group[len(group)/2:])
	}
}

// metLocks reports whether a group met a lock recently.
func (c *groupCommitter[Row, Ans]) metLocks() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.locked.IsZero() && clock.Now().Sub(c.locked) < lockMemory
}

// wroteNothing reports whether an error proves that nothing was written: it comes
// from the database, or Pawl refused the call itself.
func wroteNothing(err error) bool {
	var undone store.Undone
	var own *pawl.Error
	switch code := pawl.CodeOf(err); {
	case code == pawl.CodeUnavailable:
		return false
	case errors.As(err, &undone):
		return true
	default:
		return errors.As(err, &own) && own.Err == nil && code != pawl.CodeInternal
	}
}

// shield turns a panic into an error.
func (c *groupCommitter[Row, Ans]) shield(ctx context.Context, run func(ctx context.Context) error) error {
	err := shielded(ctx, run)
	p := panicked{}
	if !errors.As(err, &p) {
		return err
	}
	if c.panicked != nil {
		c.panicked(ctx, p)
	}
	return &pawl.Error{Code: pawl.CodeInternal, Message: "the call panicked; the log has its stack", Err: p}
}

func (c *groupCommitter[Row, Ans]) attempt(ctx context.Context, group []*request[Row, Ans]) error {
	ctx, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	if len(group) == 1 { // its numbering is the group's already
		req := group[0]
		c.sort(req.rows)
		out, err := c.execute(c.root, ctx, req.rows)
		req.out = out
		return err
	}
	type slot struct {
		req *request[Row, Ans]
		ord int
	}
	n := 0
	for _, req := range group {
		n += len(req.rows)
	}
	rows, slots := make([]Row, 0, n), make([]slot, 0, n)
	for _, req := range group {
		for i := range req.rows {
			rows, slots = append(rows, req.rows[i]), append(slots, slot{req, *c.ord(&req.rows[i])})
			*c.ord(&rows[len(rows)-1]) = len(rows) - 1
		}
	}
	c.sort(rows)
	answers, err := c.execute(c.root, ctx, rows)
	if err != nil {
		return err
	}
	for _, req := range group {
		req.out = make([]Ans, 0, len(req.rows))
	}
	for _, a := range answers {
		s := slots[*c.rowOf(&a)]
		*c.rowOf(&a) = s.ord
		s.req.out = append(s.req.out, a)
	}
	return nil
}

// sort orders rows by item, which is the order in which all transactions lock.
func (c *groupCommitter[Row, Ans]) sort(rows []Row) {
	if c.item == nil {
		return
	}
	for i := 1; i < len(rows); i++ {
		if c.item(&rows[i]) < c.item(&rows[i-1]) {
			sort.Slice(rows, func(a, b int) bool { return c.item(&rows[a]) < c.item(&rows[b]) })
			return
		}
	}
}
